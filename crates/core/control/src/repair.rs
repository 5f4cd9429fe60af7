//! Knobs that are not as they should be: lost writes, refusals, changes made by others.

use crate::round::same_setting;
use quell_types::{Action, Knob, Outcome, Setting, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What to do when somebody else changes a knob that Quell owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForeignChange {
    /// Put it right, as long as the other does not insist.
    #[default]
    Reassert,
    /// Leave the knob to the other until the next reload.
    GiveUp,
}

/// After so many repairs of one knob within [`INSISTS_WITHIN`] the other one insists.
const INSISTS_AFTER: u32 = 5;
/// So many where a knob is left to others at once, but the set has only lost CPUs: one that was
/// unplugged and came back unseen looks the same.
const SHRINKS_AFTER: u32 = 1;
const INSISTS_WITHIN: Duration = Duration::from_secs(60);
const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// What is known of one knob's writes.
#[derive(Clone, Debug, Default)]
struct Care {
    /// The setting last seen in place after we wrote it.
    confirmed: Option<Setting>,
    /// What we wrote last, as long as nothing that we wrote was seen in place since.
    unseen: Option<Setting>,
    repairs: u32,
    first_repair: Time,
    failures: u32,
    not_before: Time,
}

/// Remembers each knob's writes and decides whether to write again.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    knobs: BTreeMap<Knob, Care>,
}

/// Whether a knob that differs from what is wanted shall be written now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Advice {
    /// Write it.
    Write,
    /// Write it: somebody else changed it from this setting.
    Reassert,
    /// Not now: the last writes failed.
    Wait,
    /// Leave it to the other from now on.
    GiveUp,
}

impl Repair {
    /// Notes failures, so that a refused write is tried again ever more rarely.
    pub(crate) fn learn(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let Action::Set { knob, to } = &outcome.action else { continue };
            let care = self.knobs.entry(knob.clone()).or_default();
            if outcome.error.is_none() {
                care.failures = 0;
                continue;
            }
            care.unseen.take_if(|unseen| same_setting(unseen, to));
            let wait = FIRST_BACK_OFF.saturating_mul(1 << care.failures.min(8));
            care.failures += 1;
            care.not_before = outcome.time + wait.min(LONGEST_BACK_OFF);
        }
    }

    /// Knobs that were seen as they were wanted, with that setting, and to which nothing was
    /// written since; in order.
    pub(crate) fn confirmed(&self) -> impl Iterator<Item = (&Knob, &Setting)> {
        let seen = self.knobs.iter().filter(|(_, care)| care.unseen.is_none());
        seen.filter_map(|(knob, care)| Some((knob, care.confirmed.as_ref()?)))
    }

    /// Notes that a knob stands as wanted.
    pub(crate) fn confirm(&mut self, knob: &Knob, setting: &Setting) {
        let care = self.knobs.entry(knob.clone()).or_default();
        (care.confirmed, care.unseen) = (Some(setting.clone()), None);
    }

    /// Notes that a setting is written now.
    pub(crate) fn writes(&mut self, knob: &Knob, setting: &Setting) {
        self.knobs.entry(knob.clone()).or_default().unseen = Some(setting.clone());
    }

    /// Whether something else was written since a knob was last seen: then it may no longer stand
    /// as it reads. A sensor that lags behind must not keep a wish that went there and back from
    /// being written.
    pub(crate) fn may_be_stale(&self, knob: &Knob, wanted: &Setting) -> bool {
        let unseen = self.knobs.get(knob).and_then(|care| care.unseen.as_ref());
        unseen.is_some_and(|unseen| !same_setting(unseen, wanted))
    }

    /// What to do about a knob that stands at `real` and should stand at `wanted`.
    pub(crate) fn advise(
        &mut self,
        time: Time,
        knob: &Knob,
        wanted: &Setting,
        real: &Setting,
        on_change: ForeignChange,
    ) -> Advice {
        let care = self.knobs.entry(knob.clone()).or_default();
        if time < care.not_before {
            return Advice::Wait;
        }
        let changed = care
            .confirmed
            .as_ref()
            .is_some_and(|c| same_setting(c, wanted) && !same_setting(c, real));
        if !changed {
            // What stood before is no longer what we wrote last: should it be wanted again, finding
            // this setting is no change by others.
            care.confirmed = None;
            return Advice::Write;
        }
        if time.since(care.first_repair) > INSISTS_WITHIN {
            (care.repairs, care.first_repair) = (0, time);
        }
        care.repairs += 1;
        let borne = match on_change {
            ForeignChange::Reassert => INSISTS_AFTER,
            ForeignChange::GiveUp if is_shrunk(wanted, real) => SHRINKS_AFTER,
            ForeignChange::GiveUp => 0,
        };
        if care.repairs > borne {
            return Advice::GiveUp;
        }
        // As long as our repair is not in place others have changed nothing again: a refusal is
        // none of their doing.
        care.confirmed = None;
        Advice::Reassert
    }

    /// Whether that is what was written last, or was seen in place since.
    pub(crate) fn is_own(&self, knob: &Knob, real: &Setting) -> bool {
        let care = self.knobs.get(knob);
        let own = care.and_then(|care| care.unseen.as_ref().or(care.confirmed.as_ref()));
        own.is_some_and(|own| same_setting(own, real))
    }

    /// Forgets all about these knobs' writes.
    pub(crate) fn begin_anew(&mut self, is_new: impl Fn(&Knob) -> bool) {
        self.knobs.retain(|knob, _| !is_new(knob));
    }

    /// Whatever the knob stands at next is no change by others.
    pub(crate) fn expect_anything(&mut self, knob: &Knob) {
        if let Some(care) = self.knobs.get_mut(knob) {
            care.confirmed = None;
        }
    }
}

