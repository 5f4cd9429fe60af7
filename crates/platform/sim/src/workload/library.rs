//! Programs by name: the antagonists of T-3 and A.7, and services' inner loops.
//!
//! Sizes of arrays are those of the sources; rates are assumed until they are calibrated
//! (`docs/experiments/simulator.md`).

use super::cachebench::cachebench;
use super::{MissCurve, Phase, Program};
use crate::calibrated;

const MIB: f64 = (1u64 << 20) as f64;

/// A name and what makes the program of it.
type Named = (&'static str, fn() -> Program);

/// All programs by name.
pub const PROGRAMS: &[Named] = &[
    ("integer", integer),
    ("real-time", real_time),
    ("stream-llc", stream_llc),
    ("stream-dram", stream_dram),
    ("random-llc", random_llc),
    ("mcf", mcf),
    ("cachebench", cachebench),
    ("split-lock", split_lock),
    ("power-virus", power_virus),
    ("iperf", iperf),
    ("phased", phased),
    ("search", search),
    ("xapian", xapian),
    ("silo", silo),
];

/// The program of this name.
#[must_use]
pub fn program(name: &str) -> Option<Program> {
    PROGRAMS.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// A program of one thread and one phase.
pub(crate) fn of(name: &str, memory_bytes: f64, phase: Phase) -> Program {
    Program {
        name: name.into(),
        phases: vec![phase],
        threads: 1,
        memory_bytes: memory_bytes as u64,
        memory_nodes: Vec::new(),
        real_time: false,
        work_instructions: None,
    }
}

/// Arithmetic in registers.
fn integer() -> Program {
    of("integer", MIB, Phase { base_cpi: 0.5, ..Phase::default() })
}

/// The same in a real-time class (`chrt --fifo`).
fn real_time() -> Program {
    Program { real_time: true, ..of("real-time", MIB, integer().phases.remove(0)) }
}

/// A sweep over an array of `bytes`, one access a line.
pub(super) fn sweep(bytes: f64) -> Phase {
    Phase {
        base_cpi: 0.6,
        llc_apki: 120.0,
        llc_misses: MissCurve::sweep(bytes, 120.0),
        working_set_bytes: bytes,
        overlap: 6.0,
        activity: 0.9,
        ..Phase::default()
    }
}

impl Program {
    /// Stream-LLC of T-3 over an array of this size.
    #[must_use]
    pub fn stream_of(bytes: u64) -> Self {
        of("stream-llc", bytes as f64, sweep(bytes as f64))
    }

    /// The kernel of iBench that holds so many bytes of a cache by accesses at random (B-E2).
    #[must_use]
    pub fn random_of(bytes: u64) -> Self {
        Self { name: "random-llc".into(), ..calibrated::MCF.pressure(bytes) }
    }
}

/// The same over 8 MiB.
fn random_llc() -> Program {
    Program::random_of(8 << 20)
}

/// mcf of iBench, as calibrated.
fn mcf() -> Program {
    calibrated::MCF.program()
}

/// Stream-LLC over an array of 32 MiB.
fn stream_llc() -> Program {
    Program::stream_of(32 << 20)
}

/// Stream-DRAM of T-3: an array of 1 GiB.
fn stream_dram() -> Program {
    let phase = Phase { overlap: 8.0, ..sweep(1024.0 * MIB) };
    of("stream-dram", 1024.0 * MIB, phase)
}

/// Locked accesses across a line (A.7).
fn split_lock() -> Program {
    of("split-lock", MIB, Phase { split_locks_per_s: 1e6, base_cpi: 5.0, ..Phase::default() })
}

/// All units of a core busy at once.
fn power_virus() -> Program {
    of("power-virus", MIB, Phase { base_cpi: 0.3, activity: 2.0, ..Phase::default() })
}

/// One flow that sends as fast as its CPU and its socket let it: some GB/s, in the 128 KiB that
/// iperf hands over at once.
fn iperf() -> Program {
    let phase = Phase {
        base_cpi: 1.0,
        llc_apki: 2.0,
        egress_per_ki: 2_000.0,
        send_bytes: 131_072.0,
        ..Phase::default()
    };
    of("iperf", 4.0 * MIB, phase)
}

/// Changes between computing, sweeping a cache and sweeping memory every half to two seconds.
fn phased() -> Program {
    let lasting = |phase: Phase| Phase { least_s: 0.5, most_s: 2.0, ..phase };
    let compute = Phase { base_cpi: 0.7, llc_apki: 1.0, ..Phase::default() };
    let phases = vec![
        lasting(compute),
        lasting(sweep(16.0 * MIB)),
        lasting(Phase { overlap: 8.0, ..sweep(512.0 * MIB) }),
    ];
    Program { phases, ..of("phased", 512.0 * MIB, Phase::default()) }
}

/// A service whose hot set is `hot` bytes and which misses `cold_mpki` when all of it is held.
fn served(name: &str, base_cpi: f64, hot: f64, most_mpki: f64, cold_mpki: f64) -> Program {
    let phase = Phase {
        base_cpi,
        llc_apki: most_mpki * 1.5,
        llc_misses: MissCurve::linear(hot, most_mpki, cold_mpki),
        working_set_bytes: hot * 1.5,
        overlap: 2.0,
        ..Phase::default()
    };
    of(name, 512.0 * MIB, phase)
}

/// A full-text search in the manner of the `search` service of `quell load`.
fn search() -> Program {
    served("search", 0.8, 6.0 * MIB, 8.0, 0.2)
}

/// TailBench's xapian, as calibrated.
fn xapian() -> Program {
    calibrated::XAPIAN.program()
}

/// TailBench's silo, as calibrated.
fn silo() -> Program {
    calibrated::SILO.program()
}
