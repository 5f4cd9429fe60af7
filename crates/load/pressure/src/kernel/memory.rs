//! Bandwidth of memory and of caches: streams through a region much larger than the last-level cache,
//! or through a window that one cache holds and the one before it does not (B-2: 2, 7, 7').
//!
//! A stream through memory takes the caches on its way, too, if what it brought in is read again
//! ([`super::again`]). Each sixteenth burst does so, which is not counted as work.

use super::again::{self, distance_bytes};
use super::latency::Stopwatch;
use super::random::{below, step};
use super::triad::{AHEAD, Form, STEP, forms};
use super::{Kernel, Probe};
use crate::region::{LINE, Region};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Elements of 8 bytes a burst: 256 KiB, some microseconds.
const BURST: usize = 32 * 1024;
/// After one burst in so many what an earlier one brought in is read again.
const AGAIN_EVERY: u32 = 16;
/// Bytes read and written for one element.
const BYTES: u64 = 16;
/// How long a form is tried, and how often.
const TRIAL: Duration = Duration::from_millis(1);
const TRIALS: usize = 3;
/// Dependent accesses in a latency sample.
const CHAIN: u32 = 8;

/// The kernel: one thread, one region.
pub(crate) struct Memory {
    region: Region,
    /// How much of the region is used, in elements.
    elements: usize,
    forms: Vec<Form>,
    chosen: usize,
    at: usize,
    /// How many elements ago what is read again was brought in; none if nothing is.
    again: Option<usize>,
    bursts: u32,
    state: u64,
    watch: Stopwatch,
}

impl Memory {
    /// Streams through the region, past a cache of the core's own of so many bytes; 0: not known.
    pub(crate) fn new(region: Region, nearer_bytes: u64) -> Self {
        let (watch, elements) = (Stopwatch::new(), region.bytes() / 8);
        let again = distance_bytes(nearer_bytes).map(|bytes| bytes as usize / 8);
        let (forms, chosen, at, bursts, state) = (forms(), 0, 0, 0, 1);
        Memory { region, elements, forms, chosen, at, again, bursts, state, watch }
    }

    /// Streams through the first `bytes` of the region, to stay in a cache: streaming stores, which
    /// go past it, are left out.
    pub(crate) fn in_cache(region: Region, bytes: usize) -> Self {
        let mut kernel = Memory::new(region, 0);
        // Both halves have to begin on a whole step, and to hold one and what is read ahead.
        kernel.elements = kernel.elements.min(bytes / 8 / (2 * STEP) * (2 * STEP)).max(4 * STEP);
        kernel.forms.retain(|form| !form.name.ends_with("streaming"));
        kernel
    }

    /// The next block, from the begin again at the end.
    fn advance(&mut self, form: Form) -> u64 {
        let memory = &mut self.region.doubles()[..self.elements];
        let limit = if form.in_place { memory.len() } else { memory.len() / 2 };
        let n = BURST.min((limit - AHEAD) / STEP * STEP);
        if self.at + n + AHEAD > limit {
            self.at = 0;
        }
        let done = form.run(memory, self.at, n);
        self.at += n;
        if done { n as u64 * BYTES } else { 0 }
    }

    /// The lines that are to be read again now, if any are: those of a burst a distance ago.
    fn due_again(&mut self) -> Option<Range<usize>> {
        self.bursts = self.bursts.wrapping_add(1);
        let distance = self.again.filter(|_| self.bursts.is_multiple_of(AGAIN_EVERY))?;
        let end = self.at.checked_sub(distance)?;
        let begin = end.checked_sub(BURST)?;
        Some(begin * 8 / LINE..end * 8 / LINE)
    }

    /// A burst of a form.
    fn stream(&mut self, form: Form) -> u64 {
        let bytes = self.advance(form);
        if let Some(lines) = self.due_again() {
            std::hint::black_box(again::read(&self.region.lines()[lines]));
        }
        bytes
    }

    /// Bytes per second of a form, over a short trial.
    fn trial(&mut self, form: Form) -> f64 {
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < TRIAL {
            bytes += self.stream(form);
        }
        bytes as f64 / start.elapsed().as_secs_f64()
    }

    /// The form with the best of its trials; they are interleaved, since the machine changes.
    fn choose(&mut self) {
        let mut best = vec![0.0f64; self.forms.len()];
        for _ in 0..TRIALS {
            for (i, rate) in best.iter_mut().enumerate() {
                *rate = rate.max(self.trial(self.forms[i]));
            }
        }
        let fastest = (0..best.len()).max_by(|&a, &b| best[a].total_cmp(&best[b]));
        self.chosen = fastest.unwrap_or(0);
    }
}

