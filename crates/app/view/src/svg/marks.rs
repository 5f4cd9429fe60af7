//! Lines across and down, and named parts of the x axis.

use super::canvas::{Anchor, Canvas, Label};
use super::layout::{Layout, SMALL, fit, text_width};
use super::{MARK, QUIET};
use crate::{Mark, Plot};

/// Height of a line of text, so that names of neighbouring lines do not touch.
const LINE: f64 = 15.0;

/// Shades every other span and writes the names above the plot.
pub(crate) fn spans(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    let mut used = f64::NEG_INFINITY;
    for (rank, span) in plot.spans.iter().enumerate() {
        let place = |value| layout.x.place_inside(value);
        let (Some(from), Some(to)) = (place(span.from), place(span.to)) else { continue };
        if to <= from {
            continue;
        }
        let shade = if rank % 2 == 0 { "#f2f5f9" } else { "#ffffff" };
        let (height, top) = (layout.bottom - layout.top, layout.top);
        canvas.rect((from, top), (to - from, height), shade, &span.label);
        let text = fit(&span.label, SMALL, to - from - 4.0);
        let middle = f64::midpoint(from, to);
        used = strip(canvas, (middle, layout.spans_y), &text, used, QUIET);
    }
}

/// Lines across with their names on the right, lines down with their names above.
pub(crate) fn lines(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    let mut named = Vec::new();
    for line in &plot.h_lines {
        let Some(y) = layout.y.place(line.at).filter(|_| layout.y.shows(line.at)) else { continue };
        canvas.line((layout.left, y), (layout.right, y), MARK, "6 4");
        named.push((y, line));
    }
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    names(canvas, layout, &named);
    let mut used = f64::NEG_INFINITY;
    for line in &plot.v_lines {
        let Some(x) = layout.x.place(line.at).filter(|_| layout.x.shows(line.at)) else { continue };
        canvas.line((x, layout.top), (x, layout.bottom), MARK, "2 3");
        used = strip(canvas, (x, layout.v_lines_y), &line.label, used, MARK);
    }
}

/// The names of lines across, from the top down, pushed apart where the lines lie close together.
fn names(canvas: &mut Canvas, layout: &Layout, named: &[(f64, &Mark)]) {
    let mut y = layout.top - LINE;
    for (i, (place, line)) in named.iter().enumerate() {
        // Those below need room too.
        let last = layout.bottom - (named.len() - 1 - i) as f64 * LINE;
        y = (place + 4.0).min(last).max(y + LINE);
        if y > layout.bottom + 4.0 {
            break;
        }
        let x = layout.right + 6.0;
        let text = fit(&line.label, SMALL, layout.width - x - 2.0);
        let anchor = Anchor::Start;
        canvas.text(&Label { x, y, size: SMALL, anchor, colour: MARK, text: &text });
    }
}

/// Writes a name centred in its strip, inside the picture, unless it would touch the one before,
/// which ends at `used`. Gives where this one ends.
fn strip(canvas: &mut Canvas, at: (f64, f64), text: &str, used: f64, colour: &str) -> f64 {
    let half = text_width(text, SMALL) / 2.0;
    let x = at.0.max(half + 2.0);
    // A name that lost most of its letters says nothing.
    if text.is_empty() || text == "…" || x - half < used + 6.0 || x + half > 858.0 {
        return used;
    }
    canvas.text(&Label { x, y: at.1, size: SMALL, anchor: Anchor::Middle, colour, text });
    x + half
}
