//! Who has the CPU that a victim stands ready for.
//!
//! # Problem
//! A victim that is starved of CPU answers few requests at each look, and none of five alike
//! neighbours makes a difference of its own: experiments are the wrong witness. The scheduler is
//! the right one: it knows for each moment that a thread stands in a queue who runs in its place.
//!
//! # Idea
//! In each window, what stood behind suspect s over what the victim needs anyway (its CPU time,
//! what its threads stood behind each other, and the way of an idle CPU back to work) is the part by
//! which s lengthens the victim's requests:
//!
//! ```text
//! x(s)      = stood behind s / (ran + stood behind itself + stood behind nobody)
//! slowdown  = 1 + sum of all x          effect(s) = ln(slowdown) * x(s) / sum of all x
//! ```
//!
//! so that the effects of all whom it stands behind add up to ln of the slowdown, as harm does elsewhere
//! in this model.
//! Windows are the samples. How large an effect is, their mean x says. How sure it is, the effects in
//! single windows say, each in ln, by their mean and its deviation. A queue that is long now and then
//! makes x scatter by many times its mean, always upwards: by x itself, the worse somebody harms the
//! longer it would take to be sure of it. In ln such a window counts as one of much harm and no more,
//! on either side of the question. One in which it did not run at all, since it stood, tells that most. Added up over all, means of ln lie below ln of the mean (Jensen),
//! so what is shown by them holds of the whole all the more. Before the first window a few without
//! any wait are assumed, so that one burst convinces nobody.
//!
//! Who keeps another CPU busy makes the victim stand as well, if none is idle: he has an equal part in it
//! with all who have a CPU (`waiting/elsewhere.rs`), even where it stands behind others.
//!
//! To stand behind somebody is no proof of guilt: who takes his turn and sleeps makes others wait as
//! well. So what a suspect *asks for* is followed too: the CPUs that it uses and its threads that
//! stand themselves. Who asks for less than a CPU shares; who asks for half of what another asks
//! for stands behind that one himself. Where CPUs are short, who works at a fixed rate does not get to
//! sleep either, and asks for a CPU too, though a part of one would do. That is told apart by a look:
//! while the others are held it does sleep, which a loop never does.
//!
//! # Degradation
//! Time that the hypervisor took away is nobody's: x shrinks by that share. A window in which the
//! victim ran out of its own quota says nothing: the kernel counts it as standing. A group of the
//! idle class does not run while the victim stands, so it has no x by construction.
//!
//! Source: issue "Name the polluter and limit only it" (who made the service wait).

mod elsewhere;
mod sums;
mod told;

use elsewhere::Presence;
use quell_types::{Elsewhere, Tenant, Waits};
use std::collections::BTreeMap;
use sums::{Relieved, Sums};

/// How windows are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitingParams {
    /// A window is over when the victim has used so much CPU time, in seconds, or stood behind others for
    /// `most_ratio` times as long, ...
    pub window_cpu_s: f64,
    /// ... or after so many seconds.
    pub longest_window_s: f64,
    /// After so many seconds a third of the evidence is left.
    pub memory_s: f64,
    /// Windows without any wait that are assumed before the first.
    pub assumed_windows: f64,
    /// The most that one window can tell of all together, as a sum of x.
    pub most_ratio: f64,
    /// CPUs that a group asks for, itself and its threads that stand, from which it does not sleep.
    pub awake_cpus: f64,
    /// A group of several threads sleeps, though it asks for a CPU, if that is less than this share of what it
    /// asks for beside the others, ...
    pub eased_frac: f64,
    /// ... and fewer CPUs than that.
    pub eased_cpus: f64,
    /// CPUs that a group has, never sleeping, from which it is not starved: more than who works at a
    /// fixed rate wants in most cases, less than a loop has beside most services on two CPUs. Of 600 drawn
    /// worlds that are overcommitted it names somebody innocent in none (in one with 0.7), and of 600
    /// loops among such groups 457 (473).
    pub taken_cpus: f64,
    /// The same of a group that came before all others while these were held: who wants so much has it then,
    /// and sleeps if it wants any less.
    pub fed_cpus: f64,
    /// For so many seconds it counts what somebody asked for while others were held.
    pub relief_memory_s: f64,
}

impl Default for WaitingParams {
    fn default() -> Self {
        Self {
            window_cpu_s: 0.01,
            longest_window_s: 2.0,
            memory_s: 20.0,
            assumed_windows: 2.0,
            most_ratio: 20.0,
            awake_cpus: 0.9,
            eased_frac: 0.8,
            eased_cpus: 1.7,
            taken_cpus: 0.75,
            fed_cpus: 0.9,
            relief_memory_s: 300.0,
        }
    }
}

/// What is left of so few seconds tells nothing any more.
const LEAST_TOLD_S: f64 = 0.1;

