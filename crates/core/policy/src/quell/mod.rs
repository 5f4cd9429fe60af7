//! `quell`: the default law. Batch takes whatever harms nobody; only what harms is held back.
//!
//! # Problem
//! A service must keep its objective while batch work uses the rest, on machines that may have
//! neither counters nor cache partitions. Two things go wrong with what exists. Schedulers order
//! who runs, but a batch job that runs *beside* the service still empties its caches. Controllers
//! that act on the tail alone (T.3, H-2) cut all batch alike, in steps of whole cores, seconds
//! after the harm; and the tail is the noisiest signal there is.
//!
//! # Idea
//! 1. *Lend everything, in the idle class.* Batch may use every CPU, but in the idle class the
//!    service takes a CPU back at wake-up. What CPU contention remains is small, so there is no
//!    core split, and on two CPUs no step of half the machine.
//! 2. *Measure harm by group.* Holding one group for a chip (≤ 100 ms, ≤ 1 % of its time) and
//!    comparing the service's CPU time per request in adjacent chips gives that group's harm
//!    ([`harm`]): a CPI without a PMU. It rises with cache and memory interference and not with
//!    load or queueing.
//! 3. *Spend an allowance of harm.* The service can bear some: at load ρ its CPU use may grow by
//!    `rho_target/ρ` before queues build up. The allowance is shared out so that the most batch
//!    CPU time comes of it ([`budget`]): the harmless run free, the harmful get CPU budgets below
//!    one core, with periods of a few milliseconds so that their work is spread evenly over
//!    requests.
//! 4. *Let slack correct it.* One number, the trust `a`, scales the allowance: it grows by a step
//!    while slack is ample, falls by a factor when slack is thin. A wrong harm model costs a
//!    little efficiency, not the objective.
//! 5. *A fast path* (every `period_s`, 0.25 s): a jump of the request rate, of the service's CPU
//!    time per request, or a missed objective in the fast window cuts trust at once; a service
//!    that still misses over a full window gets the machine alone (batch frozen) until it has
//!    recovered.
//!
//! # Units
//! CPUs (1.0 = one CPU fully used), seconds, fractions 0..1. Harm is ln(inflation) per CPU of the
//! group's use: 0.4 means that one CPU of it makes a request cost e^0.4 = 1.5× the CPU time.
//!
//! # Pseudo-code
//! ```text
//! once:  batch joins the idle class, services get the greatest weight, tasks run
//! every period_s, over all services:
//!   slack = least fast slack; rho = Σ service CPU / managed CPUs
//!   if frozen:             thaw when slack > recovered_slack or after probe time; trust = floor
//!   elif full slack < 0 twice running:        freeze batch, note when (emergency)
//!   elif fast slack < 0:                      trust *= emergency_factor
//!   elif qps > jump_ratio * smoothed qps:     trust *= jump_factor
//!   elif cpu/request > jump_ratio * smoothed: trust *= jump_factor
//! every slow_period_s:
//!   if slack < shrink_below_slack:  trust *= shrink_factor
//!   elif slack > grow_above_slack:  trust += grow_step (up to just under the last level that
//!                                   failed at this load at once, beyond it slowly)
//!   allowance = trust * ln(rho_target / rho_without_harm)
//!   budgets   = share(allowance, harm by group)       # budget.rs
//!   play an experiment for the group whose harm is least known, if its hold bank allows
//! network, per link: batch = net_share * link - service's rate   (T-19, per-tenant shares)
//! cache ways, MBA (where they exist): follow trust
//! virtual machines: idle CPUs stay awake while slack is not ample   # awake.rs
//!   slack stays thin under limits: try whether limits help; if not, batch runs free  # fill.rs
//! ```
//!
//! # Several services
//! Slack is the least of all; load is the sum of their CPU use; harm is the worst of all victims.
//! Batch follows the worst-off service.
//!
//! # Degradation
//! * No idle class: weight 1; no weight either: budgets start lower (`unclassed_share`).
//! * No CPU bandwidth, or a group that it does not hold (real-time threads: it uses far more than it may for three
//!   seconds): harmful groups are confined to few CPUs, and frozen when that fails.
//! * No freezer: the emergency uses the smallest budget instead; no experiments: every group
//!   counts as `unknown_harm`, so budgets are equal and trust alone steers.
//! * No latency (a gap): trust stays at most `blind_trust`; CPU use and rates still count.
//! * No cpuidle driver, or bare metal: idle CPUs halt as ever.
//! * No RDT: the cache part is left out. With it, batch keeps its ways apart from the services'.
//!
//! # Invariants
//! Checked after every step of every fault run (`quell-faults`):
//! * Services keep all CPUs: their CPU sets and clocks are never written.
//! * Batch that runs at all is in the idle class, and no budget is under 0.02 CPU.
//! * A *reported breach* is the rule `slo-missed`: an objective was missed in two full windows
//!   running. Batch is then off or at its floor (`least_cpus` a group) within two fast periods,
//!   also when two faults meet: freezer and budget are both written, and each makes up for the
//!   other.
//! * Where cache ways can be set, batch that runs shares none with services.
//!
//! # Rules
//! | rule | when |
//! |---|---|
//! | `lend` | at the start |
//! | `budget` | the shares were worked out anew |
//! | `unheld` | CPU bandwidth does not hold a group: few CPUs besides |
//! | `slack-thin` / `slack-ample` | slow loop |
//! | `slo-missed-fast`, `load-jump`, `cost-jump` | fast loop |
//! | `slo-missed`, `thaw` | emergency and its end |
//! | `slo-unreachable` | the service misses its objective with batch held: batch stays off |
//! | `link-share`, `ways-follow-trust` | network, cache |
//! | `stay-awake`, `may-sleep` | slack is not ample; it was for long |
//! | `try-free`, `try-limits` | windows of a trial |
//! | `limits-do-not-help`, `limits-help` | its outcome |
//! | `blind` | free batch is limited again: no latency is known |
//! | `measure-harm` | an experiment |
//!
//! Sources: T.3–T.6 for the structure, H-2 for the headroom, R-2 for short online probes, R-4 for
//! steps that are taken back; the rest is ours.

