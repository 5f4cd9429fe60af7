//! Programs that measure by being hurt: a pointer chase and a stream, written apart from the
//! kernels, so that the one does not repeat the other's mistakes.

use crate::stats::Resampler;
use crate::{Metric, ProfileError, Speed, Subject};
use quell_pressure::{Stop, bind_all};
use quell_types::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// 64 bytes as words of four.
const LINE_WORDS: usize = 16;
/// A window without work is made longer up to so many times: the CPU may be busy otherwise.
const PATIENCE: u32 = 500;
/// Steps between two looks at the flags.
const BATCH: u64 = 2000;
/// Words of a stream between them: some tens of microseconds.
const STREAMED: usize = 128 << 10;

/// A cycle of cache lines in random order: each step waits for the one before.
#[derive(Clone, Debug)]
pub struct Chase {
    words: Vec<u32>,
    at: u32,
}

impl Chase {
    /// Over so many bytes, at most 4 GiB, in lines of `stride_bytes` (64 for cache lines, a page's
    /// size for translations).
    #[must_use]
    pub fn new(bytes: usize, stride_bytes: usize) -> Chase {
        let stride = (stride_bytes / 4).max(LINE_WORDS);
        let lines = (bytes / (4 * stride)).clamp(2, (1 << 32) / (4 * stride));
        // Pages of one set each would fall into one set of the cache: each takes another line.
        let place =
            |i: usize| i * stride + if stride > LINE_WORDS { (i % 64) * LINE_WORDS } else { 0 };
        let spare = if stride > LINE_WORDS { 64 * LINE_WORDS } else { 0 };
        let mut order: Vec<usize> = (0..lines).collect();
        let mut random = Resampler::new(bytes as u64);
        // Sattolo: one cycle through all.
        (1..lines).rev().for_each(|i| order.swap(i, random.below(i)));
        let mut words = vec![0u32; lines * stride + spare];
        for (i, &next) in order.iter().enumerate() {
            words[place(i)] = place(next) as u32;
        }
        Chase { words, at: 0 }
    }

    /// So many steps.
    pub fn steps(&mut self, count: u64) {
        for _ in 0..count {
            self.at = self.words[self.at as usize];
        }
        std::hint::black_box(self.at);
    }
}

/// What a victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Chases pointers through so many bytes.
    Chase(usize),
    /// Adds up so many bytes, over and over.
    Stream(usize),
}

/// A victim on a thread of its own.
#[derive(Debug)]
pub struct Victim {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    stop: Stop,
}

/// What a victim did until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Count {
    work: u64,
    cpu: Duration,
}

impl Count {
    /// Work by its own CPU time since then; none if it had no CPU.
    pub(crate) fn rate_since(self, then: Count) -> Option<f64> {
        let ran = self.cpu.saturating_sub(then.cpu).as_secs_f64();
        (ran > 0.0).then(|| self.work.wrapping_sub(then.work) as f64 / ran)
    }
}

#[derive(Debug, Default)]
struct Shared {
    work: AtomicU64,
    cpu_ns: AtomicU64,
    rests: AtomicBool,
    over: AtomicBool,
}

impl Victim {
    /// Starts it on these CPUs and waits until its memory is touched.
    ///
    /// # Errors
    /// The CPUs may not be used, or no thread is to be had.
    pub fn start(
        name: impl Into<String>,
        habit: Habit,
        cpus: &CpuSet,
        stop: &Stop,
    ) -> Result<Victim, ProfileError> {
        let name = name.into();
        let shared = Arc::new(Shared::default());
        let (theirs, cpus) = (Arc::clone(&shared), cpus.clone());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let body = move || {
            let bound = bind_all(&cpus);
            let good = bound.is_ok();
            if good {
                let mut work = worker(habit);
                work();
                let _ = ready.send(bound);
                live(&theirs, &mut *work);
            } else {
                let _ = ready.send(bound);
            }
        };
        let named = std::thread::Builder::new().name("quell-victim".to_owned());
        let thread = named.spawn(body).map_err(|e| ProfileError::subject(&name, e))?;
        let gone = |_| ProfileError::Stalled(name.clone());
        is_ready.recv().map_err(gone)??;
        Ok(Victim { name, shared, thread: Some(thread), stop: stop.clone() })
    }