/// What a suspect has of the CPUs, and what it wants of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// CPUs that it uses.
    pub used_cpus: f64,
    /// These, and threads of it that stand.
    pub asked_cpus: f64,
}

/// What one suspect does to the victim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowding {
    /// By how much it lengthens the victim's requests, in ln.
    pub effect_ln: f64,
    /// Probability that this is more than the least that counts.
    pub confidence: f64,
    /// Of the time in which the victim's threads could run, the share for which they stood behind
    /// it.
    pub stood_frac: f64,
    /// The same for its part in what they stood behind others while it had another CPU, and none was idle.
    pub elsewhere_frac: f64,
    /// CPUs that it used while it did this.
    pub used_cpus: f64,
    /// These, and threads of it that stood.
    pub asked_cpus: f64,
    /// Share of these windows in which it did not sleep: it asked for a CPU at least.
    pub awake_frac: f64,
    /// Windows in which its demand is known, the old ones counting less.
    pub known_windows: f64,
    /// CPUs that it asked for while others were held, where that tells what it wants.
    pub relieved_cpus: Option<f64>,
    /// Whether it slept then.
    pub slept: bool,
    /// Others were held to see it, if that told nothing.
    pub tried: Option<Tried>,
}

/// Looks in a row that did not tell what a suspect wants: it neither slept nor had most of a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// How many seconds ago the last was.
    pub seconds_ago: f64,
    /// How many there were.
    pub in_vain: u32,
    /// The least that it asked for in any of them, in CPUs.
    pub asked_cpus: f64,
    /// The least that it had, in CPUs.
    pub used_cpus: f64,
}

/// Where the time of one victim's threads went.
#[derive(Clone, Debug)]
pub struct Waiting {
    params: WaitingParams,
    /// The window that is not full yet: seconds of threads.
    open: Waits,
    /// Demands in it, in CPU-seconds, and for how many seconds they are known.
    demands: BTreeMap<Tenant, (Demand, f64)>,
    suspects: BTreeMap<Tenant, Sums>,
    /// Sum of the weights of all windows, and of their squares.
    weight: f64,
    weight_square: f64,
    others: f64,
    own: f64,
    seconds: f64,
}

impl Waiting {
    /// Nothing was seen.
    #[must_use]
    pub fn new(params: WaitingParams) -> Self {
        Self {
            params,
            open: Waits::default(),
            demands: BTreeMap::new(),
            suspects: BTreeMap::new(),
            weight: 0.0,
            weight_square: 0.0,
            others: 0.0,
            own: 0.0,
            seconds: 0.0,
        }
    }

