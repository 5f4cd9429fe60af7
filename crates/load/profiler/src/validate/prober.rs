//! Timed prime and probe, on a thread of its own: how much of a cache somebody else took.

use crate::ProfileError;
use crate::stats::median;
use quell_pressure::{
    InPlace, Intensity, Look, Options, PressureError, PrimeProbe, Stop, bind_all,
};
use quell_types::{CpuSet, Topology};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// To fill more takes longer than others leave it alone.
const MOST_PROBED: usize = 64 << 20;
/// Between prime and probe, for a cache that fills in no time.
const SHORT_GAP: Duration = Duration::from_millis(2);
/// What a kernel needs to fill a line of a larger one, with lines that it touches twice.
const FILL_A_LINE: Duration = Duration::from_nanos(40);
/// Attempts at a probe without an interruption.
const ATTEMPTS: usize = 4;

/// Fills a cache with its own lines, waits while the kernel works, and times how long its lines take:
/// the more of them were driven out, the longer.
pub(super) struct Prober {
    words: String,
    in_place: bool,
    ask: Sender<Intensity>,
    answers: Receiver<Result<f64, PressureError>>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Over a cache of so many bytes, on these CPUs, beside a kernel on others. A cache that is too
    /// large to be filled is probed in part.
    pub(super) fn beside(cpus: &CpuSet, bytes: usize) -> Result<Prober, ProfileError> {
        let make = move || Ok(Some(Bench::beside(bytes)?));
        let made = Prober::start(cpus, false, make)?;
        made.ok_or_else(gone)
    }

    /// On the kernel's CPU, in turns with a kernel of its own; none for what cannot be probed so.
    pub(super) fn in_place(
        options: Options,
        topology: &Topology,
        stop: &Stop,
    ) -> Result<Option<Prober>, ProfileError> {
        let (cpus, topology, stop) = (options.cpus.first(1), topology.clone(), stop.clone());
        let make = move || Ok(InPlace::of(&options, &topology, &stop)?.map(Bench::InPlace));
        Prober::start(&cpus, true, make)
    }

    fn start(
        cpus: &CpuSet,
        in_place: bool,
        make: impl FnOnce() -> Result<Option<Bench>, PressureError> + Send + 'static,
    ) -> Result<Option<Prober>, ProfileError> {
        let (ask, orders) = channel();
        let (tell, answers) = channel();
        let (ready, is_ready) = channel();
        let cpus = cpus.clone();
        let body = move || match bind_all(&cpus).and_then(|()| make()) {
            Ok(Some(mut bench)) => {
                let _ = ready.send(Ok(Some(bench.words())));
                orders.iter().take_while(|&at| tell.send(bench.once(at)).is_ok()).for_each(drop);
            }
            other => _ = ready.send(other.map(|_| None)),
        };
        let named = std::thread::Builder::new().name("quell-probe".to_owned());
        let thread = named.spawn(body).map_err(|e| ProfileError::subject("a probe", e))?;
        let words = is_ready.recv().map_err(|_| gone())??;
        Ok(words.map(|words| Prober { words, in_place, ask, answers, thread: Some(thread) }))
    }

    /// What it is, for people.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// Whether the kernel is its own: then no other is to be let run.
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// The median time of an access, in ns, of as many primes and probes as fit the window; beside
    /// pressure of this intensity, which only one in place has to be told.
    pub(super) fn see(
        &mut self,
        intensity: Intensity,
        window: Duration,
        stop: &Stop,
    ) -> Result<f64, ProfileError> {
        let (begun, mut times) = (Instant::now(), Vec::new());
        while times.is_empty() || begun.elapsed() < window {
            if stop.requested() {
                return Err(ProfileError::Stopped);
            }
            self.ask.send(intensity).map_err(|_| gone())?;
            times.push(self.answers.recv().map_err(|_| gone())??);
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

fn gone() -> ProfileError {
    ProfileError::Stalled("the probe".to_owned())
}

/// What a prober fills and times.
enum Bench {
    /// The kernel works elsewhere, meanwhile.
    Beside { lines: PrimeProbe, gap: Duration },
    /// The kernel works here, in turns.
    InPlace(InPlace),
}

impl Bench {
    fn beside(bytes: usize) -> Result<Bench, PressureError> {
        let lines = PrimeProbe::lines(bytes.min(MOST_PROBED))?;
        let gap = SHORT_GAP.max(FILL_A_LINE * u32::try_from(lines.count()).unwrap_or(u32::MAX));
        Ok(Bench::Beside { lines, gap })
    }

    fn words(&self) -> String {
        match self {
            Bench::Beside { lines, .. } => {
                format!("timed prime and probe of {} KiB on the other CPU", lines.count() / 16)
            }
            Bench::InPlace(kernel) => kernel.words().to_owned(),
        }
    }

    /// Nanoseconds an access after the kernel had its time. A probe that lost the CPU midway is done
    /// again, and after some of them the shortest stands.
    fn once(&mut self, intensity: Intensity) -> Result<f64, PressureError> {
        let mut best = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            let look = self.look(intensity)?;
            if !look.interrupted {
                return Ok(look.access_ns);
            }
            best = best.min(look.access_ns);
        }
        Ok(best)
    }

    fn look(&mut self, intensity: Intensity) -> Result<Look, PressureError> {
        match self {
            Bench::Beside { lines, gap } => {
                lines.prime();
                std::thread::sleep(*gap);
                Ok(lines.probe())
            }
            Bench::InPlace(kernel) => kernel.look(intensity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_pressure::Resource;

    #[test]
    fn a_probe_answers_and_ends() {
        let cpus = quell_pressure::allowed_cpus().unwrap().first(1);
        let stop = Stop::new().unwrap();
        let mut options = Options::new(Resource::L1Data);
        (options.cpus, options.cache_bytes) = (cpus.clone(), Some(32 << 10));
        let topology = Topology::default();
        let in_place = Prober::in_place(options.clone(), &topology, &stop).unwrap().unwrap();
        let beside = Prober::beside(&cpus, 8 << 20).unwrap();
        for (mut prober, own, words) in
            [(in_place, true, "32 KiB, same thread"), (beside, false, "8192 KiB on the other CPU")]
        {
            assert!(prober.words().ends_with(words), "{}", prober.words());
            assert_eq!(prober.is_in_place(), own);
            let seen = prober.see(Intensity::FULL, Duration::from_millis(1), &stop).unwrap();
            assert!(seen > 0.0);
        }
        options.resource = Resource::Integer;
        assert!(Prober::in_place(options, &topology, &stop).unwrap().is_none());
        assert!(Prober::beside(&CpuSet::of(60_000), 1 << 20).is_err());
    }

    #[test]
    fn more_lines_have_more_time_to_be_taken() {
        let gap = |bytes| match Bench::beside(bytes).unwrap() {
            Bench::Beside { gap, .. } => gap,
            Bench::InPlace(_) => Duration::ZERO,
        };
        assert_eq!(gap(48 << 10), SHORT_GAP);
        assert!(gap(16 << 20) > 2 * SHORT_GAP);
    }
}