mod awake;
mod budget;
mod cache;
mod fill;
mod guard;
mod harm;
mod link;
mod params;
mod signals;

pub use params::QuellParams;

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use crate::parts::Overruns;
use awake::Awake;
use budget::Shares;
use fill::{Fill, Order};
use guard::Guard;
use harm::Harm;
use quell_types::{Input, Knob, Observation, Precedence, Proposal, Setting, Setup, Time, Wish};
use signals::Signals;
use std::time::Duration;

/// The law's name.
pub(crate) const NAME: &str = "quell";
/// Who uses far more than its bandwidth for so long is not held by it.
const UNHELD_S: f64 = 3.0;

/// The law `quell`.
#[derive(Debug)]
pub struct Quell {
    params: QuellParams,
    ledger: Ledger,
    guard: Guard,
    fill: Fill,
    harm: Harm,
    awake: Awake,
    unheld: Overruns,
    lent: bool,
    next_slow: Time,
}

impl Quell {
    /// A law that has seen nothing yet.
    #[must_use]
    pub fn new(params: QuellParams) -> Self {
        Self {
            guard: Guard::new(params.clone()),
            fill: Fill::default(),
            harm: Harm::new(params.clone()),
            ledger: Ledger::new(NAME),
            awake: Awake::default(),
            unheld: Overruns::after(libm::ceil(UNHELD_S / params.period_s) as u32),
            lent: false,
            next_slow: Time(0),
            params,
        }
    }