/// Reads random elements, each chosen only when the one before has arrived.
fn chase(memory: &[f64], mut state: u64, count: u32) -> u64 {
    for _ in 0..count {
        state = step(state);
        let arrived = memory[below(state, memory.len() as u64)];
        // All elements are positive, so this adds nothing, but only the element says so.
        state = state.wrapping_add(arrived.to_bits() >> 63);
    }
    state
}

impl Kernel for Memory {
    fn prepare(&mut self) {
        // 1 * 1 = 1: neither growth nor denormals, however long it runs.
        self.region.doubles().fill(1.0);
        self.choose();
    }

    fn burst(&mut self) -> Result<u64, String> {
        Ok(self.stream(self.forms[self.chosen]))
    }

    fn probe(&mut self) -> Option<Probe> {
        let memory = &self.region.doubles()[..self.elements];
        let state = &mut self.state;
        self.watch.time(CHAIN, || *state = std::hint::black_box(chase(memory, *state, CHAIN)))
    }

    fn footprint_bytes(&self) -> u64 {
        (self.elements * 8) as u64
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("fastest loop here: {}", self.forms[self.chosen].name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sixteen_bytes_an_element_in_every_form() {
        let mut kernel = Memory::new(Region::map(8 << 20).unwrap(), 1 << 20);
        kernel.region.doubles().fill(1.0);
        for chosen in 0..kernel.forms.len() {
            kernel.chosen = chosen;
            kernel.at = 0;
            for burst in 0..200 {
                let name = kernel.forms[chosen].name;
                assert_eq!(kernel.burst().unwrap(), (BURST as u64) * BYTES, "{name} {burst}");
            }
        }
        assert!(kernel.region.doubles().iter().all(|&x| x == 1.0), "values stay as they are");
    }

    #[test]
    fn the_whole_region_is_walked() {
        let mut kernel = Memory::new(Region::map(2 << 20).unwrap(), 1 << 20);
        kernel.region.doubles().fill(1.0);
        let (form, all) = (kernel.forms[0], kernel.region.doubles().len());
        assert!(form.in_place);
        let blocks = all / BURST - 1;
        let starts: Vec<usize> = (0..=blocks)
            .map(|_| {
                kernel.advance(form);
                kernel.at - BURST
            })
            .collect();
        assert_eq!(starts[blocks - 1], (blocks - 1) * BURST);
        assert_eq!(starts[blocks], 0, "and from the begin again");
    }

    #[test]
    fn a_sixteenth_comes_by_again_a_distance_later() {
        let mut kernel = Memory::new(Region::map(8 << 20).unwrap(), 1 << 20);
        kernel.region.doubles().fill(1.0);
        let (form, line) = (kernel.forms[0], LINE / 8);
        let mut again = 0;
        for burst in 1..=1000 {
            kernel.advance(form);
            let at = kernel.at;
            let Some(lines) = kernel.due_again() else { continue };
            assert_eq!(burst % AGAIN_EVERY, 0);
            assert_eq!(
                (lines.start * line, lines.end * line),
                (at - (3 << 16) - BURST, at - (3 << 16))
            );
            again += 1;
        }
        assert!((35..=65).contains(&again), "{again}: all but at the begin of a region");
        let mut unknown = Memory::new(Region::map(8 << 20).unwrap(), 0);
        assert!((0..100).all(|_| unknown.due_again().is_none()));
    }

    #[test]
    fn a_window_is_never_left() {
        for bytes in [1024, 96 << 10, 1 << 20] {
            let mut kernel = Memory::in_cache(Region::map(2 << 20).unwrap(), bytes);
            kernel.region.doubles()[bytes / 8..].fill(7.0);
            kernel.prepare();
            kernel.region.doubles()[bytes / 8..].fill(7.0);
            for chosen in 0..kernel.forms.len() {
                kernel.chosen = chosen;
                assert!(!kernel.forms[chosen].name.contains("streaming"));
                let work: u64 = (0..100).map(|_| kernel.burst().unwrap()).sum();
                assert!(work > 0 && work.is_multiple_of(16 * STEP as u64), "{work}");
            }
            assert_eq!(kernel.footprint_bytes(), bytes as u64);
            assert!(kernel.region.doubles()[bytes / 8..].iter().all(|&x| x == 7.0));
        }
    }

    #[test]
    fn chooses_one_and_says_which() {
        let mut kernel = Memory::new(Region::map(4 << 20).unwrap(), 1 << 20);
        kernel.prepare();
        let note = kernel.notes().remove(0);
        assert!(forms().iter().any(|form| note.ends_with(form.name)), "{note}");
        assert!((0..10_000).find_map(|_| kernel.probe()).is_some());
    }
}
