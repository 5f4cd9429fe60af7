//! Plots: what is to be seen, not how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Points joined by straight lines.
    #[default]
    Line,
    /// A value that holds until the next point.
    Step,
    /// Points alone.
    Points,
    /// Bars from zero; with categories several series stand side by side.
    Bars,
}

/// A colour by its meaning: equal numbers look alike in all plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Colour(pub u8);

/// A named sequence of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// x and y in rising order of x; a y of null is a gap, in which nothing is drawn.
    pub points: Vec<(f64, Option<f64>)>,
    /// How to draw it.
    pub style: Style,
    /// Which colour; null: the next free one.
    pub colour: Option<Colour>,
}

/// The numbers an axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// What it shows, with its unit, as "sojourn time p95 (ms)".
    pub label: String,
    /// Logarithmic.
    pub log: bool,
    /// What it shows; null: what the data need, from 0 on the y axis.
    pub range: Option<Range>,
}

/// A line across the whole plot, as an SLO.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What it means.
    pub label: String,
}

/// A part of the x axis with a name, as a phase of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Its begin.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Its name.
    pub label: String,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// Names on the x axis in place of numbers: the x of a point is then the rank of its name,
    /// from 0. Empty: numbers.
    pub categories: Vec<String>,
    /// What is plotted.
    pub series: Vec<Series>,
    /// Lines across, at a height.
    pub h_lines: Vec<Mark>,
    /// Lines down, at an x.
    pub v_lines: Vec<Mark>,
    /// Named parts of the x axis.
    pub spans: Vec<Span>,
}

impl Series {
    /// A series of this style. Values that are not finite become gaps.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        style: Style,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        let gap = |(x, y): (f64, f64)| (x, Some(y).filter(|y| y.is_finite()));
        let points = points.into_iter().map(gap).collect();
        Series { name: name.into(), points, style, colour: None }
    }

    /// Values for categories in their order; null leaves one out.
    #[must_use]
    pub fn bars(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Series {
        let points = values.into_iter().enumerate().map(|(rank, y)| (rank as f64, y)).collect();
        Series { name: name.into(), points, style: Style::Bars, colour: None }
    }

    /// In this colour.
    #[must_use]
    pub fn coloured(mut self, colour: u8) -> Series {
        self.colour = Some(Colour(colour));
        self
    }

    /// The points that can be drawn.
    pub(crate) fn drawable(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().filter_map(|&(x, y)| Some((x, y?))).filter(|&(x, y)| fits(x) && fits(y))
    }

    /// Runs of points without a gap between them.
    pub(crate) fn runs(&self) -> Vec<Vec<(f64, f64)>> {
        let mut runs = vec![Vec::new()];
        for &(x, y) in &self.points {
            match y.filter(|&y| fits(x) && fits(y)) {
                Some(y) => runs.last_mut().into_iter().for_each(|run| run.push((x, y))),
                None => runs.push(Vec::new()),
            }
        }
        runs.retain(|run| !run.is_empty());
        runs
    }
}

/// Beyond this no scale has digits enough.
fn fits(value: f64) -> bool {
    value.abs() < 1e30
}

impl Plot {
    /// An empty plot.
    #[must_use]
    pub fn new(
        title: impl Into<String>,
        x_label: impl Into<String>,
        y_label: impl Into<String>,
    ) -> Plot {
        let axis = |label| Axis { label, ..Axis::default() };
        Plot {
            title: title.into(),
            x: axis(x_label.into()),
            y: axis(y_label.into()),
            ..Plot::default()
        }
    }

    /// With a logarithmic y axis.
    #[must_use]
    pub fn log_y(mut self) -> Plot {
        self.y.log = true;
        self
    }

    /// With a line across at `at`.
    #[must_use]
    pub fn h_line(mut self, at: f64, label: impl Into<String>) -> Plot {
        self.h_lines.push(Mark { at, label: label.into() });
        self
    }

    /// For a terminal: a chart of characters, `width` columns wide in all.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        crate::text::plot(self, width)
    }

    /// For a page or a file of its own.
    #[must_use]
    pub fn to_svg(&self) -> String {
        crate::svg::plot(self)
    }
}
