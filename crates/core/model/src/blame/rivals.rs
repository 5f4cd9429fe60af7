//! Who asks for more than its turn, of those behind whom a victim stands.
//!
//! Who never sleeps asks for more than its turn. But where CPUs are short, whoever works at a fixed
//! rate does not get to sleep either, next to a loop: each of such *rivals* may be the cause, or only
//! starved by the others. What it would use if it were not is seen by holding the others for a moment.
//! So beside a rival nobody is named before it was relieved of him and still did not sleep; who slept
//! is none. Where that cannot be tried (no freezer, samples that are too rare), all rivals are named
//! after a while; where it was tried with one of them, the others wait for their turn, however long
//! that takes.
//!
//! A look that leaves other rivals running (their banks are empty) acquits who sleeps in it. Who does
//! not may be starved by those: that counts only where every rival that was tried so far did
//! not sleep either, so that they seem to be alike.
//!
//! Each is judged by its own relief, so the order is free: who asks for most comes first. If it is
//! the cause, it does not sleep, and one look has settled it; in any other order innocents are held
//! and watched before.
//!
//! Source: issue "Name the polluter and limit only it" (who made the service wait).

use super::finding::FindingParams;
use super::waiting::{Crowding, Waiting};
use quell_types::Tenant;

/// One behind whom the victim stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stood {
    pub(super) workload: Tenant,
    pub(super) crowding: Crowding,
    /// Whether it is shown to be the cause.
    pub(super) shown: bool,
    /// Whether it was seen to sleep: it asks for no more than its turn.
    pub(super) sleeps: bool,
}

/// One of several who never sleep.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Who.
    pub workload: Tenant,
    /// CPUs that it asks for: what it uses, and threads of it that stand.
    pub asked_cpus: f64,
    /// Whether it was seen what it asks for while rivals of it are held.
    pub relieved: bool,
}

/// Those behind whom the victim stands so long that it counts.
pub(super) fn stood<'a>(
    waiting: &Waiting,
    suspects: impl Iterator<Item = &'a Tenant>,
    params: &FindingParams,
) -> Vec<Stood> {
    let one = |workload: &Tenant| {
        let crowding = waiting.crowding(workload, params.least_ln)?;
        let counts =
            crowding.effect_ln >= params.least_ln && crowding.confidence >= params.suspected_frac;
        let sleeps = sleeps(&crowding, waiting, params);
        counts.then(|| Stood { workload: workload.clone(), crowding, shown: false, sleeps })
    };
    let mut all: Vec<Stood> = suspects.filter_map(one).collect();
    let most_asked = all.iter().map(|stood| stood.crowding.asked_cpus).fold(0.0, f64::max);
    let greedy: Vec<bool> =
        all.iter().map(|stood| is_greedy(&stood.crowding, most_asked, waiting, params)).collect();
    let alone = greedy.iter().filter(|greedy| **greedy).count() < 2;
    let patient = is_patient(&all, waiting, params);
    let watched = waiting.seconds() >= params.least_watched_s;
    for (stood, greedy) in all.iter_mut().zip(greedy) {
        let clear = alone || stood.crowding.relieved_cpus.is_some() || !patient;
        stood.shown = watched && greedy && clear && stood.crowding.confidence >= params.named_frac;
    }
    all
}

/// Whether rivals wait until they are relieved: for a while, or if one of them was.
fn is_patient(all: &[Stood], waiting: &Waiting, params: &FindingParams) -> bool {
    let tried = all.iter().any(|stood| stood.crowding.relieved_cpus.is_some());
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
        && crowding.relieved_cpus.is_none_or(|cpus| cpus >= waiting.awake_cpus())
}

/// Whether it was seen to sleep, by itself or while rivals of it were held.
fn sleeps(crowding: &Crowding, waiting: &Waiting, params: &FindingParams) -> bool {
    let known = crowding.known_windows >= params.least_windows;
    let relieved = crowding.relieved_cpus.is_some_and(|cpus| cpus < waiting.awake_cpus());
    relieved || (known && crowding.awake_frac < params.awake_frac)
}

/// Those who never sleep, and of whom it is not yet shown who is to blame, before patience is over:
/// two at least, or nobody; who asks for most first. `early` adds those of whom it is not known
/// whether they sleep.
#[must_use]
pub fn rivals<'a>(
    waiting: &Waiting,
    suspects: impl Iterator<Item = &'a Tenant>,
    early: bool,
    params: &FindingParams,
) -> Vec<Rival> {
    let all = stood(waiting, suspects, params);
    if !is_patient(&all, waiting, params) {
        return Vec::new();
    }
    let most_asked = all.iter().map(|stood| stood.crowding.asked_cpus).fold(0.0, f64::max);
    let unknown = |s: &Stood| early && s.crowding.known_windows < params.least_windows;
    let awake =
        |s: &Stood| s.crowding.known_windows < 1.0 || s.crowding.awake_frac >= params.awake_frac;
    let greedy = |s: &&Stood| {
        (unknown(s) && awake(s)) || is_greedy(&s.crowding, most_asked, waiting, params)
    };
    let rival = |stood: &Stood| Rival {
        workload: stood.workload.clone(),
        asked_cpus: stood.crowding.asked_cpus,
        relieved: stood.crowding.relieved_cpus.is_some(),
    };
    let mut rivals: Vec<Rival> = all.iter().filter(greedy).map(rival).collect();
    rivals.sort_by(|a, b| b.asked_cpus.total_cmp(&a.asked_cpus));
    if rivals.len() < 2 { Vec::new() } else { rivals }
}

