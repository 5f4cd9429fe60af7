//! The states of Virtual Platforms: intensity and memory factor of three programs, alone and beside
//! pressure on the last-level cache (V-5, V-6, V-7, V-E3).
//!
//! What is published are classes, so cells are bounds: intensity in misses of the last-level cache
//! for 1000 instructions, memory factor as the share of its accesses that miss.

use super::{MIB, Progress, beside, machine};
use crate::fit::{Fit, OpenCell};
use crate::guess::free_parameter;
use quell_sim::calibrated::{STATES, StateNumbers};
use quell_sim::{MissCurve, Phase, Program, program};
use std::time::Duration;

type Bounds = (Option<f64>, Option<f64>);

/// 2 to 15 misses for 1000 instructions, and more.
const TERRIER: Bounds = (Some(2.0), Some(15.0));
const BULLDOG: Bounds = (Some(15.0), None);
const LOW: Bounds = (None, Some(0.25));
const MID: Bounds = (Some(0.25), Some(0.6));
const HIGH: Bounds = (Some(0.6), None);

/// Program, whether it is pressed, intensity, memory factor: Mcf 1 to 5, Voldemort 5 to 8, Milc 8
/// and there to stay; MatrixMult in 1 or 2 alone.
const STATES_SEEN: [(&str, bool, Bounds, Bounds); 7] = [
    ("mcf", false, TERRIER, LOW),
    ("mcf", true, BULLDOG, MID),
    ("voldemort", false, BULLDOG, MID),
    ("voldemort", true, BULLDOG, HIGH),
    ("milc", false, BULLDOG, HIGH),
    ("milc", true, BULLDOG, HIGH),
    ("matrixmult", false, (Some(2.0), None), LOW),
];

/// 5 % of the lowest bounds, the hysteresis of V-5.
const INTENSITY_TOLERANCE: f64 = 0.1;
const FACTOR_TOLERANCE: f64 = 0.0125;
/// What a hot set cannot help, of all accesses; assumed.
const LEAST_FRAC: f64 = 0.1;
/// Threads that press, on cores of the same cache.
const PRESSING: u32 = 4;

/// The programs' numbers on the published classes.
pub(crate) fn states() -> Fit {
    let mut cells = Vec::new();
    for (name, pressed, intensity, factor) in STATES_SEEN {
        let at = if pressed { "beside pressure on the LLC" } else { "alone" };
        let cell = |unit, (least, most): Bounds, tolerance| OpenCell {
            source: "V-5, V-E3",
            row: name.into(),
            at: at.into(),
            unit,
            least,
            most,
            tolerance,
        };
        cells.push(cell("misses/10^3 instructions", intensity, INTENSITY_TOLERANCE));
        cells.push(cell("of accesses miss", factor, FACTOR_TOLERANCE));
    }
    Fit {
        name: "states of Virtual Platforms",
        parameters: vec![
            free_parameter("mcf: accesses", "1/10^3 instructions", 100.0, 2.0, 300.0),
            free_parameter("mcf: hot set", "MiB", 5.0, 1.0, 100.0),
            free_parameter("voldemort: accesses", "1/10^3 instructions", 40.0, 2.0, 300.0),
            free_parameter("voldemort: hot set", "MiB", 30.0, 1.0, 100.0),
        ],
        shipped: vec![
            STATES.mcf_apki,
            STATES.mcf_hot_bytes / MIB,
            STATES.voldemort_apki,
            STATES.voldemort_hot_bytes / MIB,
        ],
        cells,
        simulate: Box::new(simulate),
    }
}

fn simulate(values: &[f64]) -> Vec<f64> {
    let numbers = StateNumbers {
        mcf_apki: values[0],
        mcf_hot_bytes: values[1] * MIB,
        voldemort_apki: values[2],
        voldemort_hot_bytes: values[3] * MIB,
    };
    let of = |(name, pressed, _, _): &(&str, bool, Bounds, Bounds)| {
        let (apki, program) = made(name, &numbers);
        let seen = run(&program, *pressed).map_or(f64::NAN, |progress| progress.mpki);
        [seen, seen / apki]
    };
    STATES_SEEN.iter().flat_map(of).collect()
}

/// A program's accesses for 1000 instructions, and the program.
fn made(name: &str, numbers: &StateNumbers) -> (f64, Program) {
    let (apki, hot_bytes) = match name {
        "mcf" => (numbers.mcf_apki, numbers.mcf_hot_bytes),
        "voldemort" => (numbers.voldemort_apki, numbers.voldemort_hot_bytes),
        // Assumed: Milc sweeps far more than a cache, MatrixMult works in blocks.
        "milc" => (25.0, 1024.0 * MIB),
        _ => (30.0, 6.0 * MIB),
    };
    let phase = Phase {
        llc_apki: apki,
        llc_misses: MissCurve::linear(hot_bytes, apki, LEAST_FRAC * apki),
        working_set_bytes: hot_bytes,
        overlap: 2.0,
        ..Phase::default()
    };
    let plain = program("integer").unwrap_or_else(|| unreachable!("a program of ours"));
    (apki, Program { name: name.into(), phases: vec![phase], ..plain })
}

fn run(program: &Program, pressed: bool) -> Option<Progress> {
    let machine = machine("westmere4");
    let sweep = Program { threads: PRESSING, ..Program::stream_of(machine.cache.bytes) };
    let others = if pressed { vec![sweep] } else { vec![] };
    beside(&machine, program, &others, (Duration::from_secs(5), Duration::from_secs(2)))
}
