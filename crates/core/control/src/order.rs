//! The order of writes.
//!
//! Tighten before loosen: a CPU, a way or a rate is taken from one before it is given to another,
//! so exclusive sets never overlap and the service is never squeezed in between (T-16: the
//! shrinking group is written first). A CPU set that moves (neither shrinks nor grows) is first
//! cut to what it keeps, then set.

use quell_types::{Action, Knob, Reading, Setting};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Actions that bring `current` to `wanted`, in an order in which sets never overlap midway.
#[must_use]
pub fn order_actions(
    current: &BTreeMap<Knob, Reading<Setting>>,
    wanted: &[(Knob, Setting)],
) -> Vec<Action> {
    let mut cuts = Vec::new();
    let mut ranked: Vec<(u8, &Knob, &Setting)> = Vec::new();
    for (knob, to) in wanted {
        let from = current.get(knob).and_then(|r| r.as_ref().ok());
        if let Some(kept) = from.and_then(|from| kept_of(from, to)) {
            cuts.push(Action::Set { knob: knob.clone(), to: kept });
        }
        ranked.push((rank(from, to), knob, to));
    }
    ranked.sort_by_key(|(rank, ..)| *rank);
    let sets =
        ranked.into_iter().map(|(_, knob, to)| Action::Set { knob: knob.clone(), to: to.clone() });
    cuts.into_iter().chain(sets).collect()
}

/// What a moving CPU set or mask keeps, if it keeps something and loses something.
fn kept_of(from: &Setting, to: &Setting) -> Option<Setting> {
    if from.compare_freedom(to).is_some() {
        return None;
    }
    match (from, to) {
        (Setting::Cpus(from), Setting::Cpus(to)) => {
            Some(from.intersection(to)).filter(|kept| !kept.is_empty()).map(Setting::Cpus)
        }
        _ => None,
    }
}

/// Freezing first, then what tightens, then what is unknown or moves, then what loosens.
fn rank(from: Option<&Setting>, to: &Setting) -> u8 {
    let change = from.and_then(|from| to.compare_freedom(from));
    match (to, change) {
        (Setting::Flag(true), _) => 0,
        (_, Some(Ordering::Less)) => 1,
        (_, None) => 2,
        (Setting::Flag(false), _) => 4,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quell_types::{CpuSet, Tenant};

    fn cpus(name: &str) -> Knob {
        Knob::Cpus { tenant: Tenant::from(name) }
    }

    #[test]
    fn the_shrinking_group_is_written_first() {
        let set = |s: &str| Setting::Cpus(s.parse().unwrap());
        let current = BTreeMap::from([(cpus("be"), Ok(set("0-1"))), (cpus("lc"), Ok(set("2-3")))]);
        let wanted = [(cpus("lc"), set("1-3")), (cpus("be"), set("0"))];
        let actions = order_actions(&current, &wanted);
        let first = Action::Set { knob: cpus("be"), to: set("0") };
        assert_eq!((actions.len(), &actions[0]), (2, &first));
    }

    proptest! {
        /// Whatever split follows whatever split: played one by one, the sets never overlap.
        #[test]
        fn sets_never_overlap_midway(from in 1u32..8, to in 1u32..8, third in 0u32..3) {
            let split = |n: u32| -> (CpuSet, CpuSet) { ((0..n).collect(), (n..8).collect()) };
            let ((be0, lc0), (be1, lc1)) = (split(from), split(to));
            let mut now = BTreeMap::from([
                (cpus("be"), Ok(Setting::Cpus(be0))),
                (cpus("lc"), Ok(Setting::Cpus(lc0))),
            ]);
            let mut wanted = vec![(cpus("be"), Setting::Cpus(be1)), (cpus("lc"), Setting::Cpus(lc1))];
            wanted.rotate_left(third as usize % 2);
            for action in order_actions(&now.clone(), &wanted) {
                let Action::Set { knob, to } = action else { panic!("only sets") };
                now.insert(knob, Ok(to));
                let get = |k: &Knob| match now[k].clone().unwrap() { Setting::Cpus(s) => s, o => panic!("{o:?}") };
                prop_assert!(get(&cpus("be")).is_disjoint(&get(&cpus("lc"))));
            }
        }
    }
}
