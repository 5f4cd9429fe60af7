//! Keeping idle CPUs awake while an objective is near.
//!
//! # Problem
//! A CPU of a virtual machine that has nothing to do halts, and the host gives it away. When a
//! request wakes it, the host must run it again: mostly at once, but beside busy neighbours after
//! tens of milliseconds. What the guest sees is a task that waits on a CPU that is idle. No budget
//! helps, and every budget that leaves a CPU idle makes more of it: beside batch work that fills
//! the gaps the service's tail can be better than alone.
//!
//! # Idea
//! While slack is not ample, forbid CPUs to halt: they poll, which costs nobody in this machine
//! anything (whatever becomes runnable runs at once), and the host sees CPUs that are in use. It is
//! given back when slack is ample again for a while, or when nothing is served.
//!
//! # Units
//! Slack is a fraction of the objective, times are seconds, a CPU is awake or not.
//!
//! # Pseudo-code
//! ```text
//! every period_s, in a virtual machine:
//!   if nothing is served:                      let CPUs sleep
//!   elif slack < awake_below_slack:            stay awake, note when
//!   elif slack > sleep_above_slack throughout awake_hold_s:  let CPUs sleep
//! ```
//!
//! # Degradation
//! Bare metal is left alone: there polling takes power and turbo from the service itself. No
//! cpuidle driver, or no slack known: CPUs halt as ever.
//!
//! # Why so early
//! The thresholds lie high (0.8 and 0.9): one late wake-up can cost a window its objective however
//! good the windows before were, and where batch fills idle CPUs anyway polling adds little.
//!
//! Source: ours; measured in `docs/experiments/halted-cpus.md`.

use super::params::QuellParams;
use super::signals::Signals;
use crate::ledger::{Ledger, Reason};
use quell_types::{Knob, Setting, Setup, Time};
use std::time::Duration;

/// Whether CPUs are kept awake.
#[derive(Debug, Default)]
pub(super) struct Awake {
    /// While they are: when slack was last not ample.
    needed: Option<Time>,
}

impl Awake {
    /// Wishes for CPUs to stay awake or gives them back.
    pub(super) fn follow(
        &mut self,
        setup: &Setup,
        params: &QuellParams,
        signals: &Signals,
        ledger: &mut Ledger,
    ) {
        if !params.stay_awake || setup.topology.hypervisor.is_none() {
            return;
        }
        let was_awake = self.needed.is_some();
        self.judge(params, signals);
        match (was_awake, self.needed.is_some()) {
            (false, true) => each(setup, |knob| {
                let why = Reason::partition("stay-awake", signals.inputs());
                ledger.set(setup, knob, Setting::Flag(true), &why);
            }),
            (true, false) => each(setup, |knob| {
                let why = Reason::partition("may-sleep", signals.inputs());
                ledger.release(knob, &why);
            }),
            _ => {}
        }
    }

    fn judge(&mut self, params: &QuellParams, signals: &Signals) {
        if signals.qps <= 0.0 {
            self.needed = None;
            return;
        }
        let Some(slack) = signals.slack else { return };
        let hold = Duration::from_secs_f64(params.awake_hold_s);
        match self.needed {
            None if slack < params.awake_below_slack => self.needed = Some(signals.time),
            Some(_) if slack <= params.sleep_above_slack => self.needed = Some(signals.time),
            Some(last) if signals.time.since(last) >= hold => self.needed = None,
            _ => {}
        }
    }
}

/// Whether CPUs should be kept awake at need, but cannot.
pub(super) fn is_missing(setup: &Setup, params: &QuellParams) -> bool {
    let can = setup.knobs.keys().any(|knob| matches!(knob, Knob::StayAwake { .. }));
    params.stay_awake && setup.topology.hypervisor.is_some() && !can
}

fn each(setup: &Setup, mut with: impl FnMut(Knob)) {
    setup.managed_cpus.iter().for_each(|cpu| with(Knob::StayAwake { cpu }));
}

#[cfg(test)]
mod tests {
    use crate::Policy;
    use crate::quell::{Quell, QuellParams};
    use crate::testing::{Standing, observe, setup};
    use quell_types::{Knob, KnobRange, Setting, Setup};

    fn machine(hypervisor: Option<&str>) -> Setup {
        let mut setup = setup(2).service("web", 10.0, 1000.0).batch("jobs").build();
        setup.topology.hypervisor = hypervisor.map(str::to_owned);
        let knobs = (0..2).map(|cpu| (Knob::StayAwake { cpu }, KnobRange::Flag));
        setup.knobs.extend(knobs);
        setup
    }

    /// Steps at this second under this slack and rate; whether CPUs 0 and 1 are told to stay awake.
    fn step(
        law: &mut Quell,
        setup: &Setup,
        standing: &mut Standing,
        second: f64,
        (slack, qps): (f64, f64),
    ) -> [bool; 2] {
        let seen = observe(setup, second).slack("web", slack).qps("web", qps).cpu("web", 0.5);
        standing.step(law, setup, seen);
        [0, 1].map(|cpu| {
            standing.settings.get(&Knob::StayAwake { cpu }) == Some(&Setting::Flag(true))
        })
    }

    #[test]
    fn a_virtual_machine_stays_awake_until_slack_was_ample_for_long() {
        let (setup, mut standing) = (machine(Some("kvm")), Standing::default());
        let mut law = Quell::new(QuellParams::default());
        let mut at = |second, seen| step(&mut law, &setup, &mut standing, second, seen);
        assert_eq!(at(0.0, (0.85, 100.0)), [false; 2], "ample enough");
        assert_eq!(at(1.0, (0.4, 100.0)), [true; 2]);
        assert_eq!(at(2.0, (0.85, 100.0)), [true; 2], "better because they are awake");
        assert_eq!(at(20.0, (0.95, 100.0)), [true; 2], "not for long yet");
        assert_eq!(at(31.0, (0.95, 100.0)), [true; 2]);
        assert_eq!(at(32.5, (0.95, 100.0)), [false; 2]);
        assert_eq!(at(33.0, (0.1, 100.0)), [true; 2]);
        assert_eq!(at(34.0, (0.1, 0.0)), [false; 2], "nothing is served");
    }

    #[test]
    fn bare_metal_and_those_who_want_it_so_sleep_as_ever() {
        let never = |hypervisor, stay_awake| {
            let (setup, mut standing) = (machine(hypervisor), Standing::default());
            let mut law = Quell::new(QuellParams { stay_awake, ..QuellParams::default() });
            step(&mut law, &setup, &mut standing, 0.0, (0.1, 100.0))
        };
        assert_eq!(never(None, true), [false; 2]);
        assert_eq!(never(Some("kvm"), false), [false; 2]);
    }

    #[test]
    fn a_virtual_machine_that_cannot_says_so() {
        let mut setup = machine(Some("kvm"));
        let law = Quell::new(QuellParams::default());
        let said = |setup: &Setup| law.degradations(setup).iter().any(|d| d.contains("awake"));
        assert!(!said(&setup));
        setup.knobs.retain(|knob, _| !matches!(knob, Knob::StayAwake { .. }));
        assert!(said(&setup));
        setup.topology.hypervisor = None;
        assert!(!said(&setup));
    }
}
