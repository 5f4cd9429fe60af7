//! Bus-lock sparsification: cores that stop the memory bus for everybody run slower until they do
//! it seldom.
//!
//! # Problem
//! An atomic operation across two cache lines locks the bus of the whole machine for about a
//! thousand cycles. A core in a loop of them slows everybody on every socket. Some locks are
//! harmless, and an application may make a burst of them.
//!
//! # Idea
//! The machine has a quota of locks. 80 % of it is shared evenly by *dirty* cores, those that made
//! more than a few over the last 15 seconds. A core above its share in a row of periods loses its
//! clock down to a start level at once, and gains a step in each period in which it stays well
//! below. Two things adapt: the share, with the number of dirty cores, and the start level, with
//! how the machine as a whole keeps its quota.
//!
//! What harms is the sum. A core may be above an even share while all together stay well within the
//! quota: because others use none of theirs, or because in the first 15 seconds half of all CPUs are
//! taken to be dirty. As printed (A-15) it loses its clock for locks that nobody feels. Here nobody
//! does while the machine is *quiet*, below 80 % of its quota; `quiet_frac = 0` gives the printed rule.
//!
//! # Units
//! Locks in a period (0.1 s) for cores, locks in a second for the machine. Levels: parts of the
//! time in which a core's clock runs, of 8 or 16; all of them = not held back.
//!
//! # Pseudo-code (A-15)
//! ```text
//! each period: c = locks of a core in it
//!   s = c if c >= s else 0.75 s + 0.25 c            # attack at once, forgive slowly
//!   each full second: push the second's locks into windows of 15, of cores and of the machine
//!   windows full: dirty = cores with more than 125/s; share = 0.8 quota / (dirty * 10); burst = 3 share
//!   core in a burst while s > burst, and for 0.5 s after
//!   s <= share and no burst: a step up if s <= 0.8 share
//!   otherwise:               down to the start level, unless sum of s <= quiet_frac quota / 10
//!   machine: m = mean of the 5 largest of 15 seconds
//!            m > 1.05 quota: start one lower; m < 0.9 quota: start one higher
//! ```
//!
//! # Degradation
//! A core without a count in this period keeps its level. Periods of another length are scaled.
//!
//! Source: A-14 to A-16; the defects of A-37 (1) to (3) are not repeated.

use std::collections::{BTreeMap, VecDeque};

/// A-14.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparsifyParams {
    /// Length of a period in seconds.
    pub period_s: f64,
    /// Locks per second that the machine bears.
    pub quota_per_s: f64,
    /// Share of it that dirty cores share.
    pub shared_frac: f64,
    /// Locks per second from which a core is dirty.
    pub dirty_per_s: f64,
    /// How many times its share makes a burst.
    pub burst_ratio: f64,
    /// How long a burst is held after its last high period, in seconds.
    pub burst_hold_s: f64,
    /// Lowest start level, in parts.
    pub min_start_parts: u32,
    /// Weight of the past in a core's count when it falls.
    pub past_weight: f64,
    /// Below this share of its share a core gains a step.
    pub relax_frac: f64,
    /// Below this share of the quota, all cores together, no core falls.
    pub quiet_frac: f64,
}

impl Default for SparsifyParams {
    fn default() -> Self {
        Self {
            period_s: 0.1,
            quota_per_s: 70_000.0,
            shared_frac: 0.8,
            dirty_per_s: 125.0,
            burst_ratio: 3.0,
            burst_hold_s: 0.5,
            min_start_parts: 1,
            past_weight: 0.75,
            relax_frac: 0.8,
            quiet_frac: 0.8,
        }
    }
}

/// Seconds in a window.
const WINDOW: usize = 15;
/// The largest seconds that count for the machine: the top third.
const TOP: usize = 5;

/// Locks by second.
#[derive(Clone, Debug, Default)]
struct Seconds {
    open: f64,
    full: VecDeque<f64>,
}

impl Seconds {
    /// Closes the open second.
    fn close(&mut self) {
        self.full.push_back(std::mem::take(&mut self.open));
        if self.full.len() > WINDOW {
            self.full.pop_front();
        }
    }

    fn is_full(&self) -> bool {
        self.full.len() == WINDOW
    }

    fn mean(&self) -> f64 {
        self.full.iter().sum::<f64>() / WINDOW as f64
    }

    fn mean_of_top(&self) -> f64 {
        let mut sorted: Vec<f64> = self.full.iter().copied().collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        sorted.iter().take(TOP).sum::<f64>() / TOP as f64
    }
}

/// One core.
#[derive(Clone, Debug)]
struct Core {
    smoothed: f64,
    in_burst: bool,
    calm_s: f64,
    seconds: Seconds,
    level: u32,
}

