//! Who asks for more than its turn, of those behind whom a victim stands.
//!
//! # Problem
//! Who never sleeps asks for more than its turn. But where CPUs are short, whoever works at a fixed
//! rate does not get to sleep either: next to a loop, or where several who each want a part of a CPU
//! want more together than there is. Then one that never sleeps may have starved the others, or be
//! starved by them. That holds of the only one, too, that is never seen to sleep: those who do sleep,
//! since they want less, may be what starves it.
//!
//! # Idea
//! What a group wants shows when it can have it. So others are held for a moment, and it is watched.
//! Who sleeps then has what it wants, and that is not all: it is innocent, however much all of them want
//! together. Who does not sleep, though it has most of a CPU, never does, whatever it gets: it is
//! greedy, and the harm that the scheduler saw it do is its own. Who neither sleeps nor has most of
//! a CPU may be starved by those that still run, the service among them, which catches up once it gets
//! CPUs: nothing is told by that. Who has most of a CPU also beside all others, and never sleeps, needs no
//! look, whatever an earlier one told.
//!
//! * *Sleeps*: also beside the others. It gets what it wants, and shares the CPU.
//! * *Starved*: never beside the others, but when they are held. They overcommit the CPU together, and
//!   nobody is to blame for it alone.
//! * *Awake*: never. It is *suspected* at least.
//! * *Unwatched*: not beside the others, and it was not watched yet. It is a *rival* until it was; and
//!   *suspected*, unless another is named for the CPU, which explains that it does not sleep.
//!
//! The equal share of the CPUs is no measure here: with many groups it is little, and who wants more than
//! that, and sleeps, offends nobody where there is room.
//!
//! All others are held, not only those behind whom the victim stands: groups that share one CPU with a
//! rival and keep it busy need not be on the victim's. But those may run that make up a tenth of what
//! all use, which is too little to starve anybody. Who asks for most and has most comes first. As many
//! rivals are watched together as there are CPUs for: with six on two CPUs three looks tell of all, and
//! each is held in two of them.
//!
//! A service that was starved catches up while the others are held, and leaves one who never sleeps
//! as little as one who wants half a CPU. So whoever may write weights lets the watched come before it for
//! that moment, who then have all that they want. Of 600 drawn worlds with a loop it was named in 564
//! so, in 425 otherwise, and nobody innocent in any.
//!
//! A group of several threads asks for a CPU and more though each of them sleeps for half of the time: where
//! there is little room they stand for as long as they run. So such a group is seen to sleep, too, if it asks for a
//! fifth less while the others are held than beside them, and for less than 1.7 CPUs; threads that
//! never sleep are there all the time, whoever else is. (Of 300 drawn worlds of groups of two threads that sleep,
//! which want more together than there is, somebody was named in 129 before that.)
//!
//! Threads that stand behind *each other* want more than one CPU. A group may be pinned to one, which it
//! shares with the service, or a client outside all groups keeps the other: then it never has most of a
//! CPU, held others or not, though it would take two. `stress-ng --cache 2` does so to itself. Who is the
//! only one that does not sleep, has half a CPU at least while all others are held, and asks for one and a
//! half, in two looks and all the time, is *insatiable*, and named. It may still be that it would sleep
//! with nine tenths of a CPU; but then nothing is left on this machine that keeps them from it but
//! the service and those outside all groups, and it is on their CPU.
//!
//! # Degradation
//! Where banks do not pay for holding all others, as many as can are held: it is told of each what it
//! had, so that is no worse than fewer answers. On one CPU a service that uses 0.3 of it leaves too
//! little to be told. Where nobody can be held (no freezer, samples that are too rare), all rivals are
//! named after a while; where it was seen of one of them what it wants, the others wait for their turn,
//! however long that takes.
//!
//! Source: issue "Name the polluter and limit only it" (who made the service wait).

use super::finding::FindingParams;
use super::waiting::{Crowding, Tried, Waiting};
use quell_types::Tenant;

