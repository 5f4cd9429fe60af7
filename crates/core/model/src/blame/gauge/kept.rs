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
//! How long a turn goes on is the scheduler's doing: so it is told how much is driven out in a millisecond.
//!
//! # Units
//! ns for a line; shares of what lies in the caches in a millisecond.
//!
//! # Pseudo-code
//! ```text
//! line(g)   = geometric mean over its samples of the last twenty seconds or so, for one of sixteen lines
//! read      = the same of reads of memory at random, beside anybody
//! gone(g)   = (line(g) / read - 0.05) / (0.5 - 0.05): what lies in the second cache takes a twentieth of a read
//!             of memory; what was driven out takes half, since such a read looks up a page besides
//! per ms(g) = -ln(1 - gone(g)) / how long lines were left, on average
//! weight(g) = MOST_LN * (per ms - 0.05) / 0.2, within 0..MOST_LN
//! ```
//!
//! # Degradation
//! Who never has a CPU for 0.3 ms has no samples; nor has anybody where the kernel lets no program
//! be at a CPU's timer and turns do not end. Where the host's other guests fill the shared cache, who runs
//! through more than the second one finds nothing left in it either: then what a middling table drives out
//! looks like more.
//!
//! Source: A-21, B-2, T-3; issue "Name the polluter and limit only it" (each workload's own activity).

use super::memory::MOST_LN;
use super::{EIGHTH_LN, MEMORY_S};
use quell_types::{GaugeCounts, GaugeReading, KeptCounts, Tenant};
use std::collections::BTreeMap;

const LINES: f64 = KeptCounts::LINES;
const READS: f64 = GaugeCounts::READS;
const FROM_NS: f64 = GaugeCounts::FROM_NS;
/// Fewest samples of a group.
const LEAST: f64 = 10.0;
/// Of the time of a read of memory, what a line takes that is where it was, and one that was driven out.
const STAYED_FRAC: f64 = 0.05;
const GONE_FRAC: f64 = 0.5;
/// More than this of what is gone cannot be told from all.
const MOST_GONE: f64 = 0.97;
/// From so much in a millisecond on it counts, and from so much on in full.
const COUNTS_FROM: f64 = 0.05;
const IN_FULL_FROM: f64 = 0.25;

/// How much of what lies in the caches somebody drives out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrivesOut {
    /// In a millisecond of its CPU time, as ln of what was there over what is left.
    pub per_ms: f64,
    /// What a line takes that was left for so long in its turns, in ns.
    pub line_ns: f64,
    /// How long lines were left, in ms.
    pub left_ms: f64,
    /// What a read of memory takes, in ns.
    pub read_ns: f64,
    /// Samples of its turns, old ones counting less.
    pub samples: f64,
}

impl DrivesOut {
    /// ln of how many times as likely that makes its guilt.
    pub(super) fn weight_ln(self) -> f64 {
        let share = (self.per_ms - COUNTS_FROM) / (IN_FULL_FROM - COUNTS_FROM);
        MOST_LN * share.clamp(0.0, 1.0)
    }
}

/// Samples, what lines took in them in ln, and how long they were left in ms, as of a moment: old ones fade.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Turns {
    at_s: f64,
    samples: f64,
    took_ln: f64,
    left_ms: f64,
}

impl Turns {
    fn add(&mut self, at_s: f64, old: KeptCounts, new: KeptCounts) {
        let keep = libm::exp((self.at_s - at_s) / MEMORY_S);
        let more = |old: u64, new: u64| new.saturating_sub(old) as f64;
        self.at_s = at_s;
        self.samples = keep * self.samples + more(old.samples, new.samples);
        self.took_ln = keep * self.took_ln + EIGHTH_LN * more(old.took, new.took);
        self.left_ms = keep * self.left_ms + 1e-6 * more(old.ns, new.ns);
    }

    /// What it drives out, where a read of memory takes so long; none before enough is known.
    fn drives_out(&self, now_s: f64, read_ns: f64) -> Option<DrivesOut> {
        let samples = self.samples * libm::exp((self.at_s - now_s) / MEMORY_S);
        if samples < LEAST || self.left_ms <= 0.0 {
            return None;
        }
        let line_ns = FROM_NS * libm::exp(self.took_ln / self.samples) / LINES;
        let gone = (line_ns / read_ns - STAYED_FRAC) / (GONE_FRAC - STAYED_FRAC);
        let left_ms = self.left_ms / self.samples;
        let per_ms = -libm::log(1.0 - gone.clamp(0.0, MOST_GONE)) / left_ms;
        Some(DrivesOut { per_ms, line_ns, left_ms, read_ns, samples })
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Seconds since the first reading.
    now_s: f64,
    of: BTreeMap<Tenant, Turns>,
}

impl Kept {
    pub(super) fn keep(&mut self, cpus: &BTreeMap<Tenant, f64>) {
        self.of.retain(|tenant, _| cpus.contains_key(tenant));
    }

    pub(super) fn forget(&mut self, suspect: &Tenant) {
        self.of.remove(suspect);
    }