/// What a core is judged by in a period.
struct Moment {
    /// Of one dirty core, in locks per period.
    share: f64,
    quiet: bool,
    elapsed_s: f64,
}

/// The controller of one machine.
#[derive(Clone, Debug)]
pub struct Sparsifier {
    params: SparsifyParams,
    /// Parts into which a clock's time is cut.
    parts: u32,
    cores: BTreeMap<u32, Core>,
    machine: Seconds,
    since_second_s: f64,
    start: u32,
    share: f64,
}

impl Sparsifier {
    /// For a machine of so many logical CPUs, whose clocks are set in so many parts (8 or 16).
    #[must_use]
    pub fn new(params: SparsifyParams, logical_cpus: u32, parts: u32) -> Self {
        let dirty = (logical_cpus / 2).max(1);
        let mut sparsifier = Self {
            start: params.min_start_parts,
            params,
            parts: parts.max(2),
            cores: BTreeMap::new(),
            machine: Seconds::default(),
            since_second_s: 0.0,
            share: 0.0,
        };
        sparsifier.share = sparsifier.share_of(dirty);
        sparsifier
    }

    /// One period: locks that each core made within the last `elapsed_s`. Answers with the level
    /// of every core that was ever seen, in parts.
    pub fn step(&mut self, locks: &BTreeMap<u32, u64>, elapsed_s: f64) -> BTreeMap<u32, u32> {
        if elapsed_s <= 0.0 {
            return self.levels();
        }
        let scale = self.params.period_s / elapsed_s;
        for (core, count) in locks {
            let parts = self.parts;
            let state = self.cores.entry(*core).or_insert_with(|| Core::new(parts));
            state.seconds.open += *count as f64;
            self.machine.open += *count as f64;
            state.count(*count as f64 * scale, self.params.past_weight);
        }
        self.close_second(elapsed_s);
        let now = Moment { share: self.share, quiet: self.is_quiet(), elapsed_s };
        let (start, parts, params) = (self.start, self.parts, self.params);
        for core in locks.keys() {
            if let Some(state) = self.cores.get_mut(core) {
                if state.is_to_fall(&now, &params) {
                    state.level = start;
                } else if !state.in_burst && state.smoothed <= params.relax_frac * now.share {
                    state.level = (state.level + 1).min(parts);
                }
            }
        }
        self.adapt_start();
        self.levels()
    }

    /// Whether all together make so few locks that nobody can be hurt.
    fn is_quiet(&self) -> bool {
        let borne = self.params.quiet_frac * self.params.quota_per_s * self.params.period_s;
        self.cores.values().map(|core| core.smoothed).sum::<f64>() <= borne
    }

    /// The share of one dirty core, in locks per period.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The count from which a core is in a burst, in locks per period.
    #[must_use]
    pub fn burst(&self) -> f64 {
        self.params.burst_ratio * self.share
    }

    /// The level to which a core falls, in parts.
    #[must_use]
    pub fn start(&self) -> u32 {
        self.start
    }

    fn levels(&self) -> BTreeMap<u32, u32> {
        self.cores.iter().map(|(core, state)| (*core, state.level)).collect()
    }

    fn share_of(&self, dirty: u32) -> f64 {
        let per_period = self.params.quota_per_s * self.params.period_s;
        match dirty {
            0 => self.params.quota_per_s,
            _ => (self.params.shared_frac * per_period / f64::from(dirty)).floor(),
        }
    }

