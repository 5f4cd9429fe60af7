//! Points of a sweep, and conditions that pick some of them.

use super::words::Words;
use super::{Axis, ScenarioError, Word, unknown};
use std::collections::BTreeMap;

/// One combination of values: axis → value.
pub(crate) type Point = BTreeMap<String, String>;

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// `load<=70%`, `beside=llc-big|dram`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) axis: String,
    relation: Relation,
    pub(crate) values: Vec<String>,
}

const RELATIONS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("<", Relation::Less),
    (">", Relation::Greater),
    ("=", Relation::Equal),
];

impl Condition {
    /// One word.
    pub(crate) fn read(word: &Word, axes: &[Axis]) -> Result<Self, ScenarioError> {
        let shape = "a condition such as load<=70% or beside=llc-big";
        let found = RELATIONS.iter().find_map(|(sign, relation)| {
            word.text.split_once(sign).map(|(axis, values)| (axis, values, *relation))
        });
        let (axis, values, relation) = found.ok_or_else(|| word.unfit(shape))?;
        let Some(known) = axes.iter().find(|a| a.name == axis) else {
            let named = Word { text: axis.into(), ..word.clone() };
            return Err(unknown(&named, "axis", axes.iter().map(|a| a.name.as_str())));
        };
        let values: Vec<String> = values.split('|').map(str::to_owned).collect();
        if relation == Relation::Equal {
            for value in &values {
                if !known.values.contains(value) {
                    let named = Word { text: value.clone(), ..word.clone() };
                    let kind = format!("value of {axis}");
                    return Err(unknown(&named, &kind, known.values.iter().map(String::as_str)));
                }
            }
        } else if values.len() != 1 || size_of(&values[0]).is_none() {
            return Err(word.unfit("a number after the sign"));
        }
        Ok(Self { axis: axis.to_owned(), relation, values })
    }

    /// All words up to one of `stops` or the end of the line.
    pub(crate) fn read_all(
        words: &mut Words<'_>,
        axes: &[Axis],
        stops: &[&str],
    ) -> Result<Vec<Self>, ScenarioError> {
        let mut all = Vec::new();
        while words.peek().is_some_and(|word| !stops.contains(&word.text.as_str())) {
            all.push(Self::read(words.next("a condition")?, axes)?);
        }
        Ok(all)
    }

    /// An equality.
    pub(crate) fn equal(axis: &str, value: &str) -> Self {
        Self { axis: axis.into(), relation: Relation::Equal, values: vec![value.into()] }
    }

    /// Whether it picks one value only.
    pub(crate) fn is_single(&self) -> bool {
        self.relation == Relation::Equal && self.values.len() == 1
    }

    pub(crate) fn holds(&self, point: &Point) -> bool {
        let Some(value) = point.get(&self.axis) else { return false };
        let sizes = || Some((size_of(value)?, size_of(&self.values[0])?));
        match self.relation {
            Relation::Equal => self.values.contains(value),
            Relation::Less => sizes().is_some_and(|(a, b)| a < b),
            Relation::AtMost => sizes().is_some_and(|(a, b)| a <= b),
            Relation::Greater => sizes().is_some_and(|(a, b)| a > b),
            Relation::AtLeast => sizes().is_some_and(|(a, b)| a >= b),
        }
    }
}

/// A value of an axis as a number: `40%` is 0.4, `4GiB` 4.
pub(crate) fn size_of(text: &str) -> Option<f64> {
    let (text, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse::<f64>().ok().map(|v| v / whole)
}
