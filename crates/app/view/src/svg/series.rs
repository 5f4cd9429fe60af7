//! The data themselves.

use super::canvas::{Anchor, Canvas, Label};
use super::layout::{Layout, text_width};
use super::{QUIET, colour};
use crate::{Plot, Series, Style, number};

/// More points than this in one pixel column are drawn as their extremes.
const PER_COLUMN: usize = 4;
/// Size of the numbers on bars.
const TINY: f64 = 10.0;

/// All series: bars first, so that lines lie over them.
pub(crate) fn draw(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    bars(canvas, layout, plot);
    for (rank, series) in plot.series.iter().enumerate() {
        match series.style {
            Style::Bars => {}
            Style::Points => points(canvas, layout, series, colour(plot, rank)),
            Style::Line | Style::Step => lines(canvas, layout, series, colour(plot, rank)),
        }
    }
}

/// Each run of points without a gap is one path; a lonely point is a dot.
fn lines(canvas: &mut Canvas, layout: &Layout, series: &Series, colour: &str) {
    for run in series.runs() {
        let shown = run.into_iter().filter(|&(x, _)| layout.x.shows(x));
        let places =
            shown.filter_map(|(x, y)| Some((layout.x.place(x)?, layout.y.place_inside(y)?)));
        let places = thin(places.collect());
        match places.as_slice() {
            [] => {}
            [one] => canvas.dot(*one, 2.5, colour),
            many if series.style == Style::Step => canvas.path(&stairs(many), colour),
            many => canvas.path(many, colour),
        }
    }
}

/// Level until the next point, then up or down.
fn stairs(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut path = Vec::with_capacity(points.len() * 2);
    for pair in points.windows(2) {
        path.extend([pair[0], (pair[1].0, pair[0].1)]);
    }
    path.extend(points.last());
    path
}

/// Keeps first, least, greatest and last of the points that share a pixel column: what is seen stays
/// the same.
fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let same = |a: &(f64, f64), b: &(f64, f64)| a.0.floor() == b.0.floor();
    let mut kept = Vec::new();
    for column in points.chunk_by(same) {
        if column.len() <= PER_COLUMN {
            kept.extend_from_slice(column);
            continue;
        }
        let by_y = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let all = || 0..column.len();
        let ends = [Some(0), all().min_by(by_y), all().max_by(by_y), Some(column.len() - 1)];
        let mut ranks: Vec<usize> = ends.into_iter().flatten().collect();
        ranks.sort_unstable();
        ranks.dedup();
        kept.extend(ranks.into_iter().map(|rank| column[rank]));
    }
    kept
}

fn points(canvas: &mut Canvas, layout: &Layout, series: &Series, colour: &str) {
    for (x, y) in series.drawable().filter(|&(x, y)| layout.x.shows(x) && layout.y.shows(y)) {
        if let (Some(x), Some(y)) = (layout.x.place(x), layout.y.place(y)) {
            canvas.dot((x, y), 3.0, colour);
        }
    }
}

/// Bars side by side in the slot of their category, or about their x.
fn bars(canvas: &mut Canvas, layout: &Layout, plot: &Plot) {
    let ranks: Vec<usize> =
        (0..plot.series.len()).filter(|&rank| plot.series[rank].style == Style::Bars).collect();
    let width = slot(layout, plot) * 0.8 / ranks.len().max(1) as f64;
    let floor = layout.y.place_inside(0.0).unwrap_or(layout.bottom);
    for (position, &rank) in ranks.iter().enumerate() {
        let series = &plot.series[rank];
        let shift = (position as f64 - (ranks.len() as f64 - 1.0) / 2.0) * width;
        for (x, y) in series.drawable().filter(|&(x, _)| layout.x.shows(x)) {
            let (Some(x), Some(end)) = (layout.x.place(x), layout.y.place_inside(y)) else {
                continue;
            };
            let (x, top, height) = (x + shift, end.min(floor), (end - floor).abs());
            let (left, right) = (x - width / 2.0, x + width / 2.0 - 1.0);
            let (left, right) = (left.max(layout.left), right.min(layout.right));
            if left > right {
                continue;
            }
            let tip = format!("{}: {}", series.name, number::short(y));
            let size = ((right - left).max(0.5), height);
            canvas.rect((left, top), size, colour(plot, rank), &tip);
            number_on(canvas, layout, plot, &Bar { x, top, width, height, value: y });
        }
    }
}

/// The number of a bar, if it has room: above its top, or in its head where a line across or the
/// upper end of the plot is in the way.
fn number_on(canvas: &mut Canvas, layout: &Layout, plot: &Plot, bar: &Bar) {
    let text = number::short(bar.value);
    let wide = text_width(&text, TINY);
    let inside = bar.x - wide / 2.0 >= layout.left && bar.x + wide / 2.0 <= layout.right;
    if wide > bar.width || !inside {
        return;
    }
    let lines = || plot.h_lines.iter().filter_map(|line| layout.y.place(line.at));
    let free = |baseline: f64| {
        let hit = |line: f64| line > baseline - TINY && line < baseline + 3.0;
        baseline - TINY > layout.top && !lines().any(hit)
    };
    let (above, inside) = (bar.top - 4.0, bar.top + TINY + 3.0);
    let (y, colour) = match () {
        () if free(above) => (above, QUIET),
        () if free(inside) && bar.height > TINY + 6.0 => (inside, "#ffffff"),
        () => return,
    };
    let anchor = Anchor::Middle;
    canvas.text_if_free(&Label { x: bar.x, y, size: TINY, anchor, colour, text: &text });
}

/// A bar as drawn: its middle, top, width and height, and what it stands for.
struct Bar {
    x: f64,
    top: f64,
    width: f64,
    height: f64,
    value: f64,
}

/// Pixels from one bar to the next.
fn slot(layout: &Layout, plot: &Plot) -> f64 {
    let room = layout.right - layout.left;
    if !plot.categories.is_empty() {
        return room / plot.categories.len() as f64;
    }
    let most = plot.series.iter().filter(|series| series.style == Style::Bars);
    let most = most.map(|series| series.points.len()).max().unwrap_or(0);
    room / (most + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes_of_each_column() {
        let points: Vec<(f64, f64)> =
            (0..1000).map(|i| (f64::from(i) / 100.0, f64::from(i * 7919 % 1000))).collect();
        let kept = thin(points.clone());
        assert!(kept.len() <= 40, "{}", kept.len());
        for column in 0..10 {
            let of = |points: &[(f64, f64)]| -> Vec<f64> {
                let here = |p: &&(f64, f64)| p.0.floor() as i32 == column;
                points.iter().filter(here).map(|p| p.1).collect()
            };
            let (all, few) = (of(&points), of(&kept));
            for pick in [f64::max as fn(f64, f64) -> f64, f64::min] {
                let extreme = |values: &[f64]| values.iter().copied().reduce(pick);
                assert_eq!(extreme(&all), extreme(&few), "column {column}");
            }
            assert_eq!((all.first(), all.last()), (few.first(), few.last()));
        }
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0), "still in order");
    }

    #[test]
    fn stairs_hold_their_level() {
        assert_eq!(
            stairs(&[(0.0, 1.0), (5.0, 3.0), (9.0, 2.0)]),
            [(0.0, 1.0), (5.0, 1.0), (5.0, 3.0), (9.0, 3.0), (9.0, 2.0)]
        );
    }
}