    /// Idle class for batch, weight for services, tasks may run. Said once.
    fn lend(&mut self, setup: &Setup) {
        let why = Reason::partition("lend", vec![]);
        for service in &setup.services {
            let knob = Knob::CpuWeight { tenant: service.name.clone() };
            let weight = Setting::Weight(self.params.service_weight);
            self.ledger.set(setup, knob, weight, &why);
        }
        for batch in &setup.batch {
            let idle = Knob::CpuIdle { tenant: batch.name.clone() };
            if setup.controls(&idle) {
                self.ledger.set(setup, idle, Setting::Flag(true), &why);
            } else {
                let weight = Knob::CpuWeight { tenant: batch.name.clone() };
                self.ledger.set(setup, weight, Setting::Weight(1), &why);
            }
        }
        self.ledger.run_all_tasks(setup, &why);
    }

    /// Budgets for all batch groups.
    fn spread(&mut self, setup: &Setup, signals: &Signals, rule: &'static str) {
        let shares = budget::share(setup, &self.params, signals, self.guard.trust(), &self.harm);
        let mut inputs = signals.inputs();
        inputs.push(Input::new("trust_frac", self.guard.trust()));
        inputs.push(Input::new("allowance_ln", shares.allowance_ln));
        self.set_budgets(setup, &shares, &Reason::partition(rule, inputs));
    }

    fn set_budgets(&mut self, setup: &Setup, shares: &Shares, why: &Reason) {
        for (tenant, share) in &shares.by_group {
            let mut why = why.clone();
            why.inputs.push(Input::new("harm_ln_per_cpu", share.harm));
            let knob = Knob::CpuBandwidth { tenant: tenant.clone() };
            if setup.controls(&knob) {
                let to = Setting::Bandwidth(share.bandwidth);
                self.ledger.set(setup, knob, to, &why);
                if share.bandwidth.limit_cpus.is_none() || !self.unheld.has(tenant) {
                    self.ledger.release(Knob::Cpus { tenant: tenant.clone() }, &why);
                    continue;
                }
                why.rule = "unheld";
            }
            let knob = Knob::Cpus { tenant: tenant.clone() };
            let cpus = setup.managed_cpus.last(share.whole_cpus);
            self.ledger.set(setup, knob, Setting::Cpus(cpus), &why);
        }
    }

    /// Looks whether budgets hold.
    fn look_at_budgets(&mut self, seen: &Observation) {
        for (tenant, batch) in &seen.batch {
            let knob = Knob::CpuBandwidth { tenant: tenant.clone() };
            let may = match self.ledger.standing(&knob) {
                Some(Setting::Bandwidth(to)) => to.limit_cpus.map(|cpus| cpus.0),
                _ => None,
            };
            if may.is_none() || batch.present.is_err() {
                self.unheld.forget(tenant);
            } else {
                self.unheld.look(tenant, may, batch.cpu.as_ref().ok().map(|cpu| cpu.0));
            }
        }
    }

    /// Holds all batch, or lets it go on.
    fn hold(&mut self, setup: &Setup, held: bool, rule: &'static str, inputs: Vec<Input>) {
        let why = Reason { rule, precedence: Precedence::Emergency, inputs };
        for batch in &setup.batch {
            let frozen = Knob::Frozen { tenant: batch.name.clone() };
            self.ledger.set(setup, frozen, Setting::Flag(held), &why);
            // Also where it is frozen: should that be refused or lost, it is at its floor.
            if held {
                let knob = Knob::CpuBandwidth { tenant: batch.name.clone() };
                let least = budget::bandwidth_of(self.params.least_cpus);
                self.ledger.set(setup, knob, Setting::Bandwidth(least), &why);
            }
        }
    }

    fn act_on(&mut self, setup: &Setup, signals: &Signals) {
        let slow = signals.time >= self.next_slow;
        if slow {
            self.next_slow = signals.time + Duration::from_secs_f64(self.params.slow_period_s);
            let may_try = self.guard.may_try(signals.time);
            let order = self.fill.step(setup, &self.params, signals, may_try);
            self.follow(setup, signals, order);
        }
        if self.fill.is_limiting() {
            self.limit(setup, signals, slow);
        }
    }

