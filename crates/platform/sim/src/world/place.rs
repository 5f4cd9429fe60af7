//! Where threads go: wake-up placement, pulling by idle CPUs, periodic balance, CPU sets (S-10).

use super::{State, World};
use crate::mask::Mask;
use std::cmp::Reverse;

/// How often queues are evened out, in nanoseconds: about the kernel's domain interval.
const BALANCE_NS: u64 = 4_000_000;
/// After so many rounds that could not make queues equal, a thread moves all the same, so that
/// three threads on two CPUs take turns.
const PATIENCE: u64 = 16;

impl World {
    /// The CPU for a thread that wakes: where it was, if free; else a free core behind the same
    /// cache, a free CPU there, one that runs only the idle class; else anywhere free; else where
    /// it was.
    pub(super) fn place(&self, thread: usize) -> usize {
        let of = &self.threads[thread];
        let group = &self.groups[of.group];
        let (allowed, before) = (group.cpus, of.cpu);
        let stays = allowed.contains(before);
        if stays && self.free.contains(before) && self.whole_core_free(before) {
            return before;
        }
        let free = allowed.and(&self.free);
        let near = self.shape.domain_cpus[self.shape.cpus[before].domain];
        let near_free = free.and(&near);
        if let Some(core) = near_free.iter().find(|cpu| self.whole_core_free(*cpu)) {
            return core;
        }
        if stays && free.contains(before) {
            return before;
        }
        let lent = allowed.and(&self.idle_running);
        let lent = if group.idle { Mask::default() } else { lent };
        let lent_before = (stays && lent.contains(before)).then_some(before);
        near_free
            .first()
            .or(lent_before)
            .or_else(|| lent.and(&near).first())
            .or_else(|| free.first())
            .or_else(|| self.before_others(thread))
            .or_else(|| stays.then_some(before))
            .or_else(|| allowed.iter().min_by_key(|cpu| self.cpus[*cpu].queue.len()))
            .unwrap_or(before)
    }

    fn whole_core_free(&self, cpu: usize) -> bool {
        self.shape.cpus[cpu].sibling.is_none_or(|sibling| self.free.contains(sibling))
    }

    /// An idle CPU takes a waiting thread from the longest queue, near ones first.
    pub(super) fn pull(&mut self, cpu: usize) {
        if self.queued == 0 {
            return;
        }
        let near = self.shape.domain_cpus[self.shape.cpus[cpu].domain];
        let may = |t: &&usize| self.groups[self.threads[**t].group].cpus.contains(cpu);
        let candidate = |from: usize| {
            let queue = &self.cpus[from].queue;
            let thread = queue.iter().filter(may).min_by_key(|t| Reverse(self.class(**t)))?;
            Some((near.contains(from), queue.len(), *thread))
        };
        let best = self
            .crowded
            .iter()
            .filter(|from| *from != cpu)
            .filter_map(candidate)
            .max_by_key(|(near, length, _)| (*near, *length));
        if let Some((_, _, thread)) = best {
            self.migrate(thread, cpu);
        }
    }

    /// Evens queues out, now and then.
    pub(super) fn balance(&mut self) {
        if self.queued == 0 || self.now - self.balanced < BALANCE_NS {
            return;
        }
        self.balanced = self.now;
        self.balances += 1;
        let mut filled = Mask::default();
        let crowded = self.crowded;
        for from in crowded.iter() {
            // Whoever has just been given a thread would give it back.
            if filled.contains(from) {
                continue;
            }
            let Some(&waiting) = self.cpus[from].queue.first() else { continue };
            if let Some(to) = self.better_place(from, waiting) {
                filled.insert(to);
                self.push(from, to, waiting);
            }
        }
    }

    /// Moves a thread of the class of `waiting` from one CPU to another: the one that stayed
    /// longest where it is, be it running, so that turns go round.
    fn push(&mut self, from: usize, to: usize, waiting: usize) {
        let class = self.class(waiting);
        let allowed = |t: usize| self.groups[self.threads[t].group].cpus.contains(to);
        let may = |t: &usize| self.class(*t) == class && allowed(*t);
        let here = self.cpus[from].queue.iter().chain(&self.cpus[from].current).copied();
        let longest = here.filter(may).min_by_key(|t| self.threads[*t].moved);
        let thread = longest.unwrap_or(waiting);
        if self.threads[thread].state == State::Running {
            self.requeue(from, thread);
        }
        self.threads[thread].moved = self.now;
        self.migrate(thread, to);
        self.contend(to, thread);
        self.pick(from);
        if self.cpus[from].current.is_some() {
            self.settle(from);
            self.refresh(from);
        }
    }

    /// A CPU on which a waiting thread would have less company of its class, or of one that comes before
    /// it: among equals a near one, and the next by number, so that turns go round.
    fn better_place(&self, from: usize, thread: usize) -> Option<usize> {
        let (group, class) = (&self.groups[self.threads[thread].group], self.class(thread));
        let load = |cpu: usize| {
            let state = &self.cpus[cpu];
            let counts = |t: &&usize| self.class(**t) >= class;
            state.queue.iter().chain(&state.current).filter(counts).count()
        };
        let near = self.shape.domain_cpus[self.shape.cpus[from].domain];
        let all = self.cpus.len();
        let order = |cpu: &usize| (load(*cpu), !near.contains(*cpu), (*cpu + all - from) % all);
        let best = group.cpus.iter().min_by_key(order)?;
        let patient = u64::from(!self.balances.is_multiple_of(PATIENCE)) as usize;
        (best != from && load(best) + patient < load(from)).then_some(best)
    }

    /// Another set of CPUs: whoever stands outside moves.
    pub(crate) fn set_cpus(&mut self, group: usize, cpus: Mask) {
        self.groups[group].cpus = cpus;
        for index in 0..self.groups[group].threads.len() {
            let thread = self.groups[group].threads[index];
            let state = self.threads[thread].state;
            let outside = !cpus.contains(self.threads[thread].cpu);
            if outside && matches!(state, State::Running | State::Queued) {
                self.leave(thread, State::Blocked);
                self.enter(thread, 0.0);
            }
        }
        self.wake_hardware();
    }

    /// Another weight or class.
    pub(crate) fn set_class(&mut self, group: usize, weight: u32, idle: bool) {
        self.groups[group].weight = weight;
        self.groups[group].idle = idle;
        for cpu in 0..self.cpus.len() {
            self.mark(cpu);
        }
    }
}
