//! A heat map: a number for each pair of two lists of names, as colour.

use crate::html::escape;
use crate::text::columns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A heat map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heat {
    /// Its title.
    pub title: String,
    /// What the columns are.
    pub x_label: String,
    /// What the rows are.
    pub y_label: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Row by row; null is a gap, in which nothing is drawn. Short rows end in gaps.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The number that has the darkest colour; 0 and less has none.
    pub top: f64,
    /// Digits after the point.
    pub digits: u8,
}

/// Side of a cell.
const CELL: usize = 30;
/// Width of a letter in the names, which are small.
const LETTER: usize = 7;
/// For the title.
const HEAD: usize = 34;

impl Heat {
    /// A cell, if it is there and a number.
    fn cell(&self, row: usize, column: usize) -> Option<f64> {
        let value = *self.cells.get(row)?.get(column)?;
        value.filter(|value| value.is_finite())
    }

    /// 0..1.
    fn warmth(&self, value: f64) -> f64 {
        if self.top > 0.0 { (value / self.top).clamp(0.0, 1.0) } else { 0.0 }
    }

    fn shown(&self, value: f64) -> String {
        let text = format!("{value:.*}", usize::from(self.digits));
        // What is rounded to nothing has no sign.
        if text.trim_start_matches('-').chars().all(|c| "0.".contains(c)) {
            text.trim_start_matches('-').to_owned()
        } else {
            text
        }
    }

    /// For a page or a file of its own.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let longest = |names: &[String]| names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let left = 30 + LETTER * longest(&self.rows);
        let above = HEAD + 24 + LETTER * longest(&self.columns);
        let (width, height) =
            (left + CELL * self.columns.len() + 20, above + CELL * self.rows.len() + 14);
        let width = width.max(left + LETTER * columns(&self.title));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"system-ui,sans-serif\" \
             font-size=\"12\" fill=\"#1a1a1a\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        let title = escape(&self.title);
        let _ = writeln!(out, "<text x=\"10\" y=\"20\" font-weight=\"600\">{title}</text>");
        self.draw_names(&mut out, left, above);
        self.draw_cells(&mut out, left, above);
        out.push_str("</svg>\n");
        out
    }

    fn draw_names(&self, out: &mut String, left: usize, above: usize) {
        for (i, name) in self.columns.iter().enumerate() {
            let (x, y) = (left + CELL * i + CELL / 2 + 4, above - 6);
            let name = escape(name);
            let _ =
                writeln!(out, "<text transform=\"translate({x},{y}) rotate(-90)\">{name}</text>");
        }
        for (i, name) in self.rows.iter().enumerate() {
            let (x, y) = (left - 6, above + CELL * i + CELL / 2 + 4);
            let name = escape(name);
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>");
        }
        let (middle, low) = (above + CELL * self.rows.len() / 2, HEAD + 4);
        let (x, y) = (escape(&self.x_label), escape(&self.y_label));
        let _ = writeln!(out, "<text x=\"{left}\" y=\"{low}\" fill=\"#555555\">{x}</text>");
        let _ = writeln!(
            out,
            "<text transform=\"translate(14,{middle}) rotate(-90)\" text-anchor=\"middle\" \
             fill=\"#555555\">{y}</text>"
        );
    }

    fn draw_cells(&self, out: &mut String, left: usize, above: usize) {
        for row in 0..self.rows.len() {
            for column in 0..self.columns.len() {
                let Some(value) = self.cell(row, column) else { continue };
                let (x, y, warmth) = (left + CELL * column, above + CELL * row, self.warmth(value));
                let (ink, shown) =
                    (if warmth > 0.55 { "#fff" } else { "#1a1a1a" }, self.shown(value));
                let (mx, my, side) = (x + CELL / 2, y + CELL / 2 + 4, CELL - 1);
                let _ = writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{}\"/>\
                     <text x=\"{mx}\" y=\"{my}\" font-size=\"10\" text-anchor=\"middle\" \
                     fill=\"{ink}\">{shown}</text>",
                    colour(warmth)
                );
            }
        }
    }

    /// For a terminal: numbers in columns, named by letters that are explained below.
    #[must_use]
    pub fn to_text(&self) -> String {
        let names = self.rows.iter().map(|name| columns(name)).max().unwrap_or(0);
        let mut out = format!("{}\n{:names$} ", self.title, "");
        let heads: Vec<String> = (1..=self.columns.len()).map(|i| format!("#{i}")).collect();
        for head in &heads {
            let _ = write!(out, "{head:>6}");
        }
        out.push('\n');
        for (row, name) in self.rows.iter().enumerate() {
            let _ = write!(out, "{name:names$} ");
            for column in 0..self.columns.len() {
                let shown =
                    self.cell(row, column).map_or("-".to_owned(), |value| self.shown(value));
                let _ = write!(out, "{shown:>6}");
            }
            out.push('\n');
        }
        let key = heads.iter().zip(&self.columns).map(|(head, name)| format!("{head} {name}"));
        let _ = writeln!(out, "{}: {}", self.x_label, key.collect::<Vec<_>>().join(", "));
        out
    }
}

/// From white through orange to dark red.
fn colour(warmth: f64) -> String {
    const STOPS: [[f64; 3]; 3] = [[255.0, 255.0, 255.0], [244.0, 165.0, 80.0], [140.0, 10.0, 30.0]];
    let at = warmth.clamp(0.0, 1.0) * 2.0;
    let (from, part) = if at >= 1.0 { (1, at - 1.0) } else { (0, at) };
    let mix = |i: usize| STOPS[from][i] + (STOPS[from + 1][i] - STOPS[from][i]) * part;
    format!("#{:02x}{:02x}{:02x}", mix(0) as u8, mix(1) as u8, mix(2) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat() -> Heat {
        Heat {
            title: "loss <at> 40 %".to_owned(),
            x_label: "beside".to_owned(),
            y_label: "loses".to_owned(),
            columns: ["llc", "a & b"].map(str::to_owned).to_vec(),
            rows: ["llc", "tlb"].map(str::to_owned).to_vec(),
            cells: vec![vec![Some(12.0), Some(-0.2)], vec![None]],
            top: 15.0,
            digits: 0,
        }
    }

    #[test]
    fn gaps_are_gaps_and_nothing_has_no_sign() {
        let svg = heat().to_svg();
        assert_eq!(svg.matches("<rect x=").count(), 2, "two cells of four");
        assert!(svg.contains(">12<") && svg.contains(">0<") && !svg.contains("-0"));
        assert!(svg.contains("a &amp; b") && svg.contains("&lt;at&gt;"));
        roxmltree::Document::parse(&svg).unwrap();
        let text = heat().to_text();
        assert!(text.contains("#2 a & b") && text.lines().count() == 5, "{text}");
    }

    #[test]
    fn warmer_is_darker() {
        assert_eq!((colour(0.0), colour(1.0)), ("#ffffff".to_owned(), "#8c0a1e".to_owned()));
        assert_eq!(colour(0.5), "#f4a550");
        assert_eq!(colour(7.0), colour(1.0));
    }
}
