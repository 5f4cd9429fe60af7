//! Where threads stop on their way: at barriers (S-3), at full sockets, at the end.

use super::{NEVER, State, World};

/// No sleep is shorter: a timer's slack.
const LEAST_SLEEP_NS: u64 = 50_000;

impl World {
    /// A thread of a batch program has come to where it stops.
    pub(super) fn lap_done(&mut self, work: usize, thread: usize) {
        let of = &mut self.threads[thread];
        of.todo -= of.lap;
        if of.todo <= 0.0 {
            return self.thread_done(work, thread);
        }
        let phase = &self.works[work].program.phases[self.works[work].phase];
        let (meets, burst) = (phase.barrier_instructions.is_finite(), phase.send_bytes);
        self.begin_lap(thread);
        if meets {
            self.meet(work, thread);
        } else if burst.is_finite() {
            self.hand_over(thread, burst);
        } else {
            self.refresh(self.threads[thread].cpu);
        }
    }

    /// From here to the next stop.
    fn begin_lap(&mut self, thread: usize) {
        let work = &self.works[self.threads[thread].work];
        let stop = work.program.phases[work.phase].stop_instructions();
        let of = &mut self.threads[thread];
        of.lap = of.todo.min(stop);
        of.left = of.lap;
    }

    fn thread_done(&mut self, work: usize, thread: usize) {
        self.threads[thread].left = f64::INFINITY;
        self.block(thread);
        self.works[work].unfinished -= 1;
        if self.works[work].unfinished == 0 {
            self.end_work(work);
            self.ended.push(work);
        } else {
            self.release_if_all_met(work);
        }
    }

    /// Waits until all threads have come to the barrier.
    fn meet(&mut self, work: usize, thread: usize) {
        self.threads[thread].meets = true;
        self.works[work].meeting += 1;
        self.block(thread);
        self.release_if_all_met(work);
    }

    fn release_if_all_met(&mut self, work: usize) {
        if self.works[work].meeting == self.works[work].unfinished {
            self.release(work);
        }
    }

    /// Lets all threads go on that wait at the barrier.
    fn release(&mut self, work: usize) {
        self.works[work].meeting = 0;
        for index in 0..self.works[work].threads.len() {
            let thread = self.works[work].threads[index];
            if std::mem::take(&mut self.threads[thread].meets) {
                self.wake(thread);
            }
        }
    }

    /// Puts bytes into the socket; sleeps if there is no room for more.
    fn hand_over(&mut self, thread: usize, bytes: f64) {
        let (now, group) = (self.now, self.threads[thread].group);
        let Some(&link) = self.groups[group].links.first() else {
            self.groups[group].egress_bytes += bytes;
            return self.refresh(self.threads[thread].cpu);
        };
        let full_s = self.links[link].hand_over(now, group, thread, bytes);
        if full_s <= 0.0 {
            return self.refresh(self.threads[thread].cpu);
        }
        self.block(thread);
        self.sleep_next.set(thread, now + ((full_s * 1e9) as u64).max(LEAST_SLEEP_NS));
    }

    pub(super) fn wake_sleeper(&mut self, thread: usize) {
        self.sleep_next.set(thread, NEVER);
        if self.threads[thread].state == State::Blocked {
            self.wake(thread);
        }
    }

    /// Another phase has begun: its barriers and bursts are others. Whoever waited goes on.
    pub(super) fn cut_laps(&mut self, work: usize) {
        if self.works[work].service.is_some() {
            return;
        }
        for index in 0..self.works[work].threads.len() {
            let thread = self.works[work].threads[index];
            let running = self.threads[thread].state == State::Running;
            let cpu = self.threads[thread].cpu;
            if running {
                self.settle(cpu);
            }
            let of = &mut self.threads[thread];
            if of.todo > 0.0 {
                of.todo -= (of.lap - of.left).max(0.0);
                self.begin_lap(thread);
            }
            if running {
                self.refresh(cpu);
            }
        }
        self.release(work);
    }
}
