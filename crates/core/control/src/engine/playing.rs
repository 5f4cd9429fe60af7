//! Experiments and probes on their way: what they hold, and when they are over.

use super::Engine;
use crate::journal::Judged;
use quell_types::{
    Action, Experiment, Knob, Outcome, Probe, Sample, Setting, Tenant, Time, Verdict, Wish,
};
use std::time::Duration;

/// A trace comes at the latest so long after an experiment's bound.
const PLAYED_LATE: Duration = Duration::from_secs(2);

/// Nor more than so many samples later.
const SAMPLES_LOST: u32 = 16;

/// An experiment on its way.
pub(super) struct Playing {
    experiment: Experiment,
    until: Time,
    samples: u32,
}

impl Engine {
    /// Experiments and probes to be played: no experiment that moves a freezer which is left to
    /// others.
    pub(super) fn plays(&self, judged: &mut [Judged]) -> Vec<Action> {
        let theirs =
            |group: &&Tenant| self.given_up.contains(&Knob::Frozen { tenant: (*group).clone() });
        let mut plays = Vec::new();
        for Judged { proposal, verdict } in judged {
            if *verdict != Verdict::Accepted {
                continue;
            }
            match &proposal.wish {
                Wish::Play(experiment) => match experiment.groups.iter().find(theirs) {
                    None => plays.push(Action::Play(experiment.clone())),
                    Some(group) => {
                        let why = format!("the freezer of {group} is left to others");
                        *verdict = Verdict::NotControllable { why };
                    }
                },
                Wish::Probe(probe) => plays.push(Action::Probe(probe.clone())),
                Wish::EndProbe { id } => plays.push(Action::EndProbe { id: *id }),
                Wish::Burst(burst) => plays.push(Action::Burst(burst.clone())),
                _ => {}
            }
        }
        plays
    }

    pub(super) fn begin_experiment(&mut self, time: Time, plays: &[Action]) {
        let experiments = plays.iter().rev().find(|a| matches!(a, Action::Play(_)));
        if let Some(Action::Play(experiment)) = experiments {
            let bound = Duration::from_micros(experiment.bound_us) + PLAYED_LATE;
            let experiment = experiment.clone();
            self.playing = Some(Playing { experiment, until: time + bound, samples: 0 });
        }
    }

    pub(super) fn begin_probe(&mut self, time: Time, plays: &[Action]) {
        let of = |action: &Action| match action {
            Action::Probe(probe) => Some((probe.id, time + probe.bound() + PLAYED_LATE)),
            _ => None,
        };
        self.probing = plays.iter().find_map(of).or(self.probing);
    }

    /// Forgets a probe that ended, was refused, or was lost.
    pub(super) fn follow_probe(&mut self, sample: &Sample) {
        let Some((id, until)) = self.probing else { return };
        let is_it = |probe: &Probe| probe.id == id;
        let refused = |o: &Outcome| {
            o.error.is_some() && matches!(&o.action, Action::Probe(probe) if is_it(probe))
        };
        let ended = sample.probes.iter().any(|trace| is_it(&trace.probe));
        if ended || sample.time > until || sample.outcomes.iter().any(refused) {
            self.probing = None;
        }
    }

    /// Experiments and probes would spoil each other: one at a time.
    pub(super) fn in_the_way(&self, wish: &Wish) -> Option<Verdict> {
        let why = match wish {
            Wish::Play(_) | Wish::Burst(_) if self.probing.is_some() => "a probe is under way",
            Wish::Probe(_) if self.playing.is_some() => "an experiment is being played",
            Wish::Probe(_) if self.probing.is_some() => "another probe is under way",
            _ => return None,
        };
        Some(Verdict::NotControllable { why: why.to_owned() })
    }

    /// Forgets an experiment that ended, was refused, or was lost.
    pub(super) fn follow_experiment(&mut self, sample: &Sample) {
        let Some(playing) = &mut self.playing else { return };
        playing.samples += 1;
        // A clock that jumps ahead ends no experiment.
        let lost = sample.time > playing.until && playing.samples > SAMPLES_LOST;
        let id = playing.experiment.id;
        let refused =
            |o: &Outcome| o.error.is_some() && matches!(&o.action, Action::Play(e) if e.id == id);
        let ended = sample.experiments.iter().any(|trace| trace.id == id);
        if !ended && !lost && !sample.outcomes.iter().any(refused) {
            return;
        }
        let groups = self.playing.take().map(|playing| playing.experiment.groups);
        for tenant in groups.unwrap_or_default() {
            // As the player left it, or as a sensor that lags behind still shows it.
            self.repair.expect_anything(&Knob::Frozen { tenant });
        }
    }

    /// Whether an experiment moves this knob now. It is no foreign change, and no reason to write,
    /// but for an emergency that holds the group.
    pub(super) fn is_played(&self, knob: &Knob, wanted: &Setting) -> bool {
        let Knob::Frozen { tenant } = knob else { return false };
        let played = |playing: &Playing| playing.experiment.groups.contains(tenant);
        self.playing.as_ref().is_some_and(played) && *wanted == Setting::Flag(false)
    }
}
