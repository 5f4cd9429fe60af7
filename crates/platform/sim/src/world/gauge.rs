//! The kernel's gauge of bus locks: how long accesses to a core's own second cache take, beside whom.
//!
//! On a real machine (an EPYC host of 2 CPUs, `docs/experiments/polluter.md`) nearly all samples read two
//! times as long as multiplications, whatever others do to shared caches and memory, and beside somebody who
//! locks the bus as fast as it goes some twelve times. Here they take so many times as long as the bus leaves
//! memory open for less of the time, by those who run on other CPUs at that moment. Reads of memory take as long as
//! its queue of late.

use super::World;
use quell_types::GaugeCounts;

/// Slots of a count, two to each power of two.
pub(crate) const SLOTS: usize = 32;
/// What is read usually: eighths of twice as long.
const USUAL: usize = 8;
/// Time between two samples, of all CPUs together.
const EVERY_NS: f64 = 2e6;

/// Eighths of powers of two by which four reads of memory that is not loaded are longer than 128 ns.
const UNLOADED: f64 = 26.0;

/// What samples read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    slots: [u32; SLOTS],
    memory: u64,
    memory_squares: u64,
}

impl Samples {
    /// So many that read the same.
    fn count(&mut self, slot: usize, memory: u64, samples: u32) {
        self.slots[slot] += samples;
        self.memory += u64::from(samples) * memory;
        self.memory_squares += u64::from(samples) * memory * memory;
    }

    pub(crate) fn any(&self) -> bool {
        self.slots.iter().any(|count| *count > 0)
    }

    pub(crate) fn add_to(&self, sum: &mut GaugeCounts) {
        sum.slots.iter_mut().zip(&self.slots).for_each(|(sum, more)| *sum += more);
        sum.memory += self.memory;
        sum.memory_squares += self.memory_squares;
    }
}

impl From<&Samples> for GaugeCounts {
    fn from(samples: &Samples) -> Self {
        let (memory, memory_squares) = (samples.memory, samples.memory_squares);
        Self { slots: samples.slots.to_vec(), memory, memory_squares }
    }
}

/// All samples, and those in which each group had another CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    pub(crate) all: Samples,
    pub(crate) beside: Vec<Samples>,
    /// Time that is left for the next sample.
    left_ns: f64,
    /// The CPU that takes it.
    turn: usize,
}

impl World {
    /// Takes the samples of a span that is over, as things are at its end.
    pub(super) fn step_gauge(&mut self, span_ns: f64) {
        if !self.machine.lock_gauge || self.cpus.len() < 2 {
            return;
        }
        self.gauge.left_ns += span_ns;
        let due = (self.gauge.left_ns / EVERY_NS) as u32;
        if due == 0 {
            return;
        }
        self.gauge.left_ns -= f64::from(due) * EVERY_NS;
        self.gauge.turn = (self.gauge.turn + 1) % self.cpus.len();
        let here = self.gauge.turn;
        let (slot, memory) = (self.gauge_slot(here), self.gauge_memory(here));
        let Self { gauge, cpus, threads, groups, .. } = self;
        gauge.beside.resize(groups.len(), Samples::default());
        gauge.all.count(slot, memory, due);
        let running = cpus.iter().enumerate().filter(|(cpu, _)| *cpu != here);
        let mut there: Vec<usize> =
            running.filter_map(|(_, cpu)| Some(threads[cpu.current?].group)).collect();
        there.sort_unstable();
        there.dedup();
        there.into_iter().for_each(|group| gauge.beside[group].count(slot, memory, due));
    }

    /// What its reads of memory take: as long as its node is loaded.
    fn gauge_memory(&self, here: usize) -> u64 {
        let load = 1.0 + self.node_queue[self.shape.cpus[here].node];
        libm::round(UNLOADED + 8.0 * libm::log2(load)) as u64
    }

    /// What a sample here reads beside those who run elsewhere on the same server.
    fn gauge_slot(&self, here: usize) -> usize {
        let server = |cpu: usize| self.shape.socket_server[self.shape.cpus[cpu].socket];
        let others = self.running.iter().filter(|cpu| *cpu != here && server(*cpu) == server(here));
        let blocked: f64 = others
            .map(|cpu| {
                self.cpus[cpu].locks_per_ns * self.machine.bus_lock_cycles / self.cpus[cpu].ghz
            })
            .sum();
        let open = 1.0 - blocked.min(super::tick::MOST_BLOCKED);
        (USUAL + libm::round(-2.0 * libm::log2(open)) as usize).min(SLOTS - 1)
    }
}
