//! In what order to write CPU sets so that no two of them ever overlap (T-16).

use quell_types::CpuSet;
use std::collections::BTreeMap;
use thiserror::Error;

/// The groups exchange single CPUs, and no CPU is free to go round by: exclusivity has to be
/// lifted first.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no order of writes keeps the CPU sets apart: {0} groups exchange CPUs and none is free")]
pub struct NoOrder(pub usize);

/// Orders the change of sibling groups' CPU sets from `current` to `wanted`: **those that shrink
/// come first, then those that move to other CPUs, those that only grow last**. A group that moves
/// goes as soon as its new CPUs are free; groups that exchange CPUs go round by way of a free CPU,
/// or of one that a moving group can spare.
///
/// If the sets of `current` do not overlap, nor those of `wanted`, then no two sets overlap after
/// any of the writes, and none is ever empty. A group only in `current` keeps its CPUs; one only in
/// `wanted` has none yet. An empty wanted set is passed over.
///
/// # Errors
/// [`NoOrder`] if somebody wants a CPU that another keeps, or if groups exchange their only CPUs
/// and nobody who shrinks or moves leaves one free.
pub fn order_cpuset_writes<K: Ord + Clone>(
    current: &BTreeMap<K, CpuSet>,
    wanted: &BTreeMap<K, CpuSet>,
) -> Result<Vec<(K, CpuSet)>, NoOrder> {
    let mut plan = Plan::new(current, wanted);
    plan.shrink();
    // Each mover gives up, moves aside, arrives in part and as a whole once at most. Only sets that
    // overlap from the beginning can need more.
    for _ in 0..4 * wanted.len() {
        if !plan.move_one() {
            break;
        }
    }
    while plan.settle(&plan.open()) {}
    match plan.open().len() {
        0 => Ok(plan.writes),
        left => Err(NoOrder(left)),
    }
}

struct Plan<'a, K> {
    held: BTreeMap<K, CpuSet>,
    wanted: BTreeMap<&'a K, &'a CpuSet>,
    all: CpuSet,
    writes: Vec<(K, CpuSet)>,
}

impl<'a, K: Ord + Clone> Plan<'a, K> {
    fn new(current: &BTreeMap<K, CpuSet>, wanted: &'a BTreeMap<K, CpuSet>) -> Self {
        let sets = current.values().chain(wanted.values());
        let all = sets.fold(CpuSet::new(), |all, set| all.union(set));
        let wanted = wanted.iter().filter(|(_, set)| !set.is_empty()).collect();
        Self { held: current.clone(), wanted, all, writes: Vec::new() }
    }

    fn has(&self, key: &K) -> CpuSet {
        self.held.get(key).cloned().unwrap_or_default()
    }

    /// Groups that do not have what they shall have.
    fn open(&self) -> Vec<(K, CpuSet)> {
        let differs = |(key, set): &(&&K, &&CpuSet)| self.held.get(**key) != Some(**set);
        let pairs = self.wanted.iter().filter(differs);
        pairs.map(|(key, set)| ((*key).clone(), (*set).clone())).collect()
    }

    /// Open groups that hold nothing of what they shall have. The others stand in nobody's way.
    fn movers(&self) -> Vec<(K, CpuSet)> {
        let mut open = self.open();
        open.retain(|(key, wanted)| {
            let has = self.has(key);
            !has.is_empty() && has.is_disjoint(wanted)
        });
        open
    }

    /// CPUs that nobody holds.
    fn free(&self) -> CpuSet {
        self.held.values().fold(self.all.clone(), |free, set| free.difference(set))
    }

    fn write(&mut self, key: K, cpus: CpuSet) {
        self.held.insert(key.clone(), cpus.clone());
        self.writes.push((key, cpus));
    }

    /// CPUs that groups other than `key` hold.
    fn of_others(&self, key: &K) -> CpuSet {
        let others = self.held.iter().filter(|(other, _)| *other != key);
        others.fold(CpuSet::new(), |all, (_, set)| all.union(set))
    }

    /// First pass: each gives up what it shall not keep, as long as something is left.
    fn shrink(&mut self) {
        for (key, wanted) in self.open() {
            let kept = self.has(&key).intersection(&wanted);
            if !kept.is_empty() && kept != self.has(&key) {
                self.write(key, kept);
            }
        }
    }

    /// The first of these that can takes what it shall have: all of it is free.
    fn settle(&mut self, groups: &[(K, CpuSet)]) -> bool {
        let can = |(key, wanted): &&(K, CpuSet)| wanted.is_disjoint(&self.of_others(key));
        let Some((key, wanted)) = groups.iter().find(can).cloned() else { return false };
        self.write(key, wanted);
        true
    }

    /// Second pass: brings one mover further. A CPU that is free stays so in effect: who takes it
    /// leaves another.
    fn move_one(&mut self) -> bool {
        let movers = self.movers();
        self.settle(&movers)
            || self.arrive_in_part(&movers)
            || self.spare(&movers)
            || self.step_aside(&movers)
    }

    /// One takes a single CPU of those that it shall have; the rest comes last.
    fn arrive_in_part(&mut self, movers: &[(K, CpuSet)]) -> bool {
        let free = self.free();
        let there = |(key, wanted): &(K, CpuSet)| {
            let part = wanted.intersection(&free).first(1);
            (!part.is_empty()).then(|| (key.clone(), part))
        };
        let Some((key, part)) = movers.iter().find_map(there) else { return false };
        self.write(key, part);
        true
    }

    /// One with several CPUs keeps a single one.
    fn spare(&mut self, movers: &[(K, CpuSet)]) -> bool {
        let Some((key, _)) = movers.iter().find(|(key, _)| self.has(key).len() > 1) else {
            return false;
        };
        self.write(key.clone(), self.has(key).first(1));
        true
    }

