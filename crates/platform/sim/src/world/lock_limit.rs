//! The kernel's own limit of bus locks, where it is told to set one (`split_lock_detect=ratelimit:N`,
//! a comparison for laws that name who makes them.
//!
//! As kernels since 5.13 do it: each bus lock of a user program traps once it is made. More than N of
//! them in a second, all programs together, and whoever made it sleeps 20 ms at a time until the
//! second is over. Whoever makes locks pays, harmful or not; nobody else does.

use super::{NEVER, World, whole_ns};

/// Locks are counted over so long.
const WINDOW_NS: u64 = 1_000_000_000;
/// Who has to wait sleeps so long at a time.
const SLEEP_NS: u64 = 20_000_000;

/// Locks per nanosecond of a program that would make so many in a second of CPU time, at this speed
/// and with room on the bus for this share of them.
pub(super) fn per_ns(locks_per_s: f64, speed: f64, room: f64) -> f64 {
    locks_per_s / 1e9 * speed * room
}

/// What was made of what may be made in a second.
#[derive(Clone, Debug)]
pub(super) struct LockLimit {
    most: f64,
    made: f64,
    since: u64,
}

impl LockLimit {
    pub(super) fn new(per_s: u32) -> Self {
        Self { most: f64::from(per_s), made: 0.0, since: 0 }
    }

    /// Counts locks; the first after a second begins a new one.
    pub(super) fn count(&mut self, now: u64, locks: f64) {
        if locks > 0.0 && now >= self.since + WINDOW_NS {
            (self.made, self.since) = (0.0, now);
        }
        self.made += locks;
    }

    fn left(&self, now: u64) -> f64 {
        if now >= self.since + WINDOW_NS { self.most } else { (self.most - self.made).max(0.0) }
    }

    /// How long whoever made one too many sleeps.
    fn sleep_ns(&self, now: u64) -> u64 {
        let rest = (self.since + WINDOW_NS).saturating_sub(now);
        rest.div_ceil(SLEEP_NS).max(1) * SLEEP_NS
    }
}

impl World {
    /// When the thread on a CPU may have made one lock too many, and is looked at.
    pub(super) fn lock_stop(&self, cpu: usize) -> u64 {
        let (Some(limit), rate) = (&self.lock_limit, self.cpus[cpu].locks_per_ns) else {
            return NEVER;
        };
        if rate <= 0.0 {
            return NEVER;
        }
        // All who make locks use up what is left together.
        let makes = |other: &usize| self.cpus[*other].locks_per_ns > 0.0;
        let makers = self.running.iter().filter(makes).count().max(1);
        // The trap comes after the lock, so at least one is made.
        let locks = (limit.left(self.now) / makers as f64).max(1.0);
        self.now.saturating_add(whole_ns(locks / rate).max(1))
    }

    /// Puts the running thread to sleep if it made a lock too many; false if it did not.
    pub(super) fn stop_for_locks(&mut self, cpu: usize, running: usize) -> bool {
        if self.lock_limit.is_none() || self.cpus[cpu].locks_per_ns <= 0.0 {
            return false;
        }
        let all = self.running;
        let others = || all.iter().filter(|other| *other != cpu);
        others().for_each(|other| self.settle(other));
        let Some(limit) = &self.lock_limit else { return false };
        if limit.left(self.now) > 0.0 {
            return false;
        }
        let wakes = self.now + limit.sleep_ns(self.now);
        self.block(running);
        self.sleep_next.set(running, wakes);
        // The others' next lock is one too many as well.
        for other in others() {
            if self.cpus[other].locks_per_ns > 0.0 && self.cpus[other].current.is_some() {
                self.refresh(other);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_locks() {
        let mut limit = LockLimit::new(1000);
        limit.count(100, 400.0);
        assert!((limit.left(100) - 600.0).abs() < 1e-9);
        limit.count(200_000_000, 700.0);
        assert_eq!(limit.left(200_000_000), 0.0);
        assert_eq!(limit.sleep_ns(200_000_000), 800_000_000);
        assert_eq!(limit.sleep_ns(990_000_000), 20_000_000, "whole sleeps");
        assert_eq!(limit.left(WINDOW_NS), 1000.0, "another second");
        limit.count(1_500_000_000, 1.0);
        assert!((limit.left(2_400_000_000) - 999.0).abs() < 1e-9, "it began with that lock");
    }
}
