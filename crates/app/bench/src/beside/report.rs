//! Real, simulated, difference.

use crate::machine::quartiles;
use quell_view::{Cell, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Name and version of the JSON.
pub const BESIDE_SCHEMA: &str = "quell.beside/1";
/// A simulated figure should be off by no more than this share of the real one.
const WANTED: f64 = 0.2;

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A pointer chase beside pressure on caches and memory.
    Chase,
    /// The service `search` beside the same.
    Search,
    /// An integer loop under `cpu.max`.
    Quota,
    /// Bulk senders under an HTB ceiling.
    Egress,
    /// The service `search` beside batch under control laws.
    Guard,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BesideRow {
    /// Of which part.
    pub part: Part,
    /// What it is.
    pub what: String,
    /// Its unit; empty where it is a ratio.
    pub unit: String,
    /// Rounds that gave a number.
    pub rounds: usize,
    /// On the machine: a quarter of the rounds lies below.
    pub real_low: f64,
    /// On the machine: the median of the rounds.
    pub real: f64,
    /// On the machine: a quarter lies above.
    pub real_high: f64,
    /// In the preset; null if it could not be played.
    pub simulated: Option<f64>,
    /// Simulated over real, less 1; 0 where they are the same, also where both are 0.
    pub difference_frac: Option<f64>,
    /// Whether the difference is within the wanted 0.2.
    pub within: bool,
    /// Whether the preset was fitted on a figure of this kind.
    pub fitted: bool,
}

/// What the preset is told of the service: how its requests are when it is alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchAlone {
    /// Mean work of a request in seconds.
    pub work_s: f64,
    /// Coefficient of variation of that.
    pub variation: f64,
}

/// What the preset is told of part `guard`: how the service is alone, what was asked of it and for
/// how long. It is told nothing of what happened under any law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardTold {
    /// The highest rate that the service sustained alone, in requests/s.
    pub peak_qps: f64,
    /// Its objective in milliseconds.
    pub slo_ms: f64,
    /// The percentile of the objective: 50, 95 or 99.
    pub slo_percentile: f64,
    /// Its workers, one a CPU.
    pub workers: u32,
    /// Coefficient of variation of a request's work.
    pub variation: f64,
    /// How long a law that does not adapt was given before it was measured, in seconds.
    pub settle_s: f64,
    /// How long one that adapts was given.
    pub adapt_s: f64,
    /// How long a law was measured in a round, in seconds; the median.
    pub measured_s: f64,
    /// The service alone, at each load.
    pub loads: Vec<GuardLoad>,
}

/// The service alone at one load; medians over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardLoad {
    /// As a share of the peak.
    pub load_frac: f64,
    /// CPU time of a request in seconds, that of the network included.
    pub work_s: f64,
    /// CPU time of the load generator, in CPUs.
    pub generator_cpus: f64,
}

/// All figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BesideReport {
    /// `quell.beside/1`.
    pub schema: String,
    /// The real machine's processor.
    pub processor: String,
    /// The preset.
    pub preset: String,
    /// A core's private cache as the machine tells, in bytes.
    pub l2_bytes: u64,
    /// Its last-level cache as it tells, in bytes.
    pub llc_bytes: u64,
    /// Interleaved rounds of each part.
    pub rounds: u32,
    /// What the preset was told of the service; null if that part was not run.
    pub search_alone: Option<SearchAlone>,
    /// What the preset was told of the guarded service; null if that part was not run.
    #[serde(default)]
    pub guard_told: Option<GuardTold>,
    /// The figures.
    pub rows: Vec<BesideRow>,
    /// Of those that the preset was not fitted on, within the wanted difference.
    pub held: usize,
    /// Those that the preset was not fitted on.
    pub judged: usize,
}

/// Figures as they come in, round by round.
#[derive(Debug, Default)]
pub(super) struct Rows(Vec<Row>);

#[derive(Debug)]
struct Row {
    what: String,
    unit: &'static str,
    fitted: bool,
    seen: Vec<f64>,
}

impl Rows {
    /// One number of one round.
    pub(super) fn see(&mut self, what: &str, unit: &'static str, fitted: bool, value: f64) {
        match self.0.iter_mut().find(|row| row.what == what) {
            Some(row) => row.seen.push(value),
            None => {
                let what = what.to_owned();
                self.0.push(Row { what, unit, fitted, seen: vec![value] });
            }
        }
    }

    /// Medians and quartiles; nothing simulated yet.
    pub(super) fn of(self, part: Part) -> Vec<BesideRow> {
        let one = |row: Row| {
            let rounds = row.seen.iter().filter(|value| value.is_finite()).count();
            let [low, real, high] = quartiles(row.seen)?;
            Some(BesideRow {
                part,
                what: row.what,
                unit: row.unit.into(),
                rounds,
                real_low: low,
                real,
                real_high: high,
                simulated: None,
                difference_frac: None,
                within: false,
                fitted: row.fitted,
            })
        };
        self.0.into_iter().filter_map(one).collect()
    }
}

