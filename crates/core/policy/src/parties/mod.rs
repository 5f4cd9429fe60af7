//! `parties`: the controller of PARTIES (ASPLOS'19), for several latency-critical services at
//! once.
//!
//! **Problem.** Several services share a server, each with an objective of its own. None is known
//! beforehand, their loads move apart, and what one of them needs (a core, cache, clock) differs
//! from what its neighbour can spare.
//!
//! **Idea.** Every resource comes in small steps. Give the service that is worst off one step of
//! some resource and watch; take one from the service that is best off and watch. Resources are
//! interchangeable as far as a tail is concerned, so it hardly matters which is tried first: if it
//! does not help, the next one of a wheel is tried.
//!
//! **Units.** Slack (target − latency)/target of each service, over the shortest window that means
//! something (*now*) and over about a second (*windowed*). Steps: a physical core with all its
//! hardware threads, a cache way, 100 MHz. A tick is 0.1 s.
//!
//! **Pseudo-code.**
//! ```text
//! start: every service has an equal share of cores and ways, at full clock; batch has what is
//!        left over, which is nothing
//! every tick:
//!   if a change is watched:
//!     upsize:   count ticks in which the service's latency fell; after 5, if fewer than 3:
//!               next time the next resource of its wheel (the step stays)
//!     downsize: count ticks in which some service's slack < 0.05; after 5, if 3 or more:
//!               give the step back, bar the service for 100 ticks, next resource of its wheel
//!   else:
//!     s = service with the least windowed slack among those whose both slacks < 0.05
//!     if s: one step of its wheel's resource, from the pool, else from the service with most
//!           slack that keeps 1 core or way; nothing to give: next resource
//!     else:
//!       s = service with the most slack among those whose both slacks > 0.20 and that are not
//!           barred: one step of its wheel's resource goes to the pool
//!   batch runs on the pool; while that has no core, it is frozen
//! ```
//! Wheel: core → cache → frequency → core.
//!
//! **Readings.** The source enters each wheel at random; laws here have no randomness, so service
//! n enters at resource n of the wheel. The pool is what batch may use: the source leaves it idle
//! or gives it to best-effort work, which is the use here. A frequency step needs no donor. The
//! full version's memory, disk and network are left out; links are left alone.
//!
//! **Degradation.** Fewer cores than services: cores are not divided, batch stays off. No cache
//! control, or too few ways: no cache in the wheel. No frequency control: no frequency in it.
//! Slack of a service not known: it neither gets nor gives, and others are not downsized while it
//! is short. A service that is gone or idle has all slack. No freezer: batch's tasks are stopped,
//! else its CPU time is cut to the least; where nothing can hold it, it keeps one core.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). Services share no
//! CPU and no way with each other; batch that runs shares no CPU with them. A mask has a least
//! size: while fewer ways are free, that of batch reaches into the last service's. Weights, idle
//! classes, links and memory throttles are never written.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `equal-shares` | first step | cores and ways in equal parts, batch off |
//! | `upsize` | both slacks < 0.05 | one step more |
//! | `downsize` | both slacks > 0.20, not barred | one step less |
//! | `take-back` | a downsizing did harm | the step returns, the service is barred |
//! | `pool-empty` | no core is free | batch off |
//! | `pool-free` | a core is free | batch on |
//!
//! Sources: R-4; the authors' public code for steps, bounds and back-off.

mod params;
mod shares;
#[cfg(test)]
mod tests;

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use crate::parts::{can_halt, halt, resume, seconds, slack_of};
use quell_types::{Input, Observation, Proposal, ServiceObservation, Setup};
use shares::{Resource, Shares};
use std::time::Duration;

pub use params::PartiesParams;

/// Slack of one service; none where it is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slack {
    now: Option<f64>,
    windowed: Option<f64>,
}

impl Slack {
    fn of(service: &ServiceObservation) -> Self {
        if service.present.is_err() {
            return Self { now: Some(1.0), windowed: Some(1.0) };
        }
        let windowed = slack_of(service);
        let now = service.fast_slack.as_ref().ok().copied().filter(|s| !s.is_nan());
        // A window that is too short to mean anything says what the longer one says.
        Self { now: now.or(windowed), windowed }
    }

