//! Weighs all evidence about one victim: how much slower, why, by whom, and how sure that is.
//!
//! Naming needs four things: the guilt must be as good as certain, the suspect must have been held
//! at least twice (one look may have gone wrong), these looks alone must make its guilt more likely, since what
//! accuses besides them ([`Company`](super::Company), others' word) may be wrong in ways of its own, and its part of
//! the harm must be worth it.
//! Everything less is a suspicion; so is a bus
//! lock that the kernel trapped ([`Traps`](super::Traps)), while bus locks are told to do harm. Who has the CPU that the victim stands ready for is named on what
//! the scheduler says, without experiments, if besides it asks for more than its turn: it never sleeps,
//! not even with most of a CPU ([`rivals`](super::rivals())), and asks for half of what any other
//! asks for that the victim stands behind.
//!
//! *Suspected* for the CPU is who was not seen to sleep yet, as long as the victim stands for so long
//! that it counts, and the suspect's part of that is not small. The rest share the CPU, which is no
//! offence, and is told in the evidence only. Where nobody is left to suspect, and somebody slept only
//! while others were held, they want more together than there is: the cause is that the CPU is
//! *overcommitted*. A victim that runs into its own quota, that is loaded to its limit, or whose CPUs the
//! hypervisor takes away is told so, unless somebody is named.
//!
//! Source; issue "Name the polluter and limit only it" (self-inflicted slowness).

use super::finding::{Cause, Culprit, Finding, FindingParams, Resource, Standing};
use super::guilt::Guilt;
use super::rivals::{Manner, Stood, stood};
use super::waiting::Waiting;
use quell_types::Tenant;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Signs of reasons other than neighbours; none where they cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VictimSigns {
    /// Share of CFS periods in which it ran out of its own quota.
    pub throttled_frac: Option<f64>,
    /// Offered load over its peak.
    pub load_frac: Option<f64>,
    /// Share of time that the hypervisor took from this machine.
    pub steal_frac: Option<f64>,
}

/// All that speaks for or against suspects.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// By the victim's CPU time per request.
    pub work: &'a Guilt,
    /// By its latency.
    pub latency: &'a Guilt,
    /// What each suspect uses now, in CPUs.
    pub cpus: &'a BTreeMap<Tenant, f64>,
    /// Those whom correlation suspects.
    pub correlated: &'a [(Tenant, f64)],
    /// Those whom the kernel trapped making a bus lock, where somebody else tells that bus locks hold
    /// everybody's accesses back.
    pub lockers: &'a [Tenant],
    /// Behind whom its threads stand.
    pub waiting: &'a Waiting,
}

/// Judges one victim.
#[must_use]
pub fn judge(evidence: &Evidence<'_>, signs: &VictimSigns, params: &FindingParams) -> Finding {
    let waiting = evidence.waiting;
    let stood = stood(waiting, evidence.cpus.keys(), params);
    let manners: BTreeMap<Tenant, Manner> =
        stood.iter().map(|stood| (stood.workload.clone(), stood.manner)).collect();
    let mut culprits = accused(evidence, stood, params);
    weigh_together(&mut culprits, evidence, params);
    rank(&mut culprits);
    let slowdown = slowdown(&culprits, waiting);
    share(&mut culprits, slowdown, waiting);
    let waits = waiting.own_and_others_ln().1 >= params.least_wait_ln;
    let (sharing, culprits) = part(culprits, &manners, waits, params);
    let starved = |c: &Culprit| manners.get(&c.workload) == Some(&Manner::Starved);
    let others = match (waits, sharing.iter().any(starved)) {
        (true, true) => Cause::Overcommitted,
        (true, false) if !sharing.is_empty() => Cause::Neighbour,
        _ => Cause::None,
    };
    let (cause, own) = cause(&culprits, others, waiting, signs, params);
    let together = share_in_words(&sharing, cause);
    let told = culprits.iter().map(in_words).chain(together).chain(own);
    let evidence = told.chain(strangers(waiting, params)).collect();
    Finding { slowdown, cause, culprits, evidence }
}

