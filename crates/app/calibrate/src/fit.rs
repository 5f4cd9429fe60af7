//! A fit of its own: a few parameters, the cells that they are fitted on, and a simulator of those.

use crate::guess::ParameterSpec;
use crate::report::ParameterReport;
use crate::search::{Problem, Search, mean_square, minimise};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number that somebody else found, or bounds of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenCell {
    pub(crate) source: &'static str,
    pub(crate) row: String,
    pub(crate) at: String,
    pub(crate) unit: &'static str,
    /// The least that is right; none = there is no bound.
    pub(crate) least: Option<f64>,
    /// The most that is right.
    pub(crate) most: Option<f64>,
    /// How far beyond still counts as right.
    pub(crate) tolerance: f64,
}

impl OpenCell {
    /// How far a simulated value is beyond the bounds.
    fn error(&self, simulated: f64) -> f64 {
        let below = self.least.map_or(0.0, |least| (simulated - least).min(0.0));
        let above = self.most.map_or(0.0, |most| (simulated - most).max(0.0));
        if simulated.is_finite() { below + above } else { f64::NAN }
    }
}

/// Cells by the values of the parameters, all of them in order.
type Simulate = Box<dyn Fn(&[f64]) -> Vec<f64>>;

/// Parameters, cells, and what makes one of the other.
pub(crate) struct Fit {
    pub(crate) name: &'static str,
    pub(crate) parameters: Vec<ParameterSpec>,
    /// The values with which the simulator comes.
    pub(crate) shipped: Vec<f64>,
    pub(crate) cells: Vec<OpenCell>,
    pub(crate) simulate: Simulate,
}

/// A cell beside the simulated one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitCell {
    /// Where the number comes from.
    pub source: String,
    /// What it is about.
    pub row: String,
    /// Under which conditions.
    pub at: String,
    /// Its unit; empty where it is a share or a ratio.
    pub unit: String,
    /// The least that is right; the same as `most` where one number was published. Null = no bound.
    pub least: Option<f64>,
    /// The most that is right. Null = no bound.
    pub most: Option<f64>,
    /// As simulated; null if nothing could be measured.
    pub simulated: Option<f64>,
    /// How far that is beyond the bounds, in the cell's unit.
    pub error: Option<f64>,
    /// How far beyond still counts as right.
    pub tolerance: f64,
    /// Whether it is right.
    pub held: bool,
}

/// A row that was not fitted on, as predicted by the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutRow {
    /// The row.
    pub row: String,
    /// Its cells.
    pub cells: Vec<FitCell>,
}

/// What came of a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitReport {
    /// Its name.
    pub name: String,
    /// Free parameters.
    pub parameters: Vec<ParameterReport>,
    /// Cells that were fitted on.
    pub cells: Vec<FitCell>,
    /// Of these, right.
    pub cells_held: usize,
    /// Root of the mean square error over tolerance.
    pub rms_error_of_tolerance: f64,
    /// Rows predicted by a fit without them.
    pub left_out: Vec<LeftOutRow>,
}

impl Fit {
    /// From the begins of the parameters, or from other values; `without` is a row to leave out.
    pub(crate) fn search(
        &self,
        mut values: Vec<f64>,
        search: Search,
        without: Option<&str>,
        progress: &mut dyn FnMut(&str),
    ) -> Vec<f64> {
        let mut objective = |values: &[f64]| self.objective(values, without);
        let mut problem = Problem {
            name: self.name,
            parameters: &self.parameters,
            free: (0..self.parameters.len()).collect(),
            objective: &mut objective,
        };
        minimise(&mut problem, &mut values, search, progress);
        values
    }

    fn objective(&self, values: &[f64], without: Option<&str>) -> f64 {
        let simulated = (self.simulate)(values);
        let cells = self.cells.iter().zip(&simulated);
        let kept = cells.filter(|(cell, _)| Some(cell.row.as_str()) != without);
        mean_square(kept.map(|(cell, value)| cell.error(*value) / cell.tolerance))
    }

