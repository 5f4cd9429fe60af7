//! Law `culprit`: limits only who is shown to slow a service, to what the service bears.
//!
//! # Problem
//! Partitions hold everybody back for the sake of one. Where most groups are harmless it is enough
//! to find the one that is not; but whoever is limited on weak evidence is punished for nothing.
//!
//! # Idea
//! Law `who` names culprits, with the harm that each does by the CPU. That is all it takes. A group that
//! used `u` CPUs with a harm of `h` made the victim `exp(h u)` times as slow. A CPU bandwidth of a short period
//! lets all its threads run for part of the time, in which it hurts as ever, and none for the rest. So the victim is
//! slowed by no more than `s`, on average, if that part is at most `(s - 1) / (exp(h u) - 1)`. Of several who were shown
//! to slow it, by looks, each gets that part by what all of them do, as if they were one: who splits its work gains
//! nothing.
//!
//! Where that harm is *serious*, surely more than 15 % with all others who are named (by two looks alone, more
//! than a fifth), and for longer than a moment ([`serious`]), it gets so much, and keeps it for a *term*. (A tenth
//! is worth a limit; but harm comes and goes, and is seen while it is there, so that what is found is now and then more
//! than what there is on average. Where the host runs the CPUs on cores without a common cache for a part of the time,
//! looks wait for the rest, and show what is done there: so much more is asked for, since who hurts by a fifth in half
//! of the time hurts by a tenth.) Then it is free and its record is empty: if it still hurts, looks show it within
//! seconds, and the next term is twice as long. Who stops working, or leaves, is free at once, and so is who was named
//! by chance, once looks make its guilt less likely than it was before anything was seen. Who works in bursts is
//! limited for many of them ([`terms`]). Meanwhile the victim is served first, as long as there is room ([`first`]).
//! Whether the limit holds is seen in what it uses; where it does not, its freezer stands in ([`unheld`]).
//!
//! # Units
//! CPUs; slowdowns as factors; seconds.
//!
//! # Pseudo-code
//! ```text
//! each step:
//!   who.step()
//!   for each culprit that is named, not spared and not limited:
//!       budget = max(used * (bearable - 1) / (exp(harm * used of all such) - 1), least)
//!       if the harm is serious to 98 % (by looks: in 4 samples), and budget < what it uses: limit it;
//!           term = 30 s, or twice the last one if that ended lately
//!   for each that is limited:
//!       uses more than that for 2 s: it is frozen, but for as many samples as its budget is worth
//!       its budget follows what is learned of its harm, with what it used before
//!       term over: free it, forget what is known of it     idle for 10 s: the same
//!       looks now speak against its guilt: free it, and keep what is known of it
//!       works in bursts: its term is 16 of them at least (the longest term at most), idle is who stays away for three
//! ```
//!
//! # Degradation
//! Without CPU bandwidth a culprit is named and not limited. See `who` for the rest.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). CPU bandwidth is written
//! only of groups that were named, the idle class of batch only while a service is served first, and a
//! batch group's weight is only raised, for the sample in which it is watched; nobody is limited to less
//! than `least_cpus`, or his part of it where several slow a service together; services are never limited; freezers are written only of those that are limited, and who is held
//! by one runs in one of sixteen samples.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `always-run` | first step | tasks may run |
//! | `look`, `look-now`, `relieve`, `burst` | a question is open | see `who` |
//! | `watched-first`, `watched` | others are held to see what it wants; that sample is over | its weight; as it was |
//! | `convicted` | named, and uses more than the victim bears | CPU bandwidth |
//! | `unheld` | limited, and uses much more than its limit all the same | frozen, and free for some samples |
//! | `served` | the term is over | no limit; what is known of it is forgotten |
//! | `acquitted` | convicted for what looks showed, and looks show the contrary by now | no limit; its term never was |
//! | `served-first` | somebody is limited for its sake, and CPUs have time left | the victim's weight, the idle class of batch |
//! | `served-again`, `no-room` | nobody is any more; no time is left, or nobody sees that | they are as they were |
//! | `idle` | used less than half of its budget for 10 s, or for three times as long as its bursts are apart | the same |
//!
//! Source: A-1, A-2, A-17, A-36; issue "Name the polluter and limit only it" (duty steering).

