//! Law `who`: finds out who slows each service, and touches nothing else.
//!
//! # Problem
//! A tail that is too long has many possible causes, and a log of who used how much CPU names
//! whoever is big, not whoever hurts. Operators ask who it is, and must be able to trust the answer
//! on machines without any counters.
//!
//! # Idea
//! [`quell_model::blame`] says what evidence is worth; this law gathers it. Most comes for free:
//! each sample tells how much every suspect used, what the victim's requests cost, and behind whom
//! its threads stood for a CPU. What that leaves open is settled by looks: a set of suspects is held for
//! two chips after three in which it runs (two, where the look would not fit into a sample), 50 ms in all,
//! and the victim's CPU time per request is compared. Suspects pay for looks from a bank that
//! fills with 1 % of their time, so nobody loses more than that; the bank of who is probably guilty lends a quarter
//! of a second, which it earns before it pays again.
//!
//! Who locks the bus the kernel's gauge tells, at once and at no cost to anybody
//! ([`quell_model::blame::Gauge`]); named is who does so while a service suffers. Who drives out what lies in
//! the caches it tells as well: that one is suspected as long as looks do not say that it does no harm.
//!
//! While the host has the CPUs on cores without a common cache, which the gauge sees, nobody hurts by one. So
//! looks that can wait do so, half a minute at most, and one that was made all the same, and shows nothing,
//! acquits hardly.
//!
//! Over what they fight, a *reporter* tells: bursts of timed accesses on a CPU that is idle anyway
//! (`who/reporters.rs`), at most 1 % of it. Each look takes one along into its hold.
//!
//! Where the kernel traps split locks, its log says who made one at all ([`quell_model::blame::Traps`]):
//! that one is looked at first, and nobody is named for it. A look's journal entry says how many of the
//! held were trapped, and how much that weighed.
//!
//! Who never sleeps beside the service may be the cause, or only starved by the others, also by those
//! who do sleep. So the others are held for 0.2 s, and these *rivals*, as many as there are CPUs for, are
//! watched, even if there is only one: who sleeps then gets what it wants, and is innocent; who has most
//! of a CPU and does not sleep never does ([`quell_model::blame::rivals`]). Who asks for most and has
//! most comes first. Where banks no longer pay for all others, as many as can are held. Until that is
//! settled, other looks leave the banks alone. What rivals want together may be more than there is: then
//! nobody is named, and the finding says that the CPU is overcommitted.
//!
//! To hold the rival itself as well, and to see the service wait less, would tell nothing more: behind whom
//! it stood the scheduler says, and where others take the place of who is held it waits all the same.
//!
//! # How long it takes
//! Who takes the CPU is named by what is seen without any look, of samples of 0.25 s: three seconds of
//! watching (groups have their phases), in them six samples in which it was not held, so that it is
//! known what it asks for, and so many that its effect is certain to 99 %. Each look at rivals takes half
//! a second; they begin as soon as the demands are known, within the three seconds, so that two fit in
//! there. A sample that the law does not see costs its 0.25 s, and the trace of a look with it two seconds more, in
//! which those that were held count as held: the engine therefore tells of all traces (`Due` in `quell-control`).
//!
//! # Units
//! Seconds, CPUs, ln of slowdowns.
//!
//! # Pseudo-code
//! ```text
//! each sample:
//!   suspects = batch groups that are there
//!   for each trace that came:  each victim learns from it
//!   if none was played:        each victim learns from drift, and for CPI²
//!   each victim learns behind whom it stood
//!   if a look that relieved rivals has ended: each victim learns what these asked for meanwhile
//!   if a victim is slow for this moment: hold those who may make it so (`now.rs`), and stop
//!   if there are rivals of whom it is open what they want: hold all others but the greediest, as many as
//!       there are CPUs for, and stop
//!   if no look is on its way, the last one is long enough ago, and the CPUs share a cache (or have not for long):
//!       for each victim, least looked at first:
//!           set = the one in bad company, if it is probably guilty and not named yet; else those about
//!               whom its hypotheses disagree most, of those who can pay; several who hurt together count as one
//!           if there is one: play it, and stop
//!   if a look begins, or none is on its way, and a CPU may be idle: a burst
//!   judge each victim
//! ```
//!
//! # Rules
//! | rule | when |
//! |---|---|
//! | `look` | a set of suspects is held for a moment, for the victim that was looked at least |
//! | `look-long` | the same for longer, now and then: some harm takes its time to go (`long.rs`) |
//! | `look-now` | the same, since that victim is slow for this moment |
//! | `relieve` | others are held for a moment, so that it shows what rivals want |
//! | `burst` | a reporter times its accesses on an idle CPU, within the hold of a look or between looks |
//!
//! # Degradation
//! Without a freezer, or for a group that has none, correlation alone speaks and nobody is named
//! for anything but the CPU; where the kernel does not tell behind whom threads stand, nobody is
//! named for that. Without a freezer, or where samples are too rare to see what is asked for within a
//! look, who never sleeps is named for the CPU after ten seconds without having been watched. A service
//! without requests is judged by its waits alone. Too few requests in a chip: chips grow up to 100 ms, and
//! below that rate nobody is named. Without an idle CPU no reporter runs, and `resource` says no more than
//! memory or CPU.
//!
//! Source: A-2, A-3, R-2, R-3.