/// Those who only share the CPU, and those who are accused. Who was not watched while others are held may be kept
/// awake by one who is named for it.
fn part(
    culprits: Vec<Culprit>,
    manners: &BTreeMap<Tenant, Manner>,
    waits: bool,
    params: &FindingParams,
) -> (Vec<Culprit>, Vec<Culprit>) {
    let takes_cpus = |c: &Culprit| c.status == Standing::Named && c.stood_frac.is_some();
    let explained = culprits.iter().any(takes_cpus);
    let awake = |c: &Culprit| match manners.get(&c.workload) {
        None | Some(Manner::Awake) => true,
        Some(Manner::Unwatched) => !explained,
        Some(Manner::Sleeps | Manner::Starved) => false,
    };
    let shares = |c: &Culprit| {
        let only_stood = c.status == Standing::Suspected && c.stood_frac.is_some();
        only_stood && !(waits && awake(c) && c.share_frac >= params.suspected_share_frac)
    };
    culprits.into_iter().partition(shares)
}

/// Those who are named first, then the most certain.
pub(super) fn rank(culprits: &mut [Culprit]) {
    culprits.sort_by(|a, b| {
        let named = |c: &Culprit| c.status == Standing::Named;
        named(b).cmp(&named(a)).then(b.confidence.total_cmp(&a.confidence))
    });
}

/// Of those who are named, the probability that the harm is serious: all that they do together, so that who
/// splits its work over several groups gains nothing.
fn weigh_together(culprits: &mut [Culprit], evidence: &Evidence<'_>, params: &FindingParams) {
    let named = |c: &Culprit| c.status == Standing::Named;
    let whole_ln: f64 = culprits.iter().filter(|c| named(c)).map(|c| libm::log(c.slowdown)).sum();
    for culprit in culprits.iter_mut().filter(|c| named(c)) {
        let others_ln = whole_ln - libm::log(culprit.slowdown);
        let serious_ln = params.serious_ln_after(culprit.experiments);
        let least_ln = (serious_ln - others_ln).max(params.least_ln);
        let tenant = &culprit.workload;
        culprit.serious_frac = if culprit.stood_frac.is_some() {
            evidence.waiting.crowding(tenant, least_ln).map_or(0.0, |crowding| crowding.confidence)
        } else {
            let used_cpus = evidence.cpus.get(tenant).copied().unwrap_or(0.0);
            evidence.work.harmful(tenant, used_cpus, least_ln)
        };
    }
}

/// Logarithms of slowdowns add up, so each has its part of the whole.
fn share(culprits: &mut [Culprit], slowdown: f64, waiting: &Waiting) {
    let whole_ln = libm::log(slowdown) + waiting.others_ln_and_frac().0;
    if whole_ln > 0.0 {
        for culprit in culprits {
            culprit.share_frac = (libm::log(culprit.slowdown) / whole_ln).clamp(0.0, 1.0);
        }
    }
}

fn share_in_words(sharing: &[Culprit], cause: Cause) -> Option<String> {
    let one = |c: &Culprit| format!("{} ({:.0} %)", c.workload, 100.0 * c.share_frac);
    let names: Vec<String> = sharing.iter().map(one).collect();
    let names = names.join(", ");
    let how = match cause {
        Cause::Overcommitted => "overcommitted by these together:",
        _ => "shared with",
    };
    (!sharing.is_empty()).then(|| format!("the CPU is {how} {names} of the whole harm"))
}

/// Everybody of whom something is to be said, each once: by the stronger evidence.
fn accused(evidence: &Evidence<'_>, stood: Vec<Stood>, params: &FindingParams) -> Vec<Culprit> {
    let Evidence { work: guilt, latency, cpus, correlated, lockers, .. } = *evidence;
    let whole = OnceCell::new();
    // Most often nobody is so likely guilty that it is asked for.
    let whole_ln = || *whole.get_or_init(|| guilt.foretell(cpus));
    let one = |(tenant, cpus): (&Tenant, &f64)| culprit(guilt, tenant, *cpus, &whole_ln, params);
    let mut culprits: Vec<Culprit> = cpus.iter().filter_map(one).collect();
    let place = |culprits: &[Culprit], t: &Tenant| culprits.iter().position(|c| c.workload == *t);
    let locked = lockers.iter().map(|tenant| (tenant, Resource::BusLock));
    let varied = correlated.iter().map(|(tenant, _)| (tenant, Resource::Memory));
    for (tenant, resource) in locked.chain(varied) {
        let acquitted = guilt.belief(tenant).is_some_and(|b| b.experiments > 0);
        if !acquitted && place(&culprits, tenant).is_none() {
            culprits.push(Culprit { resource, ..by_signs(guilt, tenant, cpus, params) });
        }
    }
    for stood in stood_behind(evidence, stood) {
        match place(&culprits, &stood.workload) {
            Some(at) if culprits[at].status == Standing::Named => {}
            Some(at) => culprits[at] = stood,
            None => culprits.push(stood),
        }
    }
    // The scheduler knows better than latency who makes it wait.
    let told = evidence.waiting.tells();
    for (tenant, cpus) in cpus.iter().filter(|_| !told) {
        if place(&culprits, tenant).is_none() {
            culprits.extend(crowding(latency, tenant, *cpus, params));
        }
    }
    culprits
}

