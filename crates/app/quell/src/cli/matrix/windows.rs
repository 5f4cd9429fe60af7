//! Windows in which the host let the service be: it took no CPUs away, and had them where they belong.

use super::super::latency::Loaded;
use quell_profiler::{Lines, Seats};
use quell_types::Topology;
use std::time::Duration;

/// Windows of a service. One in which the host gives CPUs to others for 35 ms of 0.7 s has a tail
/// that tells of the host; and one in which it runs them on cores that share no cache, though the machine is told that
/// they do, tells of other neighbours. Both are done again.
pub(super) struct Windows<'a> {
    service: &'a mut Loaded,
    length: Duration,
    host: quell_topology::Machine,
    places: &'a mut Places,
    /// Windows that were measured again.
    pub(super) again: usize,
    /// Windows that count although CPUs were taken away.
    pub(super) disturbed: usize,
    /// Windows that count although the CPUs shared no cache.
    pub(super) distant: usize,
}

/// A window is disturbed if more of its time was stolen, on all CPUs together. Less of a window of
/// 0.7 s is hardly told: the kernel counts in ticks of 10 ms.
const MOST_STOLEN: f64 = 0.05;
/// Attempts at an undisturbed one.
pub(super) const ATTEMPTS: usize = 4;

/// What the host did in one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Attempt {
    stolen_ns: u64,
    /// Whether the CPUs shared no cache before it, or after it.
    distant: bool,
    p95_ms: f64,
}

impl<'a> Windows<'a> {
    pub(super) fn new(service: &'a mut Loaded, length: Duration, places: &'a mut Places) -> Self {
        let host = quell_topology::Machine::new("/");
        Self { service, length, host, places, again: 0, disturbed: 0, distant: 0 }
    }

    /// The 95th percentile over a calm window, or the calmest of several.
    pub(super) fn p95_ms(&mut self) -> anyhow::Result<f64> {
        let most_ns = (MOST_STOLEN * self.length.as_nanos() as f64) as u64;
        let (best, again) = calmest(most_ns, &mut || self.attempt())?;
        self.again += again;
        self.disturbed += usize::from(best.stolen_ns > most_ns);
        self.distant += usize::from(best.distant);
        Ok(best.p95_ms)
    }

    fn attempt(&mut self) -> anyhow::Result<Attempt> {
        let (before, far_before) = (self.stolen_ns(), self.places.are_distant());
        let p95_ms = self.service.p95_ms(self.length)?;
        let stolen_ns = self.stolen_ns().saturating_sub(before);
        Ok(Attempt { stolen_ns, distant: self.places.are_distant() || far_before, p95_ms })
    }

    /// Nothing on bare metal, or where it is not told.
    fn stolen_ns(&self) -> u64 {
        self.host.cpu_times().map_or(0, |times| times.steal_ns)
    }
}

/// Where the host has a CPU of the service's and one of the antagonist's.
pub(super) struct Places(Option<Lines>);

impl Places {
    /// Looks between these seats; none where the machine is not told that they share a cache.
    pub(super) fn between(seats: &Seats, topology: &Topology) -> Self {
        let ends = seats.workload.iter().next().zip(seats.pressure.iter().next());
        let near = |(first, second): &(u32, u32)| {
            topology.llc.iter().any(|llc| llc.cpus.contains(*first) && llc.cpus.contains(*second))
        };
        Self(ends.filter(near).and_then(|(first, second)| Lines::between(first, second)))
    }

    /// Whether they are on cores that share no cache now, as far as is to be seen.
    fn are_distant(&mut self) -> bool {
        self.0.as_mut().is_some_and(Lines::are_distant)
    }
}

/// The first attempt in which the CPUs were where they belong and no more was stolen; else the best of them: where they
/// belong before elsewhere, and less stolen before more; and how many came after the first.
fn calmest(
    most_ns: u64,
    attempt: &mut dyn FnMut() -> anyhow::Result<Attempt>,
) -> anyhow::Result<(Attempt, usize)> {
    let worth = |one: &Attempt| (one.distant, one.stolen_ns.max(most_ns));
    let (mut best, mut again) = (attempt()?, 0);
    while worth(&best) > (false, most_ns) && again + 1 < ATTEMPTS {
        again += 1;
        let next = attempt()?;
        if worth(&next) < worth(&best) {
            best = next;
        }
    }
    Ok((best, again))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    /// Which of these attempts counts, and how many came after the first.
    fn tried(attempts: [(u64, bool); ATTEMPTS]) -> (f64, usize) {
        let mut left = attempts.into_iter().zip(0..);
        let mut next = || {
            let ((stolen_ns, distant), number) = left.next().context("too many attempts")?;
            Ok(Attempt { stolen_ns, distant, p95_ms: f64::from(number) })
        };
        let (best, again) = calmest(10, &mut next).unwrap();
        (best.p95_ms, again)
    }

    #[test]
    fn a_calm_window_counts_at_once_and_else_the_calmest_of_all() {
        let stolen = |ns: [u64; ATTEMPTS]| tried(ns.map(|ns| (ns, false)));
        assert_eq!(stolen([10, 0, 0, 0]), (0.0, 0));
        assert_eq!(stolen([30, 5, 0, 0]), (1.0, 1));
        assert_eq!(stolen([40, 20, 30, 50]), (1.0, 3));
    }

    #[test]
    fn a_window_with_the_cpus_elsewhere_is_worse_than_one_of_which_time_was_stolen() {
        assert_eq!(tried([(0, true), (3, false), (0, false), (0, false)]), (1.0, 1));
        assert_eq!(tried([(0, true), (30, false), (20, false), (0, true)]), (2.0, 3));
        assert_eq!(tried([(0, true); ATTEMPTS]), (0.0, 3));
    }

    #[test]
    fn places_are_looked_at_where_the_machine_is_told_of_a_common_cache() {
        let seats = |workload: &str, pressure: &str| {
            let cpus = |list: &str| list.parse().unwrap();
            Seats { workload: cpus(workload), pressure: cpus(pressure), same_core: false }
        };
        assert!(Places::between(&seats("0", "1"), &Topology::default()).0.is_none());
        let cpus = "0-1".parse().unwrap();
        let llc = quell_types::LlcDomain { id: 0, cpus, size_bytes: 1, ways: None };
        let shared = Topology { llc: vec![llc], ..Topology::default() };
        assert!(Places::between(&seats("0", "0"), &shared).0.is_none());
        assert!(Places::between(&seats("0", "2"), &shared).0.is_none());
        let mut none = Places::between(&seats("0", "2"), &shared);
        assert!(!none.are_distant());
    }
}
