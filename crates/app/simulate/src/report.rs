//! What a scenario came to: as JSON, as tables and plots.

use crate::figure::{Figure, Results};
use crate::text::{Point, Print, PrintKind, Scenario};
use crate::{metric, over_time};
use quell_view::{Cell, Heat, Item, Plot, Report, Section, Series, Style, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every figure is as expected.
    Passed,
    /// Some figure is not.
    Failed,
    /// It needs what is not there yet.
    Pending,
}

/// One scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioReport {
    /// The experiment's id, as T-E1.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What came of it.
    pub status: Status,
    /// Why it is pending; null if it is not.
    pub pending: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// How long it took, in seconds of the machine that simulated.
    pub seconds: f64,
    /// How long was simulated, in seconds, without what was played alone.
    pub simulated_s: f64,
    /// Points that were played.
    pub runs: u32,
    /// Digest of all decision journals.
    pub digest: String,
    /// What laws did without, each said once.
    pub degraded: Vec<String>,
}

/// Schema of [`ScenariosReport`].
pub const SCENARIOS_SCHEMA: &str = "quell.scenarios/1";

/// Several scenarios.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenariosReport {
    /// `quell.scenarios/1`.
    pub schema: String,
    /// Each.
    pub scenarios: Vec<ScenarioReport>,
}

/// A report for documents: tables as Markdown, plots as the images that [`Report::write`] makes.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut images = report.to_svgs().into_iter().map(|(name, _)| name);
    let mut text = String::new();
    for section in &report.sections {
        text += &format!("## {}\n\n", section.title);
        for item in &section.items {
            text += &match item {
                Item::Text(words) => words.clone(),
                Item::Table(table) => table.to_markdown(),
                Item::Plot(Plot { title, .. }) | Item::Heat(Heat { title, .. }) => {
                    format!("![{title}]({})", images.next().unwrap_or_default())
                }
            };
            text += "\n\n";
        }
    }
    text
}

/// The figures as a table.
#[must_use]
pub fn figures_table(report: &ScenarioReport) -> Table {
    let mut table = Table::new(&report.title, &["figure", "expected>", "paper>", "ours>", "held"]);
    for figure in &report.figures {
        let note = figure.note.clone().unwrap_or_else(|| "not measured".into());
        let ours = figure.ours.map_or(Cell::Missing(note), number);
        table.push([
            figure.name.as_str().into(),
            figure.expected.as_str().into(),
            number(figure.paper),
            ours,
            if figure.held { "yes" } else { "NO" }.into(),
        ]);
    }
    table
}

fn number(value: f64) -> Cell {
    let digits = if value.abs() >= 100.0 { 1 } else { 3 };
    Cell::number(value, digits)
}

/// What a scenario prints, and its figures.
pub(crate) fn section(scenario: &Scenario, results: &Results, report: &ScenarioReport) -> Section {
    let mut section = Section::new(format!("{}: {}", scenario.id, scenario.title));
    for print in &scenario.prints {
        for item in items(print, results) {
            section = section.with(item);
        }
    }
    if !report.figures.is_empty() {
        section = section.with(figures_table(report));
    }
    if !report.degraded.is_empty() {
        section = section.with(format!("Runs degraded: {}.", report.degraded.join("; ")));
    }
    section
}

fn items(print: &Print, results: &Results) -> Vec<Item> {
    match print.kind {
        PrintKind::Table => vec![table(print, results).into()],
        PrintKind::Plot => print.metrics.iter().map(|m| plot(print, m, results).into()).collect(),
        PrintKind::Trace => {
            let points: Vec<_> = results.of(&print.conditions).collect();
            over_time::plots(print, &points).into_iter().map(Item::from).collect()
        }
    }
}

/// A metric's name with whose it is.
fn title((name, of): &(String, Option<String>)) -> String {
    match of {
        Some(of) => format!("{name} of {of}"),
        None => name.clone(),
    }
}

/// One row a point: the axes, then the metrics.
fn table(print: &Print, results: &Results) -> Table {
    let metrics: Vec<String> = print.metrics.iter().map(|m| title(m) + ">").collect();
    let heads: Vec<&str> =
        print.by.iter().map(String::as_str).chain(metrics.iter().map(String::as_str)).collect();
    let mut table = Table::new("", &heads);
    let mut points: Vec<_> = results.of(&print.conditions).collect();
    let rank = |point: &Point, axis: &String| {
        let value = &point[axis];
        results.points.iter().position(|(p, _)| &p[axis] == value)
    };
    points.sort_by_key(|(point, _)| print.by.iter().map(|a| rank(point, a)).collect::<Vec<_>>());
    for (point, played) in points {
        let axes = print.by.iter().map(|axis| Cell::from(point[axis].as_str()));
        let values =
            print.metrics.iter().map(|(name, of)| match played.value(name, of.as_deref()) {
                Ok(value) => Cell::number(value, metric::digits(name)),
                Err(why) => Cell::Missing(why),
            });
        table.push(axes.chain(values).collect::<Vec<_>>());
    }
    table
}

/// The first axis along x, a series for each value of the others.
fn plot(print: &Print, metric: &(String, Option<String>), results: &Results) -> Plot {
    let x_axis = print.by.first().cloned().unwrap_or_default();
    let mut plot = Plot::new(title(metric), &x_axis, title(metric));
    let number = |text: &str| crate::text::axis_number(text);
    let mut names: Vec<String> = Vec::new();
    for (point, played) in results.of(&print.conditions) {
        let others = print.by.iter().skip(1).map(|axis| point[axis].clone());
        let name = others.collect::<Vec<_>>().join(" ");
        let value = point.get(&x_axis).cloned().unwrap_or_default();
        let x = number(&value).unwrap_or_else(|| {
            let known = plot.categories.iter().position(|c| c == &value);
            known.unwrap_or_else(|| {
                plot.categories.push(value.clone());
                plot.categories.len() - 1
            }) as f64
        });
        let y = played.value(&metric.0, metric.1.as_deref()).ok();
        match names.iter().position(|n| n == &name) {
            Some(at) => plot.series[at].points.push((x, y)),
            None => {
                names.push(name.clone());
                let style = if plot.categories.is_empty() { Style::Line } else { Style::Bars };
                let points = vec![(x, y)];
                plot.series.push(Series { name, points, style, colour: None });
            }
        }
    }
    plot
}
