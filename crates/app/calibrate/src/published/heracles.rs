//! What Heracles tells of its three services beside antagonists, without figures (H-4 to H-6): who
//! is insensitive to what, and where it breaks its objective.
//!
//! As in its characterisation (H-5) a service has cores in proportion to its load, the antagonist
//! the rest. Its objective is taken to be its tail alone on those cores, so a cell is the tail
//! beside the antagonist in % of that. Words are bounds: *insensitive* at most 110 %, *over the
//! objective* at least 110 %, *severe* at least 150 %, *low load* 10 %, *eventually* 90 %. H-4 tells
//! besides which share of the memory's bandwidth each takes alone at full load. One of the two
//! sockets is simulated; the other is alike.

mod rig;

use super::MIB;
use crate::fit::{Fit, OpenCell};
use crate::guess::{ParameterSpec, free_parameter};
use quell_sim::calibrated::{HERACLES, HeraclesNumbers};
use rig::Rig;
pub(super) use rig::{Room, websearch_tail_s};
use std::collections::BTreeMap;

/// What runs beside a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Antagonist {
    Nobody,
    /// A sweep over so many percent of the cache.
    Cache(u32),
    Memory,
    Siblings,
    Power,
    Network,
    /// Batch of the lowest weight on the same CPUs: nothing but the scheduler between them.
    Floating,
}

/// By load in percent, the least and the most that is right.
type Bounds = (u32, Option<f64>, Option<f64>);

/// An antagonist with its row's name and its cells.
type Row = (&'static str, Antagonist, &'static [Bounds]);

const fn calm(load: u32) -> Bounds {
    (load, None, Some(110.0))
}

const fn over(load: u32) -> Bounds {
    (load, Some(110.0), None)
}

const fn severe(load: u32) -> Bounds {
    (load, Some(150.0), None)
}

/// Over three times the objective.
const fn broken(load: u32) -> Bounds {
    (load, Some(300.0), None)
}

use Antagonist::{Cache, Floating, Memory, Network, Nobody, Power, Siblings};

const OS_ONLY: Row = ("OS only", Floating, &[over(20), over(50), broken(90)]);

/// A service's name, its judged percentile, its share of the memory's bandwidth, its rows.
struct Told {
    name: &'static str,
    percentile: f64,
    bandwidth_percent: f64,
    rows: &'static [Row],
}

const TOLD: [Told; 3] = [
    Told {
        name: "websearch",
        percentile: 0.99,
        bandwidth_percent: 40.0,
        rows: &[
            ("LLC small", Cache(25), &[calm(20), calm(50), calm(80)]),
            ("LLC medium", Cache(50), &[calm(20), calm(50), calm(80)]),
            ("LLC big", Cache(95), &[over(20), over(50)]),
            ("DRAM", Memory, &[over(20), over(50)]),
            ("HyperThread", Siblings, &[calm(20), calm(50), calm(80), over(90)]),
            ("power", Power, &[over(10), calm(80)]),
            ("network", Network, &[calm(20), calm(50), calm(80)]),
            OS_ONLY,
        ],
    },
    Told {
        name: "ml_cluster",
        percentile: 0.95,
        bandwidth_percent: 60.0,
        rows: &[
            ("LLC small", Cache(25), &[calm(20), calm(50), over(80)]),
            ("LLC medium", Cache(50), &[calm(20), over(50), over(80)]),
            ("LLC big", Cache(95), &[severe(20), severe(50), severe(80)]),
            ("DRAM", Memory, &[severe(20), severe(50), severe(80)]),
            ("power", Power, &[calm(20), calm(50), calm(80)]),
            ("network", Network, &[calm(20), calm(50), calm(80)]),
            OS_ONLY,
        ],
    },
    Told {
        name: "memkeyval",
        percentile: 0.99,
        bandwidth_percent: 20.0,
        rows: &[
            ("LLC medium", Cache(50), &[over(20), calm(50), over(90)]),
            ("LLC big", Cache(95), &[over(20), over(50), over(80)]),
            ("DRAM", Memory, &[over(20), over(50), over(80)]),
            ("HyperThread", Siblings, &[calm(20), calm(50), over(90)]),
            ("power", Power, &[over(10)]),
            ("network", Network, &[over(20), over(50), over(80)]),
            OS_ONLY,
        ],
    },
];

