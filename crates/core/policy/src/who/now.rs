//! Looks for a victim, and those that cannot wait: it is slow for this moment.
//!
//! Both are paid for from the same bank. So once a victim was slow for a moment, looks that can wait
//! leave enough for some that cannot: between its bursts whoever makes them seems as innocent as
//! everybody, and would be held until nothing is left for the next burst.

use super::Who;
use super::look::{Kind, LONG_LOOK, LOOK, SHORT_LOOK};
use super::victim::Victim;
use quell_model::blame::Candidate;
use quell_types::{Observation, Proposal, Setup, Tenant};
use std::time::Duration;

/// Looks that cannot wait, for which the others leave enough.
const SAVED_LOOKS: u32 = 2;
/// The share of the time between two steps that a look may take, so that its trace comes with the next.
const LONGEST_FRAC: f64 = 0.9;

impl Who {
    /// A look that can wait.
    pub(super) fn look_then(&mut self, setup: &Setup, seen: &Observation) -> Option<Proposal> {
        if self.long_look_is_due()
            && let Some(look) = self.look_for(setup, seen, (Kind::Long, 1), Victim::choose)
        {
            return Some(look);
        }
        let saved = self.victims.values().any(Victim::has_moments);
        let looks = 1 + if saved { SAVED_LOOKS } else { 0 };
        self.look_for(setup, seen, (Kind::Usual, looks), Victim::choose)
    }

    /// How suspects run and are held in a look. More of it in which they run tells more, as long as all
    /// of it comes with the next sample.
    fn code(&self, kind: Kind, chip_us: u64) -> &'static [bool] {
        let lasts_s = Duration::from_micros(chip_us * LOOK.len() as u64).as_secs_f64();
        let fits = lasts_s <= LONGEST_FRAC * self.params.period_s;
        match kind {
            Kind::Usual if fits => &LOOK,
            Kind::Usual | Kind::Long => &LONG_LOOK,
            Kind::Now | Kind::Relief => &SHORT_LOOK,
        }
    }

    /// A look at what makes a victim slow for this moment: it cannot wait.
    pub(super) fn look_now(&mut self, setup: &Setup, seen: &Observation) -> Option<Proposal> {
        let slow = self.victims.values().any(Victim::is_slow);
        slow.then(|| self.look_for(setup, seen, (Kind::Now, 1), Victim::choose_now))?
    }

    /// A look for the victim that was looked at least of those for whom somebody is to be held; of this
    /// kind, at those who can pay for so many.
    fn look_for(
        &mut self,
        setup: &Setup,
        seen: &Observation,
        (kind, looks): (Kind, u32),
        choose: impl Fn(&Victim, &[Candidate], Duration) -> Vec<Tenant>,
    ) -> Option<Proposal> {
        let mut order: Vec<(&Tenant, &Victim)> = self.victims.iter().collect();
        order.sort_by_key(|(_, victim)| victim.looks());
        let found = order.into_iter().find_map(|(name, victim)| {
            let (chip_us, held) = self.chip_of(victim, kind)?;
            let candidates = self.candidates(setup, seen, (kind, held * looks));
            let set = choose(victim, &candidates, held);
            (!set.is_empty()).then(|| (name.clone(), chip_us, set))
        });
        let (name, chip_us, set) = found?;
        self.victims.get_mut(&name)?.looked();
        Some(self.play(seen, (kind, self.code(kind, chip_us)), chip_us, set, None))
    }

    /// The CPUs that somebody uses who is shown to make a victim slow for moments, or to lock the bus, while
    /// it does, and the usual time in seconds from one of these to the next.
    pub(crate) fn pulse_of(&self, suspect: &Tenant) -> Option<(f64, f64)> {
        let all = self.victims.values().filter_map(|victim| victim.pulse_of(suspect));
        let all = all.chain(self.gauge.pulse_of(suspect));
        all.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
    }
}
