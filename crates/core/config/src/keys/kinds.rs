//! What keys accept: numbers with their ranges, quantities, names, paths, lists.

use super::{Accept, Fault};
use crate::nearest::suggestion;
use crate::quantity::{self, clip};
use crate::raw::{Node, Value};
use quell_types::{BytesPerSecond, CpuSet};
use std::time::Duration;

/// A span in seconds: a bare number, or a text with its unit.
pub(crate) struct Seconds {
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Accept for Seconds {
    type Out = Duration;

    fn expects(&self) -> String {
        format!("seconds, {} to {}, or a text with its unit such as \"250ms\"", self.min, self.max)
    }

    fn read(&self, node: &Node) -> Result<Duration, Fault> {
        let seconds = seconds_of(node)?;
        within(node, seconds, Some(self.min), Some(self.max))?;
        Duration::try_from_secs_f64(seconds).map_err(|_| Fault::new(node, "is no span of time"))
    }
}

/// The seconds that a number or a duration text says, in any range.
pub(crate) fn seconds_of(node: &Node) -> Result<f64, Fault> {
    if let Some(number) = number_of(node) {
        return Ok(number);
    }
    let text =
        node.text().ok_or_else(|| Fault::new(node, format!("{} is no time", node.kind())))?;
    let span = quantity::parse_duration(text)
        .map_err(|e| Fault::new(node, e.problem).with_help(e.help))?;
    Ok(span.as_secs_f64())
}

/// A span that must name its unit.
pub(crate) struct Span {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

impl Accept for Span {
    type Out = Duration;

    fn expects(&self) -> String {
        let (min, max) = (quantity::format_duration(self.min), quantity::format_duration(self.max));
        format!("a time with its unit, {min} to {max}, as \"3ms\"")
    }

    fn read(&self, node: &Node) -> Result<Duration, Fault> {
        let Some(text) = node.text() else {
            return Err(Fault::new(node, format!("{} has no unit", node.kind())));
        };
        let span = quantity::parse_duration(text)
            .map_err(|e| Fault::new(node, e.problem).with_help(e.help))?;
        if span < self.min || span > self.max {
            return Err(Fault::new(node, format!("\"{}\" is out of range", clip(text))));
        }
        Ok(span)
    }
}

/// A rate above zero.
pub(crate) struct Rate;

impl Accept for Rate {
    type Out = BytesPerSecond;

    fn expects(&self) -> String {
        "a rate such as \"100Mbit\" or \"12.5MB/s\"".to_owned()
    }

    fn read(&self, node: &Node) -> Result<BytesPerSecond, Fault> {
        let Some(text) = node.text() else {
            return Err(Fault::new(node, format!("{} has no unit", node.kind())));
        };
        match quantity::parse_rate(text) {
            Ok(rate) if rate.0 > 0.0 => Ok(rate),
            Ok(_) => Err(Fault::new(node, "the rate is zero")),
            Err(error) => Err(Fault::new(node, error.problem).with_help(error.help)),
        }
    }
}

/// A number in a range.
pub(crate) struct Number {
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Accept for Number {
    type Out = f64;

    fn expects(&self) -> String {
        format!("a number{}", range_text(self.min, self.max))
    }

    fn read(&self, node: &Node) -> Result<f64, Fault> {
        let number = number_of(node).ok_or_else(|| not_a(node, "number"))?;
        within(node, number, self.min, self.max)?;
        Ok(number)
    }
}

/// A share of a whole, up to `max`.
pub(crate) struct Share {
    pub(crate) max: f64,
}

impl Accept for Share {
    type Out = f64;

    fn expects(&self) -> String {
        format!("a share, 0 to {}, or a text in percent such as \"1 %\"", self.max)
    }

    fn read(&self, node: &Node) -> Result<f64, Fault> {
        let share = match (number_of(node), node.text()) {
            (Some(number), _) => number,
            (None, Some(text)) => quantity::parse_fraction(text)
                .map_err(|e| Fault::new(node, e.problem).with_help(e.help))?,
            (None, None) => return Err(not_a(node, "share")),
        };
        within(node, share, Some(0.0), Some(self.max))?;
        Ok(share)
    }
}

/// A whole number in a range.
pub(crate) struct Integer {
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl Accept for Integer {
    type Out = i64;

    fn expects(&self) -> String {
        format!("a whole number{}", range_text(self.min, self.max))
    }

    fn read(&self, node: &Node) -> Result<i64, Fault> {
        let number = match &node.value {
            Value::Integer(number) => Some(*number),
            Value::Word(word) => word.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| not_a(node, "whole number"))?;
        let low = self.min.is_some_and(|min| number < min);
        if low || self.max.is_some_and(|max| number > max) {
            return Err(Fault::new(node, format!("{number} is out of range")));
        }
        Ok(number)
    }
}

/// True or false.
pub(crate) struct Bool;

impl Accept for Bool {
    type Out = bool;

