//! The report of a fault run.

use crate::{Cell, Coverage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `quell.faults/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultReport {
    /// `quell.faults/1`.
    pub schema: String,
    /// Simulated hours.
    pub hours: f64,
    /// Faults that came about.
    pub faults: u64,
    /// Episodes that were played.
    pub episodes: u64,
    /// Kinds of fault × write sites.
    pub sites: usize,
    /// How many of them met.
    pub sites_covered: usize,
    /// Episodes in which an invariant did not hold.
    pub broken: usize,
    /// Episodes that ended with a CPU set that could not go back, since other programs gave one of
    /// its CPUs to another group and sets must not overlap.
    #[serde(default)]
    pub barred: usize,
    /// Those episodes.
    pub broken_seeds: Vec<BrokenSeed>,
    /// Each kind at each site.
    pub cells: Vec<CellCount>,
}

/// An episode in which an invariant did not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenSeed {
    /// With which it is played again.
    pub seed: u64,
    /// The law that guarded.
    pub law: String,
    /// When, in seconds of the episode.
    pub at_s: f64,
    /// What did not hold.
    pub what: String,
}

/// How often a kind of fault met a write site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellCount {
    /// The kind of fault.
    pub fault: String,
    /// The write site.
    pub site: String,
    /// How often.
    pub times: u64,
}

impl std::fmt::Display for BrokenSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} at {:.2} s: {}", self.seed, self.law, self.at_s, self.what)
    }
}

impl FaultReport {
    pub(crate) fn new(
        seconds: f64,
        (episodes, faults): (u64, u64),
        coverage: &Coverage,
        broken_seeds: Vec<BrokenSeed>,
    ) -> Self {
        let cells = Cell::all();
        let count = |cell: &Cell| CellCount {
            fault: cell.kind.to_string(),
            site: cell.site.to_string(),
            times: coverage.of(*cell),
        };
        Self {
            schema: "quell.faults/1".into(),
            hours: seconds / 3600.0,
            faults,
            episodes,
            sites: cells.len(),
            sites_covered: coverage.covered(),
            broken: broken_seeds.len(),
            barred: 0,
            broken_seeds,
            cells: cells.iter().map(count).collect(),
        }
    }
}