    fn close_second(&mut self, elapsed_s: f64) {
        // Ten periods of 0.1 s do not add up to 1 in binary.
        const ROUNDING: f64 = 1e-6;
        self.since_second_s += elapsed_s;
        if self.since_second_s < 1.0 - ROUNDING {
            return;
        }
        self.since_second_s = 0.0;
        self.machine.close();
        self.cores.values_mut().for_each(|core| core.seconds.close());
        if self.machine.is_full() {
            let dirty = |core: &&Core| core.seconds.mean() > self.params.dirty_per_s;
            let count = self.cores.values().filter(dirty).count();
            self.share = self.share_of(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// The machine as a whole is above its quota, or well below.
    fn adapt_start(&mut self) {
        if !self.machine.is_full() {
            return;
        }
        let (mean, quota) = (self.machine.mean_of_top(), self.params.quota_per_s);
        let most = (self.parts - 1) / 2;
        if mean > 1.05 * quota && self.start > self.params.min_start_parts {
            self.start -= 1;
        } else if mean < 0.9 * quota && self.start < most {
            self.start += 1;
        }
    }
}

impl Core {
    fn new(parts: u32) -> Self {
        Self {
            smoothed: 0.0,
            in_burst: false,
            calm_s: 0.0,
            seconds: Seconds::default(),
            level: parts,
        }
    }

    fn count(&mut self, locks: f64, past_weight: f64) {
        self.smoothed = match locks >= self.smoothed {
            true => locks,
            false => past_weight * self.smoothed + (1.0 - past_weight) * locks,
        };
    }

    /// Whether it is above its share, or in a burst, when that matters.
    fn is_to_fall(&mut self, now: &Moment, params: &SparsifyParams) -> bool {
        if self.smoothed > params.burst_ratio * now.share {
            self.in_burst = true;
            self.calm_s = 0.0;
        } else {
            self.calm_s += now.elapsed_s;
            self.in_burst &= self.calm_s <= params.burst_hold_s;
        }
        !now.quiet && (self.smoothed > now.share || self.in_burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays so many periods in which core 0 makes that many locks, and others none.
    fn play(sparsifier: &mut Sparsifier, locks: u64, periods: u32) -> BTreeMap<u32, u32> {
        let counts = BTreeMap::from([(0, locks), (1, 0), (2, 0), (3, 0)]);
        let mut levels = BTreeMap::new();
        for _ in 0..periods {
            levels = sparsifier.step(&counts, 0.1);
        }
        levels
    }

    fn of_four() -> Sparsifier {
        Sparsifier::new(SparsifyParams::default(), 4, 16)
    }

    #[test]
    fn the_first_share_supposes_that_half_of_the_cpus_are_dirty() {
        let share = |cpus| Sparsifier::new(SparsifyParams::default(), cpus, 16).share();
        assert_eq!(share(96), 116.0);
        assert_eq!(share(1), 5600.0);
    }

    #[test]
    fn four_dirty_cores_share_eighty_percent_of_the_quota() {
        let mut sparsifier = Sparsifier::new(SparsifyParams::default(), 96, 16);
        let counts = (0..96).map(|core| (core, if core < 4 { 20 } else { 1 })).collect();
        for _ in 0..150 {
            sparsifier.step(&counts, 0.1);
        }
        assert_eq!((sparsifier.share(), sparsifier.burst()), (1400.0, 4200.0));
    }

    #[test]
    fn a_polluter_loses_its_clock_at_once_and_nobody_else_does() {
        let mut sparsifier = of_four();
        let levels = play(&mut sparsifier, 100_000, 1);
        assert_eq!(levels, BTreeMap::from([(0, 1), (1, 16), (2, 16), (3, 16)]));
    }

    #[test]
    fn nobody_falls_for_locks_that_the_machine_bears() {
        let first = |quiet_frac, locks| {
            let params = SparsifyParams { quiet_frac, ..SparsifyParams::default() };
            play(&mut Sparsifier::new(params, 96, 16), locks, 1)[&0]
        };
        assert_eq!(first(0.8, 500), 16, "5000 of 70,000 in a second");
        assert_eq!(first(0.0, 500), 1, "as printed: above a share of 116");
        assert_eq!(first(0.8, 5601), 1, "above 80 % of the quota alone");
    }

    #[test]
    fn who_stops_is_free_again_within_a_few_seconds() {
        let mut sparsifier = of_four();
        play(&mut sparsifier, 100_000, 50);
        let mut periods = 0;
        while play(&mut sparsifier, 0, 1)[&0] < 16 {
            periods += 1;
            assert!(periods < 600, "60 s at most (A-36)");
        }
        assert!((15..=60).contains(&periods), "{periods}");
    }

    #[test]
    fn between_four_fifths_and_the_whole_of_its_share_a_core_holds_its_level() {
        let mut sparsifier = of_four();
        play(&mut sparsifier, 100_000, 1);
        let share = sparsifier.share();
        play(&mut sparsifier, (0.9 * share) as u64, 40);
        let held = sparsifier.step(&BTreeMap::from([(0, (0.9 * share) as u64)]), 0.1)[&0];
        assert_eq!(play(&mut sparsifier, (0.9 * share) as u64, 10)[&0], held);
    }

    #[test]
    fn the_start_level_falls_while_the_machine_is_above_its_quota_and_rises_with_room() {
        let mut sparsifier = of_four();
        play(&mut sparsifier, 10, 400);
        assert_eq!(sparsifier.start(), 7, "floor of 15 / 2");
        play(&mut sparsifier, 100_000, 400);
        assert_eq!(sparsifier.start(), 1);
    }

    #[test]
    fn a_late_period_counts_by_its_rate() {
        let counts = |locks| BTreeMap::from([(0, locks)]);
        let (mut punctual, mut late) = (of_four(), of_four());
        let one = punctual.step(&counts(2000), 0.1);
        let other = late.step(&counts(20_000), 1.0);
        assert_eq!(one, other);
        assert_eq!(late.step(&counts(5), 0.0), other, "no time, no judgement");
    }
}
