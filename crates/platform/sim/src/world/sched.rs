//! The scheduler: weighted fair time, classes ([`super::class`]), preemption at wake-up (S-10).
//!
//! After the kernel's fair class: every thread has a weighted run time; the one with the least
//! runs for a slice, which is over at a tick of the timer. A thread that wakes is put up to a slice
//! before the others; it takes the CPU over at once if a lower class runs there, else when
//! the slice of who runs is over (EEVDF with RUN_TO_PARITY).

use super::class::Class;
use super::{NEVER, State, World};

/// Slices end at ticks of the kernel's timer: 250 a second.
pub(super) const KERNEL_TICK_NS: u64 = 4_000_000;

/// The slice of a machine of so many CPUs in nanoseconds: 0.7 ms times 1 + log2, at most 2.8 ms
/// (base_slice_ns of kernels since 6.6).
pub(super) fn slice_ns(cpus: usize) -> u64 {
    700_000 * (1 + u64::from(cpus.max(1).ilog2().min(3)))
}

/// The timer tick at or after a moment.
fn at_tick(moment: u64) -> u64 {
    moment.div_ceil(KERNEL_TICK_NS) * KERNEL_TICK_NS
}

impl World {
    /// A request or task is done, or a slice is over.
    pub(super) fn cpu_event(&mut self, cpu: usize) {
        self.settle(cpu);
        let Some(running) = self.cpus[cpu].current else {
            self.cpu_next.set(cpu, NEVER);
            return;
        };
        if self.threads[running].left <= 0.0 {
            self.done(running);
        } else if self.stop_for_locks(cpu, running) {
            // It sleeps, and the CPU has somebody else or nobody.
        } else if self.now >= self.cpus[cpu].slice_end && !self.cpus[cpu].queue.is_empty() {
            self.end_slice(cpu, running);
        } else {
            self.refresh(cpu);
        }
    }

    /// The running thread goes on if it has still run least of its class, and it is its class' turn.
    fn end_slice(&mut self, cpu: usize, running: usize) {
        if self.makes_way(cpu, running) {
            self.requeue(cpu, running);
            self.pick(cpu);
        } else {
            self.cpus[cpu].slice_end = at_tick(self.now + self.slice_ns);
            self.refresh(cpu);
        }
    }

    fn done(&mut self, thread: usize) {
        let work = self.threads[thread].work;
        if let Some(service) = self.works[work].service {
            return self.answer(service, thread);
        }
        self.lap_done(work, thread);
    }

    /// Puts down behind whom the queue of a CPU stood since the last look: behind the group of who
    /// runs there; and who had another CPU meanwhile, if that is somebody else's.
    pub(super) fn settle_queue(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        let passed = self.now - std::mem::replace(&mut state.stood_since, self.now);
        if passed == 0 || state.queue.is_empty() {
            return;
        }
        let running = self.cpus[cpu].current.map(|thread| self.threads[thread].group);
        let all = self.cpus.len();
        let mut elsewhere = None;
        for place in 0..self.cpus[cpu].queue.len() {
            let group = self.threads[self.cpus[cpu].queue[place]].group;
            let of = &mut self.groups[group];
            let Some(nobody) = of.stood_ns.len().checked_sub(1) else { continue };
            if let Some(ns) = of.stood_ns.get_mut(running.unwrap_or(nobody)) {
                *ns += passed;
            }
            let behind_others = running.is_some_and(|running| running != group);
            if behind_others && all > 1 && of.cpus.len_up_to(all) == all {
                let there = *elsewhere.get_or_insert_with(|| self.running_elsewhere(cpu));
                if let Some(ns) = self.groups[group].elsewhere_ns.get_mut(there.unwrap_or(nobody)) {
                    *ns += passed;
                }
            }
        }
    }

    /// The group of who runs on another CPU: as many as there are, one is asked after the other.
    fn running_elsewhere(&mut self, cpu: usize) -> Option<usize> {
        self.asked = (self.asked + 1) % (self.cpus.len() - 1).max(1);
        let other = (cpu + 1 + self.asked) % self.cpus.len();
        self.cpus[other].current.map(|thread| self.threads[thread].group)
    }

