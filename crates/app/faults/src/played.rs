//! What an episode came to.

use crate::Coverage;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// When, in seconds of the episode.
    pub at_s: f64,
    /// What did not hold: the invariant's name, a colon, details.
    pub what: String,
    /// What went wrong until then, in order.
    pub thrown: Vec<String>,
}

/// What an episode came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// Of the episode.
    pub seed: u64,
    /// The law that guarded.
    pub law: &'static str,
    /// Simulated seconds.
    pub seconds: f64,
    /// Faults that came about.
    pub faults: u64,
    /// Which, where.
    pub coverage: Coverage,
    /// Whether it ended with a CPU set that could not go back, since other programs gave one of
    /// its CPUs to another group and sets must not overlap.
    pub barred: bool,
    /// What did not hold, if anything.
    pub broken: Option<Broken>,
}

/// How an episode came out.
pub(crate) struct Outcome {
    /// What did not hold, if anything.
    pub(crate) broken: Option<String>,
    /// See [`Played::barred`].
    pub(crate) barred: bool,
}

impl Outcome {
    pub(crate) fn broken(what: String) -> Self {
        Self { broken: Some(what), barred: false }
    }
}
