//! A small world for laws that find out who hurts whom: a service, five groups of which some may
//! hurt it, and chance.

use super::{Standing, at, observe, setup};
use crate::Policy;
use quell_model::blame::{Finding, Standing as Status};
use quell_types::{
    Beside, ChipTrace, CompanyReading, Experiment, ExperimentTrace, Fraction, Gap, GaugeCounts,
    GaugeReading, Input, Observation, Reading, RequestReading, Setup, Tails, Tenant, Wish,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const GROUPS: [&str; 5] = ["a", "b", "c", "d", "e"];
const RATE: f64 = 2000.0;
const STEP_S: f64 = 0.25;
/// What each group uses if it may.
const CPUS: f64 = 0.3;
/// The same of who drives out what lies in the caches.
const MOST_CPUS: f64 = 0.9;
/// Standard deviation of the cost of one request over its mean.
const SPREAD: f64 = 0.8;

fn no_samples() -> GaugeCounts {
    GaugeCounts { slots: vec![0; 32], ..GaugeCounts::default() }
}

/// What is left, on average over a chip, so many chips later of what goes in such a time.
fn left_frac(goes_in_s: f64, chips: u32, seconds: f64) -> f64 {
    if goes_in_s <= 0.0 {
        return 0.0;
    }
    let left = |chips: u32| libm::exp(-f64::from(chips) * seconds / goes_in_s);
    (left(chips) - left(chips + 1)) * goes_in_s / seconds
}

/// A world in which each request costs 200 us, times the harm of those who run.
pub(crate) struct World<P> {
    pub(crate) setup: Setup,
    pub(crate) policy: P,
    /// ln of the slowdown while all of its work runs, by group.
    pub(crate) harm_ln: BTreeMap<Tenant, f64>,
    /// How limits stand.
    pub(crate) standing: Standing,
    pub(crate) on_its_way: Option<Experiment>,
    /// What the kernel trapped so far.
    pub(crate) lock_traps: Reading<BTreeMap<Tenant, u64>>,
    /// What the kernel's gauge has counted.
    pub(crate) gauge: GaugeReading,
    /// Who locks the bus in bursts, and how many times as long that makes latency.
    pub(crate) bursts: Option<(Tenant, f64)>,
    /// Who drives out what lies in the caches.
    pub(crate) presses: Option<Tenant>,
    /// Who uses more CPUs than usual, and how many.
    pub(crate) large: BTreeMap<Tenant, f64>,
    /// Inputs of each look, and who was held.
    pub(crate) looks: Vec<(Vec<Input>, Vec<Tenant>)>,
    /// For how long each group was held.
    pub(crate) held_s: BTreeMap<Tenant, f64>,
    /// Whether the kernel tells beside whom the service runs: beside each group for as long.
    pub(crate) tells_company: bool,
    /// In which steps the host has the CPUs on cores without a common cache, so that nobody hurts.
    pub(crate) apart: fn(u32) -> bool,
    /// Whether the gauge sees that.
    pub(crate) sees_apart: bool,
    /// Whom CPU bandwidth does not hold.
    pub(crate) runs_on: Option<Tenant>,
    /// In which time harm goes that is no longer done, in seconds.
    pub(crate) goes_in_s: f64,
    /// In which time it comes back when who does it runs again.
    pub(crate) comes_in_s: f64,
    /// Beside whom requests seem dearer than he makes them, in ln.
    pub(crate) seem_ln: BTreeMap<Tenant, f64>,
    /// Whether who hurts rests during each look.
    pub(crate) hides: bool,
    in_look: bool,
    seed: u64,
    step: u32,
}

/// So many CPUs, the service and the groups.
pub(crate) fn machine(cpus: u32) -> Setup {
    machine_of(cpus, &GROUPS)
}

/// The same with these groups.
pub(crate) fn machine_of(cpus: u32, groups: &[&str]) -> Setup {
    let service = setup(cpus).service("web", 10.0, 4000.0);
    groups.iter().fold(service, |setup, group| setup.batch(group)).build()
}

impl<P: Policy> World<P> {
    pub(crate) fn new(policy: P, culprits: &[(&str, f64)], seed: u64) -> Self {
        Self {
            setup: machine(2),
            policy,
            harm_ln: culprits.iter().map(|(name, ln)| ((*name).into(), *ln)).collect(),
            standing: Standing::default(),
            on_its_way: None,
            lock_traps: Err(Gap::absent("this kernel traps none")),
            gauge: GaugeReading {
                all: no_samples(),
                others: no_samples(),
                ..GaugeReading::default()
            },
            bursts: None,
            presses: None,
            large: BTreeMap::new(),
            looks: Vec::new(),
            held_s: BTreeMap::new(),
            tells_company: false,
            apart: |_| false,
            sees_apart: true,
            runs_on: None,
            goes_in_s: 0.0,
            comes_in_s: 0.0,
            seem_ln: BTreeMap::new(),
            hides: false,
            in_look: false,
            seed,
            step: 0,
        }
    }

    /// Near enough to a standard normal number, the same on every machine.
    fn chance(&mut self) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            sum += (self.seed >> 11) as f64 / (1_u64 << 53) as f64;
        }
        sum
    }

    pub(crate) fn is_apart(&self) -> bool {
        (self.apart)(self.step)
    }

    pub(crate) fn groups(&self) -> Vec<Tenant> {
        self.setup.batch.iter().map(|batch| batch.name.clone()).collect()
    }

    fn wanted_cpus(&self, group: &Tenant) -> f64 {
        let usual = if self.presses.as_ref() == Some(group) { MOST_CPUS } else { CPUS };
        self.large.get(group).copied().unwrap_or(usual)
    }

    /// How much of what is told of a group's use is chance: of many threads no more than of one, in CPUs.
    fn flutter(&self, group: &Tenant) -> f64 {
        self.large.get(group).map_or(0.05, |cpus| 0.05 * (CPUS / cpus).min(1.0))
    }

    /// What a group uses while it runs.
    pub(crate) fn cpus(&self, group: &Tenant) -> f64 {
        let wanted = self.wanted_cpus(group);
        let quota = self.standing.quota_cpus(group.as_str());
        let held = quota.filter(|_| self.runs_on.as_ref() != Some(group));
        let free = held.map_or(wanted, |quota| quota.min(wanted));
        if self.standing.frozen(group.as_str()) { 0.0 } else { free }
    }

    /// Seconds a request costs, averaged over so many, while these are held, of whose harm so much is left.
    fn cost_s(&mut self, requests: f64, held: &[Tenant], left_frac: f64) -> f64 {
        let ln_of = |(group, ln): (&Tenant, &f64)| {
            let done = ln * self.cpus(group) / self.wanted_cpus(group);
            if held.contains(group) { left_frac * done } else { done }
        };
        let hidden = self.hides && self.in_look;
        let ln: f64 =
            if self.is_apart() || hidden { 0.0 } else { self.harm_ln.iter().map(ln_of).sum() };
        200e-6 * libm::exp(ln) * (1.0 + SPREAD / requests.sqrt() * self.chance()).max(0.1)
    }

    /// A chip after so many in which they were held as well, or have run again since they were.
    fn chip(&mut self, experiment: &Experiment, running: bool, alike: Option<u32>) -> ChipTrace {
        let seconds = experiment.chip_us as f64 / 1e6;
        let requests = RATE * seconds;
        let done_frac = match alike {
            None => 1.0,
            Some(chips) if running => 1.0 - left_frac(self.comes_in_s, chips, seconds),
            Some(chips) => left_frac(self.goes_in_s, chips, seconds),
        };
        let cpu_s = requests * self.cost_s(requests, &experiment.groups, done_frac);
        let rests = |group: &Tenant| !running || self.hides && self.harm_ln.contains_key(group);
        let used = |group: &Tenant| {
            if rests(group) { 0 } else { (self.cpus(group) * seconds * 1e9) as u64 }
        };
        let reading = RequestReading {
            requests: requests as u64,
            bytes_in: 100 * requests as u64,
            bytes_out: 0,
            latency_ns: Err(Gap::not_yet("not traced")),
        };
        let from = at(f64::from(self.step) * STEP_S);
        ChipTrace {
            from,
            to: from + Duration::from_micros(experiment.chip_us),
            running,
            victim_cpu_ns: BTreeMap::from([("web".into(), Ok((cpu_s * 1e9) as u64))]),
            victim_requests: BTreeMap::from([("web".into(), Ok(reading))]),
            group_cpu_ns: experiment.groups.iter().map(|g| (g.clone(), Ok(used(g)))).collect(),
        }
    }

    /// What the service did beside whom in a sample: a group hurts while it has the other CPU.
    fn company(&mut self) -> Reading<CompanyReading> {
        if !self.tells_company {
            return Err(Gap::absent("this kernel does not tell"));
        }
        let mut company = CompanyReading::default();
        let groups = self.groups();
        let sends = RATE * STEP_S / groups.len() as f64;
        for group in groups {
            let harm_ln = self.harm_ln.get(&group).map_or(0.0, |ln| ln / self.wanted_cpus(&group));
            let harm_ln = harm_ln + self.seem_ln.get(&group).copied().unwrap_or(0.0);
            let scatter = (1.0 + SPREAD / sends.sqrt() * self.chance()).max(0.1);
            let cost_s = 200e-6 * libm::exp(harm_ln) * scatter;
            let cpu_ns = (1e9 * cost_s * sends) as u64;
            company.tenants.insert(group, Beside { cpu_ns, sends: sends as u64 });
        }
        Ok(company)
    }

    fn trace(&mut self, experiment: &Experiment) -> ExperimentTrace {
        for group in &experiment.groups {
            let held = Duration::from_micros(
                experiment.chip_us * experiment.code.iter().filter(|run| !**run).count() as u64,
            );
            *self.held_s.entry(group.clone()).or_default() += held.as_secs_f64();
        }
        self.in_look = true;
        let mut before = Vec::new();
        let chips = experiment.code.clone().into_iter().map(|run| {
            let alike = before.iter().rev().take_while(|ran| **ran == run).count();
            let changed = alike < before.len() || !run;
            before.push(run);
            self.chip(experiment, run, changed.then_some(alike as u32))
        });
        let chips = chips.collect();
        self.in_look = false;
        ExperimentTrace { id: experiment.id, chips, aborted: None }
    }

    /// The gauge has counted a quarter of a second; for two of 22 somebody locked the bus.
    fn lock(&mut self, seen: &mut Observation) {
        let burst = self.bursts.clone().filter(|_| self.step % 22 >= 20);
        let mut count = |name: Option<&str>, slot: usize, samples: u32| {
            self.gauge.all.slots[slot] += samples;
            // Each read of memory took 470 ns.
            self.gauge.all.memory += 31 * u64::from(samples);
            self.gauge.all.memory_squares += 31 * 31 * u64::from(samples);
            let Some(name) = name else { return };
            let beside = self.gauge.beside.entry(name.into()).or_insert_with(no_samples);
            beside.slots[slot] += samples;
        };
        count(None, 8, 50);
        let groups = self.setup.batch.iter().map(|batch| batch.name.as_str());
        groups.for_each(|name| count(Some(name), 8, 8));
        let mut p95_s = 5e-3 * (1.0 + 0.1 * f64::from(self.step % 3));
        if let Some((locker, times)) = &burst {
            // Held to a twentieth of a CPU it hardly hurts.
            let free = self.standing.quota_cpus(locker.as_str()).is_none();
            count(Some(locker.as_str()), 15, if free { 30 } else { 3 });
            p95_s *= if free { *times } else { 1.0 };
        }
        self.press();
        self.pass_lines();
        let web = seen.services.get_mut(&"web".into());
        let tails = Tails {
            requests: 500,
            window_s: 0.25,
            p50_s: 2e-3,
            p95_s,
            p99_s: p95_s,
            p999_s: p95_s,
            slo_s: p95_s,
        };
        web.into_iter().for_each(|web| web.fast_tails = Ok(tails));
        Arc::make_mut(&mut seen.host).gauge = Ok(Arc::new(self.gauge.clone()));
    }

    /// Lines that were left took 19 ns, but in turns of who presses 215.
    fn press(&mut self) {
        let Self { gauge, presses, .. } = self;
        for (name, of) in &mut gauge.beside {
            let took = if presses.as_ref() == Some(name) { 38 } else { 10 };
            of.kept.samples += 5;
            of.kept.took += 5 * took;
            of.kept.ns += 5 * 4_000_000;
        }
    }

    /// Lines took 130 ns from one CPU to the other, or 600.
    fn pass_lines(&mut self) {
        if self.sees_apart {
            let slot = if self.is_apart() { 7 } else { 2 };
            self.gauge.passes.slots.resize(16, 0);
            self.gauge.passes.slots[slot] += 15;
        }
    }

    pub(crate) fn step(&mut self) {
        let cost_s = self.cost_s(RATE * STEP_S, &[], 0.0);
        let played = self.on_its_way.take().map(|experiment| self.trace(&experiment));
        let second = f64::from(self.step) * STEP_S;
        let mut seen = observe(&self.setup, second).qps("web", RATE).cpu("web", RATE * cost_s);
        let company = self.company();
        seen = seen.of("web", |s| s.company = company);
        let mut used_cpus = RATE * cost_s;
        for group in self.groups() {
            let used = self.cpus(&group) * (1.0 + self.flutter(&group) * self.chance());
            seen = seen.cpu(group.as_str(), used);
            used_cpus += used;
        }
        let mut seen = seen.done();
        let cpus = self.setup.managed_cpus.len() as f64;
        std::sync::Arc::make_mut(&mut seen.host).utilisation =
            Ok(Fraction((used_cpus / cpus).min(1.0)));
        seen.interval_s = STEP_S;
        Arc::make_mut(&mut seen.host).lock_traps = self.lock_traps.clone();
        self.lock(&mut seen);
        seen.experiments.extend(played);
        let proposals = self.policy.step(&self.setup, &seen);
        self.standing.take(&proposals);
        for proposal in proposals {
            if let Wish::Play(experiment) = proposal.wish {
                self.looks.push((proposal.inputs, experiment.groups.clone()));
                self.on_its_way = Some(experiment);
            }
        }
        self.step += 1;
    }

    pub(crate) fn run(&mut self, seconds: f64) {
        for _ in 0..(seconds / STEP_S) as u32 {
            self.step();
        }
    }

    pub(crate) fn finding(&self) -> Finding {
        self.policy.findings()[&Tenant::from("web")].clone()
    }

    pub(crate) fn named(&self) -> Vec<String> {
        let finding = self.finding();
        let named = finding.culprits.iter().filter(|c| c.status == Status::Named);
        named.map(|c| c.workload.to_string()).collect()
    }
}