    /// Puts a thread on a free CPU.
    fn put_on(&mut self, cpu: usize, thread: usize) {
        self.settle_queue(cpu);
        let of = &mut self.threads[thread];
        of.state = State::Running;
        let (group, queued_at, vruntime) = (of.group, of.queued_at, of.vruntime);
        self.settle_quota(group);
        let waking = self.leave_idle(cpu, thread);
        let state = &mut self.cpus[cpu];
        state.current = Some(thread);
        state.since = state.since.max(self.now) + waking;
        state.slice_end = at_tick(self.now + self.slice_ns);
        state.least_vruntime = state.least_vruntime.max(vruntime);
        self.running.insert(cpu);
        self.count_running(thread, true);
        self.note_class(cpu, thread);
        self.groups[group].run_queue.record(self.now - queued_at + waking);
        self.mark(cpu);
        self.refresh(cpu);
        self.respeed_sibling(cpu);
        self.may_begin_request(thread);
    }

    /// Takes the running thread off; its state is the caller's.
    fn take_off(&mut self, cpu: usize) {
        self.settle(cpu);
        self.settle_queue(cpu);
        let state = &mut self.cpus[cpu];
        let Some(running) = state.current.take() else { return };
        state.idle_from = self.now;
        let group = self.threads[running].group;
        self.settle_quota(group);
        self.count_running(running, false);
        self.running.remove(cpu);
        self.cpu_next.set(cpu, NEVER);
        self.mark(cpu);
        self.respeed_sibling(cpu);
    }

    pub(super) fn mark(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        let empty = state.current.is_none() && state.queue.is_empty();
        if empty {
            self.free.insert(cpu)
        } else {
            self.free.remove(cpu)
        }
        let only_idle = state.current.is_some_and(|t| self.class(t) == Class::Idle);
        if state.queue.is_empty() {
            self.crowded.remove(cpu)
        } else {
            self.crowded.insert(cpu)
        }
        if only_idle { self.idle_running.insert(cpu) } else { self.idle_running.remove(cpu) }
    }

    pub(super) fn requeue(&mut self, cpu: usize, running: usize) {
        self.take_off(cpu);
        self.queue_up(cpu, running);
    }

    fn queue_up(&mut self, cpu: usize, thread: usize) {
        self.settle_queue(cpu);
        let of = &mut self.threads[thread];
        of.state = State::Queued;
        of.cpu = cpu;
        of.queued_at = self.now;
        self.cpus[cpu].queue.push(thread);
        self.queued += 1;
        self.note_wait(thread, true);
        self.mark(cpu);
    }

    fn unqueue(&mut self, thread: usize) {
        let cpu = self.threads[thread].cpu;
        self.settle_queue(cpu);
        self.cpus[cpu].queue.retain(|t| *t != thread);
        self.queued -= 1;
        self.note_wait(thread, false);
        self.mark(cpu);
    }

    fn note_wait(&mut self, thread: usize, more: bool) {
        let group = self.threads[thread].group;
        if self.groups[group].wait(self.now, more) {
            if self.waiting_groups > 0 {
                self.waited_ns += self.now - self.waiting_since;
            }
            self.waiting_since = self.now;
            self.waiting_groups =
                if more { self.waiting_groups + 1 } else { self.waiting_groups - 1 };
        }
    }

    /// Runs whoever has run least; looks elsewhere if nobody waits here.
    pub(super) fn pick(&mut self, cpu: usize) {
        if self.cpus[cpu].current.is_some() {
            return;
        }
        if self.cpus[cpu].queue.is_empty() {
            self.pull(cpu);
        }
        if let Some(next) = self.next_in_queue(cpu) {
            self.unqueue(next);
            self.put_on(cpu, next);
        }
    }

