//! The kernel's gauge of bus locks: how long accesses to a core's own second cache take, beside whom.
//!
//! On a real machine (an EPYC host of 2 CPUs, `docs/experiments/polluter.md`) nearly all samples read two
//! times as long as multiplications, whatever others do to shared caches and memory, and beside somebody who
//! locks the bus as fast as it goes some twelve times. Here they take so many times as long as the bus leaves
//! memory open for less of the time, by those who run on other CPUs at that moment.

use super::World;

/// Slots of a count, two to each power of two.
pub(crate) const SLOTS: usize = 32;
/// What is read usually: eighths of twice as long.
const USUAL: usize = 8;
/// Time between two samples, of all CPUs together.
const EVERY_NS: f64 = 2e6;

pub(crate) type Samples = [u32; SLOTS];

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
        let slot = self.gauge_slot(here);
        let Self { gauge, cpus, threads, groups, .. } = self;
        gauge.beside.resize(groups.len(), [0; SLOTS]);
        gauge.all[slot] += due;
        let running = cpus.iter().enumerate().filter(|(cpu, _)| *cpu != here);
        let mut there: Vec<usize> =
            running.filter_map(|(_, cpu)| Some(threads[cpu.current?].group)).collect();
        there.sort_unstable();
        there.dedup();
        there.into_iter().for_each(|group| gauge.beside[group][slot] += due);
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
