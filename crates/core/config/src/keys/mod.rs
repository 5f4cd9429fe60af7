//! The one definition of every key: its name, what it accepts, its default, what it means.
//! Checking, messages and the key table of the documentation all come from here.

pub(crate) mod kinds;
pub(crate) mod places;
pub(crate) mod sections;

use crate::raw::Node;
use crate::spot::Spot;

/// Keys that exclude each other: groups of sides, each side of one or more keys. Of every group
/// only one side may be given.
pub(crate) const RIVALS: &[&[&[&str]]] = &[
    &[&["cgroup"], &["unit"], &["pid"], &["vm"]],
    &[&["p50"], &["p95"], &["p99"], &["p99.9"], &["percentile", "target"]],
];

/// What a key accepts.
pub(crate) trait Accept {
    /// What is read.
    type Out;

    /// What would be right, for messages and the key table.
    fn expects(&self) -> String;

    /// Reads a value.
    fn read(&self, node: &Node) -> Result<Self::Out, Fault>;
}

/// A value that a key does not accept.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) spot: Spot,
    pub(crate) problem: String,
    /// What would be right, if it is more than what the key expects.
    pub(crate) help: Option<String>,
}

impl Fault {
    pub(crate) fn new(node: &Node, problem: impl Into<String>) -> Self {
        Self { spot: node.spot.clone(), problem: problem.into(), help: None }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// What holds where a key is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    /// It must be given.
    Required,
    /// Nothing; the text says what that means.
    Nothing(&'static str),
    /// This value, read as if it were written.
    Value(&'static str),
}

/// A key of kind `K`.
pub(crate) struct Key<K> {
    pub(crate) name: &'static str,
    pub(crate) kind: K,
    pub(crate) default: Default,
    pub(crate) doc: &'static str,
}

/// A key as the key table needs it.
pub(crate) trait Described: Sync {
    fn name(&self) -> &'static str;
    fn expects(&self) -> String;
    fn default(&self) -> Default;
    fn doc(&self) -> &'static str;
    /// Whether the default is a value that the key accepts.
    #[cfg(test)]
    fn default_is_read(&self) -> bool;
}

impl<K: Accept + Sync> Described for Key<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn expects(&self) -> String {
        self.kind.expects()
    }

    fn default(&self) -> Default {
        self.default
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    #[cfg(test)]
    fn default_is_read(&self) -> bool {
        match self.default {
            Default::Value(text) => self.kind.read(&Node::of_default(text)).is_ok(),
            _ => true,
        }
    }
}

/// A table of keys.
pub(crate) struct Section {
    /// As it is written: `[agent]`, `[[service]]`.
    pub(crate) header: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [&'static dyn Described],
}

impl Section {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.keys.iter().map(|key| key.name())
    }
}
