//! Classes of threads (S-10): real-time ones run before all others, until they have nothing to do; what is set of a
//! group's CPU bandwidth does not hold them; and a part of each second is kept for whoever waits behind them.
//!
//! After `SCHED_FIFO` in kernels without `CONFIG_RT_GROUP_SCHED`. What is kept is 50 ms of a second, once others have
//! waited for 950 (`sched_rt_runtime_us`, and the fair server since 6.12).

use super::World;

/// For so long others wait in vain.
const BEFORE_OTHERS_NS: u64 = 950_000_000;
/// Then so much is theirs.
const KEPT_NS: u64 = 50_000_000;

/// Who comes before whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Idle,
    Fair,
    RealTime,
}

/// How a CPU goes between real-time threads and the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// Since when only real-time threads have had it.
    since: Option<u64>,
    /// Until then it is for the others.
    until: u64,
}

impl World {
    pub(super) fn class(&self, thread: usize) -> Class {
        let of = &self.threads[thread];
        match (of.real_time, self.groups[of.group].idle) {
            (true, _) => Class::RealTime,
            (false, true) => Class::Idle,
            (false, false) => Class::Fair,
        }
    }

    /// Whether a thread may not run now.
    pub(super) fn is_parked(&self, thread: usize) -> bool {
        let of = &self.threads[thread];
        let group = &self.groups[of.group];
        group.frozen || (!of.real_time && group.is_throttled())
    }

    /// Of those that wait for a CPU, who has it next: of the class whose turn it is, who has run least.
    pub(super) fn next_in_queue(&self, cpu: usize) -> Option<usize> {
        let others = self.is_kept(cpu);
        let order = |t: &usize| (self.threads[*t].real_time == others, self.threads[*t].vruntime);
        let before = |a: &usize, b: &usize| {
            let ((a_late, a_ran), (b_late, b_ran)) = (order(a), order(b));
            a_late.cmp(&b_late).then(a_ran.total_cmp(&b_ran))
        };
        self.cpus[cpu].queue.iter().copied().min_by(before)
    }

    /// Whether a thread that begins to wait has the CPU of who runs there at once.
    pub(super) fn takes_over(&self, cpu: usize, thread: usize, running: usize) -> bool {
        match (self.class(thread), self.class(running)) {
            (Class::RealTime, Class::RealTime) => false,
            (Class::RealTime, _) => !self.is_kept(cpu),
            (Class::Fair, Class::Idle) => true,
            _ => false,
        }
    }

    /// Whether who runs makes way for somebody who waits, now that its slice is over.
    pub(super) fn makes_way(&mut self, cpu: usize, running: usize) -> bool {
        let queue = &self.cpus[cpu].queue;
        let mut others = queue.iter().filter(|t| !self.threads[**t].real_time);
        if self.threads[running].real_time {
            let waited = self.cpus[cpu].kept.since.map_or(0, |since| self.now - since);
            let makes_way = waited >= BEFORE_OTHERS_NS && others.next().is_some();
            if makes_way {
                self.cpus[cpu].kept = Kept { since: None, until: self.now + KEPT_NS };
            }
            return makes_way;
        }
        let mine = self.threads[running].vruntime;
        let waits_first = || queue.iter().any(|t| self.threads[*t].real_time);
        others.any(|t| self.threads[*t].vruntime < mine) || (!self.is_kept(cpu) && waits_first())
    }

    /// Puts down that a thread has a CPU now.
    pub(super) fn note_class(&mut self, cpu: usize, thread: usize) {
        let (now, kept) = (self.now, &mut self.cpus[cpu].kept);
        if self.threads[thread].real_time {
            kept.since.get_or_insert(now);
        } else {
            kept.since = None;
        }
    }

    fn is_kept(&self, cpu: usize) -> bool {
        self.now < self.cpus[cpu].kept.until
    }

    /// Where a real-time thread has to wait for nobody of its class, if it is one: where it was, if it may.
    pub(super) fn before_others(&self, thread: usize) -> Option<usize> {
        let of = &self.threads[thread];
        if !of.real_time {
            return None;
        }
        let allowed = self.groups[of.group].cpus;
        let gives_way = |cpu: &usize| {
            self.cpus[*cpu].current.is_none_or(|running| !self.threads[running].real_time)
        };
        let before = Some(of.cpu).filter(|cpu| allowed.contains(*cpu) && gives_way(cpu));
        before.or_else(|| allowed.iter().find(gives_way))
    }
}