    /// What a trial asks for.
    fn follow(&mut self, setup: &Setup, signals: &Signals, order: Order) {
        let (rule, trust) = match order {
            Order::Limit => return,
            Order::Free(rule) => (rule, self.params.most_trust),
            Order::Least(rule) | Order::LimitAnew(rule) => (rule, self.params.least_trust),
            Order::Hold(rule) => {
                self.guard.begin_hold(signals);
                return self.hold(setup, true, rule, signals.inputs());
            }
        };
        if self.guard.take_over(trust) {
            self.hold(setup, false, "thaw", signals.inputs());
        }
        if matches!(order, Order::Free(_)) {
            let shares = Shares::free(setup, &self.harm);
            self.set_budgets(setup, &shares, &Reason::partition(rule, signals.inputs()));
        } else {
            self.spread(setup, signals, rule);
        }
        cache::follow(setup, &self.params, self.guard.trust(), &mut self.ledger);
    }

    /// What trust says.
    fn limit(&mut self, setup: &Setup, signals: &Signals, slow: bool) {
        let verdict = self.guard.judge(signals, slow);
        match verdict.hold {
            Some(held) => self.hold(setup, held, verdict.rule, signals.inputs()),
            None if self.guard.holding() => return,
            None => {}
        }
        if !self.guard.holding() && (slow || verdict.changed) {
            self.spread(setup, signals, verdict.rule);
            cache::follow(setup, &self.params, self.guard.trust(), &mut self.ledger);
        }
    }
}

impl Policy for Quell {
    fn name(&self) -> &'static str {
        NAME
    }

    fn period(&self) -> Duration {
        Duration::from_secs_f64(self.params.period_s)
    }

    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal> {
        if !std::mem::replace(&mut self.lent, true) {
            self.lend(setup);
        }
        self.harm.learn(setup, observation);
        self.look_at_budgets(observation);
        let signals = Signals::of(setup, observation, &self.harm);
        self.awake.follow(setup, &self.params, &signals, &mut self.ledger);
        self.act_on(setup, &signals);
        link::share(setup, &self.params, observation, &mut self.ledger);
        let mut proposals = self.ledger.drain();
        if !self.guard.holding()
            && !self.fill.is_trying()
            && let Some(experiment) = self.harm.next_experiment(setup, observation, &signals)
        {
            proposals.push(Proposal {
                policy: NAME.into(),
                precedence: Precedence::Partition,
                inputs: vec![Input::new("held_s", experiment.held_s())],
                rule: "measure-harm".into(),
                wish: Wish::Play(experiment.into_inner()),
            });
        }
        proposals
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let mut said = Vec::new();
        for batch in &setup.batch {
            let tenant = || batch.name.clone();
            let name = &batch.name;
            if !setup.controls(&Knob::CpuIdle { tenant: tenant() }) {
                said.push(format!("{name}: no idle class, so the smallest weight is used"));
            }
            if !setup.controls(&Knob::CpuBandwidth { tenant: tenant() }) {
                said.push(format!("{name}: no CPU bandwidth, so harm is met by fewer CPUs"));
            }
            if !setup.controls(&Knob::Frozen { tenant: tenant() }) {
                said.push(format!("{name}: no freezer, so its harm cannot be measured apart"));
            }
        }
        if awake::is_missing(setup, &self.params) {
            said.push("idle CPUs cannot be kept awake: the host may wake them late".to_string());
        }
        if !setup.knobs.keys().any(|k| matches!(k, Knob::LlcWays { .. })) {
            said.push("no cache partitions: budgets alone protect the caches".to_string());
        }
        said
    }
}

#[cfg(test)]
mod tests;
