//! Whether limits help at all, in virtual machines: tried, not believed.
//!
//! # Problem
//! A CPU that batch must leave idle halts, and a busy host wakes it late ([`super::awake`]). Then
//! the tail gets worse the more batch is held back, slack shrinks, and the law holds batch back
//! further: a circle in which the service suffers from its own protection. Polling helps, but
//! the host takes CPUs from those that poll as well. Batch in the idle class that fills the gaps
//! can be the best protection there is, and slack alone cannot tell that from harm.
//!
//! # Idea
//! When slack stays thin although batch is held back, compare: batch free and batch at its least
//! in alternating windows, in an order in which steady drift cancels out. If the service is no
//! worse off with batch free, and within its objective, limits do not help: batch stays free until
//! the objective is missed. A first free window that misses ends the trial, so harm costs the
//! service one window; the next trial then has to wait, each time twice as long.
//!
//! # Units
//! Slack is a fraction of the objective, clipped to -1..1 so that one stall does not outweigh all
//! other windows; windows and waits are seconds.
//!
//! # Pseudo-code
//! ```text
//! every slow_period_s, in a virtual machine, while limits are at work:
//!   thin = slack < shrink_below_slack ? thin + 1 : thin - 1/2
//!   if thin >= 3, no hold is under way and the wait is over:  least free free least least free free least
//!     a free window misses, and is no better than before:    limits help, wait doubles
//!     mean free >= mean least - margin and mean free >= 0:   free
//!     otherwise:                                             limits help, wait doubles
//! while free: two windows in a row that miss: batch is held, then limited; wait doubles
//! ```
//!
//! # Degradation
//! Bare metal, or no latency reading: never tried. An objective that is out of reach alone is
//! missed in the first free window, so batch stays off.
//!
//! Source: ours; R-4 for steps that are taken back; `docs/experiments/halted-cpus.md`.

use super::params::QuellParams;
use super::signals::Signals;
use quell_types::{Setup, Time};
use std::time::Duration;