mod first;
mod params;
mod serious;
mod terms;
mod unheld;

use crate::ledger::{Ledger, Reason};
use crate::parts::short_period;
use crate::who::{Who, WhoParams};
use crate::{Needs, Policy};
use first::{First, Serve};
pub use params::CulpritParams;
use quell_model::blame::{Finding, FindingParams, Pressing, Resource, Standing};
use quell_types::{Input, Knob, Observation, Proposal, Setting, Setup, Tenant};
use serious::Serious;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use terms::{Charge, Terms};
use unheld::{Turn, Unheld};

/// Serious harm of so many times as much, in ln, as is not worth a limit is no matter of single looks.
const PLAIN_TIMES: f64 = 2.5;
/// However many slow a service together, each is left so much, or the least that one alone is left.
const LEAST_EACH_CPUS: f64 = 0.01;
/// That of a group of which nobody said anything.
const USUAL_WEIGHT: u32 = 100;
/// That of a group that is to have what it wants for a sample.
const FED_WEIGHT: u32 = 10_000;

/// See the module.
pub(crate) struct Culprit {
    params: CulpritParams,
    who: Who,
    serious: Serious,
    terms: Terms,
    unheld: Unheld,
    first: First,
    /// Those who come before all others in this sample, so that it shows what they want.
    fed: Vec<Tenant>,
    ledger: Ledger,
}

const NAME: &str = "culprit";

impl Culprit {
    pub(crate) fn new(params: CulpritParams) -> Self {
        let looks = WhoParams {
            held_share_frac: params.held_share_frac,
            reporters: params.reporters,
            company: params.company,
            feeds: params.watched_first,
            finding: FindingParams {
                serious_ln: libm::log(params.least_harm_ratio),
                serious_frac: params.least_harm_frac,
                ..FindingParams::default()
            },
            ..WhoParams::default()
        };
        Self {
            who: Who::within(NAME, looks),
            serious: Serious::default(),
            terms: Terms::new(params.term_s, params.longest_term_s),
            unheld: Unheld::default(),
            first: First::default(),
            fed: Vec::new(),
            ledger: Ledger::new(NAME),
            params,
        }
    }

    /// Budgets of those who are named now, by the victim that bears least.
    fn charges(&self, setup: &Setup, seen: &Observation) -> BTreeMap<Tenant, Charge> {
        let mut charges: BTreeMap<Tenant, Charge> = BTreeMap::new();
        for finding in self.who.findings().values() {
            let together_ln = self.together_ln(seen, finding);
            for culprit in finding.culprits.iter().filter(|c| c.status == Standing::Named) {
                let name = &culprit.workload;
                let spared = self.spares(name);
                let Some(used) = used_cpus(seen, name).filter(|_| !spared) else { continue };
                if !setup.controls(&Knob::CpuBandwidth { tenant: name.clone() }) {
                    continue;
                }
                // Who works in bursts may rest just now.
                let (in_bursts, apart_s) = self.who.pulse_of(name).unwrap_or((0.0, 0.0));
                let used_cpus = used.max(in_bursts);
                let whole_cpus = used_cpus.max(self.terms.used_before(name));
                let by_looks = is_by_looks(culprit);
                let own_ln = culprit.harm_ln_per_cpu * whole_cpus;
                let harm_ln = if by_looks { together_ln.max(own_ln) } else { own_ln };
                let budget_cpus = self.budget_cpus((own_ln, harm_ln), whole_cpus);
                let serious = culprit.serious_frac >= self.params.least_harm_frac;
                let plain = libm::log(culprit.slowdown)
                    >= PLAIN_TIMES * libm::log(self.params.least_harm_ratio);
                let charge = Charge { budget_cpus, used_cpus, apart_s, by_looks, serious, plain };
                let worse = charges.get(name).is_none_or(|known| charge.is_worse_than(known));
                if worse {
                    charges.insert(name.clone(), charge);
                }
            }
        }
        charges
    }

    /// The harm of all who are named by looks, as they were before they were limited, in ln.
    fn together_ln(&self, seen: &Observation, finding: &Finding) -> f64 {
        let named = finding.culprits.iter().filter(|c| c.status == Standing::Named);
        let each = named.filter(|culprit| is_by_looks(culprit)).filter_map(|culprit| {
            let used_cpus = used_cpus(seen, &culprit.workload)?;
            let whole_cpus = used_cpus.max(self.terms.used_before(&culprit.workload));
            Some(culprit.harm_ln_per_cpu * whole_cpus)
        });
        each.sum()
    }

