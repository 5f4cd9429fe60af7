//! Plots of characters.

use super::columns;
use crate::scale::{Scale, x_range, y_range};
use crate::table::one_line;
use crate::{Plot, Style, number};
use std::fmt::Write as _;

/// One sign for each series, in turn.
const SIGNS: [char; 8] = ['●', '▲', '■', '◆', '○', '△', '□', '◇'];
/// Rows of the plot area.
const HEIGHT: usize = 14;
/// Fewest columns of the plot area.
const LEAST_WIDTH: usize = 20;
/// Ticks on the y axis.
const Y_TICKS: usize = 4;

/// The area in which is plotted, row by row from the top.
struct Canvas {
    rows: Vec<Vec<char>>,
    x: Scale,
    y: Scale,
}

impl Canvas {
    fn put(&mut self, column: f64, row: f64, sign: char) {
        let (column, row) = (column.round(), row.round());
        if column < 0.0 || row < 0.0 {
            return;
        }
        if let Some(cell) = self.rows.get_mut(row as usize).and_then(|r| r.get_mut(column as usize))
        {
            *cell = sign;
        }
    }

    fn lines(&mut self, plot: &Plot) {
        let last = self.x.to as usize;
        for line in &plot.h_lines {
            if let (true, Some(row)) = (self.y.shows(line.at), self.y.place(line.at)) {
                (0..=last).for_each(|column| self.put(column as f64, row, '┄'));
            }
        }
    }

    fn series(&mut self, plot: &Plot) {
        for (rank, (series, sign)) in plot.series.iter().zip(SIGNS.iter().cycle()).enumerate() {
            let joined = matches!(series.style, Style::Line | Style::Step);
            for run in series.runs() {
                if joined {
                    run.windows(2)
                        .for_each(|pair| self.join(pair[0], pair[1], series.style, *sign));
                }
                if series.style == Style::Bars {
                    let shift = beside(plot, rank);
                    run.into_iter().for_each(|point| self.bar(point, shift, *sign));
                } else {
                    run.into_iter().for_each(|point| self.point(point, *sign));
                }
            }
        }
    }

    /// From zero, or the end of the scale that is nearest to it.
    fn bar(&mut self, (x, y): (f64, f64), shift: f64, sign: char) {
        let floor = self.y.place_inside(0.0).unwrap_or(self.y.from);
        if let (true, Some(column), Some(end)) =
            (self.x.shows(x), self.x.place(x), self.y.place_inside(y))
        {
            for row in end.min(floor).round() as usize..=end.max(floor).round() as usize {
                self.put(column + shift, row as f64, sign);
            }
        }
    }

    fn point(&mut self, (x, y): (f64, f64), sign: char) {
        if self.x.shows(x)
            && self.y.shows(y)
            && let (Some(column), Some(row)) = (self.x.place(x), self.y.place(y))
        {
            self.put(column, row, sign);
        }
    }

    /// The columns between two points.
    fn join(&mut self, from: (f64, f64), to: (f64, f64), style: Style, sign: char) {
        let place = |(x, y)| Some((self.x.place(x)?, self.y.place_inside(y)?));
        let (Some(from), Some(to)) = (place(from), place(to)) else { return };
        let last = self.x.to;
        let (first, end) = (from.0.clamp(0.0, last).ceil(), to.0.clamp(0.0, last).floor());
        for column in first as usize..=end as usize {
            let way = (column as f64 - from.0) / (to.0 - from.0).max(1e-9);
            let row = if style == Style::Step { from.1 } else { from.1 + (to.1 - from.1) * way };
            self.put(column as f64, row, sign);
        }
    }
}

/// Columns by which the bars of a series stand beside their place, so that none hides another.
fn beside(plot: &Plot, rank: usize) -> f64 {
    let bars = |end: usize| plot.series.iter().take(end).filter(|s| s.style == Style::Bars).count();
    2.0 * (bars(rank) as f64 - (bars(plot.series.len()) as f64 - 1.0) / 2.0)
}

/// Title, chart, x axis and legend.
pub(crate) fn plot(plot: &Plot, width: usize) -> String {
    let range = y_range(plot, Y_TICKS);
    let (from, to) = ((HEIGHT - 1) as f64, 0.0);
    let y = Scale { low: range.low, high: range.high, log: plot.y.log, from, to };
    let values = y.ticks(Y_TICKS);
    let labels = number::axis(&values, plot.y.log);
    let margin = labels.iter().map(|label| columns(label)).max().unwrap_or(0);
    let wide = width.saturating_sub(margin + 2).max(LEAST_WIDTH);
    let range = x_range(plot);
    let to = (wide - 1) as f64;
    let x = Scale { low: range.low, high: range.high, log: plot.x.log, from: 0.0, to };
    let mut canvas = Canvas { rows: vec![vec![' '; wide]; HEIGHT], x, y };
    canvas.lines(plot);
    canvas.series(plot);
    let mut out = String::new();
    let _ = writeln!(out, "{}\n{}", one_line(&plot.title), one_line(&plot.y.label));
    for (row, cells) in canvas.rows.iter().enumerate() {
        let here = |value: &f64| y.place(*value).is_some_and(|place| place.round() as usize == row);
        let label = values.iter().position(here).and_then(|tick| labels.get(tick));
        let (label, axis) = label.map_or(("", '│'), |label| (label.as_str(), '┤'));
        let cells: String = cells.iter().collect();
        let _ = writeln!(out, "{label:>margin$} {axis}{}", cells.trim_end());
    }
    let _ = writeln!(out, "{:>margin$} └{}", "", "─".repeat(wide));
    let _ = writeln!(out, "{:>margin$}  {}", "", x_labels(plot, &x, wide));
    let _ = writeln!(out, "{:>margin$}  {:^wide$}", "", one_line(&plot.x.label));
    legend(plot, &mut out);
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Labels below the x axis, each centred at its place; one that would touch the last is left out.
fn x_labels(plot: &Plot, x: &Scale, wide: usize) -> String {
    let (values, labels) = if plot.categories.is_empty() {
        let values = x.ticks((wide / 12).max(2));
        let labels = number::axis(&values, plot.x.log);
        (values, labels)
    } else {
        let ranks = (0..plot.categories.len()).map(|rank| rank as f64).collect();
        (ranks, plot.categories.iter().map(|name| one_line(name)).collect())
    };
    let mut line = String::new();
    for (value, label) in values.iter().zip(labels) {
        let Some(place) = x.place(*value) else { continue };
        let start = (place.round() as usize).saturating_sub(columns(&label) / 2);
        let start = start.min(wide.saturating_sub(columns(&label)));
        let used = columns(&line);
        if used == 0 || start > used {
            line.push_str(&" ".repeat(start.saturating_sub(used)));
            line.push_str(&label);
        }
    }
    line
}

fn legend(plot: &Plot, out: &mut String) {
    let named = plot.series.iter().zip(SIGNS.iter().cycle());
    for (series, sign) in named.filter(|(series, _)| !series.name.is_empty()) {
        let _ = writeln!(out, "  {sign} {}", one_line(&series.name));
    }
    for line in &plot.h_lines {
        let _ = writeln!(out, "  ┄ {}", one_line(&line.label));
    }
}
