//! Who locks the bus, by what others' accesses cost while it runs.
//!
//! # Problem
//! Where nothing counts bus locks, looks tell who makes them: if there is time. Who locks the bus for 0.4 s
//! and rests for 5 s may be held for a few milliseconds of that, in which a service answers three requests.
//! What its requests cost in the whole burst moves little, since it gets few CPUs then and works off a
//! queue; their latency moves much, and so it does where somebody only takes a CPU.
//!
//! # Idea
//! A bus lock has a mark that nothing else has: it holds back what other cores ask of their *own* second
//! cache, tenfold. Streams and tables of others never reach that cache, so however hard they press on the
//! shared one and on memory, it answers as ever. The kernel's gauge (`crates/sys/ebpf/bpf/gauge.h`) times
//! such accesses some hundred times in a second, and multiplications beside them, which take a slow clock
//! out of it; and it puts each sample down to those who had other CPUs just then. Who runs where at that
//! moment is the scheduler's doing, so each sample is a small experiment that costs nobody anything. Beside
//! a locker nearly every sample is slow, and without it none.
//!
//! With each sample lines pass from one CPU to another, which tells whether the host has these on cores with a common
//! cache just now (`gauge/passes.rs`). The same samples read memory, too: who loads it is told by [`Loads`], as a
//! word that looks have to prove; and samples of a group's own turns tell what it drives out of the caches
//! ([`DrivesOut`]).
//!
//! That says who locks, and not that a service suffers. So each service is compared with itself: by CPU time
//! for each request and by latency, in windows in which accesses were slow and in those in which they were
//! not ([`Toll`]). Who locks, alone, while a service suffers, is named.
//!
//! # Units
//! Ratios: the accesses' time over that of the multiplications, by slots of half a power of two. Shares of
//! samples 0..1. Effects: ln of slow over usual.
//!
//! # Pseudo-code
//! ```text
//! each reading:  usual = slot below which a quarter of all samples of late lie
//!                a sample is slow from usual + 5 on (nearly six times as long)
//!                for all samples, for each tenant's: count, and those that are slow; old ones fade
//! told:          slow(t) >= 20, and the slow share beside t is at least ten times that of all other samples
//!                (who works between its bursts has many samples that are not slow)
//!                u shares t's slow samples: slow(t) + slow(u) is more than 1.2 of all that are slow
//!                not told: who shares them with u that stands out three times as much
//!                alone: who shares them with nobody that stands out a third as much
//!                one who is told and forgotten takes along all these counts
//!                named: alone, and nobody who is suspected for what looks show was there in the same samples
//! each window:   with at least five samples: held back if a tenth of them, and five, are slow (CPUs on which
//!                accesses are held back take fewer samples than the same ones before and after); as usual if
//!                less than 3 %
//! toll:          for ln cost and ln latency: mean in the former less mean in the latter, and how sure
//!                it is above the least that counts
//! ```
//!
//! # Degradation
//! Without eBPF, with one CPU, or not on x86-64 (nobody else has split locks): no samples, nothing is told.
//! Who locked always, since before anybody looked, makes slow what is usual: nothing is told, and looks
//! have all the time that they need. Of more than seventeen CPUs only sixteen others are seen by a sample;
//! then some of the others are slow too, and a locker that works most of the time stands out less. A processor
//! or a host that stops split locks makes none that last.
//!
//! Source: A-9, Q-23; issue "Name the polluter and limit only it" (bus locks, the scheduler's own
//! randomness).

mod growth;
mod kept;
mod lockers;
mod memory;
mod moments;
mod passes;
mod peers;
mod pressing;
mod told;
mod toll;

pub use kept::DrivesOut;
pub use lockers::Locker;
pub use memory::Loads;
pub use pressing::Pressing;
pub use told::Suffering;
pub use toll::Toll;

use growth::{both, grown};
use kept::Kept;
use memory::Memory;
use passes::Passes;
use quell_types::{GaugeReading, Reading, Tenant, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Eighths of powers of two, in ln.
const EIGHTH_LN: f64 = core::f64::consts::LN_2 / 8.0;
/// After so many seconds a third of what a sample says of memory and caches is left.
const MEMORY_S: f64 = 20.0;

/// When somebody locks the bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaugeParams {
    /// After so many seconds a third of a sample's weight is left.
    pub memory_s: f64,
    /// The share of all samples that lie below what is usual.
    pub usual_frac: f64,
    /// Slots above the usual one from which a sample is slow: two to each power of two.
    pub slow_slots: usize,
    /// Fewest slow samples beside somebody who is told.
    pub least_slow: f64,
    /// Least share of slow samples among those beside it.
    pub least_frac: f64,
    /// So many times the share among all other samples.
    pub least_times: f64,
    /// Two who make more than this share of all slow samples together share them...
    pub shared_frac: f64,
    /// ... if the other one stands out by so much of what this one does.
    pub rival_frac: f64,
    /// Fewest samples in a window that says anything, and fewest slow ones in one that was held back.
    pub fewest: f64,
    /// A window is held back if so many of its samples are slow...
    pub held_back_frac: f64,
    /// ... and as usual if fewer than this are.
    pub usual_slow_frac: f64,
}