/// Points of the objective, and of the memory's bandwidth.
const TOLERANCE: f64 = 10.0;
/// The load at which H-4's shares of bandwidth are looked at, in percent.
const FULL: u32 = 100;

/// The fit of one of the three services.
pub(crate) fn heracles(service: usize) -> Fit {
    let (told, numbers) = (&TOLD[service], &HERACLES[service]);
    let cell = |source, row: &str, at, unit, least, most| OpenCell {
        source,
        row: row.into(),
        at,
        unit,
        least,
        most,
        tolerance: TOLERANCE,
    };
    let of_row = |(row, _, bounds): &Row| {
        let at = |(load, least, most): &Bounds| {
            cell("H-6", row, format!("{load} % load"), "% of alone", *least, *most)
        };
        bounds.iter().map(at).collect::<Vec<_>>()
    };
    let mut cells: Vec<OpenCell> = told.rows.iter().flat_map(of_row).collect();
    let share = Some(told.bandwidth_percent);
    let at = "alone, full load".into();
    cells.push(cell("H-4", "bandwidth", at, "% of the memory's", share, share));
    Fit {
        name: told.name,
        parameters: parameters(told),
        shipped: values_of(numbers),
        cells,
        simulate: Box::new(move |values| simulate(told, &numbers_of(told.name, values))),
    }
}

/// Begins are those that the scenario H-E1 has for websearch. Of whom nothing is told beside
/// siblings, nothing is fitted of that.
fn parameters(told: &Told) -> Vec<ParameterSpec> {
    let mut parameters = vec![
        free_parameter("variation of work", "", 0.5, 0.0, 3.0),
        free_parameter("utilisation of its cores", "", 0.6, 0.1, 0.95),
        free_parameter("hot set", "MiB", 20.0, 0.5, 45.0),
        free_parameter("misses with it", "1/10^3 instructions", 10.0, 0.0, 100.0),
        free_parameter("misses that it saves", "1/10^3 instructions", 8.0, 0.0, 100.0),
    ];
    if told.rows.iter().any(|(_, antagonist, _)| *antagonist == Siblings) {
        parameters.push(free_parameter("speed beside a sibling", "", 0.9, 0.3, 1.0));
    }
    parameters
}

fn values_of(n: &HeraclesNumbers) -> Vec<f64> {
    let hot = n.hot_bytes / MIB;
    let values = [n.variation, n.utilisation, hot, n.least_mpki, n.saved_mpki];
    values.into_iter().chain(n.smt_speed).collect()
}

fn numbers_of(name: &'static str, values: &[f64]) -> HeraclesNumbers {
    HeraclesNumbers {
        name,
        variation: values[0],
        utilisation: values[1],
        hot_bytes: values[2] * MIB,
        least_mpki: values[3],
        saved_mpki: values[4],
        smt_speed: values.get(5).copied(),
    }
}

/// All cells of a service, in their order; what cannot be played is not a number.
fn simulate(told: &Told, numbers: &HeraclesNumbers) -> Vec<f64> {
    let rig = Rig::new(numbers);
    let mut alone = BTreeMap::new();
    let mut values = Vec::new();
    for (_, antagonist, bounds) in told.rows {
        for (load, ..) in *bounds {
            let tail = |beside| rig.tail_s(*load, beside, told.percentile);
            let alone = *alone.entry(*load).or_insert_with(|| tail(Nobody));
            let beside = tail(*antagonist);
            values.push(match (beside, alone) {
                (Some(beside), Some(alone)) => 100.0 * beside / alone,
                _ => f64::NAN,
            });
        }
    }
    values.push(rig.bandwidth_percent(FULL).unwrap_or(f64::NAN));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_at_most_a_third_of_the_cells_and_numbers_come_back() {
        for (service, shipped) in HERACLES.iter().enumerate() {
            let fit = heracles(service);
            let (parameters, cells) = (fit.parameters.len(), fit.cells.len());
            assert!(3 * parameters <= cells, "{}: {parameters} for {cells}", fit.name);
            assert_eq!(fit.parameters.len(), fit.shipped.len());
            let again = numbers_of(fit.name, &fit.shipped);
            assert!((again.hot_bytes - shipped.hot_bytes).abs() < 1.0);
            assert_eq!(HeraclesNumbers { hot_bytes: shipped.hot_bytes, ..again }, *shipped);
        }
    }
}
