//! How fast what runs gets on: it is accounted when something changes, and its speed and its next
//! event are worked out anew.
//!
//! This is done for every event and for each CPU at every tick, more often than anything else.

use super::{CpuState, NEVER, World, lock_limit, span_of, whole_ns};
use crate::model::power::relative_power;

impl World {
    /// Accounts what ran on a CPU since the last look.
    pub(super) fn settle(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        if state.since >= self.now {
            return;
        }
        let passed = self.now - std::mem::replace(&mut state.since, self.now);
        let Some(running) = state.current else { return };
        if state.stolen {
            self.lose(cpu, running, passed);
            return;
        }
        let span = span_of(passed);
        let lost = state.cold_ns.min(span);
        state.cold_ns -= lost;
        let instructions = (span - lost) * state.speed;
        let thread = &mut self.threads[running];
        let group = &mut self.groups[thread.group];
        let place = &self.shape.cpus[cpu];
        thread.left -= instructions;
        if !thread.real_time {
            thread.vruntime += span * group.pace();
        }
        group.cpu_ns += passed;
        group.instructions += instructions;
        let units_ns = span * state.units;
        self.heat.add(cpu, units_ns);
        state.busy_ns += passed;
        self.busy_ns += passed;
        let ran = &mut self.socket_ran[place.socket];
        ran.units_ns += units_ns;
        ran.busy_ns += span;
        let index = thread.work * self.caches.len() + place.domain;
        let cell = &mut self.cells[index];
        if cell.ran_ns == 0.0 {
            self.active.push(index);
        }
        cell.add(span, state.factor, state.ghz, instructions);
        if state.locks_per_ns > 0.0 {
            self.settle_locks(cpu, running, span);
        }
    }

    /// Accounts the bus locks of what ran.
    #[cold]
    fn settle_locks(&mut self, cpu: usize, running: usize, span_ns: f64) {
        let locks = span_ns * self.cpus[cpu].locks_per_ns;
        self.cpus[cpu].bus_locks += locks;
        self.groups[self.threads[running].group].bus_locks += locks;
        self.lock_limit.iter_mut().for_each(|limit| limit.count(self.now, locks));
    }

    /// Works out a CPU's speed and its next event anew.
    pub(super) fn refresh(&mut self, cpu: usize) {
        let mut next = NEVER;
        if let Some(running) = self.cpus[cpu].current {
            let domain = self.shape.cpus[cpu].domain;
            let index = self.threads[running].work * self.caches.len() + domain;
            if self.cells[index].priced != self.epoch {
                self.price(index);
            }
            if !self.cpus[cpu].stolen {
                self.respeed(cpu, running, index);
                next = self.next_of(cpu, running).max(self.now);
            }
        }
        self.cpu_next.set(cpu, next);
    }

    /// Works out the speed of a thread on a CPU, where instructions cost what a cell says.
    #[inline]
    fn respeed(&mut self, cpu: usize, running: usize, index: usize) {
        let (place, cell) = (&self.shape.cpus[cpu], &self.cells[index]);
        let work = &self.works[self.threads[running].work];
        let phase = &work.program.phases[work.phase];
        let mut factor = place.speed;
        let mut duty = self.cpus[cpu].duty;
        let mut shared = false;
        if let Some(sibling) = place.sibling.map(|other| &self.cpus[other]) {
            // A core runs at the highest duty that any of its threads is set to.
            duty = if sibling.duty > duty { sibling.duty } else { duty };
            shared = sibling.current.is_some();
        }
        factor *= duty;
        if shared {
            factor *= phase.smt_speed.unwrap_or(self.machine.smt_speed);
        }
        let state = &mut self.cpus[cpu];
        let khz = self.sockets[place.socket].khz.min(state.cap_khz);
        if state.khz != khz {
            state.clock_at(khz, self.machine.clock.base_khz);
        }
        state.factor = factor;
        state.speed = factor / (cell.cycles / state.ghz + cell.waiting_ns);
        state.units = phase.activity * factor * state.relative_power;
        state.locks_per_ns = 0.0;
        // Hardly any program makes some.
        if phase.split_locks_per_s > 0.0 {
            let room = self.lock_room[self.shape.socket_server[place.socket]];
            state.locks_per_ns = lock_limit::per_ns(phase.split_locks_per_s, factor, room);
        }
    }

    /// When the thread that runs on a CPU stops there, or may have to make way.
    #[inline]
    fn next_of(&self, cpu: usize, running: usize) -> u64 {
        let state = &self.cpus[cpu];
        let mut next = if state.queue.is_empty() { NEVER } else { state.slice_end };
        let left = self.threads[running].left;
        if left < f64::INFINITY {
            let wait = whole_ns((left / state.speed).max(0.0) + state.cold_ns);
            next = next.min(self.now.max(state.since).saturating_add(wait.max(1)));
        }
        if state.locks_per_ns > 0.0 {
            next = next.min(self.lock_stop(cpu));
        }
        next
    }
}

impl CpuState {
    /// Runs at another frequency from now on.
    #[cold]
    fn clock_at(&mut self, khz: u64, base_khz: u64) {
        (self.khz, self.ghz) = (khz, khz as f64 / 1e6);
        self.relative_power = relative_power(self.ghz, base_khz as f64 / 1e6);
    }
}
