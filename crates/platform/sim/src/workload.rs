//! What runs: programs in phases (S-3).

mod cachebench;
mod curve;
mod library;
mod pressure;
mod reporter;

pub use curve::MissCurve;
pub(crate) use library::of;
pub use library::{PROGRAMS, program};
pub(crate) use pressure::in_turn;
pub(crate) use reporter::{Pattern, reporter};

use crate::machine::LastLevelCache;
use thiserror::Error;

/// A program that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("program {program}: {why}")]
pub struct ProgramError {
    /// Its name.
    pub program: String,
    /// What is wrong.
    pub why: String,
}

/// One phase of a program, as it behaves per thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts at least, in seconds; infinite phases never end.
    pub least_s: f64,
    /// How long it lasts at most, in seconds.
    pub most_s: f64,
    /// Cycles per instruction without any access beyond the private caches.
    pub base_cpi: f64,
    /// Cycles per instruction in which it waits for its core's own caches and does nothing else. Most
    /// programs hide these hits; bus locks hold them back as all other accesses (S-6).
    pub private_cycles: f64,
    /// Accesses to the last-level cache per 1000 instructions (misses of the private caches).
    pub llc_apki: f64,
    /// Misses of the last-level cache by bytes held there.
    pub llc_misses: MissCurve,
    /// Most bytes that the program can hold in one last-level cache.
    pub working_set_bytes: f64,
    /// Of the lines that it brings in, the share that it changes (0..1): each is written back when
    /// it is evicted, so that a miss moves up to two lines. Nobody waits for the second.
    pub written_frac: f64,
    /// Misses that overlap (memory-level parallelism), at least 1.
    pub overlap: f64,
    /// Its speed beside a busy sibling as a share of that alone; none = the machine's usual one.
    pub smt_speed: Option<f64>,
    /// Switching activity for power; 1 is usual, a power virus has about 2.
    pub activity: f64,
    /// Split locks per second of CPU time.
    pub split_locks_per_s: f64,
    /// Bytes sent per 1000 instructions.
    pub egress_per_ki: f64,
    /// Bytes that a thread hands over at once; it then sleeps while its socket is full. Infinite =
    /// it never looks, and what finds no room is lost.
    pub send_bytes: f64,
    /// Instructions of each thread from barrier to barrier, at which all threads meet (S-3);
    /// infinite = there is none.
    pub barrier_instructions: f64,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            least_s: f64::INFINITY,
            most_s: f64::INFINITY,
            base_cpi: 0.8,
            private_cycles: 0.0,
            llc_apki: 0.0,
            llc_misses: MissCurve::flat(0.0),
            working_set_bytes: 0.0,
            written_frac: 0.0,
            overlap: 1.0,
            smt_speed: None,
            activity: 1.0,
            split_locks_per_s: 0.0,
            egress_per_ki: 0.0,
            send_bytes: f64::INFINITY,
            barrier_instructions: f64::INFINITY,
        }
    }
}

/// A program: its phases come round and round.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its phases in order; at least one.
    pub phases: Vec<Phase>,
    /// Threads that always want to run. A service's workers are named by the service.
    pub threads: u32,
    /// Memory in use in bytes.
    pub memory_bytes: u64,
    /// NUMA nodes over which its memory lies evenly; none = the node on which each thread runs.
    pub memory_nodes: Vec<u32>,
    /// Whether its threads have a real-time class: they run before all others, and CPU bandwidth does not hold them.
    pub real_time: bool,
    /// Work until it ends, in instructions of all threads; none = it never ends.
    pub work_instructions: Option<f64>,
}

impl Program {
    /// Looks for what cannot be on a machine of so many NUMA nodes.
    ///
    /// # Errors
    /// The first thing found.
    pub fn validate(&self, nodes: usize) -> Result<(), ProgramError> {
        let wrong = |why: String| ProgramError { program: self.name.clone(), why };
        if self.phases.is_empty() {
            return Err(wrong("it has no phase".into()));
        }
        if let Some(node) = self.memory_nodes.iter().find(|n| **n as usize >= nodes) {
            return Err(wrong(format!("there is no node {node}")));
        }
        if self.work_instructions.is_some_and(|work| work.is_nan() || work <= 0.0) {
            return Err(wrong("its work is not positive".into()));
        }
        for (number, phase) in self.phases.iter().enumerate() {
            if let Some(why) = phase.fault() {
                return Err(wrong(format!("phase {}: {why}", number + 1)));
            }
        }
        Ok(())
    }
}

impl Phase {
    /// Makes of a sweep what it is in this cache.
    pub(crate) fn fit(&mut self, cache: &LastLevelCache) {
        self.llc_misses = self.llc_misses.in_cache(cache);
        if let Some(bytes) = self.llc_misses.pressure_bytes(cache) {
            self.working_set_bytes = bytes;
        }
    }

    /// Lines moved to or from memory for a miss, write-backs included.
    pub(crate) fn lines_per_miss(&self) -> f64 {
        1.0 + self.written_frac
    }

    /// Instructions of a thread until it comes to a barrier or to a full socket.
    pub(crate) fn stop_instructions(&self) -> f64 {
        let sends = self.egress_per_ki > 0.0 && self.send_bytes.is_finite();
        let burst =
            if sends { self.send_bytes / self.egress_per_ki * 1000.0 } else { f64::INFINITY };
        self.barrier_instructions.min(burst)
    }

    /// Bytes that its threads hand over as they run, without looking whether there is room.
    pub(crate) fn blind_egress_per_ki(&self) -> f64 {
        if self.send_bytes.is_finite() { 0.0 } else { self.egress_per_ki }
    }

    fn fault(&self) -> Option<&'static str> {
        let checks = [
            (self.least_s > 0.0 && self.most_s >= self.least_s, "its length is not positive"),
            (self.base_cpi > 0.0, "base_cpi is not positive"),
            (self.private_cycles >= 0.0, "private_cycles are negative"),
            (self.overlap >= 1.0, "overlap is below 1"),
            (self.llc_apki >= self.llc_misses.mpki(0.0), "more misses than accesses of the LLC"),
            (self.working_set_bytes >= 0.0, "the working set is negative"),
            ((0.0..=1.0).contains(&self.written_frac), "written_frac is not in 0..1"),
            (self.smt_speed.is_none_or(|s| s > 0.0 && s <= 1.0), "smt_speed is not in 0..1"),
            (self.activity >= 0.0, "activity is negative"),
            (self.split_locks_per_s >= 0.0, "split locks are negative"),
            (self.egress_per_ki >= 0.0, "egress is negative"),
            (self.send_bytes >= 1.0, "it sends less than a byte at once"),
            (self.barrier_instructions >= 1.0, "barriers follow each other at once"),
        ];
        checks.iter().find(|(well, _)| !well).map(|(_, why)| *why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_programs_are_refused_with_the_reason() {
        let sound = program("stream-dram").unwrap();
        assert_eq!(sound.validate(1), Ok(()));
        let mut far = sound.clone();
        far.memory_nodes = vec![3];
        assert!(far.validate(2).unwrap_err().to_string().contains("no node 3"));
        let mut odd = sound;
        odd.phases[0].overlap = 0.5;
        assert!(odd.validate(1).unwrap_err().to_string().contains("phase 1: overlap"));
    }
}