    /// The least weighted run time on a CPU: where newcomers join.
    pub(super) fn floor(&mut self, cpu: usize) -> f64 {
        let state = &self.cpus[cpu];
        if state.current.is_none() && state.queue.is_empty() {
            return state.least_vruntime;
        }
        self.settle(cpu);
        let state = &self.cpus[cpu];
        let all = state.queue.iter().chain(&state.current).map(|t| self.threads[*t].vruntime);
        let least = all.fold(f64::INFINITY, f64::min);
        if least.is_finite() { least.max(state.least_vruntime) } else { state.least_vruntime }
    }

    /// A thread has something to do.
    pub(super) fn wake(&mut self, thread: usize) {
        if self.is_parked(thread) {
            self.threads[thread].state = State::Parked;
            return;
        }
        self.enter(thread, self.slice_ns as f64);
    }

    /// A new thread begins on the CPU with the fewest others.
    pub(super) fn fork(&mut self, thread: usize) {
        let allowed = self.groups[self.threads[thread].group].cpus;
        let load = |cpu: usize| {
            let busy =
                |c: usize| self.cpus[c].queue.len() + usize::from(self.cpus[c].current.is_some());
            (busy(cpu), self.shape.cpus[cpu].sibling.map_or(0, busy))
        };
        if let Some(cpu) = allowed.iter().min_by_key(|cpu| load(*cpu)) {
            self.threads[thread].cpu = cpu;
            self.threads[thread].vruntime = self.floor(cpu);
        }
        self.wake(thread);
    }

    /// Joins a CPU's queue and takes the CPU over if it may.
    pub(super) fn enter(&mut self, thread: usize, credit: f64) {
        let (group, old) = (self.threads[thread].group, self.threads[thread].cpu);
        let cpu = self.place(thread);
        let floor = self.floor(cpu);
        let moved = if cpu == old { 0.0 } else { floor - self.floor(old) };
        let vruntime = (self.threads[thread].vruntime + moved).max(floor - credit);
        self.threads[thread].vruntime = vruntime;
        self.groups[group].runnable += 1;
        if self.free.contains(cpu) {
            self.threads[thread].cpu = cpu;
            self.threads[thread].queued_at = self.now;
            return self.put_on(cpu, thread);
        }
        self.queue_up(cpu, thread);
        self.contend(cpu, thread);
    }

    /// A thread that waits on a CPU takes it over, if it may.
    pub(super) fn contend(&mut self, cpu: usize, thread: usize) {
        let Some(running) = self.cpus[cpu].current else { return self.pick(cpu) };
        if self.takes_over(cpu, thread, running) {
            self.requeue(cpu, running);
            self.unqueue(thread);
            self.put_on(cpu, thread);
        } else {
            self.settle(cpu);
            // While it was alone its slice was renewed each time that it ended.
            let state = &mut self.cpus[cpu];
            let over = self.now.saturating_sub(state.slice_end);
            state.slice_end += over.div_ceil(self.slice_ns) * self.slice_ns;
            state.slice_end = at_tick(state.slice_end);
            self.refresh(cpu);
        }
    }

    /// Takes a thread away from its CPU, whether it runs or waits.
    pub(super) fn leave(&mut self, thread: usize, to: State) {
        let cpu = self.threads[thread].cpu;
        let was = self.threads[thread].state;
        match was {
            State::Running => self.take_off(cpu),
            State::Queued => self.unqueue(thread),
            State::Blocked | State::Parked => {}
        }
        self.threads[thread].state = to;
        if matches!(was, State::Running | State::Queued) {
            self.groups[self.threads[thread].group].runnable -= 1;
        }
        match was {
            State::Running => self.pick(cpu),
            State::Queued if self.cpus[cpu].current.is_some() => {
                self.settle(cpu);
                self.refresh(cpu);
            }
            _ => {}
        }
    }

    /// A thread has nothing to do any more.
    pub(super) fn block(&mut self, thread: usize) {
        self.leave(thread, State::Blocked);
    }

    /// Moves a waiting thread to another CPU's queue.
    pub(super) fn migrate(&mut self, thread: usize, to: usize) {
        let from = self.threads[thread].cpu;
        let moved = self.floor(to) - self.floor(from);
        self.unqueue(thread);
        self.threads[thread].vruntime += moved;
        self.queue_up(to, thread);
    }
}
