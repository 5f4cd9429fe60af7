//! Numbers that were fitted by `quell-calibrate`, to published cells and to one machine's own
//! measurements; cells and errors are in `docs/experiments/simulator.md`.

mod machine;
mod published;

pub use machine::{ACCESSES_PER_KI, CHASE_INSTRUCTIONS, HALTED, MachineNumbers, VM2_XEON};
pub use published::{
    HERACLES, HeraclesNumbers, MCF, MEMCACHED, McfNumbers, MemcachedNumbers, STATES, StateNumbers,
};

use crate::workload::{MissCurve, Phase, Program};

const MIB: f64 = (1u64 << 20) as f64;

/// Bytes that a greedy flow may have below its socket, whatever the link.
pub const FLOW_BYTES: f64 = 155_000.0;
/// Seconds' worth at the link's rate that it may have besides.
pub const FLOW_S: f64 = 0.000385;

/// Threads of stream-llc and stream-dram in the thesis' tables.
pub const SWEEP_THREADS: u32 = 5;

/// Share of what private caches hold that a last-level cache has too which is not inclusive, fitted on
/// T-5 and T-6.
pub const INCLUSION: f64 = 0.211;

/// What a service is, on the thesis' first host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceNumbers {
    /// Its name.
    pub name: &'static str,
    /// Mean work of a request in instructions.
    pub instructions: f64,
    /// Coefficient of variation of that work.
    pub variation: f64,
    /// Requests/s that the source calls 100 % load, on `workers` cores.
    pub full_qps: f64,
    /// Worker threads, each on a core.
    pub workers: u32,
    /// Bytes that it likes to find in the last-level cache.
    pub hot_bytes: f64,
    /// Misses per 1000 instructions when nothing of that is there.
    pub most_mpki: f64,
    /// Misses per 1000 instructions when all of it is there.
    pub least_mpki: f64,
    /// Speed beside a busy sibling as a share of that alone.
    pub smt_speed: f64,
}

/// TailBench's xapian, fitted on T-5 and on the public statement of T-25.
pub const XAPIAN: ServiceNumbers = ServiceNumbers {
    name: "xapian",
    instructions: 7_370_000.0,
    variation: 0.64,
    full_qps: 322.0,
    workers: 1,
    hot_bytes: 11.0 * MIB,
    most_mpki: 1.57,
    least_mpki: 0.131,
    smt_speed: 0.674,
};

/// TailBench's silo, fitted on T-6.
pub const SILO: ServiceNumbers = ServiceNumbers {
    name: "silo",
    instructions: 950_000.0,
    variation: 0.314,
    full_qps: 3_350.0,
    workers: 1,
    hot_bytes: 10.34 * MIB,
    most_mpki: 0.304,
    least_mpki: 0.0,
    smt_speed: 0.568,
};

/// Cycles per instruction of services without any miss; assumed, since it only scales the work.
const BASE_CPI: f64 = 0.8;
/// Misses of services that overlap, assumed.
const OVERLAP: f64 = 2.0;

impl ServiceNumbers {
    /// The program of its workers: what it misses without its hot set, it hits with it.
    #[must_use]
    pub fn program(&self) -> Program {
        let most = self.most_mpki.max(self.least_mpki);
        let phase = Phase {
            base_cpi: BASE_CPI,
            llc_apki: most,
            llc_misses: MissCurve::linear(self.hot_bytes, most, self.least_mpki),
            working_set_bytes: 1.2 * self.hot_bytes,
            overlap: OVERLAP,
            smt_speed: Some(self.smt_speed),
            ..Phase::default()
        };
        Program {
            name: self.name.into(),
            phases: vec![phase],
            threads: self.workers,
            memory_bytes: 1 << 29,
            memory_nodes: Vec::new(),
            real_time: false,
            work_instructions: None,
        }
    }
}