/// All of them together. What latency alone shows is the same waiting once more; and several may have to
/// do with the same waiting, which is there once.
fn slowdown(culprits: &[Culprit], waiting: &Waiting) -> f64 {
    let shown = |c: &Culprit| c.resource == Resource::Memory || c.stood_frac.is_some();
    let any_shown = culprits.iter().any(shown);
    let counts = culprits.iter().filter(|c| !any_shown || shown(c));
    let (stood, rest): (Vec<_>, Vec<_>) = counts.partition(|c| c.stood_frac.is_some());
    let factor = |of: Vec<&Culprit>| of.iter().map(|c| c.slowdown).product::<f64>();
    factor(rest) * factor(stood).min(libm::exp(waiting.own_and_others_ln().1))
}

/// What such guilt says of a suspect that uses so many CPUs, where all together do so much harm.
pub(super) fn culprit(
    guilt: &Guilt,
    tenant: &Tenant,
    cpus: f64,
    whole_ln: &dyn Fn() -> f64,
    params: &FindingParams,
) -> Option<Culprit> {
    // The probability of harm is never above that of guilt, and costs more to reckon.
    if guilt.guilt(tenant) < params.suspected_frac || !guilt.fits_clearly(tenant) {
        return None;
    }
    let belief = guilt.belief(tenant)?;
    let confidence = guilt.harmful(tenant, cpus, params.least_ln);
    // Others' word makes surer, and accuses nobody by itself.
    if confidence * guilt.unheard_frac(tenant) < params.suspected_frac {
        return None;
    }
    let effect_ln = belief.harm * cpus;
    let shown = confidence >= params.named_frac
        && effect_ln >= params.named_share_frac * whole_ln()
        && guilt.is_shown_by_looks(tenant, params);
    Some(Culprit {
        workload: tenant.clone(),
        confidence,
        serious_frac: if shown { guilt.harmful(tenant, cpus, params.serious_ln) } else { 0.0 },
        status: if shown { Standing::Named } else { Standing::Suspected },
        resource: Resource::Memory,
        slowdown: libm::exp(effect_ln).max(1.0),
        share_frac: 0.0,
        harm_ln_per_cpu: belief.harm,
        experiments: belief.experiments,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    })
}

/// Those who have the CPU while the victim stands ready for it.
fn stood_behind(evidence: &Evidence<'_>, stood: Vec<Stood>) -> Vec<Culprit> {
    let one = |stood: Stood| Culprit {
        confidence: stood.crowding.confidence,
        serious_frac: 0.0,
        status: if stood.shown { Standing::Named } else { Standing::Suspected },
        resource: Resource::Cpu,
        slowdown: libm::exp(stood.crowding.effect_ln),
        share_frac: 0.0,
        harm_ln_per_cpu: match stood.crowding.used_cpus {
            used if used > 0.0 => stood.crowding.effect_ln / used,
            _ => 0.0,
        },
        experiments: evidence.latency.belief(&stood.workload).map_or(0, |b| b.experiments),
        stood_frac: Some(stood.crowding.stood_frac),
        elsewhere_frac: stood.crowding.elsewhere_frac,
        held_back_frac: None,
        workload: stood.workload,
    };
    stood.into_iter().map(one).collect()
}

/// Somebody who makes the victim wait, as experiments have shown.
fn crowding(
    latency: &Guilt,
    tenant: &Tenant,
    cpus: f64,
    params: &FindingParams,
) -> Option<Culprit> {
    let belief = latency.belief(tenant).filter(|belief| belief.guilt >= params.named_frac)?;
    let confidence = latency.harmful(tenant, cpus, params.least_wait_ln);
    let shown = confidence >= params.named_frac && belief.experiments >= params.named_experiments;
    shown.then(|| Culprit {
        workload: tenant.clone(),
        confidence,
        serious_frac: 0.0,
        status: Standing::Suspected,
        resource: Resource::Cpu,
        slowdown: libm::exp(belief.harm * cpus).max(1.0),
        share_frac: 0.0,
        harm_ln_per_cpu: belief.harm,
        experiments: belief.experiments,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    })
}