    fn below(self, bound: f64) -> bool {
        self.now.is_some_and(|s| s < bound) && self.windowed.is_some_and(|s| s < bound)
    }

    fn above(self, bound: f64) -> bool {
        self.now.is_some_and(|s| s > bound) && self.windowed.is_some_and(|s| s > bound)
    }

    fn inputs(self) -> Vec<Input> {
        let of = |name: &'static str, slack: Option<f64>| slack.map(|s| Input::new(name, s));
        [of("slack_now_frac", self.now), of("slack_frac", self.windowed)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A change that is being watched.
#[derive(Clone, Copy, Debug)]
struct Watch {
    up: bool,
    service: usize,
    what: Resource,
    ticks: u32,
    /// Ticks that speak for an upsizing, or against a downsizing.
    counted: u32,
    /// Slack before the change.
    slack: f64,
}

/// See the module.
pub(crate) struct Parties {
    params: PartiesParams,
    ledger: Ledger,
    shares: Option<Shares>,
    /// The next resource of each service.
    wheels: Vec<Resource>,
    /// Ticks for which each service is barred.
    barred: Vec<u32>,
    watch: Option<Watch>,
    batch_on: bool,
}

impl Parties {
    pub(crate) fn new(params: PartiesParams) -> Self {
        Self {
            params,
            ledger: Ledger::new("parties"),
            shares: None,
            wheels: Vec::new(),
            barred: Vec::new(),
            watch: None,
            batch_on: true,
        }
    }

    fn start(&mut self, setup: &Setup) -> Shares {
        let wheel = [Resource::Core, Resource::Cache, Resource::Frequency];
        self.wheels = wheel.into_iter().cycle().take(setup.services.len()).collect();
        self.barred = vec![0; setup.services.len()];
        let shares = Shares::equal(setup);
        shares.give(&mut self.ledger, setup, &Reason::partition("equal-shares", Vec::new()));
        shares
    }

    /// One tick of a change that is watched; over it, what follows from it.
    fn observe(&mut self, setup: &Setup, shares: &mut Shares, slacks: &[Slack], mut watch: Watch) {
        let speaks = match watch.up {
            true => slacks[watch.service].now.is_some_and(|now| now > watch.slack),
            false => {
                slacks.iter().any(|s| s.now.is_some_and(|n| n < self.params.upsize_below_slack))
            }
        };
        watch.ticks += 1;
        watch.counted += u32::from(speaks);
        if watch.ticks < self.params.watch_ticks_count {
            self.watch = Some(watch);
            return;
        }
        self.watch = None;
        let most = 2 * watch.counted > watch.ticks;
        if watch.up != most {
            self.wheels[watch.service] = watch.what.next();
        }
        if !watch.up && most {
            shares.grow(watch.service, watch.what, self.params.frequency_step_khz, &[]);
            self.barred[watch.service] = self.params.bar_ticks_count;
            let why = Reason::partition("take-back", slacks[watch.service].inputs());
            shares.give(&mut self.ledger, setup, &why);
        }
    }

    fn change(&mut self, setup: &Setup, shares: &mut Shares, slacks: &[Slack]) {
        let windowed = |n: &usize| slacks[*n].windowed.unwrap_or(0.0);
        let by_slack = |a: &usize, b: &usize| windowed(a).total_cmp(&windowed(b));
        let low = self.params.upsize_below_slack;
        let short = (0..slacks.len()).filter(|n| slacks[*n].below(low)).min_by(by_slack);
        if let Some(service) = short {
            return self.upsize(setup, shares, slacks, service);
        }
        let high = self.params.downsize_above_slack;
        let fit = |n: &usize| slacks[*n].above(high) && self.barred[*n] == 0;
        if let Some(service) = (0..slacks.len()).filter(fit).max_by(by_slack) {
            self.downsize(setup, shares, slacks, service);
        }
    }

    fn upsize(&mut self, setup: &Setup, shares: &mut Shares, slacks: &[Slack], service: usize) {
        let mine = slacks[service].windowed.unwrap_or(0.0);
        let mut donors: Vec<usize> = (0..slacks.len())
            .filter(|n| *n != service && slacks[*n].windowed.is_some_and(|s| s > mine))
            .collect();
        donors.sort_by(|a, b| {
            let of = |n: &usize| slacks[*n].windowed.unwrap_or(0.0);
            of(b).total_cmp(&of(a))
        });
        for _ in 0..3 {
            let what = self.wheels[service];
            let step = self.params.frequency_step_khz;
            if shares.grow(service, what, step, &donors).is_some() {
                return self.begin_watch(setup, shares, slacks, (true, service, what));
            }
            self.wheels[service] = what.next();
        }
    }

    fn downsize(&mut self, setup: &Setup, shares: &mut Shares, slacks: &[Slack], service: usize) {
        for _ in 0..3 {
            let what = self.wheels[service];
            if shares.shrink(service, what, self.params.frequency_step_khz) {
                return self.begin_watch(setup, shares, slacks, (false, service, what));
            }
            self.wheels[service] = what.next();
        }
        // It has given all that it can.
        self.barred[service] = self.params.bar_ticks_count;
    }

    fn begin_watch(
        &mut self,
        setup: &Setup,
        shares: &Shares,
        slacks: &[Slack],
        (up, service, what): (bool, usize, Resource),
    ) {
        let slack = slacks[service].now.unwrap_or(0.0);
        self.watch = Some(Watch { up, service, what, ticks: 0, counted: 0, slack });
        let mut inputs = slacks[service].inputs();
        inputs.push(Input::new("cores_count", shares.cores_of(service) as f64));
        let why = Reason::partition(if up { "upsize" } else { "downsize" }, inputs);
        shares.give(&mut self.ledger, setup, &why);
    }

    /// Batch runs where a core is free.
    fn follow(&mut self, setup: &Setup, seen: &Observation, shares: &Shares) {
        let free = shares.free_cores();
        if (free > 0) == self.batch_on {
            return;
        }
        self.batch_on = free > 0;
        let inputs = vec![Input::new("free_cores_count", free as f64)];
        if self.batch_on {
            resume(&mut self.ledger, setup, &Reason::partition("pool-free", inputs));
        } else {
            let why = Reason::partition("pool-empty", inputs);
            halt(&mut self.ledger, setup, seen, self.params.on_disable, &why);
        }
    }
}

impl Policy for Parties {
    fn name(&self) -> &'static str {
        "parties"
    }

    fn period(&self) -> Duration {
        seconds(self.params.period_s)
    }

    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal> {
        let first = self.shares.is_none();
        let mut shares = match self.shares.take() {
            Some(shares) => shares,
            None => self.start(setup),
        };
        if first {
            self.ledger.run_all_tasks(setup, &Reason::partition("equal-shares", Vec::new()));
        }
        self.barred.iter_mut().for_each(|ticks| *ticks = ticks.saturating_sub(1));
        let unknown = Slack { now: None, windowed: None };
        let services = setup.services.iter().map(|s| observation.services.get(&s.name));
        let slacks: Vec<Slack> = services.map(|s| s.map_or(unknown, Slack::of)).collect();
        match self.watch.take() {
            Some(watch) => self.observe(setup, &mut shares, &slacks, watch),
            None => self.change(setup, &mut shares, &slacks),
        }
        self.follow(setup, observation, &shares);
        self.shares = Some(shares);
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let shares = Shares::equal(setup);
        let mut notes = Vec::new();
        if !shares.divides_cores() {
            notes.push("fewer cores than services: cores are not divided, batch stays off".into());
        }
        for (what, missing) in [
            (Resource::Cache, "no cache that can be divided: no service gets or gives ways"),
            (Resource::Frequency, "no frequency can be set: no service gets or gives clock"),
        ] {
            let mut tried = shares.clone();
            let can = (0..setup.services.len())
                .any(|n| tried.shrink(n, what, self.params.frequency_step_khz));
            if !can {
                notes.push(missing.into());
            }
        }
        for batch in setup.batch.iter().filter(|b| !can_halt(setup, b)) {
            notes.push(format!("{} cannot be held: it keeps one core", batch.name));
        }
        notes
    }
}