    /// What somebody may use who used so much, and did such a harm with that, and all with him, in ln; in steps, so
    /// that tiny changes cause no writes. All of them together are left the least that one is left.
    fn budget_cpus(&self, (own_ln, harm_ln): (f64, f64), used_cpus: f64) -> f64 {
        const STEPS_PER_CPU: f64 = 50.0;
        let more = libm::expm1(harm_ln);
        let share = own_ln / harm_ln.max(f64::MIN_POSITIVE);
        let least_cpus = (share * self.params.least_cpus).max(LEAST_EACH_CPUS);
        let bearable = used_cpus * (self.params.bearable_ratio - 1.0) / more.max(f64::MIN_POSITIVE);
        (libm::floor(bearable * STEPS_PER_CPU) / STEPS_PER_CPU).max(least_cpus)
    }

    fn limit(&mut self, setup: &Setup, name: &Tenant, budget_cpus: f64) {
        let knob = Knob::CpuBandwidth { tenant: name.clone() };
        let Some(range) = setup.knobs.get(&knob) else { return };
        let to = Setting::Bandwidth(short_period(range, budget_cpus, self.params.quota_period_ms));
        let inputs = vec![
            Input::new("budget_cpus", budget_cpus),
            Input::new("bearable_ratio", self.params.bearable_ratio),
        ];
        self.ledger.set(setup, knob, to, &Reason::polluter("convicted", inputs));
    }

    /// Holds those by their freezers whom their limits do not hold; answers with what all used on average.
    fn hold(&mut self, setup: &Setup, seen: &Observation) -> BTreeMap<Tenant, f64> {
        let budgets = self.terms.budgets();
        let mut used: BTreeMap<Tenant, f64> =
            seen.batch.keys().filter_map(|n| Some((n.clone(), used_cpus(seen, n)?))).collect();
        let turns = self.unheld.follow(&budgets, &used);
        for (name, budget_cpus) in &budgets {
            if let Some(used) = used.get_mut(name) {
                *used = self.unheld.average_cpus(name, *budget_cpus, *used);
            }
        }
        turns.into_iter().for_each(|(name, turn)| self.take_turn(setup, name, turn));
        used
    }

    fn take_turn(&mut self, setup: &Setup, tenant: Tenant, turn: Turn) {
        let inputs = vec![
            Input::new("used_cpus", turn.used_cpus),
            Input::new("budget_cpus", turn.budget_cpus),
        ];
        let why = Reason::polluter("unheld", inputs);
        let knob = Knob::Frozen { tenant: tenant.clone() };
        if setup.controls(&knob) {
            self.ledger.set(setup, knob, Setting::Flag(!turn.runs), &why);
        } else if turn.begins {
            self.ledger.tell_again(&Knob::CpuBandwidth { tenant }, &why);
        }
    }

    /// Those for whose sake somebody is named.
    fn victims_of(&self, name: &Tenant) -> BTreeSet<Tenant> {
        let named = |finding: &Finding| {
            finding.culprits.iter().any(|c| c.status == Standing::Named && c.workload == *name)
        };
        let findings = self.who.findings();
        findings.into_iter().filter(|(_, f)| named(f)).map(|(victim, _)| victim).collect()
    }

    fn spares(&self, name: &Tenant) -> bool {
        self.params.spared.iter().any(|spared| spared == name.as_str())
    }

    /// Who is watched while others are held is to have what it wants. A service that was starved catches
    /// up then, and leaves one who never sleeps as little as one who would. So it comes before all
    /// others, for that one sample.
    fn feed(&mut self, setup: &Setup, seen: &Observation) {
        let watched = self.who.to_feed(seen.time).to_vec();
        for tenant in std::mem::replace(&mut self.fed, watched.clone()) {
            if !watched.contains(&tenant) {
                let why = Reason::polluter("watched", Vec::new());
                self.ledger.release(Knob::CpuWeight { tenant }, &why);
            }
        }
        for tenant in watched {
            let why = Reason::polluter("watched-first", Vec::new());
            let knob = Knob::CpuWeight { tenant };
            self.ledger.set(setup, knob, Setting::Weight(FED_WEIGHT), &why);
        }
    }

