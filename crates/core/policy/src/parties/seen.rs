//! What a tick shows of each service.

use crate::parts::slack_of;
use quell_types::{Input, Observation, ServiceObservation, Setup};

/// Slack of one service; none where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slack {
    pub(super) now: Option<f64>,
    pub(super) windowed: Option<f64>,
}

impl Slack {
    fn of(service: &ServiceObservation) -> Self {
        if service.present.is_err() {
            return Self { now: Some(1.0), windowed: Some(1.0) };
        }
        let windowed = slack_of(service);
        let now = service.fast_slack.as_ref().ok().copied().filter(|s| !s.is_nan());
        // A window that is too short to mean anything says what the longer one says.
        Self { now: now.or(windowed), windowed }
    }

    pub(super) fn below(self, bound: f64) -> bool {
        self.now.is_some_and(|s| s < bound) && self.windowed.is_some_and(|s| s < bound)
    }

    pub(super) fn above(self, bound: f64) -> bool {
        self.now.is_some_and(|s| s > bound) && self.windowed.is_some_and(|s| s > bound)
    }

    /// Whether either slack is known to lie below this.
    pub(super) fn touches(self, bound: f64) -> bool {
        self.now.is_some_and(|s| s < bound) || self.windowed.is_some_and(|s| s < bound)
    }
}

/// One service in one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) slack: Slack,
    /// Requests per second, over the longer window.
    pub(super) rate_per_s: Option<f64>,
    /// CPUs that it uses, over the longer window.
    pub(super) cpus: Option<f64>,
    /// Length of the longer window in seconds.
    pub(super) window_s: f64,
    /// Whether it began anew.
    pub(super) restarted: bool,
}

impl Seen {
    /// Every service of a setup, by its number.
    pub(super) fn all(setup: &Setup, observation: &Observation) -> Vec<Self> {
        let services = setup.services.iter().map(|s| observation.services.get(&s.name));
        services.map(|s| s.map_or_else(Self::default, Self::of)).collect()
    }

    fn of(service: &ServiceObservation) -> Self {
        let tails = service.tails.as_ref().ok();
        // A tick alone holds few requests, so what they cost is asked of the longer window.
        let rate = tails.filter(|t| t.window_s > 0.0).map(|t| t.requests as f64 / t.window_s);
        let each = service.cpu_per_request_s.as_ref().ok().copied();
        let at_once = service.cpu.as_ref().ok().map(|cpu| cpu.0);
        Self {
            slack: Slack::of(service),
            rate_per_s: rate,
            cpus: rate.zip(each).map(|(rate, each)| rate * each).or(at_once),
            window_s: tails.map_or(0.0, |t| t.window_s),
            restarted: service.restarted,
        }
    }

    /// The slack to sort by; nobody is worse off than who is not known.
    pub(super) fn rank(&self) -> f64 {
        self.slack.windowed.unwrap_or(0.0)
    }

    pub(super) fn inputs(&self) -> Vec<Input> {
        let of = |name: &'static str, value: Option<f64>| value.map(|v| Input::new(name, v));
        let slack = self.slack;
        [
            of("slack_now_frac", slack.now),
            of("slack_frac", slack.windowed),
            of("use_cpus", self.cpus),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