/// Somebody of whom no experiment says anything yet. How much harm it does is not known.
fn by_signs(
    guilt: &Guilt,
    tenant: &Tenant,
    cpus: &BTreeMap<Tenant, f64>,
    params: &FindingParams,
) -> Culprit {
    let used = cpus.get(tenant).copied().unwrap_or(0.0);
    Culprit {
        workload: tenant.clone(),
        confidence: guilt.harmful(tenant, used, params.least_ln),
        serious_frac: 0.0,
        status: Standing::Suspected,
        resource: Resource::Memory,
        slowdown: 1.0,
        share_frac: 0.0,
        harm_ln_per_cpu: 0.0,
        experiments: 0,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    }
}

/// Why it is slow; `others` if nobody is accused and nothing of its own explains it.
fn cause(
    culprits: &[Culprit],
    others: Cause,
    waiting: &Waiting,
    signs: &VictimSigns,
    params: &FindingParams,
) -> (Cause, Option<String>) {
    if culprits.iter().any(|c| c.status == Standing::Named) {
        return (Cause::Neighbour, None);
    }
    let above = |sign: Option<f64>, least: f64| sign.filter(|value| *value >= least);
    if let Some(frac) = above(signs.throttled_frac, params.throttled_frac) {
        let words = format!("it ran out of its own CPU quota in {:.0} % of periods", 100.0 * frac);
        return (Cause::Itself, Some(words));
    }
    if let Some(frac) = above(signs.load_frac, params.loaded_frac) {
        let words = format!("it is loaded to {:.0} % of its peak", 100.0 * frac);
        return (Cause::Itself, Some(words));
    }
    if let Some(frac) = above(signs.steal_frac, params.steal_frac) {
        let words = format!("the hypervisor took {:.0} % of the CPU time", 100.0 * frac);
        return (Cause::Hypervisor, Some(words));
    }
    let (own, all_others) = waiting.own_and_others_ln();
    if own >= params.least_wait_ln && own > all_others {
        let frac = 100.0 * waiting.own_frac();
        return (
            Cause::Itself,
            Some(format!("its threads stood {frac:.0} % of their time behind each other")),
        );
    }
    if culprits.is_empty() { (others, None) } else { (Cause::Neighbour, None) }
}

/// Who makes it stand may be none of those that were looked at: its own clients, for one.
fn strangers(waiting: &Waiting, params: &FindingParams) -> Option<String> {
    let (effect_ln, frac) = waiting.others_ln_and_frac();
    (effect_ln >= params.least_wait_ln).then(|| {
        let percent = 100.0 * frac;
        format!("its threads stood {percent:.0} % of the time behind others than those looked at")
    })
}

fn in_words(culprit: &Culprit) -> String {
    let Culprit { workload, confidence, resource, slowdown, experiments, .. } = culprit;
    if let Some(frac) = culprit.stood_frac {
        let elsewhere = match 100.0 * culprit.elsewhere_frac {
            percent if percent >= 0.5 => {
                format!(", and {percent:.0} % more since it kept another CPU and none was idle,")
            }
            _ => ",".into(),
        };
        return format!(
            "the victim's threads stood {:.0} % of the time in which they could run behind \
             {workload}{elsewhere} which makes its requests {slowdown:.2} times as long (certain to \
             {:.1} %)",
            100.0 * frac,
            100.0 * confidence
        );
    }
    if *resource == Resource::Cpu {
        return format!(
            "held {experiments} times, {workload} made the victim's latency {slowdown:.2} times as \
             long while it ran, but not its CPU time: it waits for CPUs (certain to {:.1} %)",
            100.0 * confidence
        );
    }
    let serious = match culprit.status {
        Standing::Named => format!(", and to {:.1} % serious", 100.0 * culprit.serious_frac),
        Standing::Suspected => String::new(),
    };
    match experiments {
        0 if *resource == Resource::BusLock => format!(
            "bus locks hold accesses back, and the kernel trapped {workload} making some; it was never held"
        ),
        0 => format!("{workload} was busy when the victim was slow; it was never held"),
        _ => format!(
            "held {experiments} times, {workload} made the victim {slowdown:.2} times as slow \
             while it ran (certain to {:.1} %{serious})",
            100.0 * confidence
        ),
    }
}

#[cfg(test)]
mod tests;
