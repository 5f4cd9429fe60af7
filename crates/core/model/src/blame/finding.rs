//! What is said of a victim: how much slower, why, by whom, and how sure that is; and from when on.
//! [`judge`](super::judge) says it.

use quell_types::Tenant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When somebody is named or suspected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FindingParams {
    /// The least effect, in ln, that counts as harm.
    pub least_ln: f64,
    /// The same for a suspicion of who was measured to press on caches or memory. Less, since this is of what
    /// requests cost: of a service that is busy for a third of the time latency grows by half as much again.
    pub least_pressing_ln: f64,
    /// The effect, in ln, from which harm is serious: somebody is limited for more only.
    pub serious_ln: f64,
    /// Probability of that from which it is taken for granted.
    pub serious_frac: f64,
    /// Until so many looks were made at it, a greater effect must be as likely: two that agree by chance show a harm
    /// that is not there.
    pub serious_experiments: u32,
    /// That effect, in ln.
    pub serious_at_first_ln: f64,
    /// Probability of harm from which a suspect is named.
    pub named_frac: f64,
    /// Experiments in which it must have been held for that.
    pub named_experiments: u32,
    /// How many times as likely, in ln, what was measured alone must make its guilt for that: in these, and between them.
    pub named_looked_ln: f64,
    /// Its least part of the whole harm for that.
    pub named_share_frac: f64,
    /// Probability of harm from which it is suspected.
    pub suspected_frac: f64,
    /// Its least part of the whole harm for that, where it is suspected for the CPU alone: less is
    /// to share it.
    pub suspected_share_frac: f64,
    /// The least effect on latency, in ln, that counts as waiting; nobody is suspected for the CPU where
    /// all together do less.
    pub least_wait_ln: f64,
    /// Share of periods in which a victim ran out of its own quota that explains slowness.
    pub throttled_frac: f64,
    /// Share of the windows in which a group did not sleep from which it asks for more than its
    /// turn.
    pub awake_frac: f64,
    /// Windows in which that must be known.
    pub least_windows: f64,
    /// Of what the greediest among those asks for whom the victim stands behind, the least share
    /// with which one is named beside it.
    pub greedy_frac: f64,
    /// Seconds of watching before anybody is named for it: groups have their phases.
    pub least_watched_s: f64,
    /// Seconds of watching, old ones counting less, after which one who never sleeps is named though
    /// it was not seen what it wants: ten by the clock. Infinite where others can be held to see that.
    pub relief_patience_s: f64,
    /// Of what suspects use of CPUs, the share that is too little to starve anybody: those who make it
    /// up may run while others are held.
    pub unheld_frac: f64,
    /// CPUs from which one asks for more than any one CPU could give: threads of it stand behind each
    /// other, ...
    pub insatiable_cpus: f64,
    /// ... in so many looks in which all others were held, ...
    pub insatiable_looks: u32,
    /// ... though it had so many CPUs meanwhile.
    pub insatiable_used_cpus: f64,
    /// Who uses fewer CPUs than that starves nobody.
    pub idle_cpus: f64,
    /// Offered load over its peak that explains slowness.
    pub loaded_frac: f64,
    /// Share of time taken by the hypervisor that explains slowness.
    pub steal_frac: f64,
}

/// However seldom caches are shared, no more than so many times as much harm is asked for.
const LEAST_SHARED_FRAC: f64 = 0.25;

impl FindingParams {
    /// The same where harm that looks show is there for a part of the time only, since the host runs the CPUs on
    /// cores without a common cache for this share of it: what is serious is what somebody does on average.
    #[must_use]
    pub fn where_apart(self, apart_frac: f64) -> Self {
        let shared_frac = (1.0 - apart_frac).max(LEAST_SHARED_FRAC);
        let Self { serious_ln, serious_at_first_ln, .. } = self;
        Self {
            serious_ln: serious_ln / shared_frac,
            serious_at_first_ln: serious_at_first_ln / shared_frac,
            ..self
        }
    }

    /// The effect, in ln, that has to be likely for harm to be serious that is shown by so many looks.
    #[must_use]
    pub fn serious_ln_after(&self, experiments: u32) -> f64 {
        let few = experiments < self.serious_experiments;
        if few { self.serious_at_first_ln.max(self.serious_ln) } else { self.serious_ln }
    }
}

