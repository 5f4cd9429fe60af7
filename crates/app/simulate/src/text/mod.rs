//! The scenario language: text in, a [`Scenario`] out, or every error with its place.

mod expect;
mod scenario;
mod select;
mod value;
mod words;

pub(crate) use expect::{Expect, Quantity, Reduce};
pub(crate) use scenario::{Axis, Print, PrintKind, clip};
pub(crate) use select::{Condition, Point, size_of as axis_number};
pub(crate) use value::{Load, duration, fraction, metric_number, number, rate, size, whole};
pub(crate) use words::{Line, Statement, Word, Words};

pub use scenario::Scenario;

use quell_config::suggestion;
use std::fmt;

/// One thing that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub expected: String,
}

impl ScenarioError {
    pub(crate) fn new(
        line: usize,
        column: usize,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { line, column, problem: problem.into(), expected: expected.into() }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.problem)?;
        match self.expected.is_empty() {
            true => Ok(()),
            false => write!(f, "; expected {}", self.expected),
        }
    }
}

/// All that is wrong with a scenario, in the order of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioErrors {
    /// The text's name.
    pub name: String,
    /// Each error.
    pub errors: Vec<ScenarioError>,
}

impl ScenarioErrors {
    pub(crate) fn new(name: &str, mut errors: Vec<ScenarioError>) -> Self {
        errors.sort_by_key(|e| (e.line, e.column));
        errors.dedup();
        Self { name: name.to_owned(), errors }
    }
}

impl fmt::Display for ScenarioErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> =
            self.errors.iter().map(|error| format!("{}:{error}", self.name)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ScenarioErrors {}

/// An error for a name that is not known, with the nearest known one.
pub(crate) fn unknown<'a>(
    word: &Word,
    kind: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> ScenarioError {
    let problem =
        format!("unknown {kind} `{}`: {}", clip(&word.text), suggestion(&word.text, known));
    word.wrong(&problem, "")
}
