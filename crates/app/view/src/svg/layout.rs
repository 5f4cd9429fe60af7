//! Who gets how much room. Everything that is written has its own strip, so nothing overlaps:
//! title, legend, names of spans, names of lines down, plot area, ticks, axis label from top to
//! bottom; axis label, ticks, plot area, names of lines across from left to right.

use crate::scale::{Scale, x_range, y_range};
use crate::{Plot, number};

/// All pictures are as wide, so that they line up below one another.
const WIDTH: f64 = 860.0;
/// Height of the plot area.
const AREA: f64 = 260.0;
/// Left margin at least, so that the areas of several plots line up.
const LEAST_LEFT: f64 = 76.0;
/// Right margin at least: half the width of the last tick's label.
const LEAST_RIGHT: f64 = 30.0;
/// The names of lines across get this much at most.
const MOST_RIGHT: f64 = 190.0;
/// Height of a strip of names.
pub(crate) const STRIP: f64 = 17.0;
/// Between the last strip and the plot area: half the height of the uppermost tick's label.
const GAP: f64 = 8.0;
/// Size of words on axes and in legends.
pub(crate) const SMALL: f64 = 12.0;
/// About so many ticks on the y axis; on a logarithmic one they are uneven, so there may be more.
const Y_TICKS: usize = 6;
const LOG_TICKS: usize = 10;
/// Longest name in a legend or on an axis, in characters.
const LONGEST: f64 = 260.0;

/// A value and what is written at it.
pub(crate) struct Tick {
    pub(crate) place: f64,
    pub(crate) label: String,
}

/// Places of everything, in pixels.
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) x_ticks: Vec<Tick>,
    pub(crate) y_ticks: Vec<Tick>,
    /// Labels of the x axis are turned, since they are long.
    pub(crate) turned: bool,
    /// Legend: for each row the ranks of its series, each with its x.
    pub(crate) legend: Vec<Vec<(usize, f64)>>,
    /// Baseline of the first row of the legend.
    pub(crate) legend_y: f64,
    /// Baseline of the names of spans.
    pub(crate) spans_y: f64,
    /// Baseline of the names of lines down.
    pub(crate) v_lines_y: f64,
}

impl Layout {
    pub(crate) fn of(plot: &Plot) -> Layout {
        let most = if plot.y.log { LOG_TICKS } else { Y_TICKS };
        let y_range = y_range(plot, most);
        let y =
            |from, to| Scale { low: y_range.low, high: y_range.high, log: plot.y.log, from, to };
        let values = y(1.0, 0.0).ticks(most);
        let labels = number::axis(&values, plot.y.log);
        let widest = labels.iter().map(|label| text_width(label, SMALL)).fold(0.0, f64::max);
        let left = (widest + 44.0).max(LEAST_LEFT);
        let names = plot.h_lines.iter().map(|line| text_width(&line.label, SMALL) + 12.0);
        let right = WIDTH - names.fold(LEAST_RIGHT, f64::max).min(MOST_RIGHT);
        let legend = legend_rows(plot, left, WIDTH - 16.0);
        let legend_y = 48.0;
        let after_legend = 38.0 + legend.len() as f64 * 20.0;
        let spans_y = after_legend + STRIP - 4.0;
        let after_spans = after_legend + if plot.spans.is_empty() { 0.0 } else { STRIP };
        let v_lines_y = after_spans + STRIP - 4.0;
        let top = after_spans + GAP + if plot.v_lines.is_empty() { 0.0 } else { STRIP };
        let bottom = top + AREA;
        let y = y(bottom, top);
        let place = |value: &f64| y.place(*value).unwrap_or(bottom);
        let ticks = values.iter().zip(labels);
        let y_ticks = ticks.map(|(value, label)| Tick { place: place(value), label }).collect();
        let range = x_range(plot);
        let x = Scale { low: range.low, high: range.high, log: plot.x.log, from: left, to: right };
        let x_ticks = x_ticks(plot, &x);
        let (turned, below) = depth(plot, &x_ticks, right - left);
        let height = (bottom + below + 32.0).ceil();
        Layout {
            width: WIDTH,
            height,
            left,
            right,
            top,
            bottom,
            x,
            y,
            x_ticks,
            y_ticks,
            turned,
            legend,
            legend_y,
            spans_y,
            v_lines_y,
        }
    }
}