impl Default for FindingParams {
    fn default() -> Self {
        Self {
            least_ln: 0.04,
            least_pressing_ln: 0.03,
            serious_ln: 0.095,
            serious_frac: 0.98,
            serious_experiments: 3,
            serious_at_first_ln: 0.19,
            named_frac: 0.99,
            named_experiments: 2,
            named_looked_ln: 1.0,
            named_share_frac: 0.2,
            suspected_frac: 0.5,
            suspected_share_frac: 0.1,
            least_wait_ln: 0.1,
            awake_frac: 0.8,
            least_windows: 6.0,
            greedy_frac: 0.5,
            least_watched_s: 3.0,
            relief_patience_s: 7.8,
            unheld_frac: 0.1,
            insatiable_cpus: 1.5,
            insatiable_looks: 2,
            insatiable_used_cpus: 0.5,
            idle_cpus: 0.01,
            throttled_frac: 0.05,
            loaded_frac: 0.95,
            steal_frac: 0.05,
        }
    }
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Shown by experiments, or by the scheduler itself.
    Named,
    /// Likely, not shown.
    Suspected,
}

/// What culprit and victim fight over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Caches, memory, the bus or the clock: requests take more CPU time.
    Memory,
    /// CPUs: requests wait, and take no more CPU time.
    Cpu,
    /// Of the first, the bus, as a reporter or the kernel's gauge tells: locks hold everybody's accesses back.
    BusLock,
    /// Likewise, the last-level cache: its room or its bandwidth.
    LastLevelCache,
    /// Likewise, the bandwidth of memory.
    MemoryBandwidth,
}

impl Resource {
    /// How much it explains, of what a request's CPU time costs more: who loads memory drives out what lies
    /// in the caches as well, and bus locks hold back reads of both. Waits for a CPU are none of that.
    const fn explains(self) -> Option<u8> {
        match self {
            Self::Cpu => None,
            Self::Memory => Some(0),
            Self::LastLevelCache => Some(1),
            Self::MemoryBandwidth => Some(2),
            Self::BusLock => Some(3),
        }
    }
}

/// Why a victim is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Others on this machine.
    Neighbour,
    /// Its own quota or load.
    #[serde(rename = "self")]
    Itself,
    /// The host of this virtual machine.
    Hypervisor,
    /// Others on this machine together: they want more CPU time than there is, and each of them sleeps
    /// when it gets what it wants.
    Overcommitted,
    /// It is not slow, as far as can be seen.
    None,
}

/// One who causes harm, or may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// Who.
    pub workload: Tenant,
    /// Probability that it slows the victim by more than the least that counts.
    pub confidence: f64,
    /// Of who is named, the probability that it and the others who are named do so by more than is serious (a
    /// tenth, if nothing else is said): less is not worth a limit. 0 of who is suspected.
    #[serde(default)]
    pub serious_frac: f64,
    /// How sure it is.
    pub status: Standing,
    /// What they fight over.
    pub resource: Resource,
    /// By what factor it lengthens the victim's CPU time per request; where the resource is the
    /// CPU, the time for which a request's threads run or stand, or, without `stood_frac`, latency.
    pub slowdown: f64,
    /// Its part of the whole harm, in ln: that of all who were looked at, and of waiting behind
    /// others; 0 where that is not known.
    #[serde(default)]
    pub share_frac: f64,
    /// The same as ln for each CPU that it uses; 0 where that is not known.
    pub harm_ln_per_cpu: f64,
    /// Experiments in which it was held.
    pub experiments: u32,
    /// Of the time in which the victim's threads could run, the share for which they stood ready
    /// while it ran in their place; none where it is not accused of that.
    #[serde(default)]
    pub stood_frac: Option<f64>,
    /// The same for its part in what they stood behind others, while it had another CPU and none was idle.
    #[serde(default)]
    pub elsewhere_frac: f64,
    /// Of the moments in which it was seen to have another CPU, the share in which accesses to a core's own
    /// cache were held back: it locks the bus. None where it is not accused of that.
    #[serde(default)]
    pub held_back_frac: Option<f64>,
}

impl Culprit {
    /// Takes in a word about what it fights over with the victim: whoever says it, and in whatever order, what
    /// explains most is told.
    pub(super) fn fights_over(&mut self, resource: Resource) {
        let more = self.resource.explains().zip(resource.explains());
        if more.is_some_and(|(known, told)| told > known) {
            self.resource = resource;
        }
    }
}

/// What is known of one victim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// By what factor those, and those who only share the CPU, lengthen its CPU time per request
    /// and the standing of its threads, or its latency where nothing else is known; in its slow
    /// moments where that is more and somebody is named for them; 1 = not at all.
    pub slowdown: f64,
    /// Why it is slow.
    pub cause: Cause,
    /// Those who are named first, then the most certain. Who only shares the CPU is none: who sleeps
    /// when it gets what it wants, or whose part is small.
    pub culprits: Vec<Culprit>,
    /// Why, in words.
    pub evidence: Vec<String>,
}