/// Whether rivals were tried, and none of them slept: those that are left may be taken for alike.
#[must_use]
pub fn none_slept<'a>(waiting: &Waiting, suspects: impl Iterator<Item = &'a Tenant>) -> bool {
    let tried = suspects.filter_map(|suspect| waiting.crowding(suspect, 0.0)?.relieved_cpus);
    let (all, awake) = tried.fold((0, 0), |(all, awake), cpus| {
        (all + 1, awake + u32::from(cpus >= waiting.awake_cpus()))
    });
    all >= 2 && awake == all
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
mod tests {
    use super::super::waiting::{Demand, WaitingParams};
    use super::*;
    use quell_types::Waits;
    use std::collections::BTreeMap;

    /// So many quarters of a second beside groups that never sleep, who use half a CPU each.
    fn watched(groups: &[&str], quarters: usize) -> Waiting {
        let mut waiting = Waiting::new(WaitingParams::default());
        let names: Vec<Tenant> = groups.iter().map(|name| (*name).into()).collect();
        waiting.keep(&names);
        let behind = names.iter().map(|name| (name.clone(), 0.3)).collect();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let demands = asked(groups, 1.0);
        (0..quarters).for_each(|_| waiting.see(&waits, &demands, 0.0));
        waiting
    }

    fn asked(groups: &[&str], asked_cpus: f64) -> BTreeMap<Tenant, Demand> {
        let demand = Demand { used_cpus: 0.5, asked_cpus };
        groups.iter().map(|name| ((*name).into(), demand)).collect()
    }

    fn shown(waiting: &Waiting, groups: &[&str]) -> Vec<String> {
        let names: Vec<Tenant> = groups.iter().map(|name| (*name).into()).collect();
        let all = stood(waiting, names.iter(), &FindingParams::default());
        all.iter().filter(|s| s.shown).map(|s| s.workload.to_string()).collect()
    }

    fn open(waiting: &Waiting, groups: &[&str]) -> Vec<(String, bool)> {
        let names: Vec<Tenant> = groups.iter().map(|name| (*name).into()).collect();
        let all = rivals(waiting, names.iter(), false, &FindingParams::default());
        all.into_iter().map(|rival| (rival.workload.to_string(), rival.relieved)).collect()
    }

    #[test]
    fn beside_a_rival_nobody_is_named_before_it_was_relieved() {
        let both = ["loop", "rate"];
        let mut waiting = watched(&both, 20);
        assert_eq!(shown(&waiting, &both), Vec::<String>::new());
        assert_eq!(open(&waiting, &both), [("loop".into(), false), ("rate".into(), false)]);
        waiting.relieve(&asked(&["rate"], 0.7));
        assert_eq!(shown(&waiting, &both), ["loop"], "who slept is no rival");
        assert!(open(&waiting, &both).is_empty());
    }

    #[test]
    fn who_does_not_sleep_when_relieved_is_named_and_the_other_waits_for_its_turn() {
        let both = ["loop", "rate"];
        let mut waiting = watched(&both, 20);
        waiting.relieve(&asked(&["loop"], 1.0));
        assert_eq!(shown(&waiting, &both), ["loop"]);
        assert_eq!(open(&waiting, &both), [("loop".into(), true), ("rate".into(), false)]);
    }

    #[test]
    fn rivals_seem_alike_where_two_were_tried_and_neither_slept() {
        let names = ["loop", "rate", "spin"];
        let alike = |waiting: &Waiting| none_slept(waiting, names.map(Tenant::from).iter());
        let mut waiting = watched(&names, 20);
        assert!(!alike(&waiting), "nobody was tried");
        waiting.relieve(&asked(&["loop"], 1.0));
        assert!(!alike(&waiting), "one is none");
        waiting.relieve(&asked(&["spin"], 1.0));
        assert!(alike(&waiting));
        waiting.relieve(&asked(&["rate"], 0.7));
        assert!(!alike(&waiting));
    }

    #[test]
    fn who_asks_for_most_is_relieved_first() {
        let mut waiting = watched(&["loop", "rate"], 1);
        let behind = ["loop", "rate"].map(|name| (name.into(), 0.3)).into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let demands = asked(&["loop"], 1.0).into_iter().chain(asked(&["rate"], 1.6)).collect();
        (0..20).for_each(|_| waiting.see(&waits, &demands, 0.0));
        let both = [("rate".into(), false), ("loop".into(), false)];
        assert_eq!(open(&waiting, &["loop", "rate"]), both);
    }

    #[test]
    fn who_was_always_held_is_undecided_until_his_demand_was_seen() {
        let undecided = |waiting: &Waiting| {
            undecided(waiting, ["loop".into()].iter(), &FindingParams::default())
        };
        let mut waiting = watched(&["loop"], 1);
        let behind = BTreeMap::from([("loop".into(), 0.3)]);
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        (0..40).for_each(|_| waiting.see(&waits, &BTreeMap::new(), 0.0));
        assert!(undecided(&waiting) && shown(&waiting, &["loop"]).is_empty());
        (0..8).for_each(|_| waiting.see(&waits, &asked(&["loop"], 1.0), 0.0));
        assert!(!undecided(&waiting));
        assert_eq!(shown(&waiting, &["loop"]), ["loop"]);
    }

    #[test]
    fn one_alone_needs_no_relief_and_after_a_while_all_are_named() {
        assert_eq!(shown(&watched(&["loop"], 20), &["loop"]), ["loop"]);
        let both = ["loop", "rate"];
        let mut waiting = watched(&both, 80);
        assert_eq!(shown(&waiting, &both), both);
        assert!(open(&waiting, &both).is_empty());
        waiting.relieve(&asked(&["loop"], 1.0));
        assert_eq!(shown(&waiting, &both), ["loop"], "it can be tried: the other is to be as well");
        assert_eq!(open(&waiting, &both), [("loop".into(), true), ("rate".into(), false)]);
    }
}
