//! Law `bus-lock`: [`Sparsifier`] on a server, by whatever it has to slow those who lock the bus.
//!
//! # Problem
//! The controller knows cores and levels. A server has tenants, some of which must not be touched,
//! and not every server lets a core's clock be set, or counts the locks of groups.
//!
//! # Idea
//! Two controllers of the same kind run side by side. One sees the counts of *cores*; its levels
//! go to the clocks of cores that one tenant owns, if that tenant may be limited. The other sees
//! the counts of *groups*; its levels go to groups that run elsewhere too, or where no clock can be
//! set: as CPU bandwidth (so many parts of what the group used while it was free, in short periods,
//! so that its locks are spread thinly), or by freezing it for all but so many parts of the periods.
//! What a group uses tells whether its bandwidth holds it; whom it does not is frozen.
//! A group that owns all its cores needs no count of its own: that of its cores is it.
//!
//! # Units
//! Bus locks per second in, parts of the time out.
//!
//! # Pseudo-code
//! ```text
//! each second: who owns which cores, who may be limited
//! each period (0.1 s): levels of cores = sparsifier(locks of all cores)
//!     a core whose owner may be limited: all its threads to its level, or released at the highest
//! each second: levels of groups = sparsifier(locks of all groups that are known)
//!     a group that may be limited and is not slowed by its cores' clocks:
//!         bandwidth = level / parts * what it used when free; else frozen in the other periods
//!         uses far more than that for 3 s: frozen besides, until it is free; told, if it cannot be
//! ```
//!
//! # Degradation
//! Without counts nothing is done. A group whose locks cannot be told from others' (no count of its
//! own, and cores that it shares) is left alone: whoever is not shown to do it keeps everything
//! (A-24). Who is said to be gone keeps its cores for two seconds more. Fewer samples a second make
//! longer periods. The kernel's own brake (`split_lock_mitigate`, `split_lock_detect=ratelimit:N`)
//! works without Quell, on everybody alike; it is not touched.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `always-run` | first step | tasks may run |
//! | `over-share` | above its share, or in a burst, on a machine near its quota or above | clock, bandwidth or freezer to the start level |
//! | `unheld` | its bandwidth does not hold it (real-time threads) | the freezer, to the same level; without one the journal says so, once |
//! | `relaxing` | well below its share | a step up |
//! | `relaxed` | whole again, gone, or no longer to be limited | released |
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`; that a named
//! service is spared while it keeps its objective, by unit tests). Only clock modulation, CPU
//! bandwidth and freezers are written; never of the host, of a core that two tenants share, of a
//! service that keeps its objective or that nobody named.
//!
//! Source: A-10 to A-18, A-36, A-37 (1) to (3); Q-23.

use super::bus_params::{BusActuator, BusLockParams};
use super::places::{Homes, Lists, Places, cores};
use super::{Sparsifier, llc_law::tenants};
use crate::ledger::{Ledger, Reason};
use crate::parts::{Every, Overruns, short_period};
use crate::{Needs, Policy};
use quell_types::{
    CpuSet, Input, Knob, KnobRange, Observation, Proposal, Setting, Setup, Tenant, Time,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const NAME: &str = "bus-lock";
/// Parts into which the time of groups is cut; clocks have their own number.
const GROUP_PARTS: u32 = 16;
/// How often groups are judged, and who runs where is looked at, in seconds.
const SLOW_S: f64 = 1.0;
/// Who uses far more than its bandwidth in so many of these looks running is not held by it.
const UNHELD_LOOKS: u32 = 3;
/// What is left of a group's greatest use after a second in which it used less.
const FADING: f64 = 0.95;

/// See the module.
pub(crate) struct BusLockLaw {
    params: BusLockParams,
    slow: Every,
    last: Option<Time>,
    last_slow: Option<Time>,
    homes: Homes,
    places: Places,
    /// Managed CPUs by core.
    cores: BTreeMap<u32, CpuSet>,
    /// Who may be limited.
    open: BTreeSet<Tenant>,
    clocks: Option<Sparsifier>,
    groups: Option<Sparsifier>,
    /// CPUs that groups used while they were free.
    used_cpus: BTreeMap<Tenant, f64>,
    unheld: Overruns,
    /// Groups that are held back by their freezers, with their levels.
    frozen: BTreeMap<Tenant, u32>,
    periods: u64,
    ledger: Ledger,
}

impl BusLockLaw {
    pub(crate) fn new(params: BusLockParams) -> Self {
        Self {
            slow: Every::new(SLOW_S),
            params,
            last: None,
            last_slow: None,
            homes: Homes::default(),
            places: Places::default(),
            cores: BTreeMap::new(),
            open: BTreeSet::new(),
            clocks: None,
            groups: None,
            used_cpus: BTreeMap::new(),
            unheld: Overruns::after(UNHELD_LOOKS),
            frozen: BTreeMap::new(),
            periods: 0,
            ledger: Ledger::new(NAME),
        }
    }

    fn look(&mut self, setup: &Setup, seen: &Observation) {
        self.cores = cores(setup);
        self.places = self.homes.look(setup, seen);
        let lists = Lists { allow: &self.params.allow, deny: &self.params.deny };
        self.open = tenants(setup).filter(|tenant| lists.may(seen, tenant)).cloned().collect();
    }

    /// Whether this way of slowing is wanted.
    fn wants(&self, actuator: BusActuator) -> bool {
        matches!(self.params.actuator, BusActuator::Auto) || self.params.actuator == actuator
    }

    fn step_clocks(&mut self, setup: &Setup, seen: &Observation, elapsed_s: f64) {
        let Some(parts) = duty_parts(setup).filter(|_| self.wants(BusActuator::Clock)) else {
            return;
        };
        let Ok(rates) = &seen.host.bus_locks_per_s else { return };
        let count = |cpus: &CpuSet| {
            let known: Option<Vec<f64>> = cpus.iter().map(|cpu| rates.get(&cpu).copied()).collect();
            Some((known?.iter().sum::<f64>() * elapsed_s) as u64)
        };
        let counts: BTreeMap<u32, u64> =
            self.cores.iter().filter_map(|(core, cpus)| Some((*core, count(cpus)?))).collect();
        let all = u32::try_from(setup.topology.cpus.len()).unwrap_or(u32::MAX);
        let sparsifier =
            self.clocks.get_or_insert_with(|| Sparsifier::new(self.params.sparsify(), all, parts));
        let levels = sparsifier.step(&counts, elapsed_s);
        let share_per_s = sparsifier.share() / self.params.period_s;
        let cores = std::mem::take(&mut self.cores);
        for (core, cpus) in &cores {
            let owner = self.places.owner(*core).is_some_and(|owner| self.open.contains(owner));
            let level = levels.get(core).copied().filter(|_| owner).unwrap_or(parts);
            let locks_per_s = counts.get(core).map_or(0.0, |n| *n as f64 / elapsed_s);
            for cpu in cpus.iter() {
                let to = (level < parts).then_some(Setting::Duty(level));
                let inputs = inputs(locks_per_s, share_per_s, level);
                self.turn(setup, Knob::DutyCycle { cpu }, to, inputs);
            }
        }
        self.cores = cores;
    }

    /// Sets a knob, tighter or looser than it stood, or releases it.
    fn turn(&mut self, setup: &Setup, knob: Knob, to: Option<Setting>, inputs: Vec<Input>) {
        let Some(to) = to else {
            self.ledger.release(knob, &Reason::polluter("relaxed", Vec::new()));
            return;
        };
        let before = self.ledger.standing(&knob);
        let looser = before.is_some_and(|b| to.compare_freedom(b).is_some_and(|o| o.is_gt()));
        let rule = if looser { "relaxing" } else { "over-share" };
        self.ledger.set(setup, knob, to, &Reason::polluter(rule, inputs));
    }

    fn step_groups(&mut self, setup: &Setup, seen: &Observation, elapsed_s: f64) {
        let names: Vec<Tenant> = setup.batch.iter().map(|b| b.name.clone()).collect();
        let rate = |name: &Tenant| self.locks_of(seen, name);
        let known: BTreeMap<u32, f64> =
            (0..).zip(&names).filter_map(|(number, name)| Some((number, rate(name)?))).collect();
        let counts = known.iter().map(|(n, rate)| (*n, (rate * elapsed_s) as u64)).collect();
        let all = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let sparsifier = self
            .groups
            .get_or_insert_with(|| Sparsifier::new(self.params.sparsify(), all, GROUP_PARTS));
        let levels = sparsifier.step(&counts, elapsed_s);
        let share_per_s = sparsifier.share() / self.params.period_s;
        self.frozen.clear();
        for (number, name) in (0..).zip(&names) {
            let by_clock = self.wants(BusActuator::Clock) && self.is_clocked(setup, name);
            let limitable = self.open.contains(name) && !by_clock && known.contains_key(&number);
            let level = levels.get(&number).copied().filter(|_| limitable).unwrap_or(GROUP_PARTS);
            let locks_per_s = known.get(&number).copied().unwrap_or(0.0);
            self.limit(setup, seen, name, level, inputs(locks_per_s, share_per_s, level));
        }
    }

    /// Whether all its cores' clocks can be set for it alone.
    fn is_clocked(&self, setup: &Setup, name: &Tenant) -> bool {
        let settable = |cpu: u32| setup.controls(&Knob::DutyCycle { cpu });
        self.places.is_apart(name) && self.places.owned_by(name).iter().all(settable)
    }

    /// Bus locks per second of a group: its own count, else that of the cores that it owns.
    fn locks_of(&self, seen: &Observation, name: &Tenant) -> Option<f64> {
        let own = seen.batch.get(name).and_then(|b| b.bus_locks_per_s.as_ref().ok());
        let of_cores = || {
            let rates = seen.host.bus_locks_per_s.as_ref().ok()?;
            let cpus = self.places.owned_by(name);
            self.places.is_apart(name).then(|| cpus.iter().filter_map(|c| rates.get(&c)).sum())
        };
        own.copied().or_else(of_cores)
    }

    /// Holds a group to a level by what it has: bandwidth, else, or if that does not hold it, the freezer.
    fn limit(
        &mut self,
        setup: &Setup,
        seen: &Observation,
        name: &Tenant,
        level: u32,
        inputs: Vec<Input>,
    ) {
        let knob = Knob::CpuBandwidth { tenant: name.clone() };
        let range = setup.knobs.get(&knob).filter(|_| self.wants(BusActuator::Bandwidth));
        let free = level >= GROUP_PARTS;
        if let Some(range) = range {
            let runs_on = !free && self.runs_on(seen, name, &knob);
            let budget = self.budget_cpus(seen, name, level);
            let to = short_period(range, budget, self.params.quota_period_ms);
            self.turn(setup, knob, (!free).then_some(Setting::Bandwidth(to)), inputs.clone());
            if free {
                self.unheld.forget(name);
            } else if !runs_on {
                return;
            }
        }
        let knob = Knob::Frozen { tenant: name.clone() };
        if !setup.controls(&knob) || !self.wants(BusActuator::Freezer) {
            if self.unheld.has_newly(name) {
                let limit = Knob::CpuBandwidth { tenant: name.clone() };
                self.ledger.tell_again(&limit, &Reason::polluter("unheld", inputs));
            }
            return;
        }
        if free {
            return self.turn(setup, knob, None, inputs);
        }
        self.frozen.insert(name.clone(), level);
    }

    /// Whether a group is not held by its bandwidth.
    fn runs_on(&mut self, seen: &Observation, name: &Tenant, knob: &Knob) -> bool {
        let used_cpus = seen.batch.get(name).and_then(|b| b.cpu.as_ref().ok()).map(|cpu| cpu.0);
        let budget_cpus = match self.ledger.standing(knob) {
            Some(Setting::Bandwidth(to)) => to.limit_cpus.map(|cpus| cpus.0),
            _ => None,
        };
        self.unheld.look(name, budget_cpus, used_cpus)
    }

    /// So many parts of what the group used while it was free; of all its CPUs if that is not known.
    fn budget_cpus(&mut self, seen: &Observation, name: &Tenant, level: u32) -> f64 {
        let now = seen.batch.get(name).and_then(|b| b.cpu.as_ref().ok()).map(|cpu| cpu.0);
        let knob = Knob::CpuBandwidth { tenant: name.clone() };
        if let (Some(now), None) = (now, self.ledger.standing(&knob)) {
            // Just freed, it may still have used little: what it used before fades slowly.
            let before = self.used_cpus.entry(name.clone()).or_default();
            *before = now.max(FADING * *before);
        }
        let width = self.places.width(name) as f64;
        let used = self.used_cpus.get(name).copied().filter(|used| *used > 0.0).unwrap_or(width);
        used * f64::from(level) / f64::from(GROUP_PARTS)
    }

    /// Lets groups that are held by their freezers run in so many parts of the periods.
    fn step_freezers(&mut self, setup: &Setup) {
        self.periods += 1;
        let turn = |level: u32| self.periods * u64::from(level) / u64::from(GROUP_PARTS);
        let before = |level: u32| (self.periods - 1) * u64::from(level) / u64::from(GROUP_PARTS);
        let holds: Vec<(Tenant, u32, bool)> = self
            .frozen
            .iter()
            .map(|(name, level)| (name.clone(), *level, turn(*level) == before(*level)))
            .collect();
        for (tenant, level, hold) in holds {
            let inputs = vec![Input::new("level_parts", f64::from(level))];
            let rule = if self.unheld.has(&tenant) { "unheld" } else { "over-share" };
            let why = Reason::polluter(rule, inputs);
            self.ledger.set(setup, Knob::Frozen { tenant }, Setting::Flag(hold), &why);
        }
    }
}

fn inputs(locks_per_s: f64, share_per_s: f64, level: u32) -> Vec<Input> {
    vec![
        Input::new("bus_locks_per_s", locks_per_s),
        Input::new("share_per_s", share_per_s),
        Input::new("level_parts", f64::from(level)),
    ]
}

/// Into how many parts clocks cut time here; none if none can be set.
pub(super) fn duty_parts(setup: &Setup) -> Option<u32> {
    setup.knobs.iter().find_map(|(knob, range)| match (knob, range) {
        (Knob::DutyCycle { .. }, KnobRange::Duty { parts }) => Some(*parts),
        _ => None,
    })
}

impl Policy for BusLockLaw {
    fn name(&self) -> &'static str {
        NAME
    }

    fn period(&self) -> Duration {
        crate::parts::seconds(self.params.period_s)
    }

    fn needs(&self) -> Needs {
        Needs { bus_locks: true, ..Needs::default() }
    }

    fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        let slow = self.slow.due(seen.time);
        if slow {
            self.look(setup, seen);
        }
        let since = |last: Option<Time>| last.map_or(0.0, |l| seen.time.since(l).as_secs_f64());
        let elapsed_s = since(self.last.replace(seen.time));
        if elapsed_s > 0.0 {
            self.step_clocks(setup, seen, elapsed_s);
        }
        if slow {
            let elapsed_s = since(self.last_slow.replace(seen.time));
            if elapsed_s > 0.0 {
                self.step_groups(setup, seen, elapsed_s);
            }
        }
        self.step_freezers(setup);
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let mut told = Vec::new();
        if duty_parts(setup).is_none() && self.wants(BusActuator::Clock) {
            told.push("no clock modulation: groups are held back by CPU bandwidth".to_owned());
        }
        let held = |tenant: &Tenant| {
            let knobs = [
                (BusActuator::Bandwidth, Knob::CpuBandwidth { tenant: tenant.clone() }),
                (BusActuator::Freezer, Knob::Frozen { tenant: tenant.clone() }),
            ];
            knobs.iter().any(|(by, knob)| self.wants(*by) && setup.controls(knob))
        };
        let without: Vec<&str> =
            setup.batch.iter().map(|b| &b.name).filter(|t| !held(t)).map(Tenant::as_str).collect();
        if !without.is_empty() && self.params.actuator != BusActuator::Clock {
            let names = without.join(", ");
            told.push(format!("no CPU bandwidth or freezer for {names}: only clocks slow them"));
        }
        told
    }
}

#[cfg(test)]
mod tests;