    /// Breaks a ring: one that stands on what another shall have goes to a free CPU.
    fn step_aside(&mut self, movers: &[(K, CpuSet)]) -> bool {
        let free = self.free().first(1);
        let blocks = |(key, _): &&(K, CpuSet)| {
            let has = self.has(key);
            movers.iter().any(|(other, wanted)| other != key && !wanted.is_disjoint(&has))
        };
        match movers.iter().find(blocks) {
            Some((key, _)) if !free.is_empty() => {
                self.write(key.clone(), free);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets(pairs: &[(&'static str, &str)]) -> BTreeMap<&'static str, CpuSet> {
        pairs.iter().map(|(key, cpus)| (*key, cpus.parse().unwrap())).collect()
    }

    fn written(writes: &[(&str, CpuSet)]) -> Vec<String> {
        writes.iter().map(|(key, cpus)| format!("{key}={cpus}")).collect()
    }

    #[test]
    fn the_shrinking_group_is_written_first() {
        let (before, after) =
            (sets(&[("be", "0"), ("lc", "1-3")]), sets(&[("be", "0-1"), ("lc", "2-3")]));
        let growing = order_cpuset_writes(&before, &after).unwrap();
        assert_eq!(written(&growing), ["lc=2-3", "be=0-1"]);
        let back = order_cpuset_writes(&after, &before).unwrap();
        assert_eq!(written(&back), ["be=0", "lc=1-3"]);
    }

    #[test]
    fn groups_can_change_places() {
        let (before, after) =
            (sets(&[("a", "0-1"), ("b", "2-3")]), sets(&[("a", "2-3"), ("b", "0-1")]));
        let writes = order_cpuset_writes(&before, &after).unwrap();
        assert_eq!(written(&writes).last().map(String::as_str), Some("b=0-1"));
    }

    #[test]
    fn single_cpus_cannot_be_exchanged_without_a_free_one() {
        let (before, after) = (sets(&[("a", "0"), ("b", "1")]), sets(&[("a", "1"), ("b", "0")]));
        assert_eq!(order_cpuset_writes(&before, &after), Err(NoOrder(2)));
        let spare = sets(&[("a", "0"), ("b", "1"), ("c", "2-3")]);
        let after = sets(&[("a", "1"), ("b", "0"), ("c", "2")]);
        assert!(order_cpuset_writes(&spare, &after).is_ok(), "c gives up a CPU to go round by");
    }

    #[test]
    fn a_group_that_nobody_names_keeps_its_cpus() {
        let before = sets(&[("a", "0"), ("other", "1")]);
        assert_eq!(order_cpuset_writes(&before, &sets(&[("a", "1")])), Err(NoOrder(1)));
        assert_eq!(order_cpuset_writes(&before, &before), Ok(vec![]));
    }

    #[test]
    fn who_comes_new_waits_for_who_moves() {
        let before = sets(&[("a", "1-2"), ("b", "0,3")]);
        let after = sets(&[("a", "0"), ("b", "1"), ("new", "2-3")]);
        let writes = order_cpuset_writes(&before, &after).unwrap();
        assert_eq!(written(&writes).last().map(String::as_str), Some("new=2-3"));
    }

    /// Owner (0..5, 5 = nobody) of each CPU.
    fn partition(owners: &[u8]) -> BTreeMap<u8, CpuSet> {
        let mut sets: BTreeMap<u8, CpuSet> = BTreeMap::new();
        for (cpu, &owner) in owners.iter().enumerate().filter(|(_, owner)| **owner < 5) {
            sets.entry(owner).or_default().insert(u32::try_from(cpu).unwrap());
        }
        sets
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn overlapping_sets_are_answered_too(
            owners in proptest::collection::vec((0u8..64, 0u8..6), 1..10),
        ) {
            let (before, after): (Vec<u8>, Vec<u8>) = owners.into_iter().unzip();
            let mut shared: BTreeMap<u8, CpuSet> = BTreeMap::new();
            for (cpu, bits) in before.iter().enumerate() {
                for owner in (0..5).filter(|owner| bits >> owner & 1 == 1) {
                    shared.entry(owner).or_default().insert(u32::try_from(cpu).unwrap());
                }
            }
            let after = partition(&after);
            if let Ok(writes) = order_cpuset_writes(&shared, &after) {
                shared.extend(writes);
                prop_assert!(after.iter().all(|(key, cpus)| shared.get(key) == Some(cpus)));
            }
        }

        #[test]
        fn exclusive_sets_never_overlap(
            owners in proptest::collection::vec((0u8..6, 0u8..6), 1..12),
        ) {
            let (before, after): (Vec<u8>, Vec<u8>) = owners.into_iter().unzip();
            let (before, after) = (partition(&before), partition(&after));
            let mut held = before.clone();
            match order_cpuset_writes(&before, &after) {
                Ok(writes) => {
                    for (key, cpus) in writes {
                        prop_assert!(!cpus.is_empty());
                        held.insert(key, cpus);
                        for (a, left) in &held {
                            for (_, right) in held.iter().filter(|(b, _)| *b > a) {
                                prop_assert!(left.is_disjoint(right), "{held:?}");
                            }
                        }
                    }
                    for (key, cpus) in &after {
                        prop_assert_eq!(held.get(key), Some(cpus));
                    }
                }
                Err(_) => {
                    // Only where somebody keeps CPUs that others want for good, or who moves has
                    // a single CPU.
                    let stays = before.keys().any(|key| !after.contains_key(key));
                    let single = before.values().any(|set| set.len() == 1);
                    prop_assert!(stays || single);
                }
            }
        }
    }
}
