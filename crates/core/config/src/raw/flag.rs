//! Flags -> tree: `--service name=search,unit=redis.service,p99=3ms`.

use super::{Entry, Node, Raw, Table, Value};
use crate::error::Faults;
use crate::spot::{Origin, Source, Spot};
use std::ops::Range;
use std::sync::Arc;

/// The texts of the flags, as the command line gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--service KEY=VALUE,…`, each time it is given.
    pub services: Vec<String>,
    /// `--batch KEY=VALUE,…`, each time it is given.
    pub batch: Vec<String>,
    /// `--link KEY=VALUE,…`, each time it is given.
    pub links: Vec<String>,
    /// `--law NAME`.
    pub law: Option<String>,
    /// `--set PATH=VALUE`, for any key of `agent` or `law`, as `agent.interval_s=0.5`.
    pub set: Vec<String>,
}

pub(super) fn read(flags: &Flags) -> Raw {
    let mut reader = Reader { rank: 1, faults: Faults::default() };
    let whole = Spot::of_default();
    let mut root = Table::empty(whole.clone());
    for (flag, key, texts) in [
        ("--service", "service", &flags.services),
        ("--batch", "batch", &flags.batch),
        ("--link", "link", &flags.links),
    ] {
        let items: Vec<Node> = texts.iter().map(|text| reader.group(flag, text)).collect();
        if let Some(first) = items.first() {
            let spot = first.spot.clone();
            let node = Node { spot: spot.clone(), value: Value::List(items) };
            root.entries.push(Entry { key: key.to_owned(), spot, node });
        }
    }
    if let Some(law) = &flags.law {
        let source = reader.source("--law", law);
        let node = word(&source, 0..law.len());
        put(&mut root, &[("agent", &node.spot), ("law", &node.spot)], node.clone());
    }
    for text in &flags.set {
        reader.setting(&mut root, text);
    }
    Raw { root, faults: reader.faults }
}

struct Reader {
    rank: usize,
    faults: Faults,
}

impl Reader {
    fn source(&mut self, flag: &str, text: &str) -> Arc<Source> {
        self.rank += 1;
        let origin = Origin::Flag(flag.to_owned());
        Arc::new(Source { origin, rank: self.rank, text: text.to_owned() })
    }

    /// `KEY=VALUE,KEY=VALUE`: one table.
    fn group(&mut self, flag: &str, text: &str) -> Node {
        let source = self.source(flag, text);
        let whole = Spot::new(&source, 0..text.len());
        let mut table = Table::empty(whole.clone());
        for (key, value) in self.pairs(&source) {
            let spot = Spot::new(&source, key.clone());
            let node = word(&source, value);
            // Only `latency` has keys of its own; the point of `p99.9` is part of the name.
            match text[key].split_once('.') {
                Some(("latency", inner)) => {
                    self.put_once(&mut table, &[("latency", &spot), (inner, &spot)], node);
                }
                _ => self.put_once(&mut table, &[(&text[spot.span.clone()], &spot)], node),
            }
        }
        Node { spot: whole, value: Value::Table(table) }
    }

    /// The spans of keys and values. A piece without `=` goes on with the value before it, so
    /// lists need no quotes: `ports=6379,6380`.
    fn pairs(&mut self, source: &Arc<Source>) -> Vec<(Range<usize>, Range<usize>)> {
        let mut pairs: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        for piece in pieces(&source.text) {
            let text = &source.text[piece.clone()];
            match (text.find('='), pairs.last_mut()) {
                (Some(at), _) if !text[..at].contains('"') => {
                    let key = trimmed(&source.text, piece.start..piece.start + at);
                    pairs.push((key, trimmed(&source.text, piece.start + at + 1..piece.end)));
                }
                (_, Some((_, value))) => value.end = piece.end,
                _ => self.faults.tear(
                    &Spot::new(source, piece),
                    "this is no key=value".to_owned(),
                    Some("pairs such as name=search,unit=redis.service,p99=3ms".to_owned()),
                ),
            }
        }
        pairs
    }

    /// `agent.interval_s=0.5`.
    fn setting(&mut self, root: &mut Table, text: &str) {
        let source = self.source("--set", text);
        let help = "a path below `agent` or `law` and a value, as agent.interval_s=0.5";
        let whole = Spot::new(&source, 0..text.len());
        let Some(at) = text.find('=') else {
            return self.faults.tear(&whole, "this is no path=value".into(), Some(help.into()));
        };
        let path_span = trimmed(text, 0..at);
        let path: Vec<&str> = text[path_span.clone()].split('.').collect();
        let below = matches!(path[0], "agent" | "law") && path.len() > 1;
        if !below || path.len() > 4 || path.iter().any(|part| part.is_empty()) {
            let problem = "this path cannot be set".to_owned();
            return self.faults.tear(&Spot::new(&source, path_span), problem, Some(help.into()));
        }
        let spot = Spot::new(&source, path_span);
        let steps: Vec<(&str, &Spot)> = path.iter().map(|part| (*part, &spot)).collect();
        put(root, &steps, word(&source, trimmed(text, at + 1..text.len())));
    }

    /// Like [`put`], but a key that is there already is an error.
    fn put_once(&mut self, table: &mut Table, path: &[(&str, &Spot)], node: Node) {
        if !put(table, path, node) {
            let (key, spot) = path[path.len() - 1];
            self.faults.push(spot, key, format!("`{key}` is given twice"), None);
        }
    }
}

/// Sets the key at the end of `path`, making tables on the way. Says false if something was there.
fn put(table: &mut Table, path: &[(&str, &Spot)], node: Node) -> bool {
    let [(key, spot), rest @ ..] = path else { return false };
    let at = table.entries.iter().position(|entry| entry.key == *key);
    if rest.is_empty() {
        let entry = Entry { key: (*key).to_owned(), spot: (*spot).clone(), node };
        match at {
            Some(at) => table.entries[at] = entry,
            None => table.entries.push(entry),
        }
        return at.is_none();
    }
    let at = at.unwrap_or_else(|| {
        let inner = Value::Table(Table::empty((*spot).clone()));
        let node = Node { spot: (*spot).clone(), value: inner };
        table.entries.push(Entry { key: (*key).to_owned(), spot: (*spot).clone(), node });
        table.entries.len() - 1
    });
    match &mut table.entries[at].node.value {
        Value::Table(inner) => put(inner, rest, node),
        _ => false,
    }
}

/// A value without its quotes.
fn word(source: &Arc<Source>, span: Range<usize>) -> Node {
    let text = &source.text[span.clone()];
    let bare = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
    Node { spot: Spot::new(source, span), value: Value::Word(bare.to_owned()) }
}

/// The text between commas, where commas in quotes do not count.
fn pieces(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                found.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(start..text.len());
    found
}

fn trimmed(text: &str, span: Range<usize>) -> Range<usize> {
    let part = &text[span.clone()];
    let start = span.start + (part.len() - part.trim_start().len());
    start..(span.end - (part.len() - part.trim_end().len())).max(start)
}
