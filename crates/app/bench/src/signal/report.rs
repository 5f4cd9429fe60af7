//! What was seen, as figures and in words.

use super::Cause;
use super::turns::Outcome;
use crate::machine::quartiles;
use anyhow::Context as _;
use quell_view::{Cell, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name and version of the JSON.
pub const SIGNAL_SCHEMA: &str = "quell.signal/1";

/// Median and quartiles over pairs of adjacent turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quartiles {
    /// A quarter lies below.
    pub low: f64,
    /// Half lies below.
    pub median: f64,
    /// A quarter lies above.
    pub high: f64,
}

/// One cause. Ratios are those of a turn in which it was on over an adjacent one in which it was
/// off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalRow {
    /// Which.
    pub cause: Cause,
    /// Pairs of turns that were compared.
    pub pairs: usize,
    /// CPU time per answered request; none without pairs.
    pub cpu_per_request_ratio: Option<Quartiles>,
    /// Time that the service's threads were ready and had no CPU, for each answered request; none
    /// without pairs.
    #[serde(default)]
    pub wait_per_request_ratio: Option<Quartiles>,
    /// Mean sojourn from the scheduled arrival; none without pairs.
    pub sojourn_ratio: Option<Quartiles>,
    /// Answered requests per second; none without pairs.
    pub rate_ratio: Option<Quartiles>,
}

/// All causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalReport {
    /// `quell.signal/1`.
    pub schema: String,
    /// The service.
    pub service: String,
    /// Whether idle-class loops kept the CPUs awake in all turns.
    pub cpus_kept_awake: bool,
    /// CPU time of a request at a low rate, before anything else.
    pub cpu_per_request_us: f64,
    /// A cache reporter beside a stream on another CPU over that alone. Near 1: the CPUs shared no
    /// cache. Null if it was not measured.
    pub neighbour_slowdown_ratio: Option<f64>,
    /// One entry for each cause.
    pub rows: Vec<SignalRow>,
}

impl Quartiles {
    fn of(values: Vec<f64>) -> Option<Self> {
        let [low, median, high] = quartiles(values)?;
        Some(Self { low, median, high })
    }

    fn in_words(self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.low, self.high)
    }
}

impl SignalRow {
    pub(super) fn of(cause: Cause, pairs: &[(Outcome, Outcome)]) -> Self {
        let ratio = |value: fn(&Outcome) -> f64| {
            Quartiles::of(pairs.iter().map(|(on, off)| value(on) / value(off)).collect())
        };
        Self {
            cause,
            pairs: pairs.len(),
            cpu_per_request_ratio: ratio(|outcome| outcome.cpu_per_request_s),
            wait_per_request_ratio: ratio(|outcome| outcome.wait_per_request_s),
            sojourn_ratio: ratio(|outcome| outcome.sojourn_ms),
            rate_ratio: ratio(|outcome| outcome.qps),
        }
    }

    pub(super) fn in_words(&self) -> String {
        let words = |ratio: Option<Quartiles>| ratio.map_or("-".into(), Quartiles::in_words);
        format!(
            "{}: CPU time per request {}, wait for a CPU {}, sojourn {}, {} pairs",
            self.cause,
            words(self.cpu_per_request_ratio),
            words(self.wait_per_request_ratio),
            words(self.sojourn_ratio),
            self.pairs
        )
    }
}

impl SignalReport {
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// As a table: medians with quartiles.
    #[must_use]
    pub fn table(&self) -> Table {
        let columns =
            ["cause", "CPU time per request", "wait for a CPU", "sojourn", "rate", "pairs>"];
        let mut table = Table::new("With the cause over without it", &columns);
        let cell = |ratio: Option<Quartiles>| match ratio {
            Some(ratio) => Cell::from(ratio.in_words()),
            None => Cell::Missing("nothing was answered in these turns".to_owned()),
        };
        for row in &self.rows {
            let ratios = [
                row.cpu_per_request_ratio,
                row.wait_per_request_ratio,
                row.sojourn_ratio,
                row.rate_ratio,
            ];
            let ends = (Cell::from(row.cause.name()), Cell::number(row.pairs as f64, 0));
            let [cpu, wait, sojourn, rate] = ratios.map(cell);
            table.push([ends.0, cpu, wait, sojourn, rate, ends.1]);
        }
        if let Some(ratio) = self.neighbour_slowdown_ratio {
            let note = format!("a stream on another CPU slows cache accesses {ratio:.2} times");
            table.notes.push(note);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_leave_out_what_is_no_number() {
        let of = |values: &[f64]| Quartiles::of(values.to_vec());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[f64::NAN]), None);
        let all = of(&[5.0, 1.0, f64::INFINITY, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!((all.low, all.median, all.high), (2.0, 3.0, 4.0));
    }

    #[test]
    fn a_row_is_on_over_off() {
        let outcome = |cpu_per_request_s, sojourn_ms| Outcome {
            cpu_per_request_s,
            wait_per_request_s: sojourn_ms,
            sojourn_ms,
            qps: 100.0,
        };
        let row = SignalRow::of(Cause::Cpu, &[(outcome(2.0, 9.0), outcome(1.0, 3.0))]);
        assert_eq!(row.cpu_per_request_ratio.map(|q| q.median), Some(2.0));
        assert_eq!(row.sojourn_ratio.map(|q| q.median), Some(3.0));
        assert!(row.in_words().contains("sojourn 3.00"), "{}", row.in_words());
    }
}
