//! What was counted from one reading to the next.

use quell_types::{GaugeCounts, Tenant};
use std::collections::BTreeMap;

/// How much counts have grown; they wrap with 32 bits.
pub(super) fn grown<'a>(
    before: &'a [u32],
    after: &'a [u32],
) -> impl ExactSizeIterator<Item = f64> + 'a {
    let old = |slot: usize| before.get(slot).copied().unwrap_or(0);
    after.iter().enumerate().map(move |(slot, new)| f64::from(new.wrapping_sub(old(slot))))
}

/// Everybody of whom something was counted, with what it was before if that is known. Both rise, so nobody is
/// looked up.
pub(super) fn both<'a>(
    old: &'a BTreeMap<Tenant, GaugeCounts>,
    new: &'a BTreeMap<Tenant, GaugeCounts>,
) -> impl Iterator<Item = (&'a Tenant, Option<&'a GaugeCounts>, &'a GaugeCounts)> {
    let mut before = old.iter().peekable();
    new.iter().map(move |(tenant, after)| {
        while before.next_if(|(known, _)| *known < tenant).is_some() {}
        let known = before.next_if(|(known, _)| *known == tenant);
        (tenant, known.map(|(_, counts)| counts), after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_from_nothing_and_wrap() {
        let grew = |before: &[u32], after: &[u32]| grown(before, after).collect::<Vec<f64>>();
        assert_eq!(grew(&[1, 2], &[3, 2, 4]), [2.0, 0.0, 4.0]);
        assert_eq!(grew(&[u32::MAX], &[1]), [2.0]);
        assert_eq!(grew(&[5], &[]), Vec::<f64>::new());
    }

    #[test]
    fn who_is_new_or_gone_moves_nobody_else() {
        let reading = |of: &[(&str, u32)]| -> BTreeMap<Tenant, GaugeCounts> {
            let one = |(name, count): &(&str, u32)| {
                ((*name).into(), GaugeCounts { slots: vec![*count], ..GaugeCounts::default() })
            };
            of.iter().map(one).collect()
        };
        let old = reading(&[("a", 1), ("b", 2), ("d", 4)]);
        let new = reading(&[("b", 20), ("c", 30), ("d", 40), ("e", 50)]);
        let told: Vec<(&str, Option<u32>, u32)> = both(&old, &new)
            .map(|(t, before, after)| (t.as_str(), before.map(|c| c.slots[0]), after.slots[0]))
            .collect();
        assert_eq!(
            told,
            [("b", Some(2), 20), ("c", None, 30), ("d", Some(4), 40), ("e", None, 50)]
        );
    }
}
