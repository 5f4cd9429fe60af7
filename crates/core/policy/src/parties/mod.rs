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
//! hardware threads, a cache way, 100 MHz. A tick is 0.1 s. CPU use in CPUs.
//!
//! **Pseudo-code.** Lines with a star are ours.
//! ```text
//! start: every service has an equal share of cores and ways, at full clock; batch has what is
//!        left over, which is nothing
//! every tick:
//!   if a change is watched, for 5 ticks:
//!     upsize:   count ticks in which the service's latency fell; if fewer than 3:
//!               next time the next resource of its wheel (the step stays)
//!     *         if 3 or more: the level before is remembered as too little
//!     *         count ticks in which the donor's slack < 0.05; at the 3rd, or once its
//!     *         slack < 0: hand the step back, remember, next resource
//!     downsize: count ticks in which some service's slack < 0.05; at the 3rd
//!     *         (at once, not after the 5th), or once a slack < 0:
//!               give the step back, bar the service for 100 ticks, next resource of its wheel
//!     *         remember; begin nothing for 5 ticks, since queues drain
//!   else:
//!     s = services whose both slacks < 0.05, that with the least windowed slack first
//!     *   its wheel turns to frequency if it was not short before and its clock is lowered
//!         one step of its wheel's resource, from the pool, else from the service with most
//!         slack that keeps 1 core or way; nothing to give: next resource
//!     *   no donor: who has a slack < 0.05, and who cannot spare it
//!     *   bar it for 100 ticks
//!     if none, and every known slack >= 0.05 (*):
//!       s = services whose both slacks > 0.20 and that are not barred, that with most first
//!     *   for 20 ticks in a row since the last change, and no shorter than its window
//!         one step of its wheel's resource, if it can spare it (*), goes to the pool
//!   batch runs on the pool; while that has no core, it is frozen
//!   * it is set free a tick after it was given cores
//!
//! can spare (*): use <= 0.8 · the CPUs it keeps (at its new clock), and not remembered
//! remembered (*): a level of one resource of one service that did harm. Levels down from it are
//!   refused for 100 ticks, for twice as long after each further failure, an hour at most;
//!   failures within 100 ticks of each other are one. Forgotten when the service begins anew, or
//!   has slack to spare at less than 0.8 of the request rate at which it failed
//! ```
//! Wheel: core → cache → frequency → core.
//!
//! **Readings.** The source enters each wheel at random; laws here have no randomness, so service
//! n enters at resource n of the wheel. The pool is what batch may use: the source leaves it idle
//! or gives it to best-effort work, which is the use here. A frequency step needs no donor. The
//! full version's memory, disk and network are left out; links are left alone. Moving a
//! service to another server when nothing is left to give is beyond a law of one server.
//!
//! **What is ours, and why.** The source alone asks for the next step 0.1 s after the last, judged
//! by windows that reach back before it, and comes back to a step that failed every 10 s for ever:
//! where a core is a quarter of a service, each of these questions costs whole seconds of missed
//! objectives.
//! * *At once*: queues that grew for half a second drain for longer. For the same reason batch,
//!   whose threads take a while to move, is not set free in the tick in which it is moved.
//! * *Calm*: a step is asked for only after 2 s in which no tick went below the bound. A service
//!   whose tail scatters must so show a higher mean than one whose tail is steady.
//! * *Use*: no queue is stable above all of its CPUs, and no tail is short near that. What a
//!   service uses says it without an experiment.
//! * *Memory*: what failed is tried ever more rarely, so that the law comes to rest.
//! * *Donors*: two services that are both short would hand the same core to and fro.
//! * *Frequency first*: clock is taken from nobody. Otherwise cores would pay for the clock that
//!   was given away, step by step, until batch had none.
//! * *Blame* stays the source's: whoever was asked last is blamed for whoever is harmed.
//!
//! **Degradation.** Fewer cores than services: cores are not divided, batch stays off. No cache
//! control, or too few ways: no cache in the wheel. No frequency control: no frequency in it.
//! Slack of a service not known: it neither gets nor gives, and others are not downsized while it
//! is short. CPU use not known: every step is tried. A service that is gone or idle has all slack.
//! No freezer: batch's tasks are stopped, else its CPU time is cut to the least; where nothing can
//! hold it, it keeps one core.
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
//! | `downsize` | both slacks > 0.20 for long enough, it can spare it | one step less |
//! | `take-back` | a downsizing did harm | the step returns, the service is barred |
//! | `hand-back` | an upsizing harmed the donor | the step returns, the donor is barred |
//! | `pool-empty` | no core is free | batch off |
//! | `pool-free` | a core has been free for a tick | batch on |
//!
//! Sources: R-4; the authors' public code for steps, bounds and back-off.

