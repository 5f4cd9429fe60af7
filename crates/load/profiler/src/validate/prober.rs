//! Timed prime and probe: how much of a cache somebody else took.

use crate::ProfileError;
use crate::stats::median;
use crate::victim::Chase;
use quell_pressure::{Stop, bind_all};
use quell_types::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// To fill more takes longer than others leave it alone.
const MOST_PROBED: usize = 64 << 20;
/// Between prime and probe, for a cache that fills in no time.
const SHORT_GAP: Duration = Duration::from_millis(2);
/// What a kernel needs to fill a line of a larger one, with lines that it touches twice.
const FILL_A_LINE: Duration = Duration::from_nanos(40);
/// A probe in which the thread was off its CPU for longer is not one.
const INTERRUPTED: Duration = Duration::from_micros(20);
/// Attempts at a probe without an interruption.
const ATTEMPTS: usize = 4;

/// Fills a cache with its own lines, waits while the kernel works, and times how long its lines take:
/// the more of them were driven out, the longer.
pub(super) struct Prober {
    words: String,
    ask: Sender<()>,
    answers: Receiver<f64>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// On these CPUs, over so many bytes with a line every `stride`: 64 for a cache, a page's size
    /// for translations.
    pub(super) fn start(
        cpus: &CpuSet,
        bytes: usize,
        stride: usize,
    ) -> Result<Prober, ProfileError> {
        let (ask, orders) = channel::<()>();
        let (tell, answers) = channel();
        let (cpus, bytes) = (cpus.clone(), bytes.min(MOST_PROBED));
        let body = move || {
            if bind_all(&cpus).is_err() {
                return;
            }
            let mut bench = Bench::new(bytes, stride);
            for () in orders {
                if tell.send(bench.once()).is_err() {
                    return;
                }
            }
        };
        let named = std::thread::Builder::new().name("quell-probe".to_owned());
        let thread = named.spawn(body).map_err(|e| ProfileError::subject("a probe", e))?;
        let (what, size) =
            if stride > 64 { ("pages", bytes / stride) } else { ("KiB", bytes >> 10) };
        let words = format!("timed prime and probe of {size} {what}");
        Ok(Prober { words, ask, answers, thread: Some(thread) })
    }

    /// What it is, for people.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// The median time of an access, in ns, of as many primes and probes as fit the window.
    pub(super) fn see(&mut self, window: Duration, stop: &Stop) -> Result<f64, ProfileError> {
        let gone = || ProfileError::Stalled("the probe".to_owned());
        let (begun, mut times) = (Instant::now(), Vec::new());
        while times.is_empty() || begun.elapsed() < window {
            if stop.requested() {
                return Err(ProfileError::Stopped);
            }
            self.ask.send(()).map_err(|_| gone())?;
            times.push(self.answers.recv().map_err(|_| gone())?);
        }
        median(&times).ok_or_else(gone)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // Without anybody who asks the thread ends.
        self.ask = channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a prober fills and times.
struct Bench {
    chase: Chase,
    lines: u64,
    gap: Duration,
}

impl Bench {
    fn new(bytes: usize, stride: usize) -> Bench {
        let lines = (bytes / stride) as u32;
        let gap = SHORT_GAP.max(FILL_A_LINE * lines);
        Bench { chase: Chase::new(bytes, stride), lines: lines.into(), gap }
    }

    /// Nanoseconds an access after the kernel had the gap for itself. On the kernel's own CPU the
    /// probe may lose the CPU to it midway; that one is done again, and after some of them the
    /// shortest stands.
    fn once(&mut self) -> f64 {
        let mut best = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            let (ns, interrupted) = self.probe();
            if !interrupted {
                return ns;
            }
            best = best.min(ns);
        }
        best
    }

    /// One prime and probe, and whether it was interrupted. The way back begins with what was
    /// touched last: what is still there is found before a miss can drive it out, so each line that
    /// the kernel took counts once.
    fn probe(&mut self) -> (f64, bool) {
        self.chase.steps(2 * self.lines);
        std::thread::sleep(self.gap);
        let (ran, begun) = (on_cpu(), Instant::now());
        self.chase.steps_back(self.lines);
        let (took, ran) = (begun.elapsed(), on_cpu().saturating_sub(ran));
        let ns = took.min(ran).as_nanos() as f64 / self.lines as f64;
        (ns, took > ran + INTERRUPTED)
    }
}

/// The CPU time of this thread.
fn on_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_answers_and_ends() {
        let cpus = quell_pressure::allowed_cpus().unwrap().first(1);
        for (bytes, stride) in [(48 << 10, 64), (8 << 20, 64), (64 * 4096, 4096)] {
            let mut prober = Prober::start(&cpus, bytes, stride).unwrap();
            let stop = Stop::new().unwrap();
            assert!(prober.see(Duration::from_millis(1), &stop).unwrap() > 0.0);
        }
    }

    #[test]
    fn more_lines_have_more_time_to_be_taken() {
        let gap = |bytes| Bench::new(bytes, 64).gap;
        assert_eq!(gap(48 << 10), SHORT_GAP);
        assert!(gap(16 << 20) > 2 * SHORT_GAP);
    }
}