/// The ticks of the x axis: names, or as many numbers as have room.
fn x_ticks(plot: &Plot, x: &Scale) -> Vec<Tick> {
    if !plot.categories.is_empty() {
        let tick = |(rank, name): (usize, &String)| {
            Some(Tick { place: x.place(rank as f64)?, label: fit(name, SMALL, LONGEST) })
        };
        return plot.categories.iter().enumerate().filter_map(tick).collect();
    }
    let room = (x.to - x.from).abs();
    let ticks = |most: usize| -> Vec<Tick> {
        let values = x.ticks(most);
        let labels = number::axis(&values, plot.x.log);
        let tick = |(value, label): (&f64, String)| Some(Tick { place: x.place(*value)?, label });
        values.iter().zip(labels).filter_map(tick).collect()
    };
    let apart = |ticks: &Vec<Tick>| {
        ticks.windows(2).all(|pair| {
            let half = |tick: &Tick| text_width(&tick.label, SMALL) / 2.0;
            pair[0].place + half(&pair[0]) + 8.0 <= pair[1].place - half(&pair[1])
        })
    };
    let most = (room / 70.0) as usize;
    (2..=most)
        .rev()
        .map(ticks)
        .find(apart)
        .unwrap_or_else(|| ticks(2).into_iter().take(1).collect())
}

/// Whether the labels of the x axis must be turned, and how deep they reach.
fn depth(plot: &Plot, ticks: &[Tick], room: f64) -> (bool, f64) {
    let widest = ticks.iter().map(|tick| text_width(&tick.label, SMALL)).fold(0.0, f64::max);
    let slot = room / plot.categories.len().max(1) as f64;
    if plot.categories.is_empty() || widest + 6.0 <= slot {
        return (false, 20.0);
    }
    (true, 18.0 + widest * 0.58)
}

/// Puts the names of the series into rows. A single series without a name has none.
fn legend_rows(plot: &Plot, left: f64, right: f64) -> Vec<Vec<(usize, f64)>> {
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut x = right;
    for (rank, series) in plot.series.iter().enumerate().filter(|(_, s)| !s.name.is_empty()) {
        let wide = 24.0 + text_width(&fit(&series.name, SMALL, LONGEST), SMALL) + 20.0;
        if rows.is_empty() || x + wide > right {
            rows.push(Vec::new());
            x = left;
        }
        rows.last_mut().into_iter().for_each(|row| row.push((rank, x)));
        x += wide;
    }
    rows
}

/// The name of a series as the legend shows it.
pub(crate) fn legend_name(name: &str) -> String {
    fit(name, SMALL, LONGEST)
}

/// The width of a text, on the large side: wide letters take about two thirds of the size.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let units = text.chars().map(|c| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '(' | ')' | 'f'
        | 't' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
        c if c.is_ascii_uppercase() => 0.75,
        c if c.is_ascii() => 0.64,
        _ => 1.0,
    });
    units.sum::<f64>() * size
}

/// The text, or as much of it as has room, with an ellipsis.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if text_width(&short, size) + size > room {
            short.pop();
            break;
        }
    }
    format!("{}…", short.trim_end())
}

/// A number of pixels, to a tenth.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_in_an_ellipsis() {
        assert_eq!(fit("short", 12.0, 100.0), "short");
        let cut = fit(&"word ".repeat(40), 12.0, 100.0);
        assert!(cut.ends_with("word…") || cut.ends_with('…'), "{cut}");
        assert!(text_width(&cut, 12.0) <= 100.0);
    }

    #[test]
    fn pixels_are_short() {
        for (value, text) in [(1.0, "1"), (1.25, "1.2"), (-0.04, "0"), (860.0, "860")] {
            assert_eq!(px(value), text);
        }
    }
}
