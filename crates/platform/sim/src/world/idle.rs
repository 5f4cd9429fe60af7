//! Cores sleep when nothing runs on them, and take time to wake.
//!
//! A core falls asleep when none of its threads runs anything. How deep follows from how long it was
//! idle of late, as the kernel's governor expects it to be again; where that lasts beyond a tick of the
//! timer, from how long it lasts. Whoever comes then waits until it has left the state, without being
//! charged for it, as the kernel counts; after that a core that had lost its caches first makes no
//! progress for a while, which is charged: for a time that is known, or as long as it takes to read
//! the private cache again, from memory as others load it.
//! While a sibling runs, or one of the core's threads polls, the core is awake. In a virtual machine
//! the host may have given the CPU away meanwhile: some of the waits are then far longer.

use super::cost::LINE;
use super::sched::KERNEL_TICK_NS;
use super::{CpuState, World};

/// The weight of a spell of idleness in what is usual: the kernel's menu governor looks at eight.
const SPELL: f64 = 1.0 / 8.0;

impl World {
    /// Nanoseconds until a CPU on which nothing runs can run a thread of a group, which is not charged
    /// for them.
    pub(super) fn leave_idle(&mut self, cpu: usize, thread: usize) -> u64 {
        if self.machine.idle.is_empty() {
            return 0;
        }
        let waking = self.until_awake(cpu, thread);
        let group = self.threads[thread].group;
        if let Some(quota) = &mut self.groups[group].quota {
            quota.pool_ns += waking as f64;
        }
        waking
    }

    /// Nanoseconds until a CPU's core is awake. What it costs to find caches cold is put down with it.
    fn until_awake(&mut self, cpu: usize, thread: usize) -> u64 {
        let place = &self.shape.cpus[cpu];
        let mut slept_ns = self.now - self.cpus[cpu].idle_from;
        let expected_ns = self.cpus[cpu].expected_idle(slept_ns);
        if let Some(sibling) = place.sibling.map(|sibling| &self.cpus[sibling]) {
            if sibling.current.is_some() {
                return sibling.since.saturating_sub(self.now);
            }
            slept_ns = slept_ns.min(self.now - sibling.idle_from);
        }
        let polls = |cpu: usize| self.cpus[cpu].polls;
        let awake = polls(cpu) || place.sibling.is_some_and(polls);
        if awake || slept_ns == 0 { 0 } else { self.wake_core(cpu, thread, expected_ns) }
    }

    /// The way out of the deepest state that pays when this time is expected.
    fn wake_core(&mut self, cpu: usize, thread: usize, expected_ns: f64) -> u64 {
        let expected_s = expected_ns / 1e9;
        let Some(state) = self.machine.idle.iter().rfind(|state| state.after_s <= expected_s)
        else {
            return 0;
        };
        let late = state.late;
        let (mut exit_s, mut cold_ns) = (state.exit_s, 1e9 * state.cold_s);
        if state.flushed {
            cold_ns += self.refill_ns(cpu, thread);
        }
        if late.frac > 0.0 && self.wakes.uniform() < late.frac {
            exit_s += self.wakes.exponential(late.mean_s);
        }
        let of = &mut self.cpus[cpu];
        of.cold_ns = of.cold_ns.max(cold_ns);
        (exit_s * 1e9) as u64
    }

    /// Running time in which a thread fills its core's private cache again, which was flushed, and
    /// does nothing else. What the last-level cache had too, it finds there as it finds all its
    /// program's; the rest comes from memory as loaded.
    fn refill_ns(&mut self, cpu: usize, thread: usize) -> f64 {
        let (place, cache) = (&self.shape.cpus[cpu], &self.machine.cache);
        let (number, home) = (self.threads[thread].work, self.shape.domain_node[place.domain]);
        let work = &self.works[number];
        let (phase, access) = (&work.program.phases[work.phase], work.access[work.phase]);
        let missing = phase.llc_misses.mpki(self.caches[place.domain].held(number));
        let found = if phase.llc_apki > 0.0 { 1.0 - missing / phase.llc_apki } else { 0.0 };
        let lines = cache.l2_bytes as f64 / LINE;
        let hits = lines * cache.inclusion * found;
        let bytes = (lines - hits) * LINE;
        let hit_ns = access.hit_cycles / self.sockets[place.socket].ghz();
        let miss_ns = access.miss_ns * (1.0 + self.node_queue[home]);
        self.groups[work.group].traffic_bytes += bytes;
        self.traffic_bytes += bytes;
        hits * hit_ns + (lines - hits) * miss_ns
    }

    /// A core's other thread runs faster or slower from now on.
    pub(super) fn respeed_sibling(&mut self, cpu: usize) {
        if let Some(sibling) = self.shape.cpus[cpu].sibling
            && self.cpus[sibling].current.is_some()
        {
            self.settle(sibling);
            self.refresh(sibling);
        }
    }

    /// Whether a CPU that has nothing to do polls in place of sleeping.
    pub(crate) fn set_polls(&mut self, cpu: usize, polls: bool) {
        self.cpus[cpu].polls = polls;
        if self.cpus[cpu].current.is_none() {
            self.cpus[cpu].idle_from = self.now;
        }
    }
}

impl CpuState {
    /// How long a CPU was expected to be idle, in nanoseconds, now that it was for so long; a spell of
    /// no time is none.
    fn expected_idle(&mut self, slept_ns: u64) -> f64 {
        let (slept, usual) = (slept_ns as f64, self.usual_idle_ns);
        if slept_ns > 0 {
            self.usual_idle_ns += SPELL * (slept - usual);
        }
        if slept_ns >= KERNEL_TICK_NS { slept.max(usual) } else { usual }
    }
}
