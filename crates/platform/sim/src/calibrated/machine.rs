//! The 2-vCPU machine and the kernels that it was measured with, as one set of numbers.

use crate::machine::{IdleState, Late, Machine};
use crate::workload::{MissCurve, Phase, Program, in_turn, of};

/// What was fitted on a machine's pointer chases and streams. Its shape, its clock and its private
/// caches are not in it: those it tells of itself, or are assumed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineNumbers {
    /// Last-level cache that a CPU has of what the host has, in bytes.
    pub llc_bytes: u64,
    /// A hit there, in core cycles.
    pub hit_cycles: f64,
    /// An access to idle memory in nanoseconds.
    pub latency_ns: f64,
    /// Bytes/s of memory.
    pub bytes_per_s: f64,
    /// Cycles of an access of the chase in the core's own caches, its own arithmetic included.
    pub chase_cycles: f64,
    /// Misses of the stream that overlap.
    pub stream_overlap: f64,
    /// Misses of the kernel that presses on the last-level cache that overlap.
    pub scatter_overlap: f64,
}

/// The preset `vm2-xeon`, fitted on `docs/experiments/machine-vm2.json`.
pub const VM2_XEON: MachineNumbers = MachineNumbers {
    llc_bytes: 3_426_867,
    hit_cycles: 99.6595,
    latency_ns: 198.285,
    bytes_per_s: 53.5134e9,
    chase_cycles: 22.9269,
    stream_overlap: 313.117,
    scatter_overlap: 11.8971,
};

/// A halted CPU of that machine. Way out and late ones are those of the trace of a busy day in
/// `docs/experiments/halted-cpus.md`; what a request takes more of CPU time the more CPUs it finds
/// halted, alone at five loads in `docs/experiments/guard-mix.json`, is the rest.
pub const HALTED: IdleState = IdleState {
    after_s: 1e-6,
    exit_s: 10e-6,
    cold_s: 88e-6,
    flushed: false,
    late: Late { frac: 0.0125, mean_s: 0.024 },
};

/// Instructions of the chase for an access: random number, bound, load. Only its product with the
/// cycles of one counts.
pub const CHASE_INSTRUCTIONS: f64 = 10.0;
/// Accesses of stream and scatter for 1000 instructions, one a line.
pub const ACCESSES_PER_KI: f64 = 120.0;
/// Cycles of their instructions without any miss.
const KERNEL_CPI: f64 = 0.6;
/// Far more than any cache.
const STREAMED: f64 = (1u64 << 30) as f64;
/// The index of the service `search` in bytes, and the lines of it that a query reads: postings are
/// compressed to 9 bits on average, and eight words by Zipf's law have 170,000 of them.
const INDEX_BYTES: f64 = 4.0 * 1_048_576.0;
const QUERY_LINES: f64 = 1_600.0;
/// Instructions of a query, in the simulator's: about a millisecond of this machine.
const QUERY_INSTRUCTIONS: f64 = 3.75e6;
/// Misses of what reads in sequence that overlap, assumed as for sweeps.
const IN_SEQUENCE: f64 = 6.0;

impl MachineNumbers {
    /// The machine with these numbers in place of its own.
    #[must_use]
    pub fn on(&self, mut machine: Machine) -> Machine {
        machine.cache.bytes = self.llc_bytes;
        machine.cache.hit_cycles = self.hit_cycles;
        machine.memory.latency_ns = self.latency_ns;
        machine.memory.bytes_per_s = self.bytes_per_s;
        machine
    }

    /// Dependent accesses at random over `bytes`: what the private cache of `l2_bytes` does not
    /// hold lies in the last-level cache, what that does not hold in memory. One instruction in
    /// [`CHASE_INSTRUCTIONS`] is an access.
    #[must_use]
    pub fn chase(&self, bytes: f64, l2_bytes: f64) -> Program {
        let phase = Phase {
            base_cpi: self.chase_cycles / CHASE_INSTRUCTIONS,
            ..at_random(bytes, l2_bytes, 1_000.0 / CHASE_INSTRUCTIONS)
        };
        of("chase", bytes, phase)
    }

    /// The service `search`, by what its index makes it read: lists of postings, one after the other.
    #[must_use]
    pub fn search(&self) -> Program {
        let lines = 1_000.0 * QUERY_LINES / QUERY_INSTRUCTIONS;
        let phase = Phase {
            llc_apki: lines,
            llc_misses: MissCurve::linear(INDEX_BYTES, lines, 0.0),
            working_set_bytes: INDEX_BYTES,
            overlap: IN_SEQUENCE,
            ..Phase::default()
        };
        of("search", INDEX_BYTES, phase)
    }

    /// Traffic to memory for a share of each millisecond, spinning for the rest.
    #[must_use]
    pub fn stream(&self, share: f64) -> Program {
        let work = Phase {
            base_cpi: KERNEL_CPI,
            llc_apki: ACCESSES_PER_KI,
            llc_misses: MissCurve::flat(ACCESSES_PER_KI),
            working_set_bytes: STREAMED,
            overlap: self.stream_overlap.max(1.0),
            ..Phase::default()
        };
        Program { phases: in_turn(work, share), ..of("stream", STREAMED, Phase::default()) }
    }

    /// Accesses at random and at full rate over `bytes`, as the kernel on the last-level cache makes
    /// them.
    #[must_use]
    pub fn scatter(&self, bytes: f64, l2_bytes: f64) -> Program {
        let phase = Phase {
            base_cpi: KERNEL_CPI,
            overlap: self.scatter_overlap.max(1.0),
            ..at_random(bytes, l2_bytes, ACCESSES_PER_KI)
        };
        of("scatter", bytes, phase)
    }
}

/// So many accesses in 1000 instructions, each line of `bytes` as likely as any other.
fn at_random(bytes: f64, l2_bytes: f64, accesses: f64) -> Phase {
    let beyond = (bytes - l2_bytes).max(0.0);
    let llc_apki = accesses * beyond / bytes.max(1.0);
    Phase {
        llc_apki,
        llc_misses: MissCurve::linear(beyond, llc_apki, 0.0),
        working_set_bytes: beyond,
        ..Phase::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn a_chase_within_the_core_reaches_no_shared_cache_and_a_large_one_mostly_does() {
        let near = VM2_XEON.chase(1.0 * MIB, 2.0 * MIB).phases[0].clone();
        assert_eq!((near.llc_apki, near.llc_misses.mpki(0.0)), (0.0, 0.0));
        let far = VM2_XEON.chase(64.0 * MIB, 2.0 * MIB).phases[0].clone();
        assert!((far.llc_apki - 100.0 * 62.0 / 64.0).abs() < 1e-9, "{}", far.llc_apki);
        assert!((far.llc_misses.mpki(31.0 * MIB) - far.llc_apki / 2.0).abs() < 1e-9);
        for program in
            [VM2_XEON.chase(MIB, MIB), VM2_XEON.stream(0.5), VM2_XEON.scatter(64.0 * MIB, MIB)]
        {
            assert_eq!(program.validate(1), Ok(()));
        }
    }
}
