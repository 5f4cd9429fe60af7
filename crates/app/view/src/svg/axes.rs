//! Axes, ticks and the lines at them.

use super::canvas::{Anchor, Canvas, Label};
use super::layout::{Layout, SMALL, fit};
use super::{GRID, INK, QUIET};
use crate::Plot;

/// Both axes with their labels.
pub(crate) fn draw(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    y_axis(canvas, layout);
    x_axis(canvas, layout, plot);
    let (left, bottom) = (layout.left, layout.bottom);
    canvas.line((left, bottom), (layout.right, bottom), QUIET, "");
    let middle = f64::midpoint(layout.left, layout.right);
    let text = fit(&plot.x.label, 13.0, layout.right - layout.left);
    let y = layout.height - 12.0;
    let label = |x, y, text| Label { x, y, size: 13.0, anchor: Anchor::Middle, colour: INK, text };
    canvas.text(&label(middle, y, &text));
    let text = fit(&plot.y.label, 13.0, layout.bottom - layout.top);
    let middle = f64::midpoint(layout.top, layout.bottom);
    canvas.turned(&label(18.0, middle, &text), -90.0);
}

fn y_axis(canvas: &mut Canvas, layout: &Layout) {
    for tick in &layout.y_ticks {
        canvas.line((layout.left, tick.place), (layout.right, tick.place), GRID, "");
        canvas.text(&Label {
            x: layout.left - 8.0,
            y: tick.place + 4.0,
            size: SMALL,
            anchor: Anchor::End,
            colour: QUIET,
            text: &tick.label,
        });
    }
}

fn x_axis(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    for tick in &layout.x_ticks {
        if plot.categories.is_empty() {
            let (top, bottom) = (layout.bottom, layout.bottom + 5.0);
            canvas.line((tick.place, top), (tick.place, bottom), QUIET, "");
        }
        let anchor = if layout.turned { Anchor::End } else { Anchor::Middle };
        let (x, y) = if layout.turned { (tick.place + 4.0, 14.0) } else { (tick.place, 19.0) };
        let y = layout.bottom + y;
        let label = Label { x, y, size: SMALL, anchor, colour: QUIET, text: &tick.label };
        canvas.turned(&label, if layout.turned { -35.0 } else { 0.0 });
    }
}
