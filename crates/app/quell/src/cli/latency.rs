//! A service under open-loop load, as a workload: its speed is the inverse of its tail, or the work that it does by
//! its CPU time.

mod live;
mod rate;
mod start;
mod tail;

use super::embedded::Embedded;
use anyhow::Context as _;
use clap::ValueEnum as _;
use live::Live;
use quell_pressure::{Bound, Stop, process_cpu_time};
use quell_profiler::{Metric, ProfileError, Seats, Speed, Subject};
use quell_service::{Bench, Controls, Extent, LoadPlan, PeakPlan, Profile, RunReport, Tally};
use quell_types::{Gap, Reading};
pub(super) use start::open;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Own(Embedded),
    Redis,
}

impl Service {
    /// As it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Own(own) => own.spec().name(),
            Service::Redis => "redis",
        }
    }
}

impl FromStr for Service {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Service> {
        if text == "redis" {
            return Ok(Service::Redis);
        }
        let own = Embedded::from_str(text, false).map(Service::Own);
        own.map_err(|_| {
            anyhow::anyhow!("no service is called {text:?}: give search, store, topics or redis")
        })
    }
}

/// How a service is loaded and judged.
#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArgs {
    /// A service's load, in requests per second [default: for a profile what keeps it busy for about a third of the
    /// time, as far as that costs little; else 300].
    #[arg(long, value_name = "QPS")]
    rate: Option<f64>,
    /// A service's objective for the 95th percentile: it is judged by that, and undisturbed below it. Without one it is
    /// judged by its requests for the same CPU time, and by the time that one takes where it waits for a
    /// link or a disk.
    #[arg(long, value_name = "MS")]
    slo_ms: Option<f64>,
}

/// A service that stands ready.
pub(crate) struct Loaded {
    bench: Arc<Bench>,
    name: &'static str,
    qps: f64,
    slo_ms: Option<f64>,
    /// Whether its speed is the work that it does, not its tail.
    by_work: bool,
    /// The load of one that is judged so.
    live: Option<Live>,
    seed: u64,
    stop: Stop,
    /// A server that is not the bench's own; dropped after it.
    server: Option<Bound>,
}

/// The load of a service of which none is asked, in requests per second.
const USUAL_QPS: f64 = 300.0;
/// Enough requests for a 95th percentile at the usual rates.
const LEAST_WINDOW: Duration = Duration::from_millis(600);
/// Ctrl-C ends a run within about this.
const HEEDED: Duration = Duration::from_millis(50);
/// So many windows without an answer are an overload.
const PATIENCE: usize = 4;
/// A window with fewer answers goes on.
const LEAST_ANSWERS: u64 = 8;
/// Without an answer for less than this nobody counts as overloaded.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// Nobody is waited for as if fewer were asked.
const LEAST_QPS: f64 = 0.1;

impl ServiceArgs {
    /// Starts the service, to be loaded and judged like this.
    pub(crate) fn open(
        &self,
        service: Service,
        seats: &Seats,
        stop: &Stop,
    ) -> anyhow::Result<Loaded> {
        let loaded = open(service, seats, None, stop)?;
        Ok(Loaded { qps: self.rate.unwrap_or(USUAL_QPS), slo_ms: self.slo_ms, ..loaded })
    }

    /// The same; without an objective it is judged by the work that it does (B-6: throughput, or a constraint on its
    /// latency), and without a rate it is asked what it bears easily; `quick`: as far as that is soon found.
    pub(crate) fn open_by_work(
        &self,
        service: Service,
        seats: &Seats,
        quick: bool,
        stop: &Stop,
    ) -> anyhow::Result<Loaded> {
        let mut loaded =
            Loaded { by_work: self.slo_ms.is_none(), ..self.open(service, seats, stop)? };
        if self.rate.is_some() && self.slo_ms.is_some() {
            loaded.check_bears()?;
        }
        if self.rate.is_none() {
            loaded.find_usual_rate(seats.workload.len(), if quick { 1 } else { 2 })?;
        }
        Ok(loaded)
    }
}

