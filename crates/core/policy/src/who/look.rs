//! Looks: how they go, and those that are on their way.

use super::Who;
use super::batch::is_held_back;
use super::relief::{RELIEF_CHIP, Relief};
use super::victim::Victim;
use quell_model::blame::Candidate;
use quell_types::{
    BatchObservation, Experiment, Input, Knob, Observation, Precedence, Proposal, Setup, Tenant,
    Time, Wish,
};
use std::time::Duration;

/// Suspects run, are held, and run again: what drifts steadily cancels out. What they do comes back slowly, so the
/// first chip after the hold is not compared. They run for twice as long as they are held, which costs them nothing
/// and makes a look a quarter more certain, ...
pub(super) const LOOK: [bool; 7] = [true, true, true, false, false, true, true];
/// ... or a little longer, where chips are long, ...
pub(super) const LONG_LOOK: [bool; 6] = [true, true, false, false, true, true];
/// ... or for as long, and all of it is compared, where a look must be over soon.
pub(super) const SHORT_LOOK: [bool; 4] = [true, false, false, true];
/// Chips in which they are held.
pub(super) const HELD_CHIPS: u64 = 2;
/// Held time that may be kept for later: half a bank.
const KEPT_S: f64 = 0.25;
/// Looks wait for so long at most until the CPUs share a cache.
const LONGEST_APART_S: f64 = 30.0;
/// Held time that may be lent.
const LENT_S: f64 = 0.25;
/// The release comes at the latest so many times the planned hold after the planned end.
const LATE_HOLDS: u32 = 4;

/// The kinds of looks: why suspects are held, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A set of suspects, for a victim that was looked at least; it can wait.
    Usual,
    /// The same for longer, of harm that takes its time to go.
    Long,
    /// The same for a victim that is slow for this moment: it cannot wait.
    Now,
    /// Others, so that it shows what rivals want.
    Relief,
}

impl Kind {
    /// The rule of a proposal for such a look.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Kind::Usual => "look",
            Kind::Long => "look-long",
            Kind::Now => "look-now",
            Kind::Relief => "relieve",
        }
    }
}

/// A look that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) id: u64,
    pub(super) since: Time,
    pub(super) groups: Vec<Tenant>,
    pub(super) relief: Option<Relief>,
}

impl Who {
    /// Held time that a look of this kind leaves to a suspect; below 0, what its bank lends. Of who is held back
    /// by its quota a look tells little, and it is wanted when that ends. Who was limited before may do harm for
    /// moments only: then looks in between, which show nothing and can wait, would use up what its next moment
    /// wants.
    pub(super) fn kept_s(&self, tenant: &Tenant, batch: &BatchObservation, kind: Kind) -> f64 {
        let in_between = kind == Kind::Usual && self.known.contains(tenant);
        if in_between || is_held_back(batch) {
            return KEPT_S;
        }
        if self.lends(tenant, batch, kind) { -LENT_S } else { 0.0 }
    }

    /// Whether looks wait for the host to have the CPUs on cores with a common cache again: it may be back within
    /// seconds, and banks are small. Not for ever: there is harm by other things than caches.
    pub(super) fn waits_for_a_common_cache(&self) -> bool {
        let apart = self.gauge.are_apart() == Some(true);
        apart && self.gauge.apart_for_s() < LONGEST_APART_S
    }

    /// Whether a bank pays now for what it earns later: who is probably guilty is to be found out about before the
    /// next 1 % of its time. Not between slow moments, whose looks would be paid back with those of the next one; nor
    /// where a victim is slow by turns within looks: what they show then is as often who moves in step with that.
    fn lends(&self, tenant: &Tenant, batch: &BatchObservation, kind: Kind) -> bool {
        let Ok(cpus) = batch.cpu.as_ref() else { return false };
        let by_turns = |victim: &Victim| {
            victim.has_short_moments() || (kind == Kind::Usual && victim.has_moments())
        };
        let mut victims = self.victims.values();
        !self.victims.values().any(by_turns)
            && victims.any(|victim| victim.may_be_guilty(tenant, cpus.0))
    }

    /// How much likelier victims' company made the guilt of those who are held, for the journal.
    pub(super) fn company(&self, groups: &[Tenant]) -> Option<Input> {
        let all = self.victims.values().map(|victim| victim.company_ln(groups));
        let ln = all.fold(0.0, f64::max);
        (ln > 0.0).then(|| Input::new("company_ratio", libm::exp(ln)))
    }

    /// What is asked for where these are held.
    pub(super) fn proposal(
        &self,
        seen: &Observation,
        (kind, code): (Kind, &[bool]),
        chip_us: u64,
        groups: Vec<Tenant>,
    ) -> Proposal {
        let mut inputs = vec![
            Input::new("groups_count", groups.len() as f64),
            Input::new("chip_s", Duration::from_micros(chip_us).as_secs_f64()),
        ];
        inputs.extend(self.traps.inputs(&groups));
        inputs.extend(self.company(&groups));
        let experiment = Experiment {
            id: self.playing.as_ref().map_or(0, |look| look.id),
            groups,
            victims: seen.services.keys().cloned().collect(),
            code: code.to_vec(),
            chip_us,
            bound_us: bound_us(code, chip_us),
        };
        Proposal {
            policy: self.name.into(),
            precedence: Precedence::Polluter,
            wish: Wish::Play(experiment),
            rule: kind.rule().into(),
            inputs,
        }
    }

    /// Long enough for the requests that a side needs; none where even the longest is too short.
    pub(super) fn chip_us(&self, requests_per_s: f64) -> Option<u64> {
        let needed_ms = 1e3 * self.params.look_requests / (HELD_CHIPS as f64 * requests_per_s);
        let most = self.params.longest_chip_ms as f64;
        (needed_ms <= 2.0 * most)
            .then(|| (needed_ms.clamp(self.params.chip_ms as f64, most) * 1e3) as u64)
    }

    /// Those who may be held now: they work, they have a freezer, and their bank pays for a look of this kind.
    pub(super) fn candidates(
        &self,
        setup: &Setup,
        seen: &Observation,
        (kind, held): (Kind, Duration),
    ) -> Vec<Candidate> {
        let saved = self.saved_looks();
        let may = |(tenant, batch): (&Tenant, &BatchObservation)| {
            let cpus = batch.cpu.as_ref().ok()?.0;
            let frozen = Knob::Frozen { tenant: tenant.clone() };
            let saved = saved.get(tenant).copied().unwrap_or(0.0);
            let saved_s = saved * RELIEF_CHIP.as_secs_f64() + self.kept_s(tenant, batch, kind);
            let pays = match kind {
                Kind::Long => self.long.pays(tenant, batch, held),
                _ => self.held_time.pays(tenant, held.as_secs_f64() + saved_s),
            };
            (cpus >= self.params.least_cpus && pays && setup.controls(&frozen))
                .then(|| Candidate { suspect: tenant.clone(), cpus })
        };
        seen.batch.iter().filter_map(may).collect()
    }
}

/// For how long groups are held in a look.
pub(super) fn held(code: &[bool], chip_us: u64) -> Duration {
    let chips = code.iter().filter(|runs| !**runs).count() as u32;
    Duration::from_micros(chip_us) * chips
}

/// How long after its begin a look's groups are let go at the latest, in microseconds.
pub(super) fn bound_us(code: &[bool], chip_us: u64) -> u64 {
    let planned = Duration::from_micros(chip_us) * code.len() as u32;
    (planned + held(code, chip_us) * LATE_HOLDS).as_micros() as u64
}
