//! Trust: how much of the allowance of harm may be spent, corrected by what really happens.

use super::params::QuellParams;
use super::signals::Signals;
use quell_types::Time;
use std::time::Duration;

/// Share of the past in smoothed rates and costs, per fast step.
const SMOOTHING: f64 = 0.7;
/// Full windows that miss the objective before batch is held.
const MISSES_BEFORE_HOLD: u32 = 2;
/// How long a level of trust that failed is remembered.
const FAILED_REMEMBERED: Duration = Duration::from_secs(60);
/// Below this number of requests per second a jump means nothing.
const QUIET_QPS: f64 = 20.0;

/// Trust and the emergency hold.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    params: QuellParams,
    trust: f64,
    qps: Option<f64>,
    cost_s: Option<f64>,
    misses: u32,
    hold: Option<Hold>,
    /// Length of the next hold.
    next_hold: Duration,
    failed: Option<(Time, f64)>,
    calm_until: Time,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    since: Time,
    until: Time,
    said_unreachable: bool,
}

/// What one judgement brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// The rule that fired.
    pub(super) rule: &'static str,
    /// Whether trust changed out of turn, so that budgets must be worked out now.
    pub(super) changed: bool,
    /// Batch shall be held (true) or go on (false).
    pub(super) hold: Option<bool>,
}

const fn says(rule: &'static str, changed: bool) -> Judgement {
    Judgement { rule, changed, hold: None }
}

impl Guard {
    pub(super) fn new(params: QuellParams) -> Self {
        Self {
            trust: params.start_trust,
            next_hold: Duration::from_secs_f64(params.hold_s),
            qps: None,
            cost_s: None,
            misses: 0,
            hold: None,
            failed: None,
            calm_until: Time(0),
            params,
        }
    }

    pub(super) fn trust(&self) -> f64 {
        self.trust
    }

    pub(super) fn holding(&self) -> bool {
        self.hold.is_some()
    }

    /// Whether batch may be tried free: it is not held, or was for as long as planned.
    pub(super) fn may_try(&self, time: Time) -> bool {
        self.hold.is_none_or(|hold| time >= hold.until)
    }

    /// Takes a level of trust that something else decided; true if batch was held.
    pub(super) fn take_over(&mut self, trust: f64) -> bool {
        (self.trust, self.misses) = (trust, 0);
        // Rates change while nobody judges them.
        (self.qps, self.cost_s) = (None, None);
        self.hold.take().is_some()
    }

    /// Looks at the signals; `slow` says that the slow loop is due too.
    pub(super) fn judge(&mut self, signals: &Signals, slow: bool) -> Judgement {
        let jump = self.jump(signals);
        if let Some(hold) = self.hold {
            return self.judge_held(hold, signals);
        }
        if slow {
            self.count_misses(signals);
            if self.misses >= MISSES_BEFORE_HOLD {
                return self.begin_hold(signals);
            }
        }
        if let Some(rule) = jump {
            self.scale(self.params.jump_factor);
            return says(rule, true);
        }
        if signals.fast_slack.is_some_and(|s| s < 0.0) && signals.time >= self.calm_until {
            self.fail(signals.time);
            self.scale(self.params.emergency_factor);
            // The next fast windows still hold the requests of this one.
            self.calm_until = signals.time + Duration::from_secs_f64(2.0 * self.params.period_s);
            return says("slo-missed-fast", true);
        }
        if slow { self.judge_slow(signals) } else { says("budget", false) }
    }

    fn judge_slow(&mut self, signals: &Signals) -> Judgement {
        let idle = signals.qps <= 0.0;
        let Some(slack) = signals.slack.or(idle.then_some(1.0)) else {
            self.trust = self.trust.min(self.params.blind_trust);
            return says("budget", false);
        };
        if slack < self.params.shrink_below_slack {
            self.fail(signals.time);
            self.scale(self.params.shrink_factor);
            says("slack-thin", true)
        } else if slack > self.params.grow_above_slack {
            self.grow(signals.time);
            says("slack-ample", false)
        } else {
            says("budget", false)
        }
    }