/// Whether batch is free in each window of a trial.
const ORDER: [bool; 8] = [false, true, true, false, false, true, true, false];
/// Thin windows, less half of the others, that make a trial worth while.
const THIN: f64 = 3.0;
/// More says nothing new, and would take long to forget.
const MOST_THIN: f64 = 4.0;
/// By how much less slack with free batch is still as good.
const MARGIN: f64 = 0.1;
/// Windows in a row that miss the objective before free batch is limited again.
const MISSES: u32 = 2;
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// What is done about batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// What trust says.
    Limit,
    /// Nothing is limited.
    Free(&'static str),
    /// Everything is at its least.
    Least(&'static str),
    /// Limits are back, from their least on.
    LimitAnew(&'static str),
    /// Free batch and a missed objective: it is held.
    Hold(&'static str),
}

/// Trials and what they showed.
#[derive(Clone, Debug)]
pub(super) struct Fill {
    state: State,
    next_trial: Time,
    wait: Duration,
}

#[derive(Clone, Debug)]
enum State {
    Limiting { thin: f64 },
    Trying { before: f64, seen: Vec<f64> },
    Free { misses: u32 },
}

impl Default for Fill {
    fn default() -> Self {
        Self { state: State::Limiting { thin: 0.0 }, next_trial: Time(0), wait: FIRST_WAIT }
    }
}

impl Fill {
    /// Whether windows are being compared, so that nothing else should disturb them.
    pub(super) fn is_trying(&self) -> bool {
        matches!(self.state, State::Trying { .. })
    }

    /// Whether the guard's judgement counts.
    pub(super) fn is_limiting(&self) -> bool {
        matches!(self.state, State::Limiting { .. })
    }

    /// Looks at a full window; to be called once in every slow period. `may_try` says that a trial
    /// may begin now.
    pub(super) fn step(
        &mut self,
        setup: &Setup,
        params: &QuellParams,
        seen: &Signals,
        may_try: bool,
    ) -> Order {
        if setup.topology.hypervisor.is_none() || !params.try_free {
            return Order::Limit;
        }
        let Some(slack) = seen.slack.map(|slack| slack.clamp(-1.0, 1.0)) else {
            let was_limiting = self.is_limiting();
            self.state = State::Limiting { thin: 0.0 };
            return if was_limiting { Order::Limit } else { Order::LimitAnew("blind") };
        };
        match &mut self.state {
            State::Limiting { thin } => {
                let more = if slack < params.shrink_below_slack { 1.0 } else { -0.5 };
                *thin = (*thin + more).clamp(0.0, MOST_THIN);
                if *thin < THIN || seen.time < self.next_trial || !may_try {
                    return Order::Limit;
                }
                self.state = State::Trying { before: slack, seen: Vec::new() };
                Order::Least("try-limits")
            }
            State::Trying { before, seen: windows } => {
                let (before, was_free) = (*before, ORDER[windows.len()]);
                windows.push(slack);
                if was_free && slack < 0.0 && slack <= before + MARGIN {
                    return self.limit_again(seen.time, "limits-help");
                }
                match ORDER.get(windows.len()) {
                    Some(true) => Order::Free("try-free"),
                    Some(false) => Order::Least("try-limits"),
                    None => self.conclude(seen.time),
                }
            }
            State::Free { misses } => {
                *misses = if slack < 0.0 { *misses + 1 } else { 0 };
                if *misses >= MISSES {
                    self.limit_again(seen.time, "slo-missed");
                    return Order::Hold("slo-missed");
                }
                Order::Free("limits-do-not-help")
            }
        }
    }

    fn conclude(&mut self, time: Time) -> Order {
        let State::Trying { seen, .. } = &self.state else { return Order::Limit };
        let mean = |free: bool| {
            let of = seen.iter().zip(ORDER).filter(|(_, was)| *was == free);
            of.map(|(slack, _)| slack).sum::<f64>() / (ORDER.len() / 2) as f64
        };
        let (free, least) = (mean(true), mean(false));
        if free >= 0.0 && free >= least - MARGIN {
            self.state = State::Free { misses: 0 };
            self.wait = FIRST_WAIT;
            return Order::Free("limits-do-not-help");
        }
        self.limit_again(time, "limits-help")
    }

    fn limit_again(&mut self, time: Time, rule: &'static str) -> Order {
        self.state = State::Limiting { thin: 0.0 };
        self.next_trial = time + self.wait;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Order::LimitAnew(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service whose slack follows from whether batch is free, through `seconds` windows.
    fn play(
        hypervisor: bool,
        seconds: u64,
        slack: impl Fn(bool, u64) -> Option<f64>,
    ) -> Vec<Order> {
        let mut setup = Setup::default();
        setup.topology.hypervisor = hypervisor.then(|| "kvm".into());
        let (mut fill, mut free, params) = (Fill::default(), false, QuellParams::default());
        let mut orders = Vec::new();
        for second in 0..seconds {
            let seen = Signals {
                time: Time(second * 1_000_000_000),
                slack: slack(free, second),
                fast_slack: None,
                service_cpus: 1.0,
                rho: 0.5,
                inflation_ln: 0.0,
                qps: 100.0,
                cost_s: None,
                load: None,
            };
            let order = fill.step(&setup, &params, &seen, true);
            free = matches!(order, Order::Free(_));
            orders.push(order);
        }
        orders
    }

    fn free_seconds(orders: &[Order]) -> usize {
        orders.iter().filter(|order| matches!(order, Order::Free(_))).count()
    }

    #[test]
    fn where_idle_cpus_hurt_more_than_batch_it_ends_free() {
        let orders = play(true, 60, |free, _| Some(if free { 0.5 } else { -0.2 }));
        assert_eq!(orders.last(), Some(&Order::Free("limits-do-not-help")));
        assert!(free_seconds(&orders) > 50 - ORDER.len(), "{orders:?}");
    }

    #[test]
    fn harm_costs_one_window_a_trial_and_trials_get_rare() {
        let orders = play(true, 600, |free, _| Some(if free { -3.0 } else { 0.1 }));
        let free = free_seconds(&orders);
        assert!((3..=8).contains(&free), "{free} windows");
        assert!(orders.contains(&Order::LimitAnew("limits-help")));
    }

    #[test]
    fn slightly_worse_but_worse_is_harm() {
        let orders = play(true, 30, |free, _| Some(if free { 0.01 } else { 0.15 }));
        assert!(orders.contains(&Order::LimitAnew("limits-help")), "{orders:?}");
    }

    #[test]
    fn an_objective_out_of_reach_keeps_batch_limited() {
        let orders = play(true, 600, |_, _| Some(-0.5));
        assert!(free_seconds(&orders) <= 8);
    }

    #[test]
    fn free_batch_that_begins_to_harm_is_limited_after_two_windows() {
        let harm = |free: bool, second| match (free, second < 40) {
            (true, true) => Some(0.5),
            (true, false) => Some(-0.5),
            (false, _) => Some(0.1),
        };
        let orders = play(true, 60, harm);
        assert_eq!(orders[39], Order::Free("limits-do-not-help"));
        assert_eq!(orders[41], Order::Hold("slo-missed"));
    }

    #[test]
    fn ample_slack_bare_metal_and_blindness_try_nothing() {
        assert_eq!(free_seconds(&play(true, 60, |_, _| Some(0.5))), 0);
        assert_eq!(free_seconds(&play(false, 60, |_, _| Some(-0.5))), 0);
        assert_eq!(free_seconds(&play(true, 60, |_, _| None)), 0);
    }
}
