//! The kernel's notation of lists: `0-1,3`.

use std::collections::BTreeSet;

/// None if it is no list.
pub(super) fn parse(text: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        if low > high || high > 10_000 {
            return None;
        }
        all.extend(low..=high);
    }
    Some(all)
}

pub(super) fn print(all: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in all {
        match runs.last_mut() {
            Some((_, high)) if *high + 1 == *cpu => *high = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let text = |(low, high): &(u32, u32)| {
        if low == high { low.to_string() } else { format!("{low}-{high}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",") + "\n"
}
