//! Public statements that were not fitted on: the simulator's word against them.

use crate::bench::{Bench, Run, SECOND_HOST};
use crate::cells::{Beside, Service};
use crate::guess::Guess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A statement and what the simulator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Where it stands.
    pub source: String,
    /// What it is about, with its unit.
    pub what: String,
    /// The least that it allows.
    pub at_least: f64,
    /// The most that it allows; none = no bound.
    pub at_most: Option<f64>,
    /// As simulated.
    pub simulated: Option<f64>,
    /// Whether that is within.
    pub held: bool,
}

/// All public statements about the second host, and the shape of H-7.
pub(crate) fn predictions(guess: &Guess, requests: u32) -> Vec<Prediction> {
    let bench = Bench::new(requests);
    let run = |load, beside| {
        let run = Run { service: Service::Xapian, load, beside, link: None };
        bench.run(guess, SECOND_HOST, run)
    };
    let alone = |load| run(load, Beside::Nobody);
    let megabytes = |m: crate::bench::Measured| m.memory_bytes_per_s / 1e6;
    let mut all = vec![
        of("T-25", "xapian alone, 100 % load: p95 in ms", 10.0, None, alone(100), |m| {
            m.tail_s * 1e3
        }),
        of("T-E4", "xapian alone, 20 % load: memory MB/s", 0.0, Some(200.0), alone(20), megabytes),
        of(
            "T-E4",
            "xapian and stream-dram, 20 % load: memory MB/s",
            10_000.0,
            Some(40_000.0),
            run(20, Beside::Memory),
            megabytes,
        ),
    ];
    all.extend(crate::published::shape());
    all
}

fn of(
    source: &str,
    what: &str,
    at_least: f64,
    at_most: Option<f64>,
    measured: Option<crate::bench::Measured>,
    figure: impl Fn(crate::bench::Measured) -> f64,
) -> Prediction {
    let simulated = measured.map(figure);
    let within = |s: f64| s >= at_least && at_most.is_none_or(|most| s <= most);
    Prediction {
        source: source.into(),
        what: what.into(),
        at_least,
        at_most,
        simulated,
        held: simulated.is_some_and(within),
    }
}
