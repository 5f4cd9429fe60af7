//! Reads the keys of one table by their definitions and collects what is wrong.

use crate::error::Faults;
use crate::keys::sections::SECTIONS;
use crate::keys::{Accept, Default, Fault, Key, Section};
use crate::nearest::nearest;
use crate::quantity::clip;
use crate::raw::{Entry, Node, Table};
use crate::spot::Spot;

pub(super) struct Reader<'a> {
    table: &'a Table,
    spot: &'a Spot,
    path: String,
    /// What misspelt keys were meant to be: these are not missing.
    meant: Vec<&'static str>,
    pub(super) faults: &'a mut Faults,
}

impl<'a> Reader<'a> {
    /// Begins with a table, and reports the keys that its section does not know.
    pub(super) fn new(
        table: &'a Table,
        spot: &'a Spot,
        path: String,
        section: &'static Section,
        faults: &'a mut Faults,
    ) -> Self {
        let mut reader = Self { table, spot, path, meant: Vec::new(), faults };
        for entry in &table.entries {
            if !section.names().any(|name| name == entry.key) && point_of(entry).is_none() {
                let problem = format!("unknown key `{}`", clip(&entry.key));
                let known: Vec<&str> = section.names().collect();
                let path = reader.path_of(&entry.key);
                reader.meant.extend(nearest(&entry.key, section.names()));
                reader.faults.push(&entry.spot, path, problem, elsewhere(&entry.key, &known));
            }
        }
        reader
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        format!("{}.{}", self.path, clip(key))
    }

    /// What is written for a key.
    pub(super) fn node(&self, key: &str) -> Option<&'a Node> {
        let exact = self.table.entry(key).filter(|entry| point_of(entry).is_none());
        let halved = || self.table.entries.iter().filter(|_| key == "p99.9").find_map(point_of);
        exact.map(|entry| &entry.node).or_else(halved)
    }

    /// Where a key's value is, else where the table begins.
    pub(super) fn spot_of(&self, key: &str) -> Spot {
        self.node(key).map_or(self.spot, |node| &node.spot).clone()
    }

    /// The name that follows from the selector.
    pub(super) fn implied_name(&self) -> Option<String> {
        self.table.implied_name()
    }

    /// The value of a key, or its default. None is an error that has been reported, or a key that
    /// is not given and has no default.
    pub(super) fn get<K: Accept>(&mut self, key: &Key<K>) -> Option<K::Out> {
        match (self.node(key.name), key.default) {
            (Some(node), _) => self.read(key, node),
            (None, Default::Value(text)) => self.read(key, &Node::of_default(text)),
            (None, Default::Nothing(_)) => None,
            (None, Default::Required) => {
                self.missing(key.name, format!("`{}` is missing", key.name), key.kind.expects());
                None
            }
        }
    }

    /// The value of a key that may be left out: the outer option is none on an error.
    pub(super) fn optional<K: Accept>(&mut self, key: &Key<K>) -> Option<Option<K::Out>> {
        match self.node(key.name) {
            Some(node) => self.read(key, node).map(Some),
            None => Some(None),
        }
    }

    fn read<K: Accept>(&mut self, key: &Key<K>, node: &Node) -> Option<K::Out> {
        match key.kind.read(node) {
            Ok(value) => Some(value),
            Err(Fault { spot, problem, help }) => {
                let help = help.unwrap_or_else(|| key.kind.expects());
                self.faults.push(&spot, self.path_of(key.name), problem, help);
                None
            }
        }
    }

    /// Reports something wrong with a key's value.
    pub(super) fn fault(&mut self, key: &str, problem: String, help: String) {
        let spot = self.spot_of(key);
        self.faults.push(&spot, self.path_of(key), problem, help);
    }

    /// Reports a key that is not there, unless a misspelt one was meant to be it.
    pub(super) fn missing(&mut self, key: &str, problem: String, help: String) {
        if self.meant.contains(&key) {
            return;
        }
        let path = self.path_of(key);
        self.faults.missing(self.spot, &path, problem, help);
    }

    /// Which of several sides is given: reports none, more than one, or half a side.
    pub(super) fn one_of(
        &mut self,
        sides: &[&[&'static str]],
        called: &str,
    ) -> Option<&'static str> {
        let given = |side: &&&[&'static str]| side.iter().any(|key| self.node(key).is_some());
        let found: Vec<_> = sides.iter().filter(given).collect();
        let names = sides.iter().map(|side| side.join("+")).collect::<Vec<_>>().join(", ");
        match found[..] {
            [] if sides.iter().any(|side| side.iter().any(|key| self.meant.contains(key))) => None,
            [] => {
                let problem = format!("no {called} is given");
                self.missing(sides[0][0], problem, format!("one of {names}"));
                None
            }
            [side] => match side.iter().find(|key| self.node(key).is_none()) {
                Some(absent) => {
                    self.missing(absent, format!("`{absent}` is missing"), side.join(" and "));
                    None
                }
                None => Some(side[0]),
            },
            [_, second, ..] => {
                let key = second.iter().find(|key| self.node(key).is_some())?;
                let problem = format!("more than one {called} is given");
                self.fault(key, problem, format!("exactly one of {names}"));
                None
            }
        }
    }

    /// A reader of the table under `key`.
    pub(super) fn inner(&mut self, key: &str, section: &'static Section) -> Option<Reader<'_>> {
        let node = self.node(key)?;
        let table = node.table()?;
        let path = self.path_of(key);
        Some(Reader::new(table, &node.spot, path, section, self.faults))
    }
}

/// The value of `p99.9` written without quotes, which TOML reads as a key `9` in a table `p99`.
fn point_of(entry: &Entry) -> Option<&Node> {
    match (entry.key.as_str(), entry.node.table().map(|t| &t.entries[..])) {
        ("p99", Some([inner])) if inner.key == "9" => Some(&inner.node),
        _ => None,
    }
}

/// What a misspelt key was meant to be, or where it belongs.
pub(super) fn elsewhere(key: &str, known: &[&str]) -> String {
    if let Some(found) = nearest(key, known.iter().copied()) {
        return format!("did you mean `{found}`?");
    }
    match SECTIONS.iter().find(|section| section.names().any(|name| name == key)) {
        Some(section) => format!("`{key}` belongs to {}", section.header),
        None => format!("known here: {}", known.join(", ")),
    }
}
