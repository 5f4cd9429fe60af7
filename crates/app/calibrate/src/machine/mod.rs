//! A machine of two CPUs by its own word: pointer chases and streams, measured on it and simulated.
//!
//! `quell simulate --measure-machine FILE` writes what was measured. The preset `vm2-xeon` is fitted
//! on one such file; services are not in it, so what the preset says of them is a prediction.

mod twin;

pub use twin::{Twin, pair_rate};

use crate::fit::{Fit, OpenCell};
use crate::guess::{ParameterSpec, free_parameter};
use quell_sim::calibrated::{MachineNumbers, VM2_XEON};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the JSON.
pub const MACHINE_SCHEMA: &str = "quell.machine/1";

/// On which the preset was fitted.
const MEASURED: &str = include_str!("../../../../../docs/experiments/machine-vm2.json");
/// What counts as right, as a share of what was measured.
const TOLERANCE: f64 = 0.2;
const MIB: f64 = 1_048_576.0;

/// What was measured of a program on the first CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MachineFigure {
    /// Nanoseconds of a dependent access at random.
    ChaseNs,
    /// Bytes/s that a stream reads and writes.
    StreamBytesPerS,
    /// Accesses/s of the kernel that presses on the last-level cache.
    ScatterPerS,
}

/// What ran on the second CPU meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Neighbour {
    /// Nothing.
    Nobody,
    /// A stream through memory.
    Stream,
    /// Accesses at random over the whole last-level cache.
    Scatter,
}

/// One number, with quartiles over rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCell {
    /// What was measured, and in which unit.
    pub figure: MachineFigure,
    /// Beside what.
    pub beside: Neighbour,
    /// Bytes that were chased through; null for others.
    pub size_bytes: Option<u64>,
    /// A quarter of the rounds lies below.
    pub low: f64,
    /// Half of them.
    pub median: f64,
    /// A quarter lies above.
    pub high: f64,
}

/// What was measured of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCells {
    /// `quell.machine/1`.
    pub schema: String,
    /// The processor's name.
    pub processor: String,
    /// A core's private cache as the machine tells, in bytes.
    pub l2_bytes: u64,
    /// The last-level cache as the machine tells, in bytes: of a guest usually the whole host's.
    pub llc_bytes: u64,
    /// Over which the kernel that presses on it scatters, in bytes.
    pub scatter_bytes: u64,
    /// Interleaved rounds.
    pub rounds: u32,
    /// How long all took, in seconds.
    pub seconds: f64,
    /// The numbers.
    pub cells: Vec<MachineCell>,
}

impl MachineCell {
    fn open(&self) -> OpenCell {
        let (what, unit, scale) = self.figure.words();
        let beside = match self.beside {
            Neighbour::Nobody => "alone",
            Neighbour::Stream => "beside a stream",
            Neighbour::Scatter => "beside scatter",
        };
        let size = |bytes: u64| format!("{} MiB, {beside}", bytes as f64 / MIB);
        let found = self.median * scale;
        OpenCell {
            source: "machine-vm2.json",
            row: if self.size_bytes.is_some() { format!("{what} {beside}") } else { what.into() },
            at: self.size_bytes.map_or_else(|| beside.to_owned(), size),
            unit,
            least: Some(found),
            most: Some(found),
            tolerance: TOLERANCE * found,
        }
    }
}

impl MachineFigure {
    /// In words, with the unit of tables and what is to be multiplied with.
    fn words(self) -> (&'static str, &'static str, f64) {
        match self {
            MachineFigure::ChaseNs => ("chase", "ns", 1.0),
            MachineFigure::StreamBytesPerS => ("stream", "GB/s", 1e-9),
            MachineFigure::ScatterPerS => ("scatter", "10^6/s", 1e-6),
        }
    }
}

/// All that is free of the machine and of the kernels that press on it.
fn parameters() -> Vec<ParameterSpec> {
    vec![
        free_parameter("last-level cache of a CPU", "MiB", 8.0, 0.5, 480.0),
        free_parameter("hit in it", "cycles", 40.0, 5.0, 400.0),
        free_parameter("access to idle memory", "ns", 100.0, 40.0, 400.0),
        free_parameter("memory bandwidth", "GB/s", 20.0, 2.0, 400.0),
        free_parameter("chase: access in the core's caches", "cycles", 20.0, 4.0, 100.0),
        free_parameter("stream: misses that overlap", "", 30.0, 1.0, 1_000.0),
        free_parameter("scatter: misses that overlap", "", 6.0, 1.0, 100.0),
    ]
}

fn numbers(values: &[f64]) -> MachineNumbers {
    MachineNumbers {
        llc_bytes: (values[0] * MIB) as u64,
        hit_cycles: values[1],
        latency_ns: values[2],
        bytes_per_s: values[3] * 1e9,
        chase_cycles: values[4],
        stream_overlap: values[5],
        scatter_overlap: values[6],
    }
}

fn shipped() -> Vec<f64> {
    vec![
        VM2_XEON.llc_bytes as f64 / MIB,
        VM2_XEON.hit_cycles,
        VM2_XEON.latency_ns,
        VM2_XEON.bytes_per_s / 1e9,
        VM2_XEON.chase_cycles,
        VM2_XEON.stream_overlap,
        VM2_XEON.scatter_overlap,
    ]
}

/// The preset `vm2-xeon` on what was measured.
pub(crate) fn fit() -> Fit {
    let measured: MachineCells = serde_json::from_str(MEASURED)
        .unwrap_or_else(|error| unreachable!("what is checked in reads well: {error}"));
    let cells = measured.cells.iter().map(MachineCell::open).collect();
    let simulate = move |values: &[f64]| {
        let numbers = numbers(values);
        let twin = Twin::new(numbers, measured.l2_bytes as f64, measured.scatter_bytes as f64);
        let one = |cell: &MachineCell| twin.cell(cell) * cell.figure.words().2;
        measured.cells.iter().map(one).collect()
    };
    Fit {
        name: "the preset vm2-xeon on its machine's chases and streams",
        parameters: parameters(),
        shipped: shipped(),
        cells,
        simulate: Box::new(simulate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_at_most_a_third_of_the_cells() {
        let fit = fit();
        assert_eq!(fit.parameters.len(), fit.shipped.len());
        assert!(3 * fit.parameters.len() <= fit.cells.len(), "{}", fit.cells.len());
        assert_eq!(numbers(&shipped()), VM2_XEON);
    }

    #[test]
    fn a_larger_chase_is_slower_and_a_stream_beside_makes_it_slower_still() {
        let twin = Twin::new(VM2_XEON, 2.0 * MIB, 480.0 * MIB);
        let chase = |mib: f64, beside| {
            let (figure, size_bytes) = (MachineFigure::ChaseNs, Some((mib * MIB) as u64));
            twin.cell(&MachineCell { figure, beside, size_bytes, low: 0.0, median: 0.0, high: 0.0 })
        };
        let (near, far) = (chase(1.0, Neighbour::Nobody), chase(1024.0, Neighbour::Nobody));
        assert!(far > 2.0 * near, "{near} and {far}");
        assert!(chase(1024.0, Neighbour::Stream) > far);
        let near_beside = chase(1.0, Neighbour::Stream);
        assert!((near_beside / near - 1.0).abs() < 1e-6, "{near_beside} and {near}");
    }
}