    pub(crate) fn begin(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.begin).collect()
    }

    /// Fits again without each row, from what all rows gave, and predicts it.
    pub(crate) fn leave_out(
        &self,
        values: &[f64],
        passes: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Vec<LeftOutRow> {
        if passes == 0 {
            return Vec::new();
        }
        let mut rows: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !rows.contains(&cell.row.as_str()) {
                rows.push(&cell.row);
            }
        }
        let search = Search { passes, step: 0.1, pairs: false };
        let mut predict = |row: &&str| {
            let without = self.search(values.to_vec(), search, Some(row), &mut |_| {});
            progress(&format!("{}: without {row}", self.name));
            let cells = self.judge(&without);
            let of_row = cells.into_iter().filter(|cell| cell.row == **row);
            LeftOutRow { row: (*row).to_owned(), cells: of_row.collect() }
        };
        rows.iter().map(&mut predict).collect()
    }

    /// All cells beside the simulated ones.
    fn judge(&self, values: &[f64]) -> Vec<FitCell> {
        let simulated = (self.simulate)(values);
        self.cells.iter().zip(&simulated).map(|(cell, value)| FitCell::of(cell, *value)).collect()
    }

    pub(crate) fn report(&self, values: &[f64], left_out: Vec<LeftOutRow>) -> FitReport {
        let cells = self.judge(values);
        let off = cells.iter().map(|c| c.error.map_or(f64::NAN, |e| e / c.tolerance));
        let parameters = self.parameters.iter().zip(values);
        FitReport {
            name: self.name.into(),
            parameters: parameters
                .map(|(spec, fitted)| ParameterReport::of(spec, *fitted))
                .collect(),
            cells_held: cells.iter().filter(|c| c.held).count(),
            rms_error_of_tolerance: libm::sqrt(mean_square(off)),
            cells,
            left_out,
        }
    }
}

impl FitCell {
    fn of(cell: &OpenCell, simulated: f64) -> Self {
        let there = simulated.is_finite();
        let error = cell.error(simulated);
        Self {
            source: cell.source.into(),
            row: cell.row.clone(),
            at: cell.at.clone(),
            unit: cell.unit.into(),
            least: cell.least,
            most: cell.most,
            simulated: there.then_some(simulated),
            error: there.then_some(error),
            tolerance: cell.tolerance,
            held: there && error.abs() <= cell.tolerance,
        }
    }

    fn markdown(&self) -> String {
        let number = |value: f64| match value.abs() {
            v if v >= 100.0 => format!("{value:.0}"),
            v if v >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        let found = match (self.least, self.most) {
            (Some(least), Some(most)) if least == most => number(least),
            (Some(least), Some(most)) => format!("{} to {}", number(least), number(most)),
            (Some(least), None) => format!("≥ {}", number(least)),
            (None, Some(most)) => format!("≤ {}", number(most)),
            (None, None) => "–".into(),
        };
        let shown = |value: Option<f64>| value.map_or("–".into(), number);
        let (simulated, error) = (shown(self.simulated), shown(self.error));
        let held = if self.held { "yes" } else { "**no**" };
        format!(
            "| {} | {} | {} | {found} | {simulated} | {error} | {} | {held} |\n",
            self.source, self.row, self.at, self.unit
        )
    }
}

impl FitReport {
    /// As tables in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let head = "| source | row | at | found | simulated | error | unit | within |\n\
                    |---|---|---|---|---|---|---|---|\n";
        let mut text = format!("\n## {}\n\n{}", self.name, ParameterReport::HEAD);
        self.parameters.iter().for_each(|p| text += &p.markdown());
        text += &format!("\n{head}");
        self.cells.iter().for_each(|cell| text += &cell.markdown());
        for left in &self.left_out {
            text += &format!("\nWithout the row {}:\n\n{head}", left.row);
            left.cells.iter().for_each(|cell| text += &cell.markdown());
        }
        let (held, all) = (self.cells_held, self.cells.len());
        text + &format!("\n{}: {held} of {all} cells within tolerance\n", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_one_sided_where_one_side_is_open() {
        let cell = |least, most| OpenCell {
            source: "",
            row: String::new(),
            at: String::new(),
            unit: "",
            least,
            most,
            tolerance: 0.1,
        };
        assert_eq!(cell(Some(2.0), None).error(9.0), 0.0);
        assert_eq!(cell(Some(2.0), None).error(1.5), -0.5);
        assert_eq!(cell(Some(2.0), Some(2.0)).error(2.5), 0.5);
        assert!(cell(None, Some(1.0)).error(f64::NAN).is_nan());
        assert!(!FitCell::of(&cell(None, None), f64::INFINITY).held);
    }
}
