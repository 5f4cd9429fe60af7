//! A change that is being watched, and what the ticks after it say.

use super::params::PartiesParams;
use super::seen::Seen;
use super::shares::Resource;

/// Which way a step went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// To the service, which had this level before, from another one or from the pool.
    Up { before: u64, donor: Option<usize> },
    /// From the service to the pool.
    Down,
}

/// What a tick says of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet.
    Open,
    /// Somebody pays for it who did not before.
    Harm,
    /// It stays, and it helped.
    Helped,
    /// It stays.
    Kept,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) service: usize,
    pub(super) what: Resource,
    pub(super) way: Way,
    /// Slack before the change.
    slack: f64,
    ticks: u32,
    /// Ticks in which an upsized service's latency fell.
    better: u32,
    /// Ticks in which somebody who pays was short.
    harmed: u32,
}

impl Watch {
    pub(super) fn new(service: usize, what: Resource, way: Way, seen: &Seen) -> Self {
        let slack = seen.slack.now.unwrap_or(0.0);
        Self { service, what, way, slack, ticks: 0, better: 0, harmed: 0 }
    }

    /// Who may have paid for it: the donor, or anybody where the pool grew.
    fn pays(&self, service: usize) -> bool {
        match self.way {
            Way::Up { donor, .. } => donor == Some(service),
            Way::Down => true,
        }
    }

    pub(super) fn tick(&mut self, seen: &[Seen], params: &PartiesParams) -> Verdict {
        let now = |service: usize| seen[service].slack.now;
        let payers = (0..seen.len()).filter(|service| self.pays(*service));
        let least = payers.filter_map(now).reduce(f64::min);
        self.ticks += 1;
        self.better += u32::from(now(self.service).is_some_and(|now| now > self.slack));
        self.harmed += u32::from(least.is_some_and(|s| s < params.upsize_below_slack));
        let most = |ticks: u32| 2 * ticks > params.watch_ticks_count;
        // What most of the ticks will say is certain before the last of them, and an objective
        // that is missed says it alone.
        if most(self.harmed) || least.is_some_and(|s| s < 0.0) {
            return Verdict::Harm;
        }
        match (self.ticks < params.watch_ticks_count, self.way) {
            (true, _) => Verdict::Open,
            (false, Way::Up { .. }) if most(self.better) => Verdict::Helped,
            (false, _) => Verdict::Kept,
        }
    }
}