impl BesideRow {
    fn simulated(self, simulated: Option<f64>) -> Self {
        let simulated = simulated.filter(|value| value.is_finite());
        let difference = simulated.map(|s| difference(self.real, s)).filter(|d| d.is_finite());
        let within = difference.is_some_and(|d| d.abs() <= WANTED);
        Self { simulated, difference_frac: difference, within, ..self }
    }
}

fn difference(real: f64, simulated: f64) -> f64 {
    if real == simulated { 0.0 } else { simulated / real - 1.0 }
}

impl BesideReport {
    /// With what the preset says of each figure.
    pub(super) fn with(mut self, simulated: &mut dyn FnMut(&BesideRow) -> Option<f64>) -> Self {
        let one = |row: BesideRow| {
            let simulated = simulated(&row);
            row.simulated(simulated)
        };
        self.rows = self.rows.into_iter().map(one).collect();
        let judged = self.rows.iter().filter(|row| !row.fitted);
        self.held = judged.clone().filter(|row| row.within).count();
        self.judged = judged.count();
        self
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let title = format!("{} beside the preset {}", self.processor, self.preset);
        let columns = [
            "part",
            "figure",
            "unit",
            "real>",
            "quartiles",
            "simulated>",
            "difference %>",
            "within",
        ];
        let mut table = Table::new(title, &columns);
        for row in &self.rows {
            let missing = || Cell::Missing("the preset could not play it".to_owned());
            let digits = if row.real < 10.0 { 2 } else { 1 };
            table.push([
                row.part.name().into(),
                row.what.as_str().into(),
                row.unit.as_str().into(),
                Cell::number(row.real, digits),
                format!("{:.2}–{:.2}", row.real_low, row.real_high).into(),
                row.simulated.map_or_else(missing, |s| Cell::number(s, digits)),
                row.difference_frac.map_or_else(missing, |d| Cell::number(100.0 * d, 0)),
                verdict(row).into(),
            ]);
        }
        let (held, judged) = (self.held, self.judged);
        table.notes.push(format!(
            "{held} of {judged} figures that the preset was not fitted on are within 20 %; medians \
             of {} interleaved rounds",
            self.rounds
        ));
        table
    }
}

fn verdict(row: &BesideRow) -> &'static str {
    match (row.fitted, row.within) {
        (true, true) => "yes, fitted",
        (true, false) => "no, though fitted",
        (false, true) => "yes",
        (false, false) => "no",
    }
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [Part::Chase, Part::Search, Part::Quota, Part::Egress, Part::Guard];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Chase => "chase",
            Part::Search => "search",
            Part::Quota => "quota",
            Part::Egress => "egress",
            Part::Guard => "guard",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Part::name).join(", ");
        let found = Self::ALL.into_iter().find(|part| part.name() == text);
        found.ok_or_else(|| format!("`{text}` is no part; there are {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_were_fitted_on_are_shown_but_not_counted() {
        let mut rows = Rows::default();
        for value in [2.0, 1.0, f64::NAN, 3.0] {
            rows.see("a", "", false, value);
        }
        rows.see("b", "", true, 1.0);
        rows.see("c", "", false, 1.0);
        let report = BesideReport {
            schema: BESIDE_SCHEMA.into(),
            processor: "cpu".into(),
            preset: "vm2-xeon".into(),
            l2_bytes: 1,
            llc_bytes: 2,
            rounds: 4,
            search_alone: None,
            guard_told: None,
            rows: rows.of(Part::Chase),
            held: 0,
            judged: 0,
        };
        let report = report.with(&mut |row| match row.what.as_str() {
            "a" => Some(2.3),
            "b" => Some(1.0),
            _ => None,
        });
        assert_eq!((report.held, report.judged, report.rows.len()), (1, 2, 3));
        assert_eq!((report.rows[0].real, report.rows[0].rounds), (2.0, 3));
        assert!((report.rows[0].difference_frac.unwrap() - 0.15).abs() < 1e-9);
        assert!(!report.rows[2].within, "what could not be played is not right");
        assert!(report.table().to_text().contains("1 of 2 figures"));
    }

    #[test]
    fn nothing_on_both_sides_is_no_difference() {
        assert_eq!(difference(0.0, 0.0), 0.0);
        assert!(!difference(0.0, 0.1).is_finite());
        assert!((difference(2.0, 1.0) + 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_report_from_before_there_was_a_part_is_still_read() {
        let old = include_str!("../../../../../docs/experiments/beside-vm2.json");
        let mut old: serde_json::Value = serde_json::from_str(old).unwrap();
        old.as_object_mut().unwrap().remove("guard_told");
        let report: BesideReport = serde_json::from_value(old).unwrap();
        assert!(report.guard_told.is_none() && !report.rows.is_empty());
    }

    #[test]
    fn names_lead_back_to_parts() {
        for part in Part::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert!("disk".parse::<Part>().unwrap_err().contains("quota"));
    }
}