    /// Serves victims first, and again as they were.
    fn serve(&mut self, setup: &Setup, seen: &Observation) {
        let told = self.first.follow(seen);
        for (victim, serve) in &told {
            let knob = Knob::CpuWeight { tenant: victim.clone() };
            let to = Setting::Weight(self.params.victim_weight);
            self.turn(setup, (knob, to), *serve, self.params.victim_weight > USUAL_WEIGHT);
        }
        // There is room for all victims, or for none: one that is served first decides.
        let first = |serve: &Serve| matches!(serve, Serve::First(_));
        let all = || told.iter().map(|(_, serve)| *serve);
        let Some(serve) = all().find(first).or_else(|| all().next()) else { return };
        let batch = setup.batch.iter().map(|batch| &batch.name);
        let lent: Vec<Tenant> = batch.filter(|name| !self.spares(name)).cloned().collect();
        for tenant in lent {
            let idle = (Knob::CpuIdle { tenant }, Setting::Flag(true));
            self.turn(setup, idle, serve, self.params.batch_idle);
        }
    }

    /// Sets what serves first, or gives it back.
    fn turn(&mut self, setup: &Setup, (knob, to): (Knob, Setting), serve: Serve, wanted: bool) {
        match serve {
            Serve::First(used_frac) if wanted => {
                let inputs = vec![Input::new("used_frac", used_frac)];
                self.ledger.set(setup, knob, to, &Reason::polluter("served-first", inputs));
            }
            Serve::First(_) => {}
            Serve::AsUsual(rule) => {
                self.ledger.release(knob, &Reason::polluter(rule, Vec::new()));
            }
        }
    }

    fn free(&mut self, name: &Tenant, rule: &'static str) {
        self.first.freed(name);
        let knobs =
            [Knob::Frozen { tenant: name.clone() }, Knob::CpuBandwidth { tenant: name.clone() }];
        for knob in knobs {
            self.ledger.release(knob, &Reason::polluter(rule, Vec::new()));
        }
    }
}

/// Whether looks showed what it does, so that looks may show the contrary.
fn is_by_looks(culprit: &quell_model::blame::Culprit) -> bool {
    culprit.resource != Resource::Cpu && culprit.held_back_frac.is_none()
}

fn used_cpus(seen: &Observation, name: &Tenant) -> Option<f64> {
    let batch = seen.batch.get(name)?;
    batch.cpu.as_ref().ok().map(|cpu| cpu.0)
}

impl Policy for Culprit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn period(&self) -> Duration {
        self.who.period()
    }

    fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        let mut proposals = self.who.step(&self.unheld.for_looks(setup), seen);
        self.feed(setup, seen);
        let charges = self.charges(setup, seen);
        let used = self.hold(setup, seen);
        let to_limit = self.serious.follow(&charges, &used, |name| self.terms.serves(name));
        for (name, budget_cpus) in self.terms.convict(seen.time, &charges, &to_limit) {
            self.limit(setup, &name, budget_cpus);
            self.first.convicted(&name, self.victims_of(&name));
        }
        for name in self.terms.acquit(|name| self.who.acquits(name)) {
            self.free(&name, "acquitted");
        }
        for (name, rule) in self.terms.end(seen.time, &used) {
            self.who.forget(&name);
            self.free(&name, rule);
        }
        self.serve(setup, seen);
        proposals.extend(self.ledger.drain());
        proposals
    }

    fn findings(&self) -> BTreeMap<Tenant, Finding> {
        self.who.findings()
    }

    fn pressing(&self) -> Vec<Pressing> {
        self.who.pressing()
    }

    fn needs(&self) -> Needs {
        self.who.needs()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let mut told = self.who.degradations(setup);
        let fixed =
            |tenant: &&Tenant| !setup.controls(&Knob::CpuBandwidth { tenant: (*tenant).clone() });
        let without: Vec<&str> =
            setup.batch.iter().map(|b| &b.name).filter(fixed).map(Tenant::as_str).collect();
        if !without.is_empty() {
            let names = without.join(", ");
            told.push(format!("no CPU bandwidth for {names}: they can be named, not limited"));
        }
        told
    }
}

#[cfg(test)]
mod tests;