/// Whether a CPU set has lost CPUs and got none.
fn is_shrunk(from: &Setting, to: &Setting) -> bool {
    matches!((from, to), (Setting::Cpus(from), Setting::Cpus(to)) if to.is_subset(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob() -> Knob {
        Knob::CpuWeight { tenant: "jobs".into() }
    }

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    const WANTED: Setting = Setting::Weight(1);
    const REAL: Setting = Setting::Weight(100);

    #[test]
    fn a_refused_write_is_tried_ever_more_rarely() {
        let mut repair = Repair::default();
        let mut failures = 0;
        let mut last = 0;
        for ms in (0..100_000).step_by(100) {
            if repair.advise(at(ms), &knob(), &WANTED, &REAL, ForeignChange::Reassert)
                == Advice::Write
            {
                let action = Action::Set { knob: knob(), to: WANTED };
                let error = Some("refused".to_string());
                repair.learn(&[Outcome { action, time: at(ms), error }]);
                failures += 1;
                last = ms;
            }
        }
        assert!((5..12).contains(&failures), "{failures} tries in 100 s");
        assert!(last > 60_000, "it never stops trying");
    }

    #[test]
    fn a_change_by_others_is_put_right_until_they_insist() {
        let mut repair = Repair::default();
        let mut said = vec![];
        for i in 0..7 {
            repair.confirm(&knob(), &WANTED);
            let advice =
                repair.advise(at(i * 1000), &knob(), &WANTED, &REAL, ForeignChange::Reassert);
            said.push(advice);
        }
        assert_eq!(said[..5], vec![Advice::Reassert; 5]);
        assert_eq!(said[5], Advice::GiveUp);
    }

    #[test]
    fn a_repair_that_is_refused_is_no_sign_that_others_insist() {
        let mut repair = Repair::default();
        repair.confirm(&knob(), &WANTED);
        let mut advise =
            |ms| repair.advise(at(ms), &knob(), &WANTED, &REAL, ForeignChange::Reassert);
        assert_eq!(advise(0), Advice::Reassert);
        for second in 1..30 {
            assert_eq!(advise(second * 1000), Advice::Write, "they changed it once");
        }
    }

    #[test]
    fn what_was_written_and_not_seen_since_may_stand_behind_an_old_reading() {
        let mut repair = Repair::default();
        repair.confirm(&knob(), &REAL);
        assert!(!repair.may_be_stale(&knob(), &REAL), "nothing was written since");
        repair.writes(&knob(), &WANTED);
        assert!(repair.may_be_stale(&knob(), &REAL), "the reading may be older");
        assert!(!repair.may_be_stale(&knob(), &WANTED), "that is what was written");
        let action = Action::Set { knob: knob(), to: WANTED };
        repair.learn(&[Outcome { action, time: at(0), error: Some("refused".into()) }]);
        assert!(!repair.may_be_stale(&knob(), &REAL), "it was not done");
        repair.writes(&knob(), &WANTED);
        repair.writes(&knob(), &REAL);
        assert!(!repair.may_be_stale(&knob(), &REAL), "written again, once");
    }

    #[test]
    fn a_set_that_only_lost_cpus_is_put_right_once_before_it_is_left_to_others() {
        let cpus = |text: &str| Setting::Cpus(text.parse().unwrap());
        let (knob, wanted) = (Knob::Cpus { tenant: "web".into() }, cpus("1-3"));
        for (real, first) in [("1,3", Advice::Reassert), ("0-3", Advice::GiveUp)] {
            let mut repair = Repair::default();
            repair.confirm(&knob, &wanted);
            let give_up = ForeignChange::GiveUp;
            assert_eq!(repair.advise(at(0), &knob, &wanted, &cpus(real), give_up), first);
            repair.confirm(&knob, &wanted);
            let second = repair.advise(at(9_000), &knob, &wanted, &cpus(real), give_up);
            assert_eq!(second, Advice::GiveUp, "{real}");
        }
    }

    #[test]
    fn our_own_write_of_something_else_is_no_change_by_others() {
        let mut repair = Repair::default();
        let mut advise = |ms, wanted: &Setting, real: &Setting| {
            repair.advise(at(ms), &knob(), wanted, real, ForeignChange::GiveUp)
        };
        assert_eq!(advise(0, &WANTED, &REAL), Advice::Write);
        repair.confirm(&knob(), &WANTED);
        let mut advise = |ms, wanted: &Setting, real: &Setting| {
            repair.advise(at(ms), &knob(), wanted, real, ForeignChange::GiveUp)
        };
        assert_eq!(advise(1, &REAL, &WANTED), Advice::Write, "wanted otherwise");
        assert_eq!(advise(2, &WANTED, &REAL), Advice::Write, "and back before it was confirmed");
    }

    #[test]
    fn configured_to_give_up_it_gives_up_at_once() {
        let mut repair = Repair::default();
        assert_eq!(
            repair.advise(at(0), &knob(), &WANTED, &REAL, ForeignChange::GiveUp),
            Advice::Write,
            "our own first write is no foreign change"
        );
        repair.confirm(&knob(), &WANTED);
        assert_eq!(
            repair.advise(at(1), &knob(), &WANTED, &REAL, ForeignChange::GiveUp),
            Advice::GiveUp
        );
    }
}
