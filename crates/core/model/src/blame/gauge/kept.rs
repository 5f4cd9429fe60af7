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
//! other cores never reaches the second cache. So it is a measure of each group by itself, in the time of a
//! read of memory, which the gauge's other samples tell, so that it means the same on any machine.
//!
//! But a core may have two threads, of which the other one works for somebody else: for another guest of the
//! host, where the CPU is virtual. Then lines go that nobody here drove out: on one such host a loop that
//! touches nothing lost all of them in four milliseconds, where on another it kept them. It does so whoever
//! has this thread. So what counts is what goes in somebody's turns *more* than in the turns of those who
//! drive out least, and it counts as far as it is sure.
//!
//! That is no harm yet: a service need not have use for the shared cache. It makes guilt likelier, as loads on
//! memory do, eight times at most; and of who presses so hard and was not shown to be harmless it is said
//! that it may do a little harm ([`Slight`](super::super::Slight)), unless it has a CPU for so little of the time
//! that what it drives out is back before its next turn.
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
//! stayed(g) = line of those others who lose least, a third of their samples; a twentieth of a read of memory at
//!             most: what lies in the second cache takes no longer
//! gone(g)   = (line(g) - stayed(g)) / (read / 2 - stayed(g)): what was driven out takes half of a read, since such
//!             a read looks up a page besides
//! lost(g)   = -ln(1 - gone(g)) / how long lines were left, on average, in a millisecond
//! anyhow(g) = the same of all samples of those others
//! per ms(g) = lost(g) - anyhow(g), the former with lines a standard deviation faster, the latter with such slower
//!             ones: that is 0.5 / sqrt(samples), and 0.1 at least
//! weight(g) = MOST_LN * (per ms - 0.05) / 0.2, within 0..MOST_LN
//! ```
//!
//! # Degradation
//! Who never has a CPU for 0.3 ms has no samples; nor has anybody where the kernel lets no program
//! be at a CPU's timer and turns do not end. Where nobody else has samples, or all drive out as much, nothing is
//! told. Where a core's other thread works for others most lines go anyhow, so only much is told, and who is
//! bound to such a CPU while the rest is on calm ones may be told for what others do. Where the host's other guests
//! fill the shared cache, who runs through more than the second one finds nothing left in it either: then what a
//! middling table drives out looks like more.
//!
//! Source: A-21, B-2, T-3; issue "Name the polluter and limit only it" (each workload's own activity).

use super::growth::both;
use super::memory::MOST_LN;
use super::{EIGHTH_LN, MEMORY_S};
use quell_types::{GaugeCounts, GaugeReading, KeptCounts, Tenant};
use std::collections::BTreeMap;

const LINES: f64 = KeptCounts::LINES;
const READS: f64 = GaugeCounts::READS;
const FROM_NS: f64 = GaugeCounts::FROM_NS;
/// Fewest samples of a group.
const LEAST: f64 = 10.0;
/// Of the time of a read of memory, what a line takes at most that is where it was, and one that was driven out.
const STAYED_FRAC: f64 = 0.05;
const GONE_FRAC: f64 = 0.5;
/// What one line's mean time is uncertain by, in ln: of a sample, and of however many.
const SAMPLE_SD: f64 = 0.5;
const LEAST_SD: f64 = 0.1;
/// Of others' samples, the share in which least is lost tells what is lost anyhow; and the fewest of these.
const ANYHOW_FRAC: f64 = 1.0 / 3.0;
const ANYHOW_LEAST: f64 = 20.0;
/// More than this of what is gone cannot be told from all.
const MOST_GONE: f64 = 0.97;
/// From so much in a millisecond on it counts, and from so much on in full.
const COUNTS_FROM: f64 = 0.05;
const IN_FULL_FROM: f64 = 0.25;

/// How much of what lies in the caches somebody drives out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrivesOut {
    /// In a millisecond of its CPU time, as ln of what was there over what is left; beyond what goes
    /// anyhow, and as far as it is sure.
    pub per_ms: f64,
    /// What goes anyhow, likewise.
    pub anyhow_per_ms: f64,
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

/// What a read of memory takes, and a line that is where it was, in ns.
#[derive(Clone, Copy, Debug)]
struct Costs {
    read_ns: f64,
    stayed_ns: f64,
}

