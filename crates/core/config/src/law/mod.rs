//! Parameters of control laws, which reach the configuration as schemas: it knows no law.

mod schema;
mod unit;

use crate::keys::kinds::{not_a, range_text};
use crate::keys::{Accept, Fault, kinds};
use crate::nearest::suggestion;
use crate::quantity::clip;
use crate::raw::{Node, Value};
use std::collections::BTreeMap;
use unit::Unit;

pub use schema::SchemaError;

/// The laws that may be chosen, each with what it can be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Laws(pub BTreeMap<String, ParamSchema>);

/// The parameters of one law.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamSchema {
    /// What the law is, in a line.
    pub doc: String,
    /// Its parameters by name.
    pub fields: BTreeMap<String, Param>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// What it accepts.
    pub kind: ParamKind,
    /// Its default as the key table shows it; none if the law says nothing of one.
    pub default: Option<String>,
    /// What it means, with its unit.
    pub doc: String,
}

/// What a parameter accepts.
///
/// A number whose name ends in `_s` also takes a time with its unit, one in `_frac` a percentage,
/// one in `_bytes_per_s` or `_bits_per_s` a rate; a text whose name ends in `cpu_set` must be a
/// CPU list.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    /// A number.
    Number(Bounds),
    /// A whole number.
    Integer {
        /// Smallest.
        min: Option<i64>,
        /// Largest.
        max: Option<i64>,
    },
    /// True or false.
    Bool,
    /// Any text.
    Text,
    /// One of a few words.
    Choice(Vec<String>),
    /// A list.
    List(Box<ParamKind>),
    /// A table of keys of its own.
    Record(BTreeMap<String, Param>),
    /// Not judged here: the law's own type does it.
    Any,
}

/// The range of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// All values must lie above it.
    pub above: Option<f64>,
    /// All values must lie below it.
    pub below: Option<f64>,
}

impl ParamKind {
    /// What would be right for a parameter of this name.
    pub(crate) fn expects(&self, name: &str) -> String {
        match self {
            ParamKind::Number(bounds) => {
                format!("a number{}{}", bounds.text(), Unit::of(name).text())
            }
            ParamKind::Integer { min, max } => format!("a whole number{}", range_text(*min, *max)),
            ParamKind::Bool => "true or false".to_owned(),
            ParamKind::Text if name.ends_with("cpu_set") => kinds::CpuList.expects(),
            ParamKind::Text => "a text".to_owned(),
            ParamKind::Choice(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            ParamKind::List(of) => format!("a list, each {}", of.expects(name)),
            ParamKind::Record(fields) => {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                format!("a table of {}", names.join(", "))
            }
            ParamKind::Any => "as the law's page says".to_owned(),
        }
    }

    pub(crate) fn read(&self, name: &str, node: &Node) -> Result<toml::Value, Fault> {
        match self {
            ParamKind::Number(bounds) => {
                let number = Unit::of(name).read(node)?;
                bounds.check(node, number).map(|()| toml::Value::Float(number))
            }
            ParamKind::Integer { min, max } => {
                kinds::Integer { min: *min, max: *max }.read(node).map(toml::Value::Integer)
            }
            ParamKind::Bool => kinds::Bool.read(node).map(toml::Value::Boolean),
            ParamKind::Text if name.ends_with("cpu_set") => {
                kinds::CpuList.read(node).map(|set| toml::Value::String(set.to_string()))
            }
            ParamKind::Text => {
                kinds::Text { expects: "a text" }.read(node).map(toml::Value::String)
            }
            ParamKind::Choice(words) => choice(words, node),
            ParamKind::List(of) => {
                let Value::List(items) = &node.value else { return Err(not_a(node, "list")) };
                let items = items.iter().map(|item| of.read(name, item));
                items.collect::<Result<_, _>>().map(toml::Value::Array)
            }
            ParamKind::Record(fields) => record(fields, node),
            ParamKind::Any => Ok(as_is(&node.value)),
        }
    }
}

fn record(fields: &BTreeMap<String, Param>, node: &Node) -> Result<toml::Value, Fault> {
    let table = node.table().ok_or_else(|| not_a(node, "table"))?;
    let entries = table.entries.iter().map(|entry| match fields.get(&entry.key) {
        Some(param) => Ok((entry.key.clone(), param.kind.read(&entry.key, &entry.node)?)),
        None => {
            let help = suggestion(&entry.key, fields.keys().map(String::as_str));
            let problem = format!("unknown key `{}`", clip(&entry.key));
            Err(Fault { spot: entry.spot.clone(), problem, help: Some(help) })
        }
    });
    entries.collect::<Result<_, _>>().map(toml::Value::Table)
}

fn choice(words: &[String], node: &Node) -> Result<toml::Value, Fault> {
    let text = node.text().ok_or_else(|| not_a(node, "string"))?;
    if words.iter().any(|word| word == text) {
        return Ok(toml::Value::String(text.to_owned()));
    }
    let known = words.iter().map(String::as_str);
    Err(Fault::new(node, format!("\"{}\" is not known", clip(text)))
        .with_help(suggestion(text, known)))
}

impl Bounds {
    fn check(&self, node: &Node, number: f64) -> Result<(), Fault> {
        kinds::within(node, number, self.min, self.max)?;
        if self.above.is_some_and(|a| number <= a) || self.below.is_some_and(|b| number >= b) {
            return Err(Fault::new(node, format!("{number} is out of range")));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let side = |word: &str, bound: Option<f64>| bound.map(|b| format!(", {word} {b}"));
        let open = [side("above", self.above), side("below", self.below)];
        range_text(self.min, self.max) + &open.into_iter().flatten().collect::<String>()
    }
}

/// A value as TOML has it; a word of a flag is read as TOML if it is some, else as a text.
fn as_is(value: &Value) -> toml::Value {
    match value {
        Value::Text(text) => toml::Value::String(text.clone()),
        Value::Word(word) => match word.parse::<toml::Value>() {
            Ok(value) => value,
            Err(_) => toml::Value::String(word.clone()),
        },
        Value::Integer(number) => toml::Value::Integer(*number),
        Value::Float(number) => toml::Value::Float(*number),
        Value::Flag(flag) => toml::Value::Boolean(*flag),
        Value::Date(date) => toml::Value::Datetime(*date),
        Value::List(items) => toml::Value::Array(items.iter().map(|i| as_is(&i.value)).collect()),
        Value::Table(table) => toml::Value::Table(
            table.entries.iter().map(|e| (e.key.clone(), as_is(&e.node.value))).collect(),
        ),
    }
}