impl Default for GaugeParams {
    fn default() -> Self {
        Self {
            memory_s: 300.0,
            usual_frac: 0.25,
            slow_slots: 5,
            least_slow: 20.0,
            least_frac: 0.02,
            least_times: 10.0,
            shared_frac: 1.2,
            rival_frac: 0.3,
            fewest: 5.0,
            held_back_frac: 0.1,
            usual_slow_frac: 0.03,
        }
    }
}

/// Samples, and those of them that are slow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    all: f64,
    slow: f64,
}

impl Count {
    fn slow_frac(self) -> f64 {
        if self.all > 0.0 { self.slow / self.all } else { 0.0 }
    }

    fn plus(self, more: Count) -> Count {
        Count { all: self.all + more.all, slow: self.slow + more.slow }
    }

    fn times(self, keep: f64) -> Count {
        Count { all: keep * self.all, slow: keep * self.slow }
    }
}

/// What a window of samples was like for everybody who ran in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Accesses were held back.
    HeldBack,
    /// They were not.
    Usual,
    /// Too few samples, or some slow ones.
    Unknown,
}

/// The gauge: who locks the bus.
#[derive(Clone, Debug)]
pub struct Gauge {
    params: GaugeParams,
    last: Option<(Time, Arc<GaugeReading>)>,
    /// Samples of all by slot, old ones fading.
    slots: Vec<f64>,
    all: Count,
    others: Count,
    beside: BTreeMap<Tenant, Count>,
    window: Count,
    /// When the last stretches in which accesses were held back began.
    begun: VecDeque<Time>,
    held_back: bool,
    /// The most CPUs of each in a sample that was held back, fading.
    peaks: BTreeMap<Tenant, f64>,
    memory: Memory,
    passes: Passes,
    kept: Kept,
    /// Those who drive out so much of the caches that it counts.
    driving_out: BTreeMap<Tenant, DrivesOut>,
}

/// Begins of so many stretches are remembered.
const REMEMBERED: usize = 5;

impl Gauge {
    /// Nothing was seen.
    #[must_use]
    pub fn new(params: GaugeParams) -> Self {
        Self {
            params,
            last: None,
            slots: Vec::new(),
            all: Count::default(),
            others: Count::default(),
            beside: BTreeMap::new(),
            window: Count::default(),
            begun: VecDeque::new(),
            held_back: false,
            peaks: BTreeMap::new(),
            memory: Memory::default(),
            passes: Passes::default(),
            kept: Kept::default(),
            driving_out: BTreeMap::new(),
        }
    }

    /// Takes in what the gauge has counted so far, where suspects use so many `cpus`.
    pub fn learn(
        &mut self,
        now: Time,
        reading: &Reading<Arc<GaugeReading>>,
        cpus: &BTreeMap<Tenant, f64>,
    ) {
        self.window = Count::default();
        self.leave(|tenant| !cpus.contains_key(tenant));
        self.peaks.retain(|tenant, _| cpus.contains_key(tenant));
        self.memory.keep(cpus);
        self.kept.keep(cpus);
        self.driving_out.retain(|tenant, _| cpus.contains_key(tenant));
        let Ok(reading) = reading else { return };
        let Some((then, old)) = self.last.replace((now, reading.clone())) else { return };
        let passed_s = now.since(then).as_secs_f64();
        self.memory.learn(passed_s, &old, reading);
        self.passes.learn(passed_s, &old.passes, &reading.passes);
        self.kept.learn(passed_s, &old, reading);
        let reads_ln = self.memory.usual_ln();
        self.driving_out = reads_ln.map_or_else(BTreeMap::new, |ln| self.kept.driving_out(ln));
        let keep = libm::exp(-passed_s / self.params.memory_s);
        let slow_from = self.slow_from();
        self.remember(grown(&old.all.slots, &reading.all.slots), keep);
        let Some(slow_from) = slow_from else { return };
        self.window = counted(grown(&old.all.slots, &reading.all.slots), slow_from);
        self.all = self.all.times(keep).plus(self.window);
        let others = counted(grown(&old.others.slots, &reading.others.slots), slow_from);
        self.others = self.others.times(keep).plus(others);
        for (tenant, before, after) in both(&old.beside, &reading.beside) {
            if cpus.contains_key(tenant) {
                let before = before.map_or(&[][..], |counts| &counts.slots);
                let known = self.beside.entry(tenant.clone()).or_default();
                *known = known.times(keep).plus(counted(grown(before, &after.slots), slow_from));
            }
        }
        self.follow(now, keep, cpus);
    }