/// How a suspect behaves, as far as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It sleeps beside the others.
    Sleeps,
    /// It sleeps only when others are held.
    Starved,
    /// It was not seen to sleep, nor watched while others are held.
    Unwatched,
    /// It did not sleep when others were held, or does not though it has most of a CPU.
    Awake,
}

/// One behind whom the victim stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stood {
    pub(super) workload: Tenant,
    pub(super) crowding: Crowding,
    pub(super) manner: Manner,
    /// Whether it never sleeps, not even when others are held, and asks for much beside the greediest.
    greedy: bool,
    /// Whether nobody starves it: it has most of a CPU, or the others use next to nothing.
    fed: bool,
    /// Whether it is shown to be the cause.
    pub(super) shown: bool,
}

/// One who never sleeps, and who may be starved by others.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Who.
    pub workload: Tenant,
    /// CPUs that it asks for: what it uses, and threads of it that stand.
    pub asked_cpus: f64,
    /// CPUs that it uses.
    pub used_cpus: f64,
    /// Whether it was seen what it wants.
    pub relieved: bool,
    /// Others were held to see it, if that told nothing.
    pub tried: Option<Tried>,
}

/// Those behind whom the victim stands so long that it counts.
pub(super) fn stood<'a>(
    waiting: &Waiting,
    suspects: impl Iterator<Item = &'a Tenant>,
    params: &FindingParams,
) -> Vec<Stood> {
    let mut all = waiting.crowdings(suspects, params.least_ln);
    let whole_cpus: f64 = all.iter().map(|(_, crowding)| crowding.used_cpus).sum();
    let sole = sole_awake(&all, params);
    all.retain(|(_, crowding)| {
        crowding.effect_ln >= params.least_ln && crowding.confidence >= params.suspected_frac
    });
    let most_asked = all.iter().map(|(_, crowding)| crowding.asked_cpus).fold(0.0, f64::max);
    let patient = is_patient(all.iter().map(|(_, crowding)| crowding), waiting, params);
    let watched = waiting.seconds() >= params.least_watched_s;
    let one = |(workload, crowding): (&Tenant, Crowding)| {
        let greedy = is_greedy(&crowding, most_asked, waiting, params);
        let others_cpus = whole_cpus - crowding.used_cpus;
        let fed = waiting.takes_most(crowding.used_cpus)
            || others_cpus <= params.unheld_frac * whole_cpus;
        let insatiable = sole == Some(workload) && is_insatiable(&crowding, params);
        let clear = fed || insatiable || crowding.relieved_cpus.is_some() || !patient;
        let certain = crowding.confidence >= params.named_frac;
        Stood {
            workload: workload.clone(),
            manner: manner(&crowding, waiting, params),
            greedy,
            fed,
            shown: watched && greedy && clear && certain,
            crowding,
        }
    };
    all.into_iter().map(one).collect()
}

/// The only one that was not seen to sleep, where it is known of all others that they do; those that use
/// next to nothing keep no CPU.
fn sole_awake<'a>(all: &[(&'a Tenant, Crowding)], params: &FindingParams) -> Option<&'a Tenant> {
    let sleeps = |crowding: &Crowding| {
        let known = crowding.known_windows >= params.least_windows;
        crowding.used_cpus < params.idle_cpus || (known && crowding.awake_frac < params.awake_frac)
    };
    let mut awake = all.iter().filter(|(_, crowding)| !sleeps(crowding));
    awake.next().filter(|_| awake.next().is_none()).map(|(tenant, _)| *tenant)
}

/// Whether threads of it stand behind each other all the time, all others held or not, and it has a good
/// part of a CPU.
fn is_insatiable(crowding: &Crowding, params: &FindingParams) -> bool {
    let asks = |cpus: f64| cpus >= params.insatiable_cpus;
    let held = |tried: Tried| {
        tried.in_vain >= params.insatiable_looks
            && asks(tried.asked_cpus)
            && tried.used_cpus >= params.insatiable_used_cpus
    };
    asks(crowding.asked_cpus) && crowding.tried.is_some_and(held)
}