impl Costs {
    /// Where nobody tells what a line takes that stayed.
    fn of_any(read_ns: f64) -> Self {
        Self { read_ns, stayed_ns: STAYED_FRAC * read_ns }
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

    /// The same as of now, if there are enough of them.
    fn faded(&self, now_s: f64) -> Option<Self> {
        let keep = libm::exp((self.at_s - now_s) / MEMORY_S);
        let enough = keep * self.samples >= LEAST && self.left_ms > 0.0;
        enough.then_some(Self {
            at_s: now_s,
            samples: keep * self.samples,
            took_ln: keep * self.took_ln,
            left_ms: keep * self.left_ms,
        })
    }

    fn plus(&self, more: &Self) -> Self {
        Self {
            at_s: self.at_s,
            samples: self.samples + more.samples,
            took_ln: self.took_ln + more.took_ln,
            left_ms: self.left_ms + more.left_ms,
        }
    }

    fn line_ns(&self) -> f64 {
        FROM_NS * libm::exp(self.took_ln / self.samples) / LINES
    }

    /// What is lost in these in a millisecond, and lines took so many standard deviations more.
    fn lost_per_ms(&self, costs: Costs, sds: f64) -> f64 {
        let sd_ln = (SAMPLE_SD / libm::sqrt(self.samples)).max(LEAST_SD);
        let line_ns = libm::exp(sds * sd_ln) * self.line_ns();
        let gone = (line_ns - costs.stayed_ns) / (GONE_FRAC * costs.read_ns - costs.stayed_ns);
        -libm::log(1.0 - gone.clamp(0.0, MOST_GONE)) * self.samples / self.left_ms
    }

    /// What it surely drives out beyond what goes `anyhow`, where a read of memory takes so long.
    fn drives_out(&self, read_ns: f64, anyhow: &Self) -> DrivesOut {
        let most = Costs::of_any(read_ns);
        let costs = Costs { stayed_ns: anyhow.line_ns().min(most.stayed_ns), ..most };
        let surely = self.lost_per_ms(costs, -1.0) - anyhow.lost_per_ms(costs, 1.0);
        DrivesOut {
            per_ms: surely.max(0.0),
            anyhow_per_ms: anyhow.lost_per_ms(most, 0.0),
            line_ns: self.line_ns(),
            left_ms: self.left_ms / self.samples,
            read_ns,
            samples: self.samples,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Seconds since the first reading.
    now_s: f64,
    of: BTreeMap<Tenant, Turns>,
    /// Of those who are nobody here.
    others: Turns,
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
        for (tenant, before, after) in both(&old.beside, &new.beside) {
            let known = before.map(|counts| counts.kept).unwrap_or_default();
            if after.kept.samples == known.samples {
                continue;
            }
            self.of.entry(tenant.clone()).or_default().add(self.now_s, known, after.kept);
        }
        if new.others.kept.samples != old.others.kept.samples {
            self.others.add(self.now_s, old.others.kept, new.others.kept);
        }
    }

    /// What those drive out who drive out so much that it counts, where four reads of memory take so long, in ln
    /// above 128 ns.
    pub(super) fn driving_out(&self, reads_ln: f64) -> BTreeMap<Tenant, DrivesOut> {
        let read_ns = FROM_NS * libm::exp(reads_ln) / READS;
        // Who is below this is not told, even if others' lines take less: asked of everybody in each sample, so
        // without powers of each.
        let stayed_ln = reads_ln + libm::log(STAYED_FRAC * LINES / READS);
        let more = |own: &Turns| own.took_ln > own.samples * stayed_ln;
        if !self.of.values().any(more) {
            return BTreeMap::new();
        }
        let mut driving = self.driving(read_ns, more);
        driving.retain(|_, drives| drives.per_ms > COUNTS_FROM);
        driving
    }

    /// The same of all of whom enough is known, also where it is nothing.
    pub(super) fn all_driving(&self, reads_ln: f64) -> BTreeMap<Tenant, DrivesOut> {
        self.driving(FROM_NS * libm::exp(reads_ln) / READS, |_| true)
    }

    /// The same of those whose turns are wanted.
    fn driving(
        &self,
        read_ns: f64,
        wanted: impl Fn(&Turns) -> bool,
    ) -> BTreeMap<Tenant, DrivesOut> {
        let all = self.by_loss(read_ns);
        let one = |(at, (tenant, own)): (usize, &(Option<&Tenant>, Turns))| {
            let tenant = tenant.filter(|_| wanted(own))?;
            Some((tenant.clone(), own.drives_out(read_ns, &anyhow(&all, at)?)))
        };
        all.iter().enumerate().filter_map(one).collect()
    }

    /// All turns of which enough is known and whose they are, those first in which least is lost.
    fn by_loss(&self, read_ns: f64) -> Vec<(Option<&Tenant>, Turns)> {
        let tenants = self.of.iter().map(|(tenant, own)| (Some(tenant), own));
        let all = tenants.chain([(None, &self.others)]);
        let faded = all.filter_map(|(whose, turns)| Some((whose, turns.faded(self.now_s)?)));
        let costs = Costs::of_any(read_ns);
        let loss = |own: &Turns| (own.lost_per_ms(costs, 0.0), own.line_ns());
        let mut by_loss: Vec<_> = faded.map(|own| (loss(&own.1), own)).collect();
        // Of those who lose nothing that can be told, those first whose lines are fastest.
        by_loss.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        by_loss.into_iter().map(|(_, own)| own).collect()
    }
}

/// Turns of others than the one at a place, of those in which least is lost; none where these are few.
fn anyhow(by_loss: &[(Option<&Tenant>, Turns)], at: usize) -> Option<Turns> {
    let all: f64 = by_loss.iter().map(|(_, own)| own.samples).sum();
    let wanted = (ANYHOW_FRAC * (all - by_loss[at].1.samples)).max(ANYHOW_LEAST);
    let mut least = Turns::default();
    for (_, (_, own)) in by_loss.iter().enumerate().filter(|(other, _)| *other != at) {
        if least.samples >= wanted {
            break;
        }
        least = least.plus(own);
    }
    (least.samples >= ANYHOW_LEAST).then_some(least)
}

#[cfg(test)]
mod tests;