mod memory;
mod params;
mod seen;
mod shares;
#[cfg(test)]
mod tests;
mod watch;

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use crate::parts::{can_halt, halt, resume, seconds};
use memory::Memory;
use quell_types::{Input, Observation, Proposal, Setup};
use seen::Seen;
use shares::{Resource, Shares, Side};
use std::time::Duration;
use watch::{Verdict, Watch, Way};

pub use params::PartiesParams;

/// See the module.
pub(crate) struct Parties {
    params: PartiesParams,
    ledger: Ledger,
    shares: Option<Shares>,
    /// The next resource of each service.
    wheels: Vec<Resource>,
    /// Ticks in a row since the last change in which each service had slack to spare.
    calm: Vec<u32>,
    /// Services that were not short in the last tick in which something could be begun.
    content: Vec<bool>,
    memory: Memory,
    watch: Option<Watch>,
    /// Ticks in which nothing is begun, since queues drain.
    settling: u32,
    batch_on: bool,
    /// Whether a core was free in the last tick already.
    confined: bool,
}

impl Parties {
    pub(crate) fn new(params: PartiesParams) -> Self {
        Self {
            params,
            ledger: Ledger::new("parties"),
            shares: None,
            wheels: Vec::new(),
            calm: Vec::new(),
            content: Vec::new(),
            memory: Memory::default(),
            watch: None,
            settling: 0,
            batch_on: true,
            confined: false,
        }
    }

    fn start(&mut self, setup: &Setup) -> Shares {
        let wheel = [Resource::Core, Resource::Cache, Resource::Frequency];
        self.wheels = wheel.into_iter().cycle().take(setup.services.len()).collect();
        self.calm = vec![0; setup.services.len()];
        self.content = vec![true; setup.services.len()];
        self.memory = Memory::of(setup.services.len());
        let shares = Shares::equal(setup, self.params.frequency_step_khz);
        shares.give(&mut self.ledger, setup, &Reason::partition("equal-shares", Vec::new()));
        shares
    }

    fn remember(&mut self, seen: &[Seen]) {
        self.memory.tick();
        for (service, seen) in seen.iter().enumerate() {
            if seen.restarted {
                self.memory.forget(service);
            }
            let spare = seen.slack.above(self.params.downsize_above_slack);
            let calm = &mut self.calm[service];
            *calm = if spare { calm.saturating_add(1) } else { 0 };
        }
    }

    /// One tick of a change that is watched, and what follows from it.
    fn observe(&mut self, setup: &Setup, shares: &mut Shares, seen: &[Seen], mut watch: Watch) {
        let Watch { service, what, way, .. } = watch;
        match (watch.tick(seen, &self.params), way) {
            (Verdict::Open, _) => self.watch = Some(watch),
            (Verdict::Harm, Way::Down) => self.undo(setup, shares, seen, (service, watch)),
            (Verdict::Harm, Way::Up { donor, .. }) => {
                self.undo(setup, shares, seen, (donor.unwrap_or(service), watch));
            }
            (Verdict::Helped, Way::Up { before, .. }) => {
                let level = (what, before);
                self.memory.failed(service, level, seen[service].rate_per_s, &self.params);
            }
            (Verdict::Kept, Way::Up { .. }) => self.wheels[service] = what.next(),
            (_, Way::Down) => {}
        }
    }

    /// The step goes back to whom it was taken from, who is not asked for it again soon.
    fn undo(
        &mut self,
        setup: &Setup,
        shares: &mut Shares,
        seen: &[Seen],
        (payer, watch): (usize, Watch),
    ) {
        let Watch { service, what, way, .. } = watch;
        let level = (what, shares.level(payer, what));
        self.memory.failed(payer, level, seen[payer].rate_per_s, &self.params);
        self.memory.bar(payer, self.params.bar_ticks_count);
        self.wheels[service] = what.next();
        shares.grow(payer, what, &[service]);
        self.settling = self.params.watch_ticks_count;
        self.calm.fill(0);
        let rule = if way == Way::Down { "take-back" } else { "hand-back" };
        shares.give(&mut self.ledger, setup, &Reason::partition(rule, seen[payer].inputs()));
    }

    fn change(&mut self, setup: &Setup, shares: &mut Shares, seen: &[Seen]) {
        let low = self.params.upsize_below_slack;
        let mut order: Vec<usize> = (0..seen.len()).collect();
        order.sort_by(|a, b| seen[*a].rank().total_cmp(&seen[*b].rank()));
        for &service in &order {
            if !seen[service].slack.below(low) {
                self.content[service] = true;
            } else if self.upsize(setup, shares, seen, service) {
                return;
            }
        }
        // What a step does cannot be told while somebody is short without it.
        if seen.iter().any(|s| s.slack.touches(low)) {
            return;
        }
        for service in order.into_iter().rev() {
            if !self.is_calm(service, &seen[service]) {
                continue;
            }
            if let Some(rate) = seen[service].rate_per_s {
                self.memory.forget_above(service, rate, self.params.forget_below_ratio);
            }
            if !self.memory.is_barred(service) && self.downsize(setup, shares, seen, service) {
                return;
            }
        }
    }

