//! TOML text -> tree. A damaged text gives all its errors and what could still be read.

use super::{Entry, Node, Raw, Table, Value};
use crate::error::Faults;
use crate::spot::{Origin, Source, Spot};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

pub(super) fn read(name: &str, text: &str) -> Raw {
    let origin = Origin::File(name.to_owned());
    let source = Arc::new(Source { origin, rank: 0, text: text.to_owned() });
    let mut faults = Faults::default();
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let spot = Spot::new(&source, error.span().unwrap_or(text.len()..text.len()));
        faults.tear(&spot, format!("this is no TOML: {}", error.message()), None);
    }
    let mut reader = Reader { source: &source, faults: &mut faults };
    let start = Spot::new(&source, 0..0);
    let root = reader.table(start, document.into_inner());
    Raw { root, faults }
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    fn table(&mut self, spot: Spot, table: DeTable<'_>) -> Table {
        let mut entries: Vec<Entry> = table
            .into_iter()
            .map(|(key, value)| Entry {
                spot: Spot::new(self.source, key.span()),
                key: key.into_inner().into_owned(),
                node: self.node(value),
            })
            .collect();
        entries.sort_by_key(|entry| entry.spot.span.start);
        Table { spot, entries }
    }

    // Recursion is safe: the parser refuses to nest deeper than 80 levels.
    fn node(&mut self, value: Spanned<DeValue<'_>>) -> Node {
        let spot = Spot::new(self.source, value.span());
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => self.integer(&spot, &number),
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(date) => Value::Date(date),
            DeValue::Array(items) => {
                Value::List(items.into_iter().map(|item| self.node(item)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(spot.clone(), table)),
        };
        Node { spot, value }
    }

    fn integer(&mut self, spot: &Spot, number: &DeInteger<'_>) -> Value {
        match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => {
                let problem = "this integer does not fit in 64 bits".to_owned();
                self.faults.tear(spot, problem, None);
                Value::Integer(0)
            }
        }
    }
}