impl Loaded {
    /// The rate, if it is judged by its work.
    pub(crate) fn rate_of_work(&self) -> Option<f64> {
        self.by_work.then_some(self.qps)
    }

    /// Changes the load.
    pub(crate) fn set_rate(&mut self, qps: f64) {
        (self.qps, self.live) = (qps, None);
    }

    /// The process that serves.
    ///
    /// # Errors
    /// Absent if it is not a process of its own.
    pub(crate) fn pid(&self) -> Reading<u32> {
        let own = self.server.as_ref().map(Bound::id);
        let none = || Gap::absent("the service is not a process of its own");
        own.or_else(|| self.bench.server_pid()).ok_or_else(none)
    }

    /// The highest rate that it sustains for ten seconds where it stands, in requests per second;
    /// `say` hears of each rate that was tried.
    pub(crate) fn find_peak(&mut self, say: &mut dyn FnMut(f64)) -> anyhow::Result<f64> {
        self.live = None;
        let (running, over) = (Mutex::default(), AtomicBool::new(false));
        let found = std::thread::scope(|scope| {
            scope.spawn(|| heed(&self.stop, &running, &over));
            let mut fresh = || {
                let controls = Controls::default();
                *running.lock().unwrap_or_else(PoisonError::into_inner) = controls.clone();
                controls
            };
            let (base, plan) = (LoadPlan::default(), PeakPlan::default());
            let found = self.bench.find_peak(&base, &plan, &mut fresh, &mut |p| say(p.qps));
            over.store(true, Ordering::Relaxed);
            found
        });
        if self.stop.requested() {
            return Err(ProfileError::Stopped.into());
        }
        Ok(found.with_context(|| format!("the peak rate of {}", self.name))?.peak_qps)
    }

    /// The 95th percentile over a window, in ms. A window in which nothing was answered is looked at
    /// again: what an overload left behind is worked off meanwhile.
    pub(crate) fn p95_ms(&mut self, length: Duration) -> Result<f64, ProfileError> {
        for _ in 0..PATIENCE {
            let run = self.window(length)?;
            if run.answered > 0 {
                return Ok(run.sojourn.p95_ms);
            }
        }
        Err(self.overloaded())
    }

    /// Requests by the CPU time that they took; and by wall time what the service says that a request took, or how long
    /// the client waited where it does not.
    fn work(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        let (done, used) = self.answers(length)?;
        let by_cpu = used.map(|used| done.answered as f64 / used.as_secs_f64());
        Ok(Speed { by_wall: inverse(done.mean_ms().unwrap_or(0.0)), by_cpu })
    }

    /// What was answered in a window of about this length, and the service's CPU time in it, if that can be read.
    fn answers(&mut self, length: Duration) -> Result<(Tally, Option<Duration>), ProfileError> {
        self.wake()?;
        let before = (self.tally(), self.cpu_time());
        let begun = Instant::now();
        while begun.elapsed() < self.patience(length, LEAST_ANSWERS) {
            self.pause(length)?;
            let (done, cpu) = (self.tally().since(before.0), self.cpu_time());
            if done.answered < LEAST_ANSWERS {
                self.check_live()?;
                continue;
            }
            let used = cpu.zip(before.1).and_then(|(now, then)| now.checked_sub(then));
            return Ok((done, used.filter(|used| !used.is_zero())));
        }
        Err(self.overloaded())
    }

    /// How long it may take until so many are asked, and answered.
    fn patience(&self, length: Duration, requests: u64) -> Duration {
        LEAST_PATIENCE + (length + due(requests, self.qps)) * PATIENCE as u32
    }

    fn overloaded(&self) -> ProfileError {
        ProfileError::Overloaded { what: self.name.to_owned(), per_second: self.qps }
    }

