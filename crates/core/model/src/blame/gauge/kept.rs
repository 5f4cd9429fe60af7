//! Who drives others out of the caches, by what is left in them of lines that were read before in its turns.
//!
//! # Problem
//! Who fills the shared cache does so for everybody: who runs beside it just now, or did a moment before,
//! reads from memory what it had in there. So nothing that is compared between moments tells who it is, and
//! to hold it for 25 ms shows little where requests scatter. What each group holds of the cache is counted by
//! the processor, which most virtual machines do not tell.
//!
//! # Idea
//! The kernel's gauge reads sixteen lines where a group's task has a CPU, and again some milliseconds later in
//! the same turn (`crates/sys/ebpf/bpf/kept.h`). Who computes, or has a table that fits in the CPU's own
//! second cache, finds them there; who runs through more drives them out into the shared one; and who fills
//! that one, too, out of it, so that they come from memory. Others hardly take part in that: what they do on
//! other CPUs never reaches the second cache. So it is a measure of each group by itself, in the time of a
//! read of memory, which the gauge's other samples tell, so that it means the same on any machine.
//!
//! That is no harm yet: a service need not have use for the shared cache. It makes guilt likelier, as loads on
//! memory do, eight times at most; and of who presses so hard and was not shown to be harmless it is said
//! that it may do a little harm ([`Slight`](super::super::Slight)).
//!
//! # Units
//! ns for a line; shares of what memory takes, 0..1.
//!
//! # Pseudo-code
//! ```text
//! line(g)        = geometric mean over its samples of the last twenty seconds or so, for one of sixteen lines
//! read           = the same of reads of memory at random, beside anybody
//! driven out(g)  = (line(g) / read - 0.05) / (0.5 - 0.05), within 0..1: what lies in the second cache takes a
//!                  twentieth of a read of memory; what was driven out takes half, since such a read looks up
//!                  a page besides
//! weight(g)      = MOST_LN * (driven out - 0.3) / 0.4, within 0..MOST_LN
//! ```
//!
//! # Degradation
//! Who never has a CPU for half a millisecond has no samples; nor has anybody where the kernel lets no program
//! be at a CPU's timer and turns do not end. Where the host's other guests fill the shared cache, who runs
//! through more than the second one finds nothing left in it either: then what a middling table drives out
//! looks like more.
//!
//! Source: A-21, B-2, T-3; issue "Name the polluter and limit only it" (each workload's own activity).

use super::memory::MOST_LN;
use super::moments::Moments;
use super::{EIGHTH_LN, MEMORY_S};
use quell_types::{GaugeCounts, GaugeReading, Tenant};
use std::collections::BTreeMap;

/// Lines of a sample, and reads of memory of one.
const LINES: f64 = 16.0;
const READS: f64 = 4.0;
/// From 2^7 ns on times are told.
const FROM_NS: f64 = 128.0;
/// Fewest samples of a group.
const LEAST: f64 = 10.0;
/// Of the time of a read of memory, what a line takes that is where it was, and one that was driven out.
const STAYED_FRAC: f64 = 0.05;
const GONE_FRAC: f64 = 0.5;
/// From so much on it counts, and from so much on in full.
const COUNTS_FROM: f64 = 0.3;
const IN_FULL_FROM: f64 = 0.7;

/// How much of what lies in the caches somebody drives out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrivesOut {
    /// Its share, 0..1.
    pub frac: f64,
    /// What a line takes in its turns, in ns.
    pub line_ns: f64,
    /// What a read of memory takes, in ns.
    pub read_ns: f64,
    /// Samples of its turns, old ones counting less.
    pub samples: f64,
}

impl DrivesOut {
    /// ln of how many times as likely that makes its guilt.
    fn weight_ln(self) -> f64 {
        let share = (self.frac - COUNTS_FROM) / (IN_FULL_FROM - COUNTS_FROM);
        MOST_LN * share.clamp(0.0, 1.0)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    of: BTreeMap<Tenant, Moments>,
}

impl Kept {
    pub(super) fn keep(&mut self, cpus: &BTreeMap<Tenant, f64>) {
        self.of.retain(|tenant, _| cpus.contains_key(tenant));
    }

    pub(super) fn forget(&mut self, suspect: &Tenant) {
        self.of.remove(suspect);
    }