    /// What it did until now.
    pub(crate) fn count(&self) -> Count {
        let cpu = Duration::from_nanos(self.shared.cpu_ns.load(Relaxed));
        Count { work: self.shared.work.load(Relaxed), cpu }
    }
}

/// One batch of work a call; gives its amount.
fn worker(habit: Habit) -> Box<dyn FnMut() -> u64> {
    match habit {
        Habit::Chase(bytes) => {
            let mut chase = Chase::new(bytes, 64);
            chase.steps((bytes / 64) as u64);
            Box::new(move || {
                chase.steps(BATCH);
                BATCH
            })
        }
        Habit::Stream(bytes) => {
            let words = vec![1u64; bytes / 8];
            let mut at = 0;
            Box::new(move || {
                let part = &words[at..(at + STREAMED).min(words.len())];
                std::hint::black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
                at = if at + STREAMED >= words.len() { 0 } else { at + STREAMED };
                part.len() as u64 * 8
            })
        }
    }
}

fn live(shared: &Shared, work: &mut dyn FnMut() -> u64) {
    while !shared.over.load(Relaxed) {
        if shared.rests.load(Relaxed) {
            std::thread::park_timeout(Duration::from_millis(100));
        } else {
            let done = work();
            shared.work.fetch_add(done, Relaxed);
            shared.cpu_ns.store(cpu_ns(), Relaxed);
        }
    }
}

/// CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec.unsigned_abs() * 1_000_000_000 + used.tv_nsec.unsigned_abs()
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Subject for Victim {
    fn name(&self) -> &str {
        &self.name
    }

    fn metric(&self) -> Metric {
        Metric::OwnCount
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        self.wake()?;
        let (begun, before) = (Instant::now(), self.count());
        for _ in 0..PATIENCE {
            crate::desk::pause(length, &self.stop)?;
            let now = self.count();
            let work = now.work.wrapping_sub(before.work);
            if work > 0 {
                let by_wall = work as f64 / begun.elapsed().as_secs_f64();
                return Ok(Speed { by_wall, by_cpu: now.rate_since(before) });
            }
        }
        Err(ProfileError::Stalled(self.name.clone()))
    }

    fn can_rest(&self) -> bool {
        true
    }

    fn rest(&mut self) -> Result<(), ProfileError> {
        self.shared.rests.store(true, Relaxed);
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        self.shared.rests.store(false, Relaxed);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_chase_visits_every_line_once_a_round(lines in 2usize..300, page in any::<bool>()) {
            let stride = if page { 4096 } else { 64 };
            let mut chase = Chase::new(lines * stride, stride);
            let mut seen = BTreeSet::new();
            for _ in 0..lines {
                chase.steps(1);
                prop_assert!(seen.insert(chase.at), "twice at {}", chase.at);
            }
            prop_assert_eq!(chase.at, 0, "back where it began");
        }
    }

    #[test]
    fn a_victim_works_rests_and_ends() {
        let stop = Stop::new().unwrap();
        for habit in [Habit::Chase(1 << 16), Habit::Stream(1 << 20)] {
            let cpus = quell_pressure::allowed_cpus().unwrap();
            let mut victim = Victim::start("victim", habit, &cpus, &stop).unwrap();
            assert!(victim.speed(Duration::from_millis(5)).unwrap().by_wall > 0.0);
            victim.rest().unwrap();
            victim.wake().unwrap();
            assert!(victim.speed(Duration::from_millis(5)).is_ok());
        }
        assert!(Victim::start("v", Habit::Chase(64), &CpuSet::of(60_000), &stop).is_err());
    }
}