    /// Samples by slot, of which the usual one is told.
    fn remember(&mut self, grew: impl ExactSizeIterator<Item = f64>, keep: f64) {
        self.slots.resize(self.slots.len().max(grew.len()), 0.0);
        self.slots.iter_mut().for_each(|count| *count *= keep);
        self.slots.iter_mut().zip(grew).for_each(|(count, more)| *count += more);
    }

    /// When stretches begin in which accesses are held back, and who uses how much in them.
    fn follow(&mut self, now: Time, keep: f64, cpus: &BTreeMap<Tenant, f64>) {
        self.peaks.values_mut().for_each(|peak| *peak *= keep);
        let held_back = self.window() == Window::HeldBack;
        if held_back && !self.held_back {
            self.begun.push_back(now);
        }
        if self.begun.len() > REMEMBERED {
            self.begun.pop_front();
        }
        // What a group used is told in full samples only, maybe after the stretch.
        for (tenant, used) in cpus.iter().filter(|_| held_back || self.held_back) {
            let peak = self.peaks.entry(tenant.clone()).or_default();
            *peak = peak.max(*used);
        }
        self.held_back = held_back;
    }

    /// Begins anew with a suspect.
    pub fn forget(&mut self, suspect: &Tenant) {
        self.leave(|tenant| tenant == suspect);
        self.peaks.remove(suspect);
        self.memory.forget(suspect);
        self.kept.forget(suspect);
        self.driving_out.remove(suspect);
        // While it was held back its bursts did not show, so what lies between two of them is not known.
        self.begun.clear();
    }

    /// ln of how many times as likely it makes the guilt of each that reads of memory take longer beside it,
    /// or that it drives out what lies in the caches: the greater one, since one comes of the other.
    #[must_use]
    pub fn weights_ln(&self) -> BTreeMap<Tenant, f64> {
        let mut weights = self.memory.weights_ln();
        for (tenant, drives) in &self.driving_out {
            let known = weights.entry(tenant.clone()).or_default();
            *known = known.max(drives.weight_ln());
        }
        weights
    }

    /// Whether the host ran the CPUs on cores without a common cache since the reading before: who hurts others by a
    /// cache did not do so then. None where that was not seen.
    #[must_use]
    pub fn are_apart(&self) -> Option<bool> {
        self.passes.apart()
    }

    /// For how long it has done so without a break, in seconds; 0 where it does not.
    #[must_use]
    pub fn apart_for_s(&self) -> f64 {
        self.passes.lasts_s()
    }

    /// The share of the last minute or so in which it did, 0..1; 0 where that was not seen.
    #[must_use]
    pub fn apart_frac(&self) -> f64 {
        self.passes.share().unwrap_or(0.0)
    }

    /// The slot from which a sample is slow; none before enough was seen.
    fn slow_from(&self) -> Option<usize> {
        let all: f64 = self.slots.iter().sum();
        if all < 4.0 * self.params.least_slow {
            return None;
        }
        let mut below = 0.0;
        let usual = self.slots.iter().position(|count| {
            below += count;
            below >= self.params.usual_frac * all
        })?;
        Some(usual + self.params.slow_slots)
    }

    /// What the time since the reading before was like.
    #[must_use]
    pub fn window(&self) -> Window {
        let slow_frac = self.window.slow_frac();
        match () {
            () if self.window.all < self.params.fewest => Window::Unknown,
            () if slow_frac >= self.params.held_back_frac
                && self.window.slow >= self.params.fewest =>
            {
                Window::HeldBack
            }
            () if slow_frac <= self.params.usual_slow_frac => Window::Usual,
            () => Window::Unknown,
        }
    }
}

fn counted(grew: impl Iterator<Item = f64>, slow_from: usize) -> Count {
    grew.enumerate().fold(Count::default(), |count, (slot, more)| {
        let slow = if slot >= slow_from { more } else { 0.0 };
        count.plus(Count { all: more, slow })
    })
}

#[cfg(test)]
mod tests;