    pub(super) fn learn(&mut self, passed_s: f64, old: &GaugeReading, new: &GaugeReading) {
        let keep = libm::exp(-passed_s / MEMORY_S);
        for (tenant, after) in &new.beside {
            let more = grown(old.beside.get(tenant), after);
            self.of.entry(tenant.clone()).or_default().fade(keep, more);
        }
    }

    /// What one drives out, where four reads of memory take so long, in ln above 128 ns; none before enough
    /// is known of it.
    pub(super) fn drives_out(&self, suspect: &Tenant, reads_ln: Option<f64>) -> Option<DrivesOut> {
        let own = self.of.get(suspect).filter(|own| own.count >= LEAST)?;
        let line_ns = FROM_NS * libm::exp(own.mean()) / LINES;
        let read_ns = FROM_NS * libm::exp(reads_ln?) / READS;
        let frac = (line_ns / read_ns - STAYED_FRAC) / (GONE_FRAC - STAYED_FRAC);
        Some(DrivesOut { frac: frac.clamp(0.0, 1.0), line_ns, read_ns, samples: own.count })
    }

    /// ln of how many times as likely that makes the guilt of each, where it makes it so.
    pub(super) fn weights_ln(&self, reads_ln: Option<f64>) -> BTreeMap<Tenant, f64> {
        let one = |tenant: &Tenant| {
            let weight_ln = self.drives_out(tenant, reads_ln)?.weight_ln();
            (weight_ln > 0.0).then(|| (tenant.clone(), weight_ln))
        };
        self.of.keys().filter_map(one).collect()
    }
}

/// Samples of its own turns between two readings, in ln.
fn grown(before: Option<&GaugeCounts>, after: &GaugeCounts) -> Moments {
    let (samples, took, squares) =
        before.map_or((0, 0, 0), |c| (c.kept_samples, c.kept, c.kept_squares));
    Moments {
        count: after.kept_samples.saturating_sub(samples) as f64,
        sum: EIGHTH_LN * after.kept.saturating_sub(took) as f64,
        squares: EIGHTH_LN * EIGHTH_LN * after.kept_squares.saturating_sub(squares) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As measured on an EPYC host: reads of memory of 480 ns, so many samples in which a line takes this.
    fn driven_out(samples: u64, line_ns: f64) -> Option<DrivesOut> {
        let took = libm::round(8.0 * libm::log2(16.0 * line_ns / 128.0)) as u64;
        let of = GaugeCounts {
            kept_samples: samples,
            kept: samples * took,
            kept_squares: samples * took * took,
            ..GaugeCounts::default()
        };
        let new = GaugeReading { beside: [("a".into(), of)].into(), ..GaugeReading::default() };
        let mut kept = Kept::default();
        kept.learn(1.0, &GaugeReading::default(), &new);
        kept.drives_out(&"a".into(), Some(libm::log(4.0 * 480.0 / 128.0)))
    }

    #[test]
    fn who_fills_the_cache_is_told_from_who_computes() {
        let cases = [
            ("a loop", 19.1, 0.0..0.05),
            ("l2-capacity", 49.7, 0.0..0.2),
            ("gzip", 57.6, 0.1..0.25),
            ("md5sum", 82.6, 0.2..0.3),
            ("xz", 125.0, 0.4..0.6),
            ("stress-ng --stream", 175.0, 0.6..0.8),
            ("llc-capacity", 215.0, 0.8..0.95),
            ("memory-bandwidth", 269.0, 0.95..1.01),
        ];
        for (name, line_ns, share) in cases {
            let told = driven_out(200, line_ns).unwrap();
            assert!(share.contains(&told.frac), "{name}: {told:?}");
            assert_eq!(told.weight_ln() > 0.0, told.frac > COUNTS_FROM, "{name}");
        }
    }

    #[test]
    fn few_samples_or_no_reads_of_memory_tell_nothing() {
        assert!(driven_out(9, 215.0).is_none());
        let kept =
            Kept { of: [("a".into(), Moments { count: 50.0, sum: 1.0, squares: 1.0 })].into() };
        assert!(kept.drives_out(&"a".into(), None).is_none());
        assert!(kept.weights_ln(None).is_empty());
    }

    proptest! {
        #[test]
        fn shares_and_weights_are_bounded(samples in 10u64..1000, line_ns in 8.0f64..2000.0) {
            let told = driven_out(samples, line_ns).unwrap();
            prop_assert!((0.0..=1.0).contains(&told.frac));
            prop_assert!((0.0..=MOST_LN).contains(&told.weight_ln()));
        }
    }
}