    fn expects(&self) -> String {
        "true or false".to_owned()
    }

    fn read(&self, node: &Node) -> Result<bool, Fault> {
        match &node.value {
            Value::Flag(flag) => Ok(*flag),
            Value::Word(word) if word == "true" => Ok(true),
            Value::Word(word) if word == "false" => Ok(false),
            _ => Err(not_a(node, "boolean")),
        }
    }
}

/// One of a few words.
pub(crate) struct Choice<T: 'static> {
    pub(crate) of: &'static [(&'static str, T)],
}

impl<T: Copy> Accept for Choice<T> {
    type Out = T;

    fn expects(&self) -> String {
        let words: Vec<String> = self.of.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        words.join(" or ")
    }

    fn read(&self, node: &Node) -> Result<T, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "string"))?;
        let found = self.of.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words = self.of.iter().map(|(word, _)| *word);
            Fault::new(node, format!("\"{}\" is not known", clip(text)))
                .with_help(suggestion(text, words))
        })
    }
}

/// Any text that is not empty.
pub(crate) struct Text {
    pub(crate) expects: &'static str,
}

impl Accept for Text {
    type Out = String;

    fn expects(&self) -> String {
        self.expects.to_owned()
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        match node.text() {
            Some("") => Err(Fault::new(node, "the text is empty")),
            Some(text) if text.chars().any(char::is_control) => {
                Err(Fault::new(node, "the text has control characters"))
            }
            Some(text) => Ok(text.to_owned()),
            None => Err(not_a(node, "string")),
        }
    }
}

/// CPUs in the kernel's notation.
pub(crate) struct CpuList;

impl Accept for CpuList {
    type Out = CpuSet;

    fn expects(&self) -> String {
        "a CPU list in quotes such as \"0-3,8\"".to_owned()
    }

    fn read(&self, node: &Node) -> Result<CpuSet, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "CPU list"))?;
        match text.parse::<CpuSet>() {
            Ok(set) if set.is_empty() => Err(Fault::new(node, "the CPU list is empty")),
            Ok(set) => Ok(set),
            Err(_) => Err(Fault::new(node, format!("\"{}\" is no CPU list", clip(text)))),
        }
    }
}

/// A list of one kind; a word of a flag may hold several, parted by commas.
pub(crate) struct ListOf<K> {
    pub(crate) of: K,
    /// What the list is called: "a list of ports".
    pub(crate) called: &'static str,
}

impl<K: Accept> Accept for ListOf<K> {
    type Out = Vec<K::Out>;

    fn expects(&self) -> String {
        format!("{}, each {}", self.called, self.of.expects())
    }

    fn read(&self, node: &Node) -> Result<Self::Out, Fault> {
        match &node.value {
            Value::List(items) => items.iter().map(|item| self.of.read(item)).collect(),
            Value::Word(words) => {
                let word = |w: &str| Node {
                    spot: node.spot.clone(),
                    value: Value::Word(w.trim().to_owned()),
                };
                let words = words.split(',').filter(|_| !words.is_empty());
                words.map(|w| self.of.read(&word(w))).collect()
            }
            _ => Err(not_a(node, "list")),
        }
    }
}

/// A table of texts.
pub(crate) struct Labels;

impl Accept for Labels {
    type Out = std::collections::BTreeMap<String, String>;

    fn expects(&self) -> String {
        "a table of texts such as { job = \"web\" }".to_owned()
    }

    fn read(&self, node: &Node) -> Result<Self::Out, Fault> {
        let table = node.table().ok_or_else(|| not_a(node, "table"))?;
        let text = |n: &Node| {
            n.text().map(str::to_owned).ok_or_else(|| Fault::new(n, "a label's value is a string"))
        };
        table.entries.iter().map(|e| Ok((e.key.clone(), text(&e.node)?))).collect()
    }
}

/// The number that is written, if one is.
pub(crate) fn number_of(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Word(word) => word.parse().ok(),
        _ => None,
    }
}

pub(crate) fn within(
    node: &Node,
    number: f64,
    min: Option<f64>,
    max: Option<f64>,
) -> Result<(), Fault> {
    let low = min.is_some_and(|min| number < min);
    if !number.is_finite() || low || max.is_some_and(|max| number > max) {
        return Err(Fault::new(node, format!("{number} is out of range")));
    }
    Ok(())
}

pub(crate) fn not_a(node: &Node, wanted: &str) -> Fault {
    let problem = match node.text() {
        Some(text) => format!("\"{}\" is no {wanted}", clip(text)),
        None => format!("{} where a {wanted} belongs", node.kind()),
    };
    Fault::new(node, problem)
}

pub(crate) fn range_text<T: std::fmt::Display>(min: Option<T>, max: Option<T>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!(", {min} to {max}"),
        (Some(min), None) => format!(", {min} or more"),
        (None, Some(max)) => format!(", at most {max}"),
        (None, None) => String::new(),
    }
}
