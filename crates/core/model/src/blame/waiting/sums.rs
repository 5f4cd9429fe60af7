//! What windows tell of one suspect, added up.

use super::{Demand, WaitingParams};

/// What is seen of one suspect, weighted sums over windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// What was stood behind it.
    pub(super) stood: f64,
    /// x.
    pub(super) ratio: f64,
    /// Effects in single windows, in ln, and their squares.
    pub(super) effect_ln: f64,
    pub(super) effect_square: f64,
    /// Weight of the windows in which its demand is known.
    pub(super) known: f64,
    pub(super) used_cpus: f64,
    pub(super) asked_cpus: f64,
    pub(super) awake: f64,
    pub(super) relieved: Option<Relieved>,
}

/// What a suspect asked for when others were last held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relieved {
    pub(super) asked_cpus: f64,
    /// What it had.
    pub(super) used_cpus: f64,
    /// Whether that tells what it wants.
    pub(super) tells: bool,
    /// Whether it slept.
    pub(super) slept: bool,
    /// How many seconds ago.
    pub(super) age_s: f64,
    /// How often in a row that told nothing.
    pub(super) in_vain: u32,
}

impl Relieved {
    pub(super) fn of(had: Demand, tells: bool, slept: bool) -> Self {
        let Demand { used_cpus, asked_cpus } = had;
        Self { asked_cpus, used_cpus, tells, slept, age_s: 0.0, in_vain: u32::from(!tells) }
    }

    /// Both told nothing.
    pub(super) fn after(self, before: Self) -> Self {
        Self {
            asked_cpus: self.asked_cpus.min(before.asked_cpus),
            used_cpus: self.used_cpus.min(before.used_cpus),
            in_vain: self.in_vain + before.in_vain,
            ..self
        }
    }
}

impl Sums {
    /// A window: what was stood behind it, x, the effect in it, and the mean demand if it is known.
    /// `share` is left of those before.
    pub(super) fn add(
        &mut self,
        share: f64,
        (stood, x, effect_ln): (f64, f64, f64),
        demand: Option<Demand>,
        awake_cpus: f64,
    ) {
        let known = if demand.is_some() { 1.0 } else { 0.0 };
        let demand = demand.unwrap_or_default();
        let awake = if demand.asked_cpus >= awake_cpus { 1.0 } else { 0.0 };
        self.fade(share);
        self.stood += stood;
        self.ratio += x;
        self.effect_ln += effect_ln;
        self.effect_square += effect_ln * effect_ln;
        self.known += known;
        self.used_cpus += demand.used_cpus;
        self.asked_cpus += demand.asked_cpus;
        self.awake += awake;
    }

    /// What it had in the part of a stretch of time in which others were held, if it had what it
    /// usually has in the rest.
    pub(super) fn while_held(&self, all: Demand, held_frac: f64) -> Demand {
        if !(held_frac > 0.0 && held_frac < 1.0) || self.known <= 0.0 {
            return all;
        }
        let of = |all: f64, usual: f64| ((all - (1.0 - held_frac) * usual) / held_frac).max(0.0);
        let used_cpus = of(all.used_cpus, self.mean_demand(self.used_cpus));
        let asked_cpus = of(all.asked_cpus, self.mean_demand(self.asked_cpus)).max(used_cpus);
        Demand { used_cpus, asked_cpus }
    }

    /// Whether it sleeps if it asks for so many CPUs while others are held. Several threads may stand for a while
    /// each, and sleep for the rest: then fewer stand where there is room. Those that never sleep stand as before.
    pub(super) fn sleeps_with(&self, asked_cpus: f64, params: &WaitingParams) -> bool {
        let usual_cpus = self.mean_demand(self.asked_cpus);
        let eased = asked_cpus < params.eased_frac * usual_cpus && asked_cpus < params.eased_cpus;
        asked_cpus < params.awake_cpus || eased
    }

    /// This share is left of all.
    pub(super) fn fade(&mut self, share: f64) {
        let sums = [
            &mut self.stood,
            &mut self.ratio,
            &mut self.effect_ln,
            &mut self.effect_square,
            &mut self.known,
            &mut self.used_cpus,
            &mut self.asked_cpus,
            &mut self.awake,
        ];
        sums.into_iter().for_each(|sum| *sum *= share);
    }

    /// What was seen while others were held is so much older, and forgotten once it is too old.
    pub(super) fn age(&mut self, seconds: f64, memory_s: f64) {
        let older = |of: Relieved| Relieved { age_s: of.age_s + seconds, ..of };
        self.relieved = self.relieved.map(older).filter(|of| of.age_s <= memory_s);
    }

    /// Mean over the windows in which its demand is known.
    pub(super) fn mean_demand(&self, sum: f64) -> f64 {
        if self.known > 0.0 { sum / self.known } else { 0.0 }
    }
}