    /// Of most groups nothing new is known in a sample: these are not touched.
    pub(super) fn learn(&mut self, passed_s: f64, old: &GaugeReading, new: &GaugeReading) {
        self.now_s += passed_s;
        let mut before = old.beside.iter().peekable();
        for (tenant, after) in &new.beside {
            while before.next_if(|(known, _)| *known < tenant).is_some() {}
            let same = before.next_if(|(known, _)| *known == tenant);
            let known = same.map(|(_, counts)| counts.kept).unwrap_or_default();
            if after.kept.samples == known.samples {
                continue;
            }
            self.of.entry(tenant.clone()).or_default().add(self.now_s, known, after.kept);
        }
    }

    /// What those drive out who drive out so much that it counts, where four reads of memory take so long, in ln
    /// above 128 ns.
    pub(super) fn driving_out(&self, reads_ln: f64) -> BTreeMap<Tenant, DrivesOut> {
        let read_ns = FROM_NS * libm::exp(reads_ln) / READS;
        // Below this nothing was driven out: asked of everybody in each sample, so without powers of each.
        let stayed_ln = reads_ln + libm::log(STAYED_FRAC * LINES / READS);
        let more = |own: &Turns| own.took_ln > own.samples * stayed_ln;
        let one = |(tenant, own): (&Tenant, &Turns)| {
            let drives = own.drives_out(self.now_s, read_ns)?;
            (drives.per_ms > COUNTS_FROM).then(|| (tenant.clone(), drives))
        };
        self.of.iter().filter(|(_, own)| more(own)).filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As measured on an EPYC host: reads of memory of 480 ns, so many samples in which a line that was left
    /// for so long takes this.
    fn driven_out(samples: u64, line_ns: f64, left_us: u64) -> Option<DrivesOut> {
        let took = libm::round(8.0 * libm::log2(16.0 * line_ns / 128.0)) as u64;
        let ns = 1000 * samples * left_us;
        let kept = KeptCounts { samples, took: samples * took, ns };
        let of = GaugeCounts { kept, ..GaugeCounts::default() };
        let new = GaugeReading { beside: [("a".into(), of)].into(), ..GaugeReading::default() };
        let mut kept = Kept::default();
        kept.learn(1.0, &GaugeReading::default(), &new);
        let counts = kept.driving_out(libm::log(4.0 * 480.0 / 128.0)).contains_key(&"a".into());
        let told = kept.of[&"a".into()].drives_out(1.0, 480.0);
        assert_eq!(counts, told.is_some_and(|told| told.weight_ln() > 0.0));
        told
    }

    #[test]
    fn who_fills_the_cache_is_told_from_who_computes() {
        let cases = [
            ("a loop", 19.1, 4000, 0.0..0.01),
            ("l2-capacity", 49.7, 4000, 0.0..0.05),
            ("gzip", 57.6, 4000, 0.02..0.06),
            ("md5sum", 82.6, 4000, 0.06..0.1),
            ("xz", 125.0, 4000, 0.12..0.2),
            ("stress-ng --stream", 175.0, 4000, 0.25..0.4),
            ("llc-capacity", 215.0, 4000, 0.4..0.7),
            ("memory-bandwidth", 269.0, 4000, 0.7..0.9),
            ("llc-capacity in short turns", 93.7, 800, 0.4..0.7),
        ];
        for (name, line_ns, left_us, share) in cases {
            let told = driven_out(200, line_ns, left_us).unwrap();
            assert!(share.contains(&told.per_ms), "{name}: {told:?}");
            assert_eq!(told.weight_ln() > 0.0, told.per_ms > COUNTS_FROM, "{name}");
        }
    }

    #[test]
    fn what_is_old_fades_and_what_is_new_tells() {
        let counts = |samples: u64, took: u64| {
            let kept = KeptCounts { samples, took, ns: 4_000_000 * samples };
            let of = GaugeCounts { kept, ..GaugeCounts::default() };
            GaugeReading { beside: [("a".into(), of)].into(), ..GaugeReading::default() }
        };
        let reads_ln = libm::log(4.0 * 480.0 / 128.0);
        let (none, first, then) =
            (GaugeReading::default(), counts(50, 50 * 38), counts(90, 50 * 38 + 400));
        let mut kept = Kept::default();
        kept.learn(1.0, &none, &first);
        assert!(kept.driving_out(reads_ln).contains_key(&"a".into()));
        // Nothing new, and the old is forgotten; then it does something else.
        kept.learn(60.0, &first, &first);
        assert!(kept.driving_out(reads_ln).is_empty());
        kept.learn(1.0, &first, &then);
        assert!(kept.driving_out(reads_ln).is_empty());
        assert!((kept.of[&"a".into()].samples - 42.4).abs() < 0.5, "{kept:?}");
    }

    #[test]
    fn few_samples_tell_nothing() {
        assert!(driven_out(9, 215.0, 4000).is_none());
        assert!(driven_out(10, 215.0, 4000).is_some());
    }

    proptest! {
        #[test]
        fn shares_and_weights_are_bounded(
            samples in 10u64..1000, line_ns in 8.0f64..2000.0, left_us in 300u64..12_000
        ) {
            let told = driven_out(samples, line_ns, left_us).unwrap();
            prop_assert!(told.per_ms.is_finite() && told.per_ms >= 0.0);
            prop_assert!((0.0..=MOST_LN).contains(&told.weight_ln()));
        }
    }
}