mod batch;
mod long;
mod look;
mod now;
mod params;
mod relief;
mod reporters;
mod series;
mod victim;

pub use params::WhoParams;

use crate::law::{Needs, Policy};
use crate::parts::HeldTime;
use batch::cpus;
use long::LongLooks;
use look::{Kind, Look, held};
use quell_model::blame::{Finding, Gauge, GaugeParams, Pressing, TrapParams, Traps};
use quell_types::{Knob, Observation, Proposal, Setup, Tenant, Time};
use relief::{RELIEF, RELIEF_CHIP, RELIEF_SAMPLE_S, Relief};
use reporters::Reporters;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use victim::Victim;

/// A trace that did not come by then is lost.
const LOST: Duration = Duration::from_secs(2);

/// The law. See the module.
#[derive(Debug)]
pub struct Who {
    name: &'static str,
    params: WhoParams,
    victims: BTreeMap<Tenant, Victim>,
    held_time: HeldTime,
    long: LongLooks,
    playing: Option<Look>,
    /// Looks at what rivals want that told nothing, in a row, and when the last one did.
    void_reliefs: u32,
    void_at: Time,
    next_id: u64,
    /// Those who were found out about before, and are judged anew.
    known: BTreeSet<Tenant>,
    /// Whether nobody was held in the last sample.
    clean: bool,
    reporters: Reporters,
    traps: Traps,
    gauge: Gauge,
}

impl Who {
    /// It knows nothing yet.
    #[must_use]
    pub fn new(params: WhoParams) -> Self {
        Self::within("who", params)
    }

    /// One that only listens, beside a law that decides: it makes no looks, so it proposes nothing,
    /// and steps as often as that one.
    #[must_use]
    pub fn listening(period: Duration) -> Self {
        let period_s = period.as_secs_f64();
        Self::new(WhoParams { looks: false, reporters: false, period_s, ..WhoParams::default() })
    }

    /// The same as a part of another law, in whose name it looks.
    pub(crate) fn within(name: &'static str, params: WhoParams) -> Self {
        Self {
            name,
            held_time: HeldTime::new(params.held_share_frac),
            long: LongLooks::new(params.held_share_frac),
            reporters: Reporters::new(name, params.reporters),
            params,
            victims: BTreeMap::new(),
            playing: None,
            void_reliefs: 0,
            void_at: Time(0),
            next_id: 1,
            known: BTreeSet::new(),
            clean: true,
            traps: Traps::new(TrapParams::default()),
            gauge: Gauge::new(GaugeParams::default()),
        }
    }

    /// Whether looks speak against a suspect's guilt for every victim: it is less likely now than it
    /// was before anything was seen.
    pub(crate) fn acquits(&self, suspect: &Tenant) -> bool {
        self.victims.values().all(|victim| victim.acquits(suspect))
    }

    /// Forgets what was found out about a suspect: it is judged anew.
    pub(crate) fn forget(&mut self, suspect: &Tenant) {
        self.victims.values_mut().for_each(|victim| victim.forget(suspect));
        self.known.insert(suspect.clone());
        self.reporters.forget(suspect);
        self.traps.forget(suspect);
        self.gauge.forget(suspect);
    }

    fn learn(&mut self, setup: &Setup, seen: &Observation) {
        let cpus = cpus(seen);
        let suspects: Vec<Tenant> = cpus.keys().cloned().collect();
        self.known.retain(|name| cpus.contains_key(name));
        let held = self.held(seen);
        self.clean = held.is_empty();
        self.see_relief(seen, &held);
        self.hope(seen);
        let patient = self.may_relieve(setup);
        self.traps.learn(seen.time, &seen.host.lock_traps);
        self.gauge.learn(seen.time, &seen.host.gauge, &cpus);
        let measured_ln = self.gauge.weights_ln();
        self.victims.retain(|name, _| seen.services.contains_key(name));
        for (name, service) in &seen.services {
            if service.present.is_err() || service.restarted {
                self.victims.remove(name);
            }
            let new = || Victim::new(name, self.params.finding);
            let victim = self.victims.entry(name.clone()).or_insert_with(new);
            victim.face(&suspects, seen.time, &cpus);
            victim.hear(self.traps.weights_ln(), &measured_ln);
            victim.wait_for_looks(patient);
            victim.see(seen, service, &held);
            if self.params.company {
                victim.accompany(seen, service);
            }
            let apart = self.gauge.are_apart() == Some(true);
            seen.experiments.iter().for_each(|trace| victim.take(trace, (seen, service), apart));
            victim.feel(seen, service, &cpus);
            victim.pay(self.gauge.window(), service);
            // Another law's looks are known of when they end.
            if self.playing.is_some() || !seen.experiments.is_empty() {
                victim.interrupt();
            } else {
                victim.watch(seen, service, &cpus);
            }
        }
        self.follow(seen);
        self.reporters.learn(seen, &cpus);
        self.fill(setup, seen.time);
        let lockers = self.lockers(&suspects);
        for (name, victim) in &mut self.victims {
            if let Some(service) = seen.services.get(name) {
                victim.judge(seen, service, &cpus, (&lockers, &self.gauge));
            }
        }
    }

