//! Looks that show what rivals want: others are held for a moment, and they are watched.

use super::Who;
use super::batch::demands;
use super::victim::Victim;
use quell_model::blame::{Demand, Rival, Tried};
use quell_types::{Knob, Observation, Setup, Tenant, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The others are held first, since they are not compared: it is looked at who is not held.
pub(super) const RELIEF: [bool; 2] = [false, true];
/// For so long: who works at a fixed rate has caught up by then.
pub(super) const RELIEF_CHIP: Duration = Duration::from_millis(200);
/// The longest sample in which so much shows.
pub(super) const RELIEF_SAMPLE_S: f64 = 0.3;
/// Of what others use, the share that may run in a first look at somebody.
const NEW_REST_FRAC: f64 = 0.5;
/// So many of these looks can always be paid for, while it is open what rivals want.
const RELIEFS: f64 = 2.0;
/// After so many in a row that told nothing they are taken to be impossible, ...
const VOID_RELIEFS: u32 = 3;
/// ... until one is tried again after so long.
const VOID: Duration = Duration::from_secs(60);
/// Of whom such a look told nothing, it is made again at once, then after so many seconds, then after
/// twice as many, and so on: other looks are to be paid for too.
const AGAIN_S: f64 = 30.0;

/// Rivals that are not held while others are.
#[derive(Clone, Debug)]
pub(super) struct Relief {
    /// Who stands behind them.
    pub(super) victim: Tenant,
    pub(super) watched: Vec<Tenant>,
    /// What they asked for; none before it was seen, empty if it could not be.
    pub(super) demands: Option<BTreeMap<Tenant, Demand>>,
    /// In what share of the time that this tells of others were held.
    pub(super) held_frac: f64,
    /// Whether the watched come before those who run, and have what they want.
    pub(super) fed: bool,
}

impl Relief {
    /// Sees what the watched ask for, in the first sample after the others were held. One that is
    /// longer tells too little of that: they run again.
    pub(super) fn see(&mut self, seen: &Observation, waited_s: f64, held: &BTreeSet<Tenant>) {
        if self.demands.is_some() {
            return;
        }
        let of_victim = seen.services.get(&self.victim);
        let told_s = of_victim.and_then(|service| Some(service.waits.as_ref().ok()?.seconds));
        let short = |seconds: f64| seconds <= RELIEF_SAMPLE_S;
        let tells = short(waited_s) && told_s.is_some_and(short);
        let mut demands = if tells { demands(seen, held) } else { BTreeMap::new() };
        demands.retain(|tenant, _| self.watched.contains(tenant));
        self.demands = Some(demands);
        self.held_frac = (RELIEF_CHIP.as_secs_f64() / waited_s).min(1.0);
    }
}

impl Who {
    /// Those who are to come before all others in a look that begins now: what they want is watched.
    pub(crate) fn to_feed(&self, now: Time) -> &[Tenant] {
        let begins = self.playing.as_ref().filter(|look| look.since == now);
        let relief = begins.and_then(|look| look.relief.as_ref()).filter(|relief| relief.fed);
        relief.map_or(&[], |relief| &relief.watched)
    }

    /// Whether it can be seen what somebody wants while all others are held.
    pub(super) fn may_relieve(&self, setup: &Setup) -> bool {
        let holds = |tenant: &Tenant| setup.controls(&Knob::Frozen { tenant: tenant.clone() });
        let all = setup.batch.iter().all(|batch| holds(&batch.name));
        self.params.looks && self.void_reliefs < VOID_RELIEFS && all
    }

    /// The first sample after the others were held shows what the watched want.
    pub(super) fn see_relief(&mut self, seen: &Observation, held: &BTreeSet<Tenant>) {
        let Some(look) = &mut self.playing else { return };
        let waited_s = seen.time.since(look.since).as_secs_f64();
        if let Some(relief) = &mut look.relief {
            relief.see(seen, waited_s, held);
        }
    }

    /// Takes in a look that is over; `held`: the others really were.
    pub(super) fn learn_relief(&mut self, now: Time, relief: &Relief, held: bool) {
        let told = relief.demands.as_ref().filter(|demands| held && !demands.is_empty());
        let Some(demands) = told else {
            self.see_void(now);
            return;
        };
        self.void_reliefs = 0;
        let (held_frac, fed) = (relief.held_frac, relief.fed);
        self.victims.values_mut().for_each(|victim| victim.relieve(demands, held_frac, fed));
    }

    /// A look at what rivals want told nothing, or was not to be had.
    pub(super) fn see_void(&mut self, now: Time) {
        self.void_reliefs = self.void_reliefs.saturating_add(1);
        self.void_at = now;
    }

    /// A machine that was too busy for such looks may be less so by now.
    pub(super) fn hope(&mut self, seen: &Observation) {
        let lately = seen.time.since(self.void_at) < VOID;
        if self.void_reliefs >= VOID_RELIEFS && seen.interval_s <= RELIEF_SAMPLE_S && !lately {
            self.void_reliefs = VOID_RELIEFS - 1;
        }
    }

    /// Those to be held, so that it shows what rivals want: first those with whom that was not tried
    /// yet, whoever stands behind them.
    pub(super) fn relief(&self, setup: &Setup) -> Option<(Vec<Tenant>, Relief)> {
        let held_s = RELIEF_CHIP.as_secs_f64();
        let pays = |other: &Tenant| {
            let frozen = Knob::Frozen { tenant: other.clone() };
            self.held_time.pays(other, held_s) && setup.controls(&frozen)
        };
        let cpus = setup.managed_cpus.len() as f64;
        let look = |again: bool| {
            self.victims.iter().find_map(|(name, victim)| plan(name, victim, (cpus, again), pays))
        };
        let (groups, relief) = look(false).or_else(|| look(true))?;
        let weighs = |tenant: &Tenant| setup.controls(&Knob::CpuWeight { tenant: tenant.clone() });
        let fed = self.params.feeds && relief.watched.iter().all(weighs);
        Some((groups, Relief { fed, ..relief }))
    }

    /// For how many looks at what rivals want each bank saves: what was seen of them is to be seen
    /// again one day.
    pub(super) fn saved_looks(&self) -> BTreeMap<Tenant, f64> {
        let mut saved: BTreeMap<Tenant, f64> = BTreeMap::new();
        for victim in self.victims.values() {
            let rivals = victim.rivals(true);
            if rivals.is_empty() {
                continue;
            }
            let looks = saved_for(&rivals);
            for (tenant, _) in victim.parts() {
                let of = saved.entry(tenant).or_default();
                *of = of.max(looks);
            }
        }
        saved
    }
}

/// For how many looks at these rivals to save. Until it is time to look again at whom a look told
/// nothing of, other looks go on.
fn saved_for(rivals: &[Rival]) -> f64 {
    let open = || rivals.iter().filter(|rival| !rival.relieved);
    if open().any(|rival| rival.tried.is_none()) {
        RELIEFS
    } else if open().all(is_waiting) && open().next().is_some() {
        0.0
    } else {
        1.0
    }
}

/// Whether looks told nothing of it, and it is too early for another.
fn is_waiting(rival: &Rival) -> bool {
    let early =
        |tried: Tried| tried.seconds_ago < AGAIN_S * f64::from(tried.in_vain.saturating_sub(1));
    rival.tried.is_some_and(early)
}

/// Whom to hold next, and who is watched meanwhile: those with whom that was not tried yet, while half
/// of what the others use can be held; or, `again`, the one of whom it told nothing longest ago, while
/// all others can.
fn plan(
    name: &Tenant,
    victim: &Victim,
    (cpus, again): (f64, bool),
    pays: impl Fn(&Tenant) -> bool,
) -> Option<(Vec<Tenant>, Relief)> {
    let rivals = victim.rivals(false);
    let open = rivals.iter().filter(|rival| !rival.relieved);
    let (mut tried, new): (Vec<&Rival>, Vec<&Rival>) = open.partition(|r| r.tried.is_some());
    tried.retain(|rival| !is_waiting(rival));
    let ago_s = |rival: &Rival| rival.tried.map_or(0.0, |tried| tried.seconds_ago);
    tried.sort_by(|a, b| ago_s(b).total_cmp(&ago_s(a)));
    let look = |rivals: &[&Rival], (cpus, rest_frac): (f64, f64)| {
        if rivals.is_empty() {
            return None;
        }
        let parts = victim.parts();
        let most = (parts.len() / 2).max(1);
        let watched = fitting(&rivals[..most.min(rivals.len())], cpus);
        let held = hold(&parts, &watched, (victim.unheld_frac(), rest_frac), &pays)?;
        let victim = name.clone();
        Some((held, Relief { victim, watched, demands: None, held_frac: 1.0, fed: false }))
    };
    if again {
        look(&tried, (1.0, victim.unheld_frac()))
    } else {
        look(&new, (cpus, NEW_REST_FRAC))
    }
}

/// The first of these, and as many more as there are CPUs for what they ask for together.
fn fitting(rivals: &[&Rival], cpus: f64) -> Vec<Tenant> {
    let mut asked_cpus = 0.0;
    let mut fits = |rival: &&&Rival| {
        let first = asked_cpus == 0.0;
        asked_cpus += libm::round(rival.asked_cpus).max(1.0);
        first || asked_cpus <= cpus
    };
    rivals.iter().take_while(&mut fits).map(|rival| rival.workload.clone()).collect()
}

/// Those who pay, the greatest first, until hardly anybody is left but those who are watched: at most
/// the first of these shares of what the others use. None if more than the second share is left of it
/// in the end, or nobody is to be held.
fn hold(
    parts: &[(Tenant, f64)],
    watched: &[Tenant],
    (enough_frac, least_frac): (f64, f64),
    pays: impl Fn(&Tenant) -> bool,
) -> Option<Vec<Tenant>> {
    let others = || parts.iter().filter(|(name, _)| !watched.contains(name));
    let all_frac: f64 = others().map(|(_, frac)| frac).sum();
    let mut rest_frac = all_frac;
    let mut held = Vec::new();
    for (name, frac) in others() {
        if rest_frac > enough_frac * all_frac && pays(name) {
            held.push(name.clone());
            rest_frac -= frac;
        }
    }
    let well = !watched.is_empty() && !held.is_empty() && rest_frac <= least_frac * all_frac;
    well.then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<(Tenant, f64)> {
        [("a", 0.4), ("b", 0.3), ("c", 0.27), ("d", 0.03)].map(|(n, f)| (n.into(), f)).into()
    }

    fn held(watched: &[&str], pays: fn(&str) -> bool) -> Option<Vec<String>> {
        let watched: Vec<Tenant> = watched.iter().map(|name| (*name).into()).collect();
        let held = hold(&parts(), &watched, (0.1, 0.5), |name| pays(name.as_str()))?;
        Some(held.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn all_others_are_held_but_those_who_make_up_little() {
        assert_eq!(held(&["b"], |_| true).unwrap(), ["a", "c"]);
        assert_eq!(held(&["a", "c"], |_| true).unwrap(), ["b"]);
        assert_eq!(held(&[], |_| true), None);
    }

    #[test]
    fn who_cannot_pay_runs_and_there_is_no_look_where_too_many_run() {
        assert_eq!(held(&["b"], |name| name != "c").unwrap(), ["a", "d"]);
        assert_eq!(held(&["b"], |name| name != "a"), None);
        assert_eq!(held(&["b"], |_| false), None);
    }

    #[test]
    fn as_many_are_watched_as_there_are_cpus_for() {
        let rival = |(name, asked_cpus): (&str, f64)| Rival {
            workload: name.into(),
            asked_cpus,
            used_cpus: 0.3,
            relieved: false,
            tried: None,
        };
        let fitting = |asked: &[(&str, f64)], cpus: f64| {
            let rivals: Vec<Rival> = asked.iter().copied().map(rival).collect();
            fitting(&rivals.iter().collect::<Vec<_>>(), cpus).len()
        };
        let five = [("a", 1.04), ("b", 1.0), ("c", 1.0), ("d", 0.96), ("e", 0.93)];
        assert_eq!(fitting(&five, 2.0), 2);
        assert_eq!(fitting(&five, 16.0), 5);
        assert_eq!(fitting(&five[..1], 1.0), 1);
        assert_eq!(fitting(&[("a", 3.9), ("b", 2.0), ("c", 2.0)], 2.0), 1);
        assert_eq!(fitting(&[], 2.0), 0);
    }
}
