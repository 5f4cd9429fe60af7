//! Law `power`: [`PowerThrottle`] on every socket of a server.
//!
//! # Problem
//! The controller wants to know which CPUs are whose, and answers with levels of clocks. A server
//! has tenants that must not be touched, cores with two threads, and two ways to slow a core.
//!
//! # Idea
//! A tenant counts on a socket with the CPUs of the cores that it owns there: only their heat is
//! its own, and only they can be slowed without hurting others. Levels go to clock modulation where
//! it can be set, else to the top frequency of each frequency domain all of whose CPUs are held
//! back: so many parts of the highest one. The reading of power is a mean over a second at least;
//! the law steps each 12 seconds, in which temperatures follow. Who runs where is looked at each
//! second: a core that changes hands must not stay slow for its new owner until the next loop.
//! Who is slowed to less than half *rests* besides (`alita/rest.rs`): only while few cores work do
//! they have the clock that they have alone.
//!
//! # Units
//! Watts, degrees Celsius, shares of time in; parts of time, or kilohertz, out.
//!
//! # Pseudo-code
//! ```text
//! each 12 s and socket: tenants = who may be limited, with the CPUs that it owns here
//!     forget CPUs that are no longer theirs
//!     levels = throttle(power, temperatures, use, tenants)            # A-28
//!     clock modulation: every such CPU to its level
//!     else: every domain whose CPUs are all held back to level / parts of its highest frequency,
//!           by the highest level of its CPUs
//!     the others: released
//! each second: CPUs that no longer belong to who may be limited: released
//!     who is slowed to less than half on all its CPUs rests until 2 s before the loop ends
//! ```
//!
//! # Degradation
//! Without socket power, per-core temperature or use by CPU nothing is done (where a whole socket has
//! but one temperature, nobody can be told apart). Who is said to be gone keeps its cores for two
//! seconds more. Tenants that share their cores are left alone.
//! Without clocks and frequencies to set nothing is done.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `always-run` | first step | tasks may run |
//! | `noisy` | the socket is at its quota, and the tenant is warm and busy | clock a step down |
//! | `relaxing` | the socket is well below its quota | a step up |
//! | `relaxed` | whole again, or no longer to be limited | released |
//! | `resting` | slowed to less than half, and at work | CPU bandwidth for part of each second |
//! | `roused` | the loop ends soon: power is read while all are up | that is released |
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`; that a named
//! service is spared while it keeps its objective, by unit tests). Only clock modulation, top
//! frequencies and the CPU bandwidth of who is slowed are written; never of the host, of a core
//! that two tenants share, of a service that keeps its objective or that nobody named.
//!
//! Source: A-7, A-17, A-27 to A-30, A-36.

use super::bus_law::duty_parts;
use super::llc_law::tenants;
use super::places::{Homes, Lists, Places};
use super::rest::{self, AWAKE};
use super::{PowerThrottle, PowerThrottleParams, SocketPower};
use crate::ledger::{Ledger, Reason};
use crate::parts::{Every, check, cpus_of, frequency_domains, sockets};
use crate::{Needs, Policy};
use quell_types::{
    CpuSet, Input, Kilohertz, Knob, KnobRange, Observation, Proposal, Setting, Setup, Tenant,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const NAME: &str = "power";
/// Parts of the highest frequency, where clocks are not modulated.
const FREQUENCY_PARTS: u32 = 16;
/// How often it looks who runs where, in seconds.
const LOOK_S: f64 = 1.0;

/// By what cores are slowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PowerActuator {
    /// Clock modulation where it can be set, else the top frequency.
    #[default]
    Auto,
    /// Clock modulation only.
    Clock,
    /// The top frequency only.
    Frequency,
}

/// Parameters of `power`: the table `[law.power]`. The defaults are those of A-27, remembering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PowerParams {
    /// Length of a loop, in seconds.
    pub period_s: f64,
    /// Power that a socket may draw, in watts.
    pub quota_w: f64,
    /// How far below it clocks are given back, in watts.
    pub guard_w: f64,
    /// Use from which a CPU is busy.
    pub busy_frac: f64,
    /// CPUs that a tenant must own on a socket to count there.
    pub least_cpus: u32,
    /// Whether CPUs that were noisy go on down after they have cooled, while the socket is at its
    /// quota.
    pub remembers: bool,
    /// Levels of sixteen (or eight) that a noisy tenant's clocks lose in the first loop at the
    /// quota; they gain one.
    pub step_parts: u32,
    /// Levels more that they lose in each further loop in a row, since a socket at its limit does
    /// not show how much it is asked for. A-28: 0.
    pub step_growth_parts: u32,
    /// For how much of its time a tenant stands still besides that is slowed to less than half, so
    /// that the others have the clock of few cores. A-28: 0.
    pub rest_frac: f64,
    /// By what cores are slowed.
    pub actuator: PowerActuator,
    /// Groups, and services by name, that alone may be held back; empty = every batch group.
    pub allow: Vec<String>,
    /// Groups that are never held back.
    pub deny: Vec<String>,
}

impl Default for PowerParams {
    fn default() -> Self {
        let of = PowerThrottleParams::default();
        Self {
            period_s: 12.0,
            quota_w: of.quota_w,
            guard_w: of.guard_w,
            busy_frac: of.busy_frac,
            least_cpus: of.least_cpus,
            remembers: of.remembers,
            step_parts: of.step_parts,
            step_growth_parts: of.step_growth_parts,
            rest_frac: 0.6,
            actuator: PowerActuator::default(),
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }
}

impl PowerParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range.
    pub fn validate(&self) -> Result<(), String> {
        check(0.1..=3600.0, &[("period_s", self.period_s)])?;
        check(1.0..=10_000.0, &[("quota_w", self.quota_w)])?;
        check(0.0..=self.quota_w, &[("guard_w", self.guard_w)])?;
        check(0.0..=1.0, &[("busy_frac", self.busy_frac)])?;
        check(0.0..=0.95, &[("rest_frac", self.rest_frac)])?;
        check(1.0..=1024.0, &[("least_cpus", f64::from(self.least_cpus))])?;
        check(0.0..=15.0, &[("step_growth_parts", f64::from(self.step_growth_parts))])?;
        check(1.0..=15.0, &[("step_parts", f64::from(self.step_parts))])
    }

    fn throttle(&self) -> PowerThrottleParams {
        PowerThrottleParams {
            quota_w: self.quota_w,
            guard_w: self.guard_w,
            busy_frac: self.busy_frac,
            least_cpus: self.least_cpus,
            remembers: self.remembers,
            step_parts: self.step_parts,
            step_growth_parts: self.step_growth_parts,
        }
    }
}

/// See the module.
pub(crate) struct PowerLaw {
    params: PowerParams,
    loops: Every,
    sockets: BTreeMap<u32, PowerThrottle>,
    homes: Homes,
    places: Places,
    ledger: Ledger,
}

impl PowerLaw {
    pub(crate) fn new(params: PowerParams) -> Self {
        let loops = Every::new(params.period_s);
        let (sockets, homes, places) = (BTreeMap::new(), Homes::default(), Places::default());
        Self { loops, sockets, homes, places, ledger: Ledger::new(NAME), params }
    }

    /// Into how many parts a core's speed is cut, if it can be set: of clocks, else of frequency.
    fn parts(&self, setup: &Setup) -> Option<(PowerActuator, u32)> {
        let clock = duty_parts(setup).map(|parts| (PowerActuator::Clock, parts));
        let frequency = (!frequency_domains(setup).is_empty())
            .then_some((PowerActuator::Frequency, FREQUENCY_PARTS));
        match self.params.actuator {
            PowerActuator::Auto => clock.or(frequency),
            PowerActuator::Clock => clock,
            PowerActuator::Frequency => frequency,
        }
    }

    /// CPUs by the tenant that has their cores for itself, and that may be limited.
    fn open(&mut self, setup: &Setup, seen: &Observation) -> BTreeMap<Tenant, CpuSet> {
        self.places = self.homes.look(setup, seen);
        let lists = Lists { allow: &self.params.allow, deny: &self.params.deny };
        tenants(setup)
            .filter(|tenant| lists.may(seen, tenant))
            .map(|tenant| (tenant.clone(), self.places.owned_by(tenant)))
            .collect()
    }

    /// Between two loops: who got a core meanwhile, or may no longer be limited, does not wait for
    /// the next loop to have its clock back.
    fn let_go(&mut self, setup: &Setup, open: &BTreeMap<Tenant, CpuSet>) {
        if self.sockets.values().all(PowerThrottle::is_idle) {
            return;
        }
        let ours = open.values().fold(CpuSet::new(), |all, cpus| all.union(cpus));
        self.sockets.values_mut().for_each(|throttle| throttle.keep(&ours));
        let theirs = setup.managed_cpus.difference(&ours);
        let clocks = theirs.iter().map(|cpu| Knob::DutyCycle { cpu });
        let shared =
            frequency_domains(setup).into_iter().filter(|(_, cpus)| !cpus.is_subset(&ours));
        let frequencies = shared.map(|(cpu, _)| Knob::FrequencyMax { cpu });
        for knob in clocks.chain(frequencies) {
            self.ledger.release(knob, &Reason::polluter("relaxed", Vec::new()));
        }
    }

    fn round(&mut self, setup: &Setup, seen: &Observation, open: &BTreeMap<Tenant, CpuSet>) {
        let Some((actuator, parts)) = self.parts(setup) else { return };
        let ours = open.values().fold(CpuSet::new(), |all, cpus| all.union(cpus));
        for socket in sockets(setup) {
            let cpus = cpus_of(setup, socket);
            let Some(reading) = reading(seen, socket, &cpus) else { continue };
            let params = self.params.throttle();
            let throttle =
                self.sockets.entry(socket).or_insert_with(|| PowerThrottle::new(params, parts));
            throttle.keep(&ours);
            let levels = throttle.step(&reading, open);
            match actuator {
                PowerActuator::Frequency => self.cap(setup, &cpus, &levels, &reading),
                _ => self.modulate(setup, &cpus, &levels, &reading),
            }
        }
    }

    /// Those that run on their own cores only, all of which are slowed to less than half.
    fn slowed(&self, open: BTreeMap<Tenant, CpuSet>) -> BTreeMap<Tenant, CpuSet> {
        let below_half = |cpu| self.sockets.values().any(|socket| socket.is_below_half(cpu));
        let slowed = |tenant: &Tenant, cpus: &CpuSet| {
            !cpus.is_empty() && self.places.is_apart(tenant) && cpus.iter().all(below_half)
        };
        open.into_iter().filter(|(tenant, cpus)| slowed(tenant, cpus)).collect()
    }

    fn modulate(
        &mut self,
        setup: &Setup,
        cpus: &CpuSet,
        levels: &BTreeMap<u32, u32>,
        seen: &SocketPower,
    ) {
        for cpu in cpus.iter() {
            let to = levels.get(&cpu).map(|level| (Setting::Duty(*level), *level));
            self.turn(setup, Knob::DutyCycle { cpu }, to, seen);
        }
    }

    fn cap(
        &mut self,
        setup: &Setup,
        cpus: &CpuSet,
        levels: &BTreeMap<u32, u32>,
        seen: &SocketPower,
    ) {
        for (cpu, domain) in frequency_domains(setup) {
            if !domain.is_subset(cpus) {
                continue;
            }
            let knob = Knob::FrequencyMax { cpu };
            let held: Option<Vec<u32>> = domain.iter().map(|c| levels.get(&c).copied()).collect();
            let level = held.and_then(|all| all.into_iter().max());
            let to = level.and_then(|level| Some((frequency(setup, &knob, level)?, level)));
            self.turn(setup, knob, to, seen);
        }
    }

    fn turn(&mut self, setup: &Setup, knob: Knob, to: Option<(Setting, u32)>, seen: &SocketPower) {
        let mut inputs = vec![Input::new("socket_power_w", seen.power.0)];
        let Some((to, level)) = to else {
            self.ledger.release(knob, &Reason::polluter("relaxed", inputs));
            return;
        };
        inputs.push(Input::new("quota_w", self.params.quota_w));
        inputs.push(Input::new("level_parts", f64::from(level)));
        let before = self.ledger.standing(&knob);
        let looser = before.is_some_and(|b| to.compare_freedom(b).is_some_and(|o| o.is_gt()));
        let rule = if looser { "relaxing" } else { "noisy" };
        self.ledger.set(setup, knob, to, &Reason::polluter(rule, inputs));
    }
}

/// So many parts of the highest frequency of a domain.
fn frequency(setup: &Setup, knob: &Knob, level: u32) -> Option<Setting> {
    let Some(KnobRange::Frequency { min, max }) = setup.knobs.get(knob) else { return None };
    let khz = max.0 * u64::from(level) / u64::from(FREQUENCY_PARTS);
    Some(Setting::Frequency(Kilohertz(khz.clamp(min.0, max.0))))
}

/// A socket as the controller sees it; none if one of the readings is missing.
fn reading(seen: &Observation, socket: u32, cpus: &CpuSet) -> Option<SocketPower> {
    let host = &seen.host;
    let power = *host.power.as_ref().ok()?.get(&socket)?;
    let temperature = host.temperature.as_ref().ok()?;
    let busy = host.cpu_busy.as_ref().ok()?;
    let here = |cpu: &u32| cpus.contains(*cpu);
    Some(SocketPower {
        power,
        cpus: cpus.clone(),
        temperature: temperature.iter().filter(|(c, _)| here(c)).map(|(c, t)| (*c, *t)).collect(),
        busy: busy.iter().filter(|(c, _)| here(c)).map(|(c, b)| (*c, *b)).collect(),
    })
}

impl Policy for PowerLaw {
    fn name(&self) -> &'static str {
        NAME
    }

    fn period(&self) -> Duration {
        crate::parts::seconds(self.params.period_s.min(LOOK_S))
    }

    fn needs(&self) -> Needs {
        Needs { temperatures: true, ..Needs::default() }
    }

    fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        let open = self.open(setup, seen);
        if self.loops.due(seen.time) {
            self.round(setup, seen, &open);
        } else {
            self.let_go(setup, &open);
        }
        let (slowed, rest_frac) = (self.slowed(open), self.params.rest_frac);
        let awake = self.loops.left(seen.time) <= AWAKE;
        rest::give(&mut self.ledger, (setup, seen), &slowed, rest_frac, awake);
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        match self.parts(setup) {
            None => vec!["no clock and no frequency can be set: nobody is slowed".to_owned()],
            Some((PowerActuator::Frequency, _)) if self.params.actuator == PowerActuator::Auto => {
                vec!["no clock modulation: top frequencies are lowered instead".to_owned()]
            }
            Some(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
