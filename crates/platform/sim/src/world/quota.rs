//! CPU bandwidth of groups and the freezer.

use super::{NEVER, Quota, State, World, span_of, whole_ns};

impl World {
    /// Sets or lifts a group's CPU bandwidth: (quota, period) in nanoseconds.
    pub(crate) fn set_quota(&mut self, group: usize, limit: Option<(u64, u64)>) {
        self.settle_quota(group);
        let (now, held) = (self.now, self.held_cpus(group));
        let of = &mut self.groups[group];
        if let Some(Quota { throttled_since: Some(since), .. }) = of.quota {
            of.throttled_ns += (now - since) * held;
        }
        of.quota = limit.map(|(quota_ns, period_ns)| Quota {
            quota_ns,
            period_ns,
            pool_ns: quota_ns as f64,
            since: now,
            refill: now + period_ns,
            throttled_since: None,
        });
        self.plan_quota(group);
        self.unpark(group);
        self.wake_hardware();
    }

    /// Freezes or thaws a group.
    pub(crate) fn set_frozen(&mut self, group: usize, frozen: bool) {
        self.groups[group].frozen = frozen;
        if frozen {
            self.park(group);
        } else {
            self.unpark(group);
        }
        self.wake_hardware();
    }

    /// Takes what ran since the last look out of the pool.
    pub(super) fn settle_quota(&mut self, group: usize) {
        let now = self.now;
        let of = &mut self.groups[group];
        let charged = f64::from(of.charged);
        if let Some(quota) = &mut of.quota {
            quota.pool_ns -= span_of(now - quota.since) * charged;
            quota.since = now;
        }
    }

    /// When the pool is spent, or filled up again.
    pub(super) fn plan_quota(&mut self, group: usize) {
        let of = &self.groups[group];
        let next = match of.quota {
            None => NEVER,
            Some(quota) if of.charged == 0 || quota.throttled_since.is_some() => quota.refill,
            Some(quota) => {
                let left = whole_ns(quota.pool_ns.max(0.0) / f64::from(of.charged));
                quota.refill.min(self.now + left)
            }
        };
        self.group_next.set(group, next);
    }

    pub(super) fn quota_event(&mut self, group: usize) {
        self.settle_quota(group);
        let now = self.now;
        let throttled = self.groups[group].quota.is_some_and(|q| q.throttled_since.is_some());
        let held = if throttled { self.held_cpus(group) } else { 0 };
        let of = &mut self.groups[group];
        let active = of.runnable > 0;
        let Some(quota) = &mut of.quota else { return };
        if now >= quota.refill {
            if let Some(since) = quota.throttled_since.take() {
                of.throttled_ns += (now - since) * held;
                of.periods += 1;
            } else if active {
                of.periods += 1;
            }
            // A debt of the last period is paid from this one.
            quota.pool_ns = quota.quota_ns as f64 + quota.pool_ns.min(0.0);
            quota.refill = now + quota.period_ns;
            self.unpark(group);
        } else if quota.pool_ns <= 0.5 {
            quota.throttled_since = Some(now);
            of.throttled_periods += 1;
            self.park(group);
        }
        self.plan_quota(group);
    }

    /// CPUs on which threads of a throttled group wait for the next period.
    fn held_cpus(&self, group: usize) -> u64 {
        let of = &self.groups[group];
        let parked = |t: &&usize| self.threads[**t].state == State::Parked;
        let threads = of.threads.iter().filter(parked).count();
        of.cpus.len_up_to(threads) as u64
    }

    /// Counts one thread more, or one less, that runs of a group whose bandwidth was looked at.
    pub(super) fn count_running(&mut self, thread: usize, more: bool) {
        let of = &self.threads[thread];
        let (group, is_charged) = (of.group, !of.real_time);
        let of = &mut self.groups[group];
        let count = |all: &mut u32| *all = if more { *all + 1 } else { *all - 1 };
        count(&mut of.running);
        if is_charged {
            count(&mut of.charged);
        }
        if of.quota.is_some() {
            self.plan_quota(group);
        }
    }

    /// Takes all threads of a group off their CPUs that may not run now.
    pub(super) fn park(&mut self, group: usize) {
        for index in 0..self.groups[group].threads.len() {
            let thread = self.groups[group].threads[index];
            let stands = matches!(self.threads[thread].state, State::Running | State::Queued);
            if stands && self.is_parked(thread) {
                self.leave(thread, State::Parked);
            }
        }
    }

    /// Lets parked threads run again, if nothing else keeps them.
    pub(super) fn unpark(&mut self, group: usize) {
        for index in 0..self.groups[group].threads.len() {
            let thread = self.groups[group].threads[index];
            if self.threads[thread].state == State::Parked && !self.is_parked(thread) {
                self.enter(thread, 0.0);
            }
        }
    }
}
