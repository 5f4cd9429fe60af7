//! The example file and the key table, from the same definitions by which texts are checked.

use crate::keys::sections::SECTIONS;
use crate::keys::{Default, Section};
use crate::law::{Laws, ParamSchema};
use std::fmt::Write;

/// A complete configuration with comments; it is accepted as it stands.
#[must_use]
pub fn example() -> &'static str {
    include_str!("../example.toml")
}

/// All keys as Markdown: a table for each section, and one for each law.
#[must_use]
pub fn key_table(laws: &Laws) -> String {
    let mut page = String::new();
    for section in SECTIONS {
        heading(&mut page, section.header, section.doc);
        rows(&mut page, section);
    }
    for (name, schema) in &laws.0 {
        let bare = schema.doc.is_empty() && schema.fields.is_empty();
        let doc = if bare { "No parameters." } else { schema.doc.as_str() };
        heading(&mut page, &format!("[law.{name}]"), doc);
        if !schema.fields.is_empty() {
            parameters(&mut page, schema);
        }
    }
    page
}

fn heading(page: &mut String, title: &str, doc: &str) {
    let gap = if page.is_empty() { "" } else { "\n" };
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{gap}## `{title}`\n\n{}", cell(doc));
}

const HEAD: &str = "\n| key | accepts | default | meaning |\n|---|---|---|---|";

fn rows(page: &mut String, section: &Section) {
    let _ = writeln!(page, "{HEAD}");
    for key in section.keys {
        let default = match key.default() {
            Default::Required => "required".to_owned(),
            Default::Nothing(meaning) => meaning.to_owned(),
            Default::Value(value) => format!("`{value}`"),
        };
        let (name, accepts) = (key.name(), cell(&key.expects()));
        let _ = writeln!(page, "| `{name}` | {accepts} | {default} | {} |", cell(key.doc()));
    }
}

fn parameters(page: &mut String, schema: &ParamSchema) {
    let _ = writeln!(page, "{HEAD}");
    for (name, param) in &schema.fields {
        let default = param.default.as_ref().map_or_else(String::new, |d| format!("`{d}`"));
        let accepts = cell(&param.kind.expects(name));
        let _ = writeln!(page, "| `{name}` | {accepts} | {default} | {} |", cell(&param.doc));
    }
}

/// A text that does not break a table's row.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
