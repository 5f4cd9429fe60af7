//! Where something stands: a source (a file or a flag) and a span of bytes in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What a text came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", content = "name", rename_all = "snake_case")]
pub enum Origin {
    /// A file, by the name that the caller gave it.
    File(String),
    /// A flag of the command line, as `--service`.
    Flag(String),
    /// What nobody wrote: a default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(name) | Origin::Flag(name) => f.write_str(name),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// One text with its origin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) origin: Origin,
    /// Errors are listed by rising rank: the file first, then the flags as they were given.
    pub(crate) rank: usize,
    pub(crate) text: String,
}

/// A span of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) source: Arc<Source>,
    pub(crate) span: Range<usize>,
}

/// A spot as people count: line and column from 1, the line itself and how much of it is meant.
pub(crate) struct Located {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) width: usize,
    pub(crate) text: String,
}

impl Spot {
    pub(crate) fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        Self { source: Arc::clone(source), span }
    }

    /// The place of values that nobody wrote.
    pub(crate) fn of_default() -> Self {
        let source = Source { origin: Origin::Default, rank: 0, text: String::new() };
        Self::new(&Arc::new(source), 0..0)
    }

    /// Sorts errors as a reader meets them.
    pub(crate) fn order(&self) -> (usize, usize) {
        (self.source.rank, self.span.start)
    }

    /// Line and column in characters. A span beyond the text or inside a character is moved to
    /// the nearest start of one; a span over several lines is cut at the end of its first.
    pub(crate) fn locate(&self) -> Located {
        let text = self.source.text.as_str();
        let start = floor_boundary(text, self.span.start);
        let end = floor_boundary(text, self.span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[line_start..line_end].trim_end_matches('\r');
        Located {
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end.min(line_end)].chars().count().max(1),
            text: line.to_owned(),
        }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}