    /// From now on these are the suspects. To stand behind anybody else counts as waiting of which
    /// nobody is suspected.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        if self.suspects.keys().eq(suspects) {
            return;
        }
        self.suspects.retain(|tenant, _| suspects.contains(tenant));
        for suspect in suspects {
            self.suspects.entry(suspect.clone()).or_default();
        }
    }

    /// Forgets what is known of one suspect.
    pub fn forget(&mut self, suspect: &Tenant) {
        self.open.behind.remove(suspect);
        self.demands.remove(suspect);
        if let Some(sums) = self.suspects.get_mut(suspect) {
            *sums = Sums::default();
        }
    }

    /// For how long it was watched, in seconds that count.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Takes in a stretch of time in which each suspect used and asked for so many CPUs and the
    /// hypervisor took this share of all. Demands of those that were held meanwhile are not known.
    pub fn see(&mut self, waits: &Waits, demands: &BTreeMap<Tenant, Demand>, steal_frac: f64) {
        let here = (1.0 - steal_frac).clamp(0.0, 1.0);
        let seconds = waits.seconds;
        self.open.seconds += seconds;
        self.open.running += waits.running * seconds;
        self.open.own += waits.own * seconds;
        self.open.nobody += waits.nobody * seconds;
        self.open.others += waits.others * seconds * here;
        for (tenant, threads) in waits.behind.iter().filter(|(_, threads)| **threads > 0.0) {
            *self.open.behind.entry(tenant.clone()).or_default() += threads * seconds * here;
        }
        self.see_elsewhere(&waits.elsewhere, seconds * here);
        for (tenant, demand) in demands {
            let (sum, known_s) = self.demands.entry(tenant.clone()).or_default();
            sum.used_cpus += demand.used_cpus * seconds;
            sum.asked_cpus += demand.asked_cpus * seconds;
            *known_s += seconds;
        }
        let full = self.open.running >= self.params.window_cpu_s || self.is_starved();
        if full || self.open.seconds >= self.params.longest_window_s {
            self.close();
        }
    }

    /// Whether the open window tells the most that one can, however little the victim ran in it.
    fn is_starved(&self) -> bool {
        stood_in_all(&self.open) >= self.params.most_ratio * self.params.window_cpu_s
    }

    fn see_elsewhere(&mut self, seen: &Elsewhere, seconds: f64) {
        let open = &mut self.open.elsewhere;
        open.cpus = seen.cpus;
        open.others += seen.others * seconds;
        open.nobody += seen.nobody * seconds;
        for (tenant, threads) in seen.tenants.iter().filter(|(_, threads)| **threads > 0.0) {
            *open.tenants.entry(tenant.clone()).or_default() += threads * seconds;
        }
    }

    /// Lets time pass of which nothing is known: what was seen counts less. Else who was blamed last
    /// would be for as long as nobody sees.
    pub fn pass(&mut self, seconds: f64) {
        let share = libm::exp(-seconds.max(0.0) / self.params.memory_s);
        self.weight *= share;
        self.weight_square *= share * share;
        self.seconds *= share;
        self.own *= share;
        self.others *= share;
        for sums in self.suspects.values_mut() {
            sums.fade(share);
            sums.age(seconds, self.params.relief_memory_s);
        }
    }

    /// Whether what was seen is recent enough to tell anything.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.seconds >= LEAST_TOLD_S
    }

    /// Takes in what suspects asked for and had in a stretch of time, in `held_frac` of which others
    /// were held; in the rest of it they had what they usually have. Who sleeps then got what it
    /// wanted. Who does not wants at least what it had: if that is most of a CPU it is told by it, else it
    /// may be starved by those that ran. `fed`: it came before those.
    pub fn relieve(&mut self, demands: &BTreeMap<Tenant, Demand>, held_frac: f64, fed: bool) {
        let most_cpus = if fed { self.params.fed_cpus } else { self.params.taken_cpus };
        for (tenant, demand) in demands {
            let Some(sums) = self.suspects.get_mut(tenant) else { continue };
            let relieved = sums.while_held(*demand, held_frac);
            let slept = sums.sleeps_with(relieved.asked_cpus, &self.params);
            let tells = slept || relieved.used_cpus >= most_cpus;
            let before = sums.relieved.filter(|_| !tells);
            if !before.is_some_and(|relieved| relieved.tells) {
                let fresh = Relieved::of(relieved, tells, slept);
                sums.relieved = Some(before.map_or(fresh, |before| fresh.after(before)));
            }
        }
    }

    /// Whether so many CPUs are so much that who does not sleep with them is not starved.
    #[must_use]
    pub fn takes_most(&self, used_cpus: f64) -> bool {
        used_cpus >= self.params.taken_cpus
    }

    /// The window is over. One in which the victim did nothing at all tells nothing.
    fn close(&mut self) {
        let window = std::mem::take(&mut self.open);
        let demands = std::mem::take(&mut self.demands);
        let needed = window.running + window.own + window.nobody;
        let most = self.params.most_ratio;
        // So that all together tell no more than the most, each by its part: who never ran needed nothing.
        let scale = (1.0 / needed).min(most / stood_in_all(&window));
        if !(scale > 0.0 && scale.is_finite()) {
            return;
        }
        let share = libm::exp(-window.seconds / self.params.memory_s);
        let ratio = |stood: f64| (stood * scale).clamp(0.0, most);
        self.weight = self.weight * share + 1.0;
        self.weight_square = self.weight_square * share * share + 1.0;
        self.seconds = self.seconds * share + window.seconds;
        self.own = self.own * share + ratio(window.own);
        let strangers = window.behind.iter().filter(|(name, _)| !self.suspects.contains_key(*name));
        let others = window.others + strangers.map(|(_, stood)| stood).sum::<f64>();
        self.others = self.others * share + ratio(others);
        let behind = |tenant: &Tenant| window.behind.get(tenant).copied().unwrap_or(0.0);
        let all = self.suspects.keys().map(|t| ratio(behind(t))).sum::<f64>() + ratio(others);
        let presence = Presence::new(&window.elsewhere);
        for (tenant, sums) in &mut self.suspects {
            let stood = behind(tenant);
            let x = ratio(presence.part(tenant, stood));
            let demand = demands.get(tenant).map(|(sum, seconds)| {
                let mean = |cpu_s: f64| (cpu_s / seconds).min(1e6);
                Demand { used_cpus: mean(sum.used_cpus), asked_cpus: mean(sum.asked_cpus) }
            });
            let effect_ln = effect_ln(x, all);
            sums.add(share, (ratio(stood), x, effect_ln), demand, self.params.awake_cpus);
            sums.age(window.seconds, self.params.relief_memory_s);
        }
    }
}

/// For how long a victim's threads stood behind others.
fn stood_in_all(window: &Waits) -> f64 {
    window.others + window.behind.values().sum::<f64>()
}

/// The part of one in the slowdown that all cause together, in ln.
fn effect_ln(x: f64, all: f64) -> f64 {
    if all > 0.0 { libm::log(1.0 + all) * x / all } else { 0.0 }
}

#[cfg(test)]
mod tests;
