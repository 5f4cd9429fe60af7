//! Aligned tables.

use super::columns;
use crate::table::one_line;
use crate::{Align, Table};
use std::fmt::Write as _;

/// Title, head, rule, rows and notes. Two blanks part the columns.
pub(crate) fn table(table: &Table) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(out, "{}", one_line(&table.title));
    }
    let names: Vec<String> = table.columns.iter().map(|c| one_line(&c.name)).collect();
    let rows: Vec<Vec<String>> = (0..table.rows.len())
        .map(|row| (0..names.len()).map(|column| table.shown(row, column)).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.chain([columns(&names[column])]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded =
            cells.iter().zip(&widths).zip(&table.columns).map(|((cell, &width), column)| {
                match column.align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let _ = writeln!(out, "{}", line(&names));
    let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
    let _ = writeln!(out, "{}", rules.join("  "));
    for row in &rows {
        let _ = writeln!(out, "{}", line(row));
    }
    for note in table.footnotes() {
        let _ = writeln!(out, "{note}");
    }
    out
}
