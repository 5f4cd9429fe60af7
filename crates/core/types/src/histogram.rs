//! A log-scaled histogram: the shape in which latencies leave the kernel.
//!
//! Every power of two is cut into [`SUB_BUCKETS`] equal slots, so a slot is at most 1/8 of its
//! value wide and a quantile is right within 6 %. Values are unitless here; latencies are
//! nanoseconds. The eBPF programs fill the same slots (`slot_of` there and here must agree).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slots to each power of two.
pub const SUB_BUCKETS: usize = 8;
const SUB_BITS: u32 = 3;
const OCTAVES: usize = 36;
/// Slots in all: values up to 2^38 (274 s in nanoseconds); larger ones land in the last slot.
pub const SLOTS: usize = SUB_BUCKETS * OCTAVES;

/// Counts by slot. Counts only grow in a reading; windows are differences of readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Recorded")]
#[schemars(!from)]
pub struct LogHistogram {
    counts: Vec<u64>,
}

/// A histogram as it stands in a recording, which others may have written: with any number of
/// slots.
#[derive(Deserialize)]
struct Recorded {
    counts: Vec<u64>,
}

impl From<Recorded> for LogHistogram {
    fn from(recorded: Recorded) -> Self {
        Self::from_counts(&recorded.counts)
    }
}

impl LogHistogram {
    /// No values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From raw counts, slot 0 first; what lies beyond [`SLOTS`] is added to the last slot.
    #[must_use]
    pub fn from_counts(raw: &[u64]) -> Self {
        let mut counts = raw.iter().take(SLOTS).copied().collect::<Vec<_>>();
        if raw.len() > SLOTS {
            let beyond = sum(&raw[SLOTS..]);
            counts[SLOTS - 1] = counts[SLOTS - 1].saturating_add(beyond);
        }
        let used = counts.iter().rposition(|&c| c > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Self { counts }
    }

    /// The slot of a value.
    #[must_use]
    pub fn slot_of(value: u64) -> usize {
        let exponent = 63 - value.max(1).leading_zeros();
        if exponent < SUB_BITS {
            return (value as usize) & (SUB_BUCKETS - 1);
        }
        let sub = (value >> (exponent - SUB_BITS)) as usize & (SUB_BUCKETS - 1);
        (((exponent - SUB_BITS + 1) as usize) * SUB_BUCKETS + sub).min(SLOTS - 1)
    }

    /// The smallest value of a slot.
    #[must_use]
    pub fn lower_bound(slot: usize) -> u64 {
        if slot < SUB_BUCKETS {
            return slot as u64;
        }
        let shift = slot / SUB_BUCKETS - 1;
        ((SUB_BUCKETS + slot % SUB_BUCKETS) as u64) << shift
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value `times` times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        let slot = Self::slot_of(value);
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] = self.counts[slot].saturating_add(times);
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        sum(&self.counts)
    }

    /// Sum of all values, each taken as the middle of its slot: right within 6 %.
    #[must_use]
    pub fn total(&self) -> f64 {
        let middle = |slot| (Self::lower_bound(slot) + Self::lower_bound(slot + 1)) as f64 / 2.0;
        let each = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        each.map(|(slot, count)| *count as f64 * middle(slot)).sum()
    }

    /// Counts by slot, trailing zeros left out.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &LogHistogram) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// The values that came since `earlier`, an older reading of the same counter. A slot that
    /// shrank (the counter was made anew) counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &LogHistogram) -> LogHistogram {
        let mut counts = self.counts.clone();
        for (now, before) in counts.iter_mut().zip(&earlier.counts) {
            *now = now.checked_sub(*before).unwrap_or(*now);
        }
        let used = counts.iter().rposition(|&c| c > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Self { counts }
    }

    /// The value below which the share `p` (0..1) of all values lies, interpolated within its
    /// slot; none if there are no values.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        self.quantiles([p]).map(|[value]| value)
    }

    /// The same for several shares; none if there are no values.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[f64; N]> {
        let total = self.count();
        let first = self.counts.iter().position(|count| *count > 0)?;
        Some(shares.map(|p| self.quantile_of(first, total, p)))
    }

    /// The quantile of so many values, the least of which lie in slot `first`.
    fn quantile_of(&self, first: usize, total: u64, p: f64) -> f64 {
        let wanted = (total as f64 * p.clamp(0.0, 1.0)).max(1.0);
        let mut below = 0.0;
        let used = self.counts.iter().enumerate().skip(first);
        for (slot, &count) in used.filter(|(_, count)| **count > 0) {
            if below + count as f64 >= wanted {
                let low = Self::lower_bound(slot) as f64;
                let high = Self::lower_bound(slot + 1) as f64;
                return low + (wanted - below) / count as f64 * (high - low);
            }
            below += count as f64;
        }
        Self::lower_bound(self.counts.len()) as f64
    }
}

/// All together; a source that tells absurd counts gets the largest number.
fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_follow_each_other_without_holes() {
        for slot in 0..SLOTS - 1 {
            let low = LogHistogram::lower_bound(slot);
            let next = LogHistogram::lower_bound(slot + 1);
            assert!(next > low, "slot {slot}");
            assert_eq!(LogHistogram::slot_of(low), slot);
            assert_eq!(LogHistogram::slot_of(next - 1), slot);
        }
        assert_eq!(LogHistogram::slot_of(u64::MAX), SLOTS - 1);
    }

    #[test]
    fn a_counter_made_anew_counts_from_zero() {
        let (mut old, mut new) = (LogHistogram::new(), LogHistogram::new());
        old.record_many(100, 50);
        new.record_many(100, 3);
        assert_eq!(new.since(&old).count(), 3);
    }

    #[test]
    fn absurd_counts_are_no_overflow() {
        let mut histogram = LogHistogram::from_counts(&[u64::MAX; SLOTS + 3]);
        histogram.record(0);
        histogram.merge(&histogram.clone());
        assert_eq!(histogram.count(), u64::MAX);
        assert!(histogram.quantile(1.0).is_some());
    }

    #[test]
    fn a_recording_has_no_more_slots_than_there_are() {
        let text = serde_json::json!({ "counts": vec![1u64; 3 * SLOTS] }).to_string();
        let histogram: LogHistogram = serde_json::from_str(&text).unwrap();
        assert_eq!(histogram.counts().len(), SLOTS);
        assert_eq!(histogram.count(), 3 * SLOTS as u64);
        assert!(histogram.quantile(1.0).is_some());
        let again = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<LogHistogram>(&again).unwrap(), histogram);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_within_a_slot(mut values in proptest::collection::vec(1u64..10_000_000, 1..200), p in 0.01f64..1.0) {
            let mut h = LogHistogram::new();
            values.iter().for_each(|&v| h.record(v));
            values.sort_unstable();
            let rank = ((values.len() as f64 * p).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let got = h.quantile(p).unwrap();
            prop_assert!((got - exact).abs() <= exact / 8.0 + 1.0, "{got} against {exact}");
        }

        #[test]
        fn a_difference_undoes_a_merge(a in proptest::collection::vec(0u64..1_000_000, 0..50), b in proptest::collection::vec(0u64..1_000_000, 0..50)) {
            let (mut ha, mut hb) = (LogHistogram::new(), LogHistogram::new());
            a.iter().for_each(|&v| ha.record(v));
            b.iter().for_each(|&v| hb.record(v));
            let mut both = ha.clone();
            both.merge(&hb);
            prop_assert_eq!(both.since(&ha), hb);
        }
    }
}
