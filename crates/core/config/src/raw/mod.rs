//! What the texts say, before anything is judged: a tree of values, each with its place.
//!
//! A file and the flags make the same tree, so both are checked by the same rules and their
//! errors are equally good.

mod file;
mod flag;
mod merge;

use crate::Checked;
use crate::check;
use crate::error::{ConfigErrors, Faults};
use crate::law::Laws;
use crate::spot::Spot;
pub use flag::Flags;

/// A configuration as it is written, from a file, from flags, or from both.
#[derive(Debug)]
pub struct Raw {
    pub(crate) root: Table,
    pub(crate) faults: Faults,
}

impl Raw {
    /// Reads a TOML text; `name` is the file's name as messages shall show it. Text that is no
    /// TOML is kept as an error and reported by [`Raw::check`] with all others.
    #[must_use]
    pub fn from_toml(name: &str, text: &str) -> Raw {
        file::read(name, text)
    }

    /// Reads flags.
    #[must_use]
    pub fn from_flags(flags: &Flags) -> Raw {
        flag::read(flags)
    }

    /// Lays `over` (the flags) over `self` (the file): where both set a key, `over` wins. Services,
    /// batch groups and links of the same name are merged key by key; setting one of a few
    /// alternatives (`p95`, `p99`, …; `cgroup`, `unit`, `pid`) takes the others away.
    #[must_use]
    pub fn merged(mut self, over: Raw) -> Raw {
        self.faults.absorb(over.faults);
        self.root = merge::root(self.root, over.root);
        self
    }

    /// Checks names, types, ranges and references.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text.
    pub fn check(self, laws: &Laws) -> Result<Checked, ConfigErrors> {
        check::check(self, laws)
    }

    /// The agent's state folder alone, whatever else is wrong: what a configuration's agent has left
    /// must be put back even after somebody made a mistake in it.
    ///
    /// # Errors
    /// All that keeps it from being known.
    pub fn state_dir(self) -> Result<String, ConfigErrors> {
        check::state_dir(self)
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) spot: Spot,
    pub(crate) value: Value,
}

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// Without a type of its own: a word of a flag, or a default. It is read as what its key wants.
    Word(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    Date(toml::value::Datetime),
    List(Vec<Node>),
    Table(Table),
}

impl Node {
    /// The node of a default.
    pub(crate) fn of_default(text: &str) -> Self {
        Self { spot: Spot::of_default(), value: Value::Word(text.to_owned()) }
    }

    /// The text of a string or a word.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Word(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a string",
            Value::Word(_) => "a word",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Flag(_) => "a boolean",
            Value::Date(_) => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Keys and values in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Its header, or all of it if it stands in one line.
    pub(crate) spot: Spot,
    pub(crate) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) spot: Spot,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn empty(spot: Spot) -> Self {
        Self { spot, entries: Vec::new() }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The name that a service or batch group gets if none is written: the last part of its
    /// cgroup's path, its unit without the suffix, or `pid-` and the number.
    pub(crate) fn implied_name(&self) -> Option<String> {
        let text = |key| self.get(key).and_then(Node::text);
        if let Some(path) = text("cgroup") {
            return path.rsplit('/').find(|part| !part.is_empty()).map(str::to_owned);
        }
        if let Some(unit) = text("unit") {
            return Some(unit.rsplit_once('.').map_or(unit, |(stem, _)| stem).to_owned());
        }
        if let Some(vm) = text("vm") {
            return Some(vm.to_owned());
        }
        match &self.get("pid")?.value {
            Value::Integer(pid) => Some(format!("pid-{pid}")),
            Value::Word(pid) => Some(format!("pid-{pid}")),
            _ => None,
        }
    }

    /// The name by which tables of two origins are known to be one.
    pub(crate) fn name(&self) -> Option<String> {
        match self.get("name") {
            Some(name) => name.text().map(str::to_owned),
            None => self.implied_name(),
        }
    }
}
