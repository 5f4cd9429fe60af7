//! Tables.

use quell_types::Reading;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Words.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// A column's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its name, with the unit if it has one, as "p95 ms".
    pub name: String,
    /// How its cells are aligned.
    pub align: Align,
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number with so many digits after the point.
    Number {
        /// The value.
        value: f64,
        /// Digits after the point.
        digits: u8,
    },
    /// Nothing, and why: shown as a dash, the reason below the table.
    Missing(String),
}

/// A table. Rows that are shorter than the head are filled with empty cells, longer ones are cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Its title; may be empty.
    pub title: String,
    /// Its head.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// Lines below it.
    pub notes: Vec<String>,
}

impl Cell {
    /// A number.
    #[must_use]
    pub fn number(value: f64, digits: u8) -> Cell {
        if value.is_finite() {
            Cell::Number { value, digits }
        } else {
            Cell::Missing("not a number".to_owned())
        }
    }

    /// A number, or why there is none.
    #[must_use]
    pub fn reading(reading: &Reading<f64>, digits: u8) -> Cell {
        match reading {
            Ok(value) => Cell::number(*value, digits),
            Err(gap) => Cell::Missing(gap.to_string()),
        }
    }

    /// As shown, on one line.
    #[must_use]
    pub fn show(&self) -> String {
        match self {
            Cell::Text(text) => one_line(text),
            Cell::Number { value, digits } => {
                let text = format!("{value:.*}", usize::from(*digits));
                if text.parse() == Ok(0.0) { text.trim_start_matches('-').to_owned() } else { text }
            }
            Cell::Missing(_) => "–".to_owned(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl Table {
    /// An empty table. A name that ends with `>` makes a column of numbers: `["law", "p95 ms>"]`.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        let column = |name: &&str| match name.strip_suffix('>') {
            Some(name) => Column { name: name.to_owned(), align: Align::Right },
            None => Column { name: (*name).to_owned(), align: Align::Left },
        };
        Table {
            title: title.into(),
            columns: columns.iter().map(column).collect(),
            ..Table::default()
        }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The cell in this row and column as shown.
    pub(crate) fn shown(&self, row: usize, column: usize) -> String {
        self.rows.get(row).and_then(|row| row.get(column)).map(Cell::show).unwrap_or_default()
    }

    /// Why cells are missing, each reason once, then the notes.
    pub(crate) fn footnotes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for cell in self.rows.iter().flatten() {
            if let Cell::Missing(why) = cell {
                let line = format!("– {}", one_line(why));
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        lines.extend(self.notes.iter().map(|note| one_line(note)));
        lines
    }

    /// For a terminal: aligned columns.
    #[must_use]
    pub fn to_text(&self) -> String {
        crate::text::table(self)
    }

    /// For a document.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let escape = |text: &str| one_line(text).replace('\\', "\\\\").replace('|', "\\|");
        let mut out = String::new();
        let names: Vec<String> = self.columns.iter().map(|column| escape(&column.name)).collect();
        let rules = self.columns.iter().map(|column| match column.align {
            Align::Left => "---",
            Align::Right => "---:",
        });
        let _ = writeln!(out, "| {} |", names.join(" | "));
        let _ = writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"));
        for row in 0..self.rows.len() {
            let cells = (0..self.columns.len()).map(|column| escape(&self.shown(row, column)));
            let _ = writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "));
        }
        for note in self.footnotes() {
            let _ = writeln!(out, "\n{}", escape(&note));
        }
        out
    }

    /// For a web page: a `<table>` with its notes.
    #[must_use]
    pub fn to_html(&self) -> String {
        crate::html::table(self)
    }
}

/// Control characters and line breaks would tear a table apart.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Gap;

    #[test]
    fn cells_show_what_they_hold() {
        for (cell, text) in [
            (Cell::number(1.2345, 2), "1.23"),
            (Cell::number(-0.0001, 1), "0.0"),
            (Cell::number(f64::INFINITY, 1), "–"),
            (Cell::reading(&Ok(7.0), 0), "7"),
            (Cell::reading(&Err(Gap::absent("no PMU")), 0), "–"),
            (Cell::from("two\nlines"), "two lines"),
        ] {
            assert_eq!(cell.show(), text);
        }
    }

    #[test]
    fn markdown_survives_pipes_and_short_rows() {
        let mut table = Table::new("", &["a|b", "n>"]);
        table.push(["x|y".into()]);
        table.push(["z".into(), Cell::Missing("absent: no PMU".into()), "too much".into()]);
        assert_eq!(
            table.to_markdown(),
            "| a\\|b | n |\n|---|---:|\n| x\\|y |  |\n| z | – |\n\n– absent: no PMU\n"
        );
    }
}
