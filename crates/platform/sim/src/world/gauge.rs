//! The kernel's gauge of bus locks: how long accesses to a core's own second cache take, beside whom.
//!
//! On a real machine (an EPYC host of 2 CPUs, `docs/experiments/polluter-history.md`) nearly all samples read two
//! times as long as multiplications, whatever others do to shared caches and memory, and beside somebody who
//! locks the bus as fast as it goes some twelve times. Here they take so many times as long as the bus leaves
//! memory open for less of the time, by those who run on other CPUs at that moment. Reads of memory take as long as
//! its queue of late.
//!
//! A sample of who runs on the CPU itself tells what is left of lines that were read there a kernel's tick before:
//! what came into its second cache since has driven them into the shared one, and what came into that one out
//! of it, both by chance.

use super::World;
use super::cost::LINE;
use quell_types::{GaugeCounts, KeptCounts};

/// Slots of a count, two to each power of two.
pub(crate) const SLOTS: usize = 32;
/// What is read usually: eighths of twice as long.
const USUAL: usize = 8;
/// Time between two samples, of all CPUs together.
const EVERY_NS: f64 = 2e6;

/// How long lines of a sample of a task's own turn were left, and what one takes that stayed where it was, in
/// nanoseconds, with what the program around it takes.
const LEFT_NS: f64 = 4e6;
const STAYED_NS: f64 = 19.0;
/// What was driven out takes so much of a read of memory at random, which looks up a page besides.
const GONE_FRAC: f64 = 0.5;
const FROM_NS: f64 = GaugeCounts::FROM_NS;

/// Eighths of powers of two by which four reads of memory that is not loaded are longer than 128 ns.
const UNLOADED: f64 = 26.0;

/// What samples read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    slots: [u32; SLOTS],
    memory: u64,
    memory_squares: u64,
    kept: KeptCounts,
}

impl Samples {
    /// So many that read the same.
    fn count(&mut self, slot: usize, memory: u64, samples: u32) {
        self.slots[slot] += samples;
        self.memory += u64::from(samples) * memory;
        self.memory_squares += u64::from(samples) * memory * memory;
    }

    /// The same of its own turns.
    fn count_kept(&mut self, took: u64, samples: u32) {
        self.kept.samples += u64::from(samples);
        self.kept.took += u64::from(samples) * took;
        self.kept.ns += u64::from(samples) * LEFT_NS as u64;
    }

    pub(crate) fn any(&self) -> bool {
        self.kept.samples > 0 || self.slots.iter().any(|count| *count > 0)
    }

    pub(crate) fn add_to(&self, sum: &mut GaugeCounts) {
        sum.slots.iter_mut().zip(&self.slots).for_each(|(sum, more)| *sum += more);
        sum.memory += self.memory;
        sum.memory_squares += self.memory_squares;
        sum.kept.samples += self.kept.samples;
        sum.kept.took += self.kept.took;
        sum.kept.ns += self.kept.ns;
    }
}

impl From<&Samples> for GaugeCounts {
    fn from(samples: &Samples) -> Self {
        let Samples { slots, memory, memory_squares, kept } = *samples;
        let slots = slots.to_vec();
        Self { slots, memory, memory_squares, kept }
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
        let kept = self.gauge_kept(here, span_ns);
        let Self { gauge, cpus, threads, groups, .. } = self;
        gauge.beside.resize(groups.len(), Samples::default());
        gauge.all.count(slot, memory, due);
        let running = cpus.iter().enumerate().filter(|(cpu, _)| *cpu != here);
        let mut there: Vec<usize> =
            running.filter_map(|(_, cpu)| Some(threads[cpu.current?].group)).collect();
        there.sort_unstable();
        there.dedup();
        there.into_iter().for_each(|group| gauge.beside[group].count(slot, memory, due));
        if let Some((group, took)) = kept {
            gauge.all.count_kept(took, due);
            gauge.beside[group].count_kept(took, due);
        }
    }

    /// What lines that were read here a tick before take, and the group of who has had this CPU since.
    fn gauge_kept(&self, here: usize, span_ns: f64) -> Option<(usize, u64)> {
        let thread = &self.threads[self.cpus[here].current?];
        let place = &self.shape.cpus[here];
        let cells = || self.active.iter().map(|index| &self.cells[*index]);
        let cells = || cells().filter(|cell| cell.domain == place.domain && cell.ran_ns > 0.0);
        let own = cells().find(|cell| cell.work == thread.work)?;
        let cache = &self.machine.cache;
        // Bytes that came in a nanosecond: into the core's own cache, and into the shared one.
        let asked = own.instructions * self.phase_of(own).llc_apki / 1000.0 * LINE / own.ran_ns;
        let missed: f64 = cells().map(|cell| cell.instructions * cell.mpki).sum();
        let brought = missed / 1000.0 * LINE / span_ns;
        let stays = |per_ns: f64, bytes: u64| libm::exp(-per_ns * LEFT_NS / bytes as f64);
        let stayed = stays(asked, cache.l2_bytes);
        let shared = (1.0 - stayed) * stays(brought, cache.bytes);
        let hit_ns = STAYED_NS + cache.hit_cycles / self.cpus[here].ghz;
        let read_ns =
            FROM_NS * libm::exp2(self.gauge_memory(here) as f64 / 8.0) / GaugeCounts::READS;
        let gone_ns = GONE_FRAC * read_ns * (1.0 - stayed - shared);
        let took = libm::log2(
            KeptCounts::LINES * (STAYED_NS * stayed + hit_ns * shared + gone_ns) / FROM_NS,
        );
        Some((thread.group, libm::round(8.0 * took).max(0.0) as u64))
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