    fn pause(&self, time: Duration) -> Result<(), ProfileError> {
        if self.stop.wait(time) { Err(ProfileError::Stopped) } else { Ok(()) }
    }

    fn tally(&self) -> Tally {
        self.live.as_ref().map_or_else(Tally::default, Live::tally)
    }

    /// An error if the load has ended.
    fn check_live(&mut self) -> Result<(), ProfileError> {
        let failure = self.live.as_mut().and_then(Live::failure);
        failure.map_or(Ok(()), |e| Err(ProfileError::subject(self.name, io::Error::other(e))))
    }

    /// One run under load.
    fn window(&mut self, length: Duration) -> Result<RunReport, ProfileError> {
        self.live = None;
        if self.stop.requested() {
            return Err(ProfileError::Stopped);
        }
        let plan = LoadPlan {
            profile: Profile::Constant { qps: self.qps },
            warmup: Extent::Seconds(0.05),
            measured: Extent::Seconds(length.as_secs_f64()),
            drain_s: 1.0,
            seed: self.seed,
            ..LoadPlan::default()
        };
        self.seed += 1;
        let controls = Controls::default();
        let mut heed = |_: &quell_service::Window| {
            if self.stop.requested() {
                controls.stop();
            }
        };
        let run = self.bench.run(&plan, &controls, &mut heed);
        // Ctrl-C reaches the server too: that it is gone then is no failure of its own.
        if self.stop.requested() {
            return Err(ProfileError::Stopped);
        }
        run.map_err(|e| ProfileError::Subject {
            what: self.name.to_owned(),
            source: std::io::Error::other(e),
        })
    }
}

/// How long it takes until so many are asked at this rate, on average.
fn due(requests: u64, qps: f64) -> Duration {
    Duration::from_secs_f64(requests as f64 / qps.max(LEAST_QPS))
}

/// Of a latency: one by ms.
fn inverse(ms: f64) -> f64 {
    1.0 / ms.max(1e-6)
}

/// Ends what runs when somebody asks, until all is over.
fn heed(stop: &Stop, running: &Mutex<Controls>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        if stop.wait(HEEDED) {
            running.lock().unwrap_or_else(PoisonError::into_inner).stop();
            std::thread::sleep(HEEDED);
        }
    }
}

impl Subject for Loaded {
    fn name(&self) -> &str {
        self.name
    }

    fn requests_per_s(&self) -> Option<f64> {
        Some(self.qps)
    }

    fn metric(&self) -> Metric {
        if self.by_work { Metric::Requests } else { Metric::InverseLatency }
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        if self.by_work {
            return self.work(length);
        }
        let p95_ms = match self.slo_ms {
            Some(slo_ms) => self.tail_ms(length)?.max(slo_ms),
            None => self.p95_ms(length)?,
        };
        Ok(Speed { by_wall: inverse(p95_ms), by_cpu: None })
    }

    fn cpu_time(&self) -> Option<Duration> {
        process_cpu_time(self.pid().ok()?)
    }

    /// Work shows in any window, a tail only where there are requests enough; without an objective it says something
    /// only where there are more.
    fn least_window(&self) -> Duration {
        match self.slo_ms {
            _ if self.by_work => Duration::ZERO,
            Some(_) => due(tail::LEAST_ASKED, self.qps).min(LEAST_WINDOW),
            None => LEAST_WINDOW,
        }
    }

    fn can_rest(&self) -> bool {
        true
    }

    /// Without requests it does nothing.
    fn rest(&mut self) -> Result<(), ProfileError> {
        self.live.iter().for_each(Live::rest);
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        match &self.live {
            Some(live) => live.go_on(),
            None if self.by_work || self.slo_ms.is_some() => {
                // A tail comes of heavy requests that meet by chance: only work is asked for evenly.
                let live = Live::start(&self.bench, self.qps, self.seed, self.by_work);
                self.live = Some(live.map_err(|e| ProfileError::subject(self.name, e))?);
            }
            None => {}
        }
        Ok(())
    }
}
