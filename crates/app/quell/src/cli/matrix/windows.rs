//! Windows in which the hypervisor let the service be.

use super::super::latency::Loaded;
use std::time::Duration;

/// Windows of a service. One in which the host gives CPUs to others for 35 ms of 0.7 s has a tail
/// that tells of the host: it is done again.
pub(super) struct Windows<'a> {
    service: &'a mut Loaded,
    length: Duration,
    host: quell_topology::Machine,
    /// Windows that were measured again.
    pub(super) again: usize,
    /// Windows that count although they were disturbed.
    pub(super) disturbed: usize,
}

/// A window is disturbed if more of its time was stolen, on all CPUs together. Less of a window of
/// 0.7 s is hardly told: the kernel counts in ticks of 10 ms.
const MOST_STOLEN: f64 = 0.05;
/// Attempts at an undisturbed one.
pub(super) const ATTEMPTS: usize = 4;

impl<'a> Windows<'a> {
    pub(super) fn new(service: &'a mut Loaded, length: Duration) -> Self {
        let host = quell_topology::Machine::new("/");
        Self { service, length, host, again: 0, disturbed: 0 }
    }

    /// The 95th percentile over a calm window, or the calmest of several.
    pub(super) fn p95_ms(&mut self) -> anyhow::Result<f64> {
        let most_ns = MOST_STOLEN * self.length.as_nanos() as f64;
        let ((stolen_ns, p95_ms), again) = calmest(most_ns, &mut || self.attempt())?;
        self.again += again;
        self.disturbed += usize::from(stolen_ns as f64 > most_ns);
        Ok(p95_ms)
    }

    /// What was stolen in a window, in nanoseconds, and its 95th percentile.
    fn attempt(&mut self) -> anyhow::Result<(u64, f64)> {
        let before = self.stolen_ns();
        let p95_ms = self.service.p95_ms(self.length)?;
        Ok((self.stolen_ns().saturating_sub(before), p95_ms))
    }

    /// Nothing on bare metal, or where it is not told.
    fn stolen_ns(&self) -> u64 {
        self.host.cpu_times().map_or(0, |times| times.steal_ns)
    }
}

/// The first attempt from which no more was stolen, or the one from which least was; and how many
/// came after the first.
fn calmest(
    most_ns: f64,
    attempt: &mut dyn FnMut() -> anyhow::Result<(u64, f64)>,
) -> anyhow::Result<((u64, f64), usize)> {
    let (mut best, mut again) = (attempt()?, 0);
    while best.0 as f64 > most_ns && again + 1 < ATTEMPTS {
        again += 1;
        let next = attempt()?;
        if next.0 < best.0 {
            best = next;
        }
    }
    Ok((best, again))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_calm_window_counts_at_once_and_else_the_calmest_of_all() {
        let tried = |stolen_ns: [u64; ATTEMPTS]| {
            let mut left = stolen_ns.into_iter();
            let mut next = || left.next().map(|ns| (ns, ns as f64));
            calmest(10.0, &mut || next().context("too many attempts")).unwrap()
        };
        assert_eq!(tried([10, 0, 0, 0]), ((10, 10.0), 0));
        assert_eq!(tried([30, 5, 0, 0]), ((5, 5.0), 1));
        assert_eq!(tried([40, 20, 30, 50]), ((20, 20.0), 3));
    }
}