/// Whether rivals wait until they were watched: for a while, or if one of them was.
fn is_patient<'a>(
    mut all: impl Iterator<Item = &'a Crowding>,
    waiting: &Waiting,
    params: &FindingParams,
) -> bool {
    let tried = all.any(|crowding| crowding.relieved_cpus.is_some());
    tried || waiting.seconds() < params.relief_patience_s
}

/// Whether it never sleeps, not even when relieved, and asks for much beside the greediest.
fn is_greedy(
    crowding: &Crowding,
    most_asked: f64,
    waiting: &Waiting,
    params: &FindingParams,
) -> bool {
    crowding.known_windows >= params.least_windows
        && crowding.awake_frac >= params.awake_frac
        && crowding.asked_cpus >= params.greedy_frac * most_asked
        && !is_starved(crowding, waiting)
}

/// Whether it slept when others were held. That was some time ago: who has most of a CPU now, and
/// does not sleep, is not starved now.
fn is_starved(crowding: &Crowding, waiting: &Waiting) -> bool {
    !waiting.takes_most(crowding.used_cpus) && crowding.slept
}

fn manner(crowding: &Crowding, waiting: &Waiting, params: &FindingParams) -> Manner {
    let known = crowding.known_windows >= params.least_windows;
    if known && crowding.awake_frac < params.awake_frac {
        return Manner::Sleeps;
    }
    let watched = crowding.relieved_cpus.is_some() || crowding.tried.is_some();
    if is_starved(crowding, waiting) {
        Manner::Starved
    } else if watched || waiting.takes_most(crowding.used_cpus) {
        Manner::Awake
    } else {
        Manner::Unwatched
    }
}

/// Those who never sleep beside others that may starve them, before patience is over; who asks for
/// most and has most first. `early` adds those of whom it is not known whether they sleep.
#[must_use]
pub fn rivals<'a>(
    waiting: &Waiting,
    suspects: impl Iterator<Item = &'a Tenant>,
    early: bool,
    params: &FindingParams,
) -> Vec<Rival> {
    let all = stood(waiting, suspects, params);
    if !is_patient(all.iter().map(|stood| &stood.crowding), waiting, params) {
        return Vec::new();
    }
    let unknown = |s: &Stood| early && s.crowding.known_windows < params.least_windows;
    let awake =
        |s: &Stood| s.crowding.known_windows < 1.0 || s.crowding.awake_frac >= params.awake_frac;
    let rival = |stood: &Stood| Rival {
        workload: stood.workload.clone(),
        asked_cpus: stood.crowding.asked_cpus,
        used_cpus: stood.crowding.used_cpus,
        relieved: stood.crowding.relieved_cpus.is_some(),
        tried: stood.crowding.tried,
    };
    let are = all.iter().filter(|s| !s.fed && (s.greedy || (unknown(s) && awake(s))));
    let mut rivals: Vec<Rival> = are.map(rival).collect();
    let much = |rival: &Rival| rival.asked_cpus + rival.used_cpus;
    rivals.sort_by(|a, b| much(b).total_cmp(&much(a)));
    rivals
}

/// All suspects that use CPU, each with its part of what they use together (0..1); the greatest first.
#[must_use]
pub fn parts<'a>(
    waiting: &Waiting,
    suspects: impl Iterator<Item = &'a Tenant>,
) -> Vec<(Tenant, f64)> {
    let of = |one: &'a Tenant| Some((one.clone(), waiting.used_cpus(one)?));
    let mut all: Vec<(Tenant, f64)> = suspects.filter_map(of).filter(|(_, c)| *c > 0.0).collect();
    let whole_cpus: f64 = all.iter().map(|(_, cpus)| cpus).sum();
    all.iter_mut().for_each(|(_, part)| *part /= whole_cpus);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Whether the victim stands behind somebody of whom it is not known yet whether he sleeps, since
/// he was held too often to tell.
#[must_use]
pub fn undecided<'a>(
    waiting: &Waiting,
    suspects: impl Iterator<Item = &'a Tenant>,
    params: &FindingParams,
) -> bool {
    let all = stood(waiting, suspects, params);
    all.iter().any(|stood| stood.crowding.known_windows < params.least_windows)
}

#[cfg(test)]
mod tests;