    /// Suspects whom the kernel trapped, while a reporter or a counter tells that bus locks do harm.
    fn lockers(&self, suspects: &[Tenant]) -> Vec<Tenant> {
        let trapped = suspects.iter().filter(|s| self.traps.weights_ln().contains_key(*s));
        let told = self.reporters.tells_of_bus_locks();
        trapped.filter(|_| told).cloned().collect()
    }

    /// Who was held, or may have been, since the last sample: by a look of this law, or by one of
    /// another that ended.
    fn held(&self, seen: &Observation) -> BTreeSet<Tenant> {
        let mine = self.playing.iter().flat_map(|look| &look.groups);
        let chips = seen.experiments.iter().flat_map(|trace| &trace.chips);
        mine.chain(chips.flat_map(|chip| chip.group_cpu_ns.keys())).cloned().collect()
    }

    /// Forgets a look that ended, was refused, or was lost. What was asked for in it counts if the
    /// others really were held.
    fn follow(&mut self, seen: &Observation) {
        let Some(look) = &self.playing else { return };
        let trace = seen.experiments.iter().find(|trace| trace.id == look.id);
        if trace.is_none() && seen.time.since(look.since) <= LOST {
            return;
        }
        let held = trace.is_some_and(|trace| trace.aborted.is_none());
        if let Some(relief) = self.playing.take().and_then(|look| look.relief) {
            self.learn_relief(seen.time, &relief, held);
        }
    }

    /// The next look, if one would tell something.
    fn look(&mut self, setup: &Setup, seen: &Observation) -> Option<Proposal> {
        if self.playing.is_some() || !self.params.looks {
            return None;
        }
        if let Some(look) = self.look_now(setup, seen) {
            return Some(look);
        }
        match self.relief(setup) {
            Some((groups, relief)) if seen.interval_s <= RELIEF_SAMPLE_S => {
                let chip_us = RELIEF_CHIP.as_micros() as u64;
                return Some(self.play(
                    seen,
                    (Kind::Relief, &RELIEF),
                    chip_us,
                    groups,
                    Some(relief),
                ));
            }
            Some(_) => self.see_void(seen.time),
            None => {}
        }
        if self.waits_for_a_common_cache() {
            return None;
        }
        // What a suspect wants shows only in samples in which it was not held.
        if !self.clean && self.victims.values().any(Victim::is_undecided) {
            return None;
        }
        self.look_then(setup, seen)
    }

    /// Begins a look: its groups pay for it.
    fn play(
        &mut self,
        seen: &Observation,
        (kind, code): (Kind, &[bool]),
        chip_us: u64,
        groups: Vec<Tenant>,
        relief: Option<Relief>,
    ) -> Proposal {
        let held_s = held(code, chip_us).as_secs_f64();
        if !self.long.paid(kind, &groups, held_s) {
            groups.iter().for_each(|group| self.held_time.spend(group, held_s));
        }
        let look = Look { id: self.next_id, since: seen.time, groups: groups.clone(), relief };
        self.playing = Some(look);
        self.next_id += 1;
        self.proposal(seen, (kind, code), chip_us, groups)
    }
}

impl Policy for Who {
    fn name(&self) -> &'static str {
        self.name
    }

    fn period(&self) -> Duration {
        Duration::try_from_secs_f64(self.params.period_s).unwrap_or_default()
    }

    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal> {
        self.learn(setup, observation);
        let look = self.look(setup, observation);
        let playing = self.playing.is_some();
        let burst = self.reporters.propose(setup, observation, look.as_ref(), playing);
        look.into_iter().chain(burst).collect()
    }

    fn findings(&self) -> BTreeMap<Tenant, Finding> {
        let told = |(name, victim): (&Tenant, &Victim)| {
            let mut finding = victim.finding()?;
            self.reporters.tell(&mut finding);
            self.traps.tell(&mut finding);
            Some((name.clone(), finding))
        };
        self.victims.iter().filter_map(told).collect()
    }

    fn pressing(&self) -> Vec<Pressing> {
        self.gauge.pressing()
    }

    fn needs(&self) -> Needs {
        Needs { reporters: self.params.reporters, ..Needs::default() }
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        if !self.params.looks {
            return Vec::new();
        }
        let free = |tenant: &&Tenant| !setup.controls(&Knob::Frozen { tenant: (*tenant).clone() });
        let without: Vec<&str> =
            setup.batch.iter().map(|b| &b.name).filter(free).map(Tenant::as_str).collect();
        if without.is_empty() {
            return Vec::new();
        }
        vec![format!("no freezer for {}: they can be suspected, not named", without.join(", "))]
    }
}

#[cfg(test)]
mod tests;