    /// Grows fast up to just under the level that failed last, slowly beyond it.
    fn grow(&mut self, time: Time) {
        let near = self.failed.filter(|(when, _)| time.since(*when) < FAILED_REMEMBERED);
        let step = match near {
            Some((_, level)) if self.trust >= 0.85 * level => self.params.probe_step,
            _ => self.params.grow_step,
        };
        self.trust = (self.trust + step).min(self.params.most_trust);
        self.next_hold = Duration::from_secs_f64(self.params.hold_s);
    }

    fn fail(&mut self, time: Time) {
        self.failed = Some((time, self.trust));
    }

    fn scale(&mut self, factor: f64) {
        self.trust = (self.trust * factor).max(self.params.least_trust);
    }

    /// A jump of the request rate or of the cost of a request against their smoothed values.
    fn jump(&mut self, signals: &Signals) -> Option<&'static str> {
        let load = jumped(&mut self.qps, Some(signals.qps), self.params.jump_ratio);
        let cost = jumped(&mut self.cost_s, signals.cost_s, self.params.jump_ratio);
        let quiet = signals.qps < QUIET_QPS;
        match (load && !quiet, cost && !quiet) {
            (true, _) => Some("load-jump"),
            (_, true) => Some("cost-jump"),
            _ => None,
        }
    }

    fn count_misses(&mut self, signals: &Signals) {
        let missed = signals.slack.is_some_and(|s| s < 0.0);
        self.misses = if missed { self.misses + 1 } else { 0 };
    }

    pub(super) fn begin_hold(&mut self, signals: &Signals) -> Judgement {
        self.fail(signals.time);
        self.trust = self.params.least_trust;
        self.hold = Some(Hold {
            since: signals.time,
            until: signals.time + self.next_hold,
            said_unreachable: false,
        });
        Judgement { rule: "slo-missed", changed: true, hold: Some(true) }
    }

    /// Lets batch go on when the service has recovered; says once if it does not recover alone.
    fn judge_held(&mut self, hold: Hold, signals: &Signals) -> Judgement {
        let settled = signals.time.since(hold.since) >= Duration::from_millis(500);
        let recovered = signals.fast_slack.is_none_or(|s| s > self.params.recovered_slack);
        if settled && recovered {
            self.end_hold(false);
            return Judgement { rule: "thaw", changed: true, hold: Some(false) };
        }
        if signals.time >= hold.until {
            if signals.slack.is_some_and(|s| s < 0.0) {
                return self.stay_off(hold, signals.time);
            }
            self.end_hold(true);
            return Judgement { rule: "thaw", changed: true, hold: Some(false) };
        }
        says("slo-missed", false)
    }

    fn end_hold(&mut self, longer: bool) {
        self.hold = None;
        self.misses = 0;
        if longer {
            self.lengthen();
        }
    }

    fn stay_off(&mut self, hold: Hold, time: Time) -> Judgement {
        self.lengthen();
        self.hold = Some(Hold { until: time + self.next_hold, said_unreachable: true, ..hold });
        let hold = (!hold.said_unreachable).then_some(true);
        Judgement { rule: "slo-unreachable", changed: false, hold }
    }

    fn lengthen(&mut self) {
        let longest = Duration::from_secs_f64(self.params.most_hold_s);
        self.next_hold = (self.next_hold * 2).min(longest);
    }
}

/// Whether `now` is a jump over its smoothed past, which then takes it in.
fn jumped(smoothed: &mut Option<f64>, now: Option<f64>, ratio: f64) -> bool {
    let Some(now) = now else { return false };
    let before = smoothed.unwrap_or(now);
    let jump = before > 0.0 && now > ratio * before;
    // After a jump the new level is the level, so that it is said once.
    *smoothed = Some(if jump { now } else { SMOOTHING * before + (1.0 - SMOOTHING) * now });
    jump
}
