//! Who is who.

use super::canvas::{Anchor, Canvas, Label};
use super::layout::{Layout, SMALL, legend_name};
use super::{INK, colour};
use crate::{Plot, Style};

/// A sample of each series and its name.
pub(crate) fn draw(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    for (row, members) in layout.legend.iter().enumerate() {
        let y = layout.legend_y + row as f64 * 20.0;
        for &(rank, x) in members {
            let series = &plot.series[rank];
            let colour = colour(plot, rank);
            match series.style {
                Style::Bars => canvas.rect((x, y - 10.0), (16.0, 11.0), colour, ""),
                Style::Points => canvas.dot((x + 8.0, y - 4.0), 4.0, colour),
                Style::Line | Style::Step => {
                    canvas.path(&[(x, y - 4.0), (x + 16.0, y - 4.0)], colour);
                }
            }
            let name = legend_name(&series.name);
            let label = Label {
                x: x + 22.0,
                y,
                size: SMALL,
                anchor: Anchor::Start,
                colour: INK,
                text: &name,
            };
            canvas.text(&label);
        }
    }
}