    /// Whether a service has had slack to spare for so long that both windows hold nothing else.
    fn is_calm(&self, service: usize, seen: &Seen) -> bool {
        let ticks = self.calm[service];
        ticks >= self.params.calm_ticks_count
            && f64::from(ticks) * self.params.period_s >= seen.window_s
    }

    /// Whether it is not known that a service cannot do with one step less.
    fn can_spare(&self, shares: &Shares, seen: &[Seen], service: usize, what: Resource) -> bool {
        let Some((level, cpus)) = shares.after_shrink(service, what) else { return false };
        let fits = seen[service].cpus.is_none_or(|used| used <= cpus * self.params.use_max_frac);
        fits && !self.memory.refuses(service, what, level)
    }

    /// Who may give a service a step, that with most slack first.
    fn donors(&self, shares: &Shares, seen: &[Seen], service: usize, what: Resource) -> Vec<usize> {
        let can = |n: &usize| {
            let slack = seen[*n].slack;
            *n != service
                && slack.windowed.is_some_and(|s| s > seen[service].rank())
                && !slack.touches(self.params.upsize_below_slack)
                && self.can_spare(shares, seen, *n, what)
        };
        let mut donors: Vec<usize> = (0..seen.len()).filter(can).collect();
        donors.sort_by(|a, b| seen[*b].rank().total_cmp(&seen[*a].rank()));
        donors
    }

    fn upsize(
        &mut self,
        setup: &Setup,
        shares: &mut Shares,
        seen: &[Seen],
        service: usize,
    ) -> bool {
        if std::mem::take(&mut self.content[service]) && shares.is_slowed(service) {
            // A shortage begins with what is taken from nobody.
            self.wheels[service] = Resource::Frequency;
        }
        for _ in 0..Resource::COUNT {
            let what = self.wheels[service];
            let donors = self.donors(shares, seen, service, what);
            let before = shares.level(service, what);
            if let Some(from) = shares.grow(service, what, &donors) {
                let donor = match from {
                    Side::Service(donor) => Some(donor),
                    Side::Pool => None,
                };
                self.memory.bar(service, self.params.bar_ticks_count);
                self.begin_watch(setup, shares, seen, (service, what, Way::Up { before, donor }));
                return true;
            }
            self.wheels[service] = what.next();
        }
        false
    }

    fn downsize(
        &mut self,
        setup: &Setup,
        shares: &mut Shares,
        seen: &[Seen],
        service: usize,
    ) -> bool {
        for _ in 0..Resource::COUNT {
            let what = self.wheels[service];
            if self.can_spare(shares, seen, service, what) && shares.shrink(service, what) {
                self.begin_watch(setup, shares, seen, (service, what, Way::Down));
                return true;
            }
            self.wheels[service] = what.next();
        }
        false
    }

    fn begin_watch(
        &mut self,
        setup: &Setup,
        shares: &Shares,
        seen: &[Seen],
        (service, what, way): (usize, Resource, Way),
    ) {
        self.watch = Some(Watch::new(service, what, way, &seen[service]));
        self.calm.fill(0);
        let mut inputs = seen[service].inputs();
        inputs.push(Input::new("cores_count", shares.cores_of(service) as f64));
        let rule = if way == Way::Down { "downsize" } else { "upsize" };
        shares.give(&mut self.ledger, setup, &Reason::partition(rule, inputs));
    }

    /// Batch runs where a core is free.
    fn follow(&mut self, setup: &Setup, seen: &Observation, shares: &Shares) {
        let free = shares.free_cores();
        let confined = std::mem::replace(&mut self.confined, free > 0);
        // Threads take a while to move, and what is set free before it has moved runs on the
        // services' cores.
        let on = free > 0 && (self.batch_on || confined);
        if on == self.batch_on {
            return;
        }
        self.batch_on = on;
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
        let seen = Seen::all(setup, observation);
        self.remember(&seen);
        match self.watch.take() {
            Some(watch) => self.observe(setup, &mut shares, &seen, watch),
            None if self.settling > 0 => self.settling -= 1,
            None => self.change(setup, &mut shares, &seen),
        }
        self.follow(setup, observation, &shares);
        self.shares = Some(shares);
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let shares = Shares::equal(setup, self.params.frequency_step_khz);
        let mut notes = shares.missing();
        for batch in setup.batch.iter().filter(|b| !can_halt(setup, b)) {
            notes.push(format!("{} cannot be held: it keeps one core", batch.name));
        }
        notes
    }
}
