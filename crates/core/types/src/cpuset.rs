//! Sets of CPUs in the kernel's list notation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// The highest CPU number that is accepted; Linux itself stops at 8192 CPUs.
const MAX_CPU: u32 = 65_535;

/// A set of logical CPUs. Its text form is the kernel's list: `0-3,8`. Clones share the set: each
/// sample carries one for every group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(Arc<BTreeSet<u32>>);

/// A text that is no CPU list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a CPU list like 0-3,8: {0:?}")]
pub struct ParseCpuSetError(String);

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of one CPU.
    #[must_use]
    pub fn of(cpu: u32) -> Self {
        [cpu].into_iter().collect()
    }

    /// How many CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` belongs to it.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether all of `self` lies in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether they share no CPU.
    #[must_use]
    pub fn is_disjoint(&self, other: &CpuSet) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// CPUs of either.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.0.union(&other.0).copied().collect()
    }

    /// CPUs of both.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.0.intersection(&other.0).copied().collect()
    }

    /// CPUs of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.0.difference(&other.0).copied().collect()
    }

    /// Adds a CPU; false if it was there.
    pub fn insert(&mut self, cpu: u32) -> bool {
        Arc::make_mut(&mut self.0).insert(cpu)
    }

    /// In rising order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The lowest `n` CPUs.
    #[must_use]
    pub fn first(&self, n: usize) -> CpuSet {
        self.iter().take(n).collect()
    }

    /// The highest `n` CPUs.
    #[must_use]
    pub fn last(&self, n: usize) -> CpuSet {
        self.iter().rev().take(n).collect()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        CpuSet(Arc::new(cpus.into_iter().collect()))
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Reads the kernel's list notation; white space around it and an empty text (the empty set)
    /// are accepted, as the kernel prints them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseCpuSetError(text.chars().take(80).collect());
        // Digits only: Rust's own reader would take a sign, too.
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        let read = |s: &str| s.parse::<u32>().ok().filter(|&n| n <= MAX_CPU && digits(s));
        let number = |s: &str| read(s).ok_or_else(bad);
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(part)?, number(part)?),
            };
            if low > high {
                return Err(bad());
            }
            cpus.extend(low..=high);
        }
        Ok(CpuSet(Arc::new(cpus)))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut first = true;
        while let Some(low) = cpus.next() {
            let mut high = low;
            while let Some(next) = cpus.next_if(|&next| next - 1 == high) {
                high = next;
            }
            if !std::mem::take(&mut first) {
                f.write_str(",")?;
            }
            if low == high { write!(f, "{low}")? } else { write!(f, "{low}-{high}")? }
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = ParseCpuSetError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}

impl JsonSchema for CpuSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CpuSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "CPUs in the kernel's list notation, as 0-3,8"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_the_kernel_prints() {
        for (text, count, back) in [
            ("0-3,8\n", 5, "0-3,8"),
            ("", 0, ""),
            ("\n", 0, ""),
            ("1", 1, "1"),
            ("0,1,2", 3, "0-2"),
        ] {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!((set.len(), set.to_string().as_str()), (count, back), "{text:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_list() {
        for text in ["a", "3-1", "-1", "1-", "0,,1", "1,", "99999999", "0x3", "1-2-3", "+1", "0-+3"]
        {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_beyond_any_machine_can_be_printed() {
        let set: CpuSet = [0, u32::MAX - 1, u32::MAX].into_iter().collect();
        assert_eq!(set.to_string(), "0,4294967294-4294967295");
    }

    proptest! {
        #[test]
        fn text_and_set_agree(cpus in proptest::collection::btree_set(0u32..300, 0..40)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
