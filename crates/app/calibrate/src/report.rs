//! What came of it, for people and machines.

use crate::cells::Cell;
use crate::fit::FitReport;
use crate::guess::{Guess, PARAMETERS};
use crate::predictions::Prediction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A parameter as fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParameterReport {
    /// Its name.
    pub name: String,
    /// Its unit; empty where it is a share or a number.
    pub unit: String,
    /// Where the search began.
    pub begin: f64,
    /// Where it ended.
    pub fitted: f64,
}

/// A published cell beside the simulated one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellReport {
    /// Where it was published.
    pub table: String,
    /// Its row.
    pub row: String,
    /// Load in percent of the highest.
    pub load_percent: u32,
    /// As published: tail in % of that alone, or in µs where the row is "alone".
    pub published: f64,
    /// As simulated; none if nothing could be measured.
    pub simulated: Option<f64>,
    /// Simulated less published; of a lower bound, 0 where it is kept.
    pub error: Option<f64>,
    /// What counts as right.
    pub tolerance: f64,
    /// Whether the error is within the tolerance.
    pub held: bool,
}

/// A row that was not fitted on, as predicted by the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The row.
    pub row: String,
    /// Its cells.
    pub cells: Vec<CellReport>,
}

/// Everything about a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `quell.calibration/1`.
    pub schema: String,
    /// Free parameters.
    pub parameters: Vec<ParameterReport>,
    /// Cells that were fitted on.
    pub cells: Vec<CellReport>,
    /// Cells within their tolerance.
    pub cells_held: usize,
    /// Root of the mean square error over tolerance.
    pub rms_error_of_tolerance: f64,
    /// Rows predicted by a fit without them.
    pub left_out: Vec<LeftOut>,
    /// Public statements that were not fitted on.
    pub predictions: Vec<Prediction>,
    /// Fits on other sources' cells, each with parameters of its own.
    pub fits: Vec<FitReport>,
}

impl ParameterReport {
    pub(crate) const HEAD: &str = "| parameter | unit | begin | fitted |\n|---|---|---|---|\n";

    pub(crate) fn of(spec: &crate::ParameterSpec, fitted: f64) -> Self {
        Self { name: spec.name.into(), unit: spec.unit.into(), begin: spec.begin, fitted }
    }

    pub(crate) fn markdown(&self) -> String {
        format!("| {} | {} | {} | {:.4} |\n", self.name, self.unit, self.begin, self.fitted)
    }
}

impl CellReport {
    pub(crate) fn of(cell: &Cell, simulated: f64) -> Self {
        let error = cell.error(simulated);
        let there = simulated.is_finite();
        Self {
            table: cell.table.into(),
            row: cell.row.into(),
            load_percent: cell.load_percent,
            published: cell.published,
            simulated: there.then_some(simulated),
            error: there.then_some(error),
            tolerance: cell.tolerance(),
            held: there && error.abs() <= cell.tolerance(),
        }
    }
}

impl LeftOut {
    /// The largest error of its cells, in the cells' units.
    #[must_use]
    pub fn worst(&self) -> f64 {
        self.cells.iter().filter_map(|c| c.error).map(f64::abs).fold(0.0, f64::max)
    }
}

impl Report {
    pub(crate) fn new(
        guess: &Guess,
        cells: Vec<CellReport>,
        left_out: Vec<LeftOut>,
        predictions: Vec<Prediction>,
        fits: Vec<FitReport>,
    ) -> Self {
        let parameter =
            |(spec, fitted): (&crate::ParameterSpec, &f64)| ParameterReport::of(spec, *fitted);
        let off = |c: &CellReport| c.error.map_or(5.0, |e| e / c.tolerance);
        let square: f64 = cells.iter().map(|c| off(c) * off(c)).sum();
        Self {
            schema: "quell.calibration/1".into(),
            parameters: PARAMETERS.iter().zip(&guess.0).map(parameter).collect(),
            cells_held: cells.iter().filter(|c| c.held).count(),
            rms_error_of_tolerance: libm::sqrt(square / cells.len().max(1) as f64),
            cells,
            left_out,
            predictions,
            fits,
        }
    }

    /// As a table in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::from(ParameterReport::HEAD);
        self.parameters.iter().for_each(|p| text += &p.markdown());
        text += "\n| table | row | load % | published | simulated | error | within |\n";
        text += "|---|---|---|---|---|---|---|\n";
        self.cells.iter().for_each(|cell| text += &cell.markdown());
        for left in &self.left_out {
            text += &format!("\nWithout the row {}:\n\n", left.row);
            text += "| table | row | load % | published | simulated | error | within |\n";
            text += "|---|---|---|---|---|---|---|\n";
            left.cells.iter().for_each(|cell| text += &cell.markdown());
        }
        text +=
            "\n| source | prediction | published | simulated | within |\n|---|---|---|---|---|\n";
        for p in &self.predictions {
            let most = p.at_most.map_or(String::new(), |most| format!(" to {most}"));
            let simulated = p.simulated.map_or("–".into(), |s| format!("{s:.1}"));
            let held = if p.held { "yes" } else { "**no**" };
            let (source, what) = (&p.source, &p.what);
            text +=
                &format!("| {source} | {what} | {}{most} | {simulated} | {held} |\n", p.at_least);
        }
        self.fits.iter().for_each(|fit| text += &fit.markdown());
        text
    }
}

impl CellReport {
    fn markdown(&self) -> String {
        let number = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.0}"));
        let (simulated, error) = (number(self.simulated), number(self.error));
        let held = if self.held { "yes" } else { "**no**" };
        format!(
            "| {} | {} | {} | {} | {simulated} | {error} | {held} |\n",
            self.table, self.row, self.load_percent, self.published
        )
    }
}
