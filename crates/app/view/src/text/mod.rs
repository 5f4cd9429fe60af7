//! For a terminal.

mod chart;
mod grid;

pub(crate) use chart::plot;
pub(crate) use grid::table;

use crate::table::one_line;
use crate::{Item, Report};
use std::fmt::Write as _;

/// A whole report. Paragraphs are broken at `width` columns.
pub(crate) fn report(report: &Report, width: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n{}", one_line(&report.title), rule('=', &report.title));
    for section in &report.sections {
        let _ = writeln!(out, "\n{}\n{}", one_line(&section.title), rule('-', &section.title));
        for item in &section.items {
            let text = match item {
                Item::Text(text) => wrap(text, width),
                Item::Table(table) => table.to_text(),
                Item::Plot(plot) => plot.to_text(width),
                Item::Heat(heat) => heat.to_text(),
            };
            let _ = write!(out, "\n{text}");
        }
    }
    out
}

fn rule(sign: char, below: &str) -> String {
    std::iter::repeat_n(sign, columns(below)).collect()
}

/// Columns that a text takes, if each character takes one.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Breaks between words. A longer word gets its own line.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    for paragraph in text.lines() {
        let mut used = 0;
        for word in paragraph.split_whitespace() {
            let more = columns(word) + usize::from(used > 0);
            if used > 0 && used + more > width {
                out.push('\n');
                used = 0;
            }
            if used > 0 {
                out.push(' ');
            }
            out.push_str(word);
            used += columns(word) + usize::from(used > 0);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wrapping_keeps_words_and_width(text in "[a-z ]{0,200}", width in 10usize..60) {
            let wrapped = wrap(&text, width);
            let words = |text: &str| -> Vec<String> {
                text.split_whitespace().map(str::to_owned).collect()
            };
            prop_assert_eq!(words(&wrapped), words(&text));
            for line in wrapped.lines() {
                prop_assert!(columns(line) <= width || !line.contains(' '), "{line:?}");
            }
        }
    }
}
