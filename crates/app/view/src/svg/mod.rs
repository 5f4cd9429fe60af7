//! Plots as SVG: light background, nothing overlaps, no scripts, no outside files.

mod axes;
mod canvas;
mod layout;
mod legend;
mod marks;
mod series;

use crate::Plot;
use canvas::Canvas;
use layout::Layout;

/// Colours that stay apart for colour-blind readers too (Okabe and Ito), the darker ones first.
pub(crate) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a4fb5", "#444444"];
/// Lines across and down, and their labels.
pub(crate) const MARK: &str = "#b00020";
/// Words.
pub(crate) const INK: &str = "#1a1a1a";
/// Axes and the words on them.
pub(crate) const QUIET: &str = "#555555";
/// Lines at the ticks.
pub(crate) const GRID: &str = "#e6e6e6";

/// The whole picture.
pub(crate) fn plot(plot: &Plot) -> String {
    let layout = Layout::of(plot);
    let mut canvas = Canvas::new(&layout, plot);
    canvas.title(&layout, &plot.title);
    legend::draw(&mut canvas, &layout, plot);
    marks::spans(&mut canvas, &layout, plot);
    axes::draw(&mut canvas, &layout, plot);
    series::draw(&mut canvas, &layout, plot);
    marks::lines(&mut canvas, &layout, plot);
    canvas.finish()
}

/// The colour of a series: its own, else the next in turn.
pub(crate) fn colour(plot: &Plot, rank: usize) -> &'static str {
    let own = plot.series.get(rank).and_then(|series| series.colour);
    COLOURS[own.map_or(rank, |colour| usize::from(colour.0)) % COLOURS.len()]
}
