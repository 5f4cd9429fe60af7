//! A polluter from arming to its report.

use crate::dial::Dial;
use crate::jobs::{self, Job};
use crate::meter::{Counts, Meter, Slot};
use crate::queued::queued_time;
use crate::report::{SCHEMA, course};
use crate::worker::{self, Orders};
use crate::{
    Duty, End, Footprint, HugePages, Intensity, Options, PressureError, Progress, Report, Resource,
    Sink, Stop, ThreadReport, Timing, hugepages,
};
use quell_types::Topology;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A polluter whose threads wait, everything mapped and touched. Dropping it ends them.
pub struct Armed {
    crew: Crew,
}

/// A polluter at work. Dropping it ends the work.
pub struct Running {
    crew: Crew,
    started: Instant,
    before: (Duration, Counts),
}

/// The threads and what they share.
struct Crew {
    options: Options,
    orders: Arc<Orders>,
    meter: Arc<Meter>,
    threads: Vec<JoinHandle<Vec<String>>>,
    /// Their numbers in the system, in no order.
    tids: Vec<i32>,
    cpus: Vec<Option<u32>>,
    huge_pages: Option<HugePages>,
    notes: Vec<String>,
    footprint: Option<Footprint>,
    /// What arming took.
    armed_in: Duration,
    _sink: Option<Sink>,
}

/// Applies pressure and waits for its end: the time of `options`, or `stop`. `on_progress` is called
/// at each interval. (For a command line, and in tests.)
pub fn run(
    options: &Options,
    topology: &Topology,
    stop: &Stop,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Report, PressureError> {
    let mut running = arm(options, topology, stop)?.start();
    let limit = Duration::from_secs_f64(options.seconds);
    while running.elapsed() < limit && !running.is_over() {
        let left = limit.saturating_sub(running.elapsed());
        if stop.wait(left.min(options.interval)) {
            break;
        }
        on_progress(&running.progress());
    }
    running.finish()
}

/// Checks the options and makes everything ready: threads bound, memory mapped and touched, flows
/// connected. Pressure starts with [`Armed::start`], within microseconds.
pub fn arm(options: &Options, topology: &Topology, stop: &Stop) -> Result<Armed, PressureError> {
    let begun = Instant::now();
    options.check(topology)?;
    let cpus = jobs::seats(options, topology)?;
    let jobs = jobs::plan(options, topology, &cpus, stop)?;
    let meter = Meter::new(options.resource, cpus.len(), options.feed.as_deref())?;
    let mut crew = Crew {
        options: options.clone(),
        orders: Arc::new(orders(options, stop)),
        meter: Arc::new(meter),
        threads: Vec::new(),
        tids: Vec::new(),
        cpus,
        huge_pages: None,
        notes: jobs.notes,
        footprint: jobs.footprint,
        armed_in: Duration::ZERO,
        _sink: jobs.sink,
    };
    crew.muster(jobs.jobs)?;
    crew.huge_pages = hugepages::look(&jobs.addresses);
    crew.armed_in = begun.elapsed();
    Ok(Armed { crew })
}

/// One access to storage takes as long as many a slice: with longer ones a share of time is kept.
const STORAGE_SLICE: Duration = Duration::from_millis(20);

fn orders(options: &Options, stop: &Stop) -> Orders {
    let slice = match options.resource {
        Resource::StorageBandwidth => options.slice.max(STORAGE_SLICE),
        _ => options.slice,
    };
    Orders {
        plan: options.plan,
        dial: Dial::new(),
        duty: Duty::new(options.plan.slice(slice), options.idle),
        idle: options.idle,
        scales: options.resource.scales(),
        limit: Duration::from_secs_f64(options.seconds),
        stop: stop.clone(),
        cancelled: AtomicBool::new(false),
        start: OnceLock::new(),
    }
}

impl Crew {
    /// Starts a thread for each job and waits until all are ready.
    fn muster(&mut self, jobs: Vec<Job>) -> Result<(), PressureError> {
        let (ready, answers) = channel();
        for (i, job) in jobs.into_iter().enumerate() {
            self.hire(i, job, ready.clone())?;
        }
        drop(ready);
        for index in 0..self.threads.len() {
            let gone = |_| PressureError::Worker { index, why: "it ended while arming".to_owned() };
            self.tids.push(answers.recv().map_err(gone)??);
        }
        Ok(())
    }

    fn hire(
        &mut self,
        index: usize,
        job: Job,
        ready: Sender<Result<i32, PressureError>>,
    ) -> Result<(), PressureError> {
        let (orders, meter) = (Arc::clone(&self.orders), Arc::clone(&self.meter));
        let cpu = self.cpus[index];
        let body = move || {
            let answer = move |result: Result<(), PressureError>| {
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                let _ = ready.send(result.map(|()| tid));
            };
            worker::run(&orders, &meter.slots()[index], cpu, job, answer)
        };
        let named = std::thread::Builder::new().name(format!("quell-press-{index}"));
        let thread =
            named.spawn(body).map_err(|e| PressureError::Worker { index, why: e.to_string() })?;
        self.threads.push(thread);
        Ok(())
    }

    fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Ends all threads; gives their notes, or which one failed.
    fn dismiss(&mut self) -> Result<Vec<String>, PressureError> {
        self.orders.cancelled.store(true, Relaxed);
        self.wake();
        let mut notes = std::mem::take(&mut self.notes);
        let ends: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        for (index, end) in ends.into_iter().enumerate() {
            let panicked = |_| PressureError::Worker { index, why: "it panicked".to_owned() };
            notes.extend(end.map_err(panicked)?);
        }
        let mut seen = std::collections::BTreeSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        Ok(notes)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.dismiss();
    }
}

impl Armed {
    /// Whether the footprint lies on huge pages; none without a footprint.
    #[must_use]
    pub fn huge_pages(&self) -> Option<&HugePages> {
        self.crew.huge_pages.as_ref()
    }

    /// Lets the threads go.
    #[must_use]
    pub fn start(self) -> Running {
        let started = *self.crew.orders.start.get_or_init(Instant::now);
        self.crew.wake();
        Running { crew: self.crew, started, before: (Duration::ZERO, Counts::default()) }
    }
}

impl Running {
    /// What a capacity of caches has behind the first of its caches, to be looked at from elsewhere; none of
    /// other kernels.
    #[must_use]
    pub fn footprint(&self) -> Option<Footprint> {
        self.crew.footprint.clone()
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether all threads have ended by themselves.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.crew.threads.iter().all(JoinHandle::is_finished)
    }

    /// Work so far.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.crew.meter.total().work
    }

    /// CPU time of all threads so far, as they last noted it (every 200 us of work).
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.crew.meter.total().cpu_ns)
    }

    /// The resource that it presses on.
    #[must_use]
    pub fn resource(&self) -> Resource {
        self.crew.options.resource
    }

    /// Time of all threads since they were made in which they ran, or waited for anything else than a CPU: what others took
    /// of their CPUs does not count. None where the kernel does not tell.
    #[must_use]
    pub fn present_time(&self) -> Option<Duration> {
        let since = self.crew.armed_in + self.elapsed();
        let waited = self.crew.tids.iter().map(|tid| queued_time(*tid));
        waited.map(|waited| Some(since.saturating_sub(waited?))).sum()
    }

    /// From now on this intensity in place of the plan; heard within a millisecond. At 0 the threads
    /// idle as the options say, by default awake.
    pub fn turn_to(&self, intensity: Intensity) {
        self.crew.orders.dial.turn_to(intensity);
        self.crew.wake();
    }

    /// Sends all threads to sleep until [`Running::turn_to`]. What is mapped stays mapped.
    pub fn mute(&self) {
        self.crew.orders.dial.mute();
        self.crew.wake();
    }

    /// How it goes since the last call.
    pub fn progress(&mut self) -> Progress {
        let (now, total) = (self.elapsed(), self.crew.meter.total());
        let (then, before) = std::mem::replace(&mut self.before, (now, total));
        let window_s = (now - then).as_secs_f64().max(1e-9);
        Progress {
            kernel: self.crew.options.resource,
            t_s: now.as_secs_f64(),
            intensity_percent: self.crew.options.plan.at(now).percent(),
            work: total.work,
            unit: self.crew.options.resource.unit(),
            work_per_s: total.work.wrapping_sub(before.work) as f64 / window_s,
            latency_ns: total.latency_since(&before),
            footprint_bytes: total.footprint_bytes,
        }
    }

    /// Ends the work, within a millisecond of each thread's present burst, and reports.
    pub fn finish(mut self) -> Result<Report, PressureError> {
        let elapsed = self.elapsed();
        let limit = self.crew.orders.limit;
        let ended_by = match self.crew.orders.stop.signal() {
            Some(signal) => End::of_signal(signal),
            None if elapsed >= limit => End::Time,
            None => End::Caller,
        };
        let notes = self.crew.dismiss()?;
        Ok(self.report(elapsed.min(limit), ended_by, notes))
    }

    /// How fast it was armed, at work and still again, if it was to end after `asked`.
    fn timing(&self, asked: Duration, ended_by: End) -> Timing {
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        let ends: Vec<_> = self.crew.meter.slots().iter().map(Slot::ends).collect();
        // The last thread counts; one that never worked leaves both open.
        let first = ends.iter().map(|(first, _)| *first).collect::<Option<Vec<_>>>();
        let last = ends.iter().map(|(_, last)| *last).collect::<Option<Vec<_>>>();
        let latest = |spans: Option<Vec<Duration>>| spans.and_then(|s| s.into_iter().max());
        let by_signal = !matches!(ended_by, End::Time | End::Caller);
        let stop = latest(last).filter(|_| !by_signal);
        Timing {
            arm_ms: ms(self.crew.armed_in),
            start_ms: latest(first).map(ms),
            stop_ms: stop.map(|last| ms(last.saturating_sub(asked))),
        }
    }

    fn report(&self, elapsed: Duration, ended_by: End, notes: Vec<String>) -> Report {
        let crew = &self.crew;
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let (total, none) = (crew.meter.total(), Counts::default());
        let threads = crew.meter.slots().iter().zip(&crew.cpus);
        let (from_percent, to_percent, ramp_s) = course(&crew.options.plan);
        Report {
            schema: SCHEMA.to_owned(),
            kernel: crew.options.resource,
            from_percent,
            to_percent,
            ramp_s,
            cpus: crew.options.cpus.clone(),
            seconds,
            work: total.work,
            unit: crew.options.resource.unit(),
            work_per_s: total.work as f64 / seconds,
            busy_frac: total.busy_ns as f64 / 1e9 / seconds / crew.cpus.len().max(1) as f64,
            latency_ns: total.latency_since(&none),
            footprint_bytes: total.footprint_bytes,
            huge_pages: crew.huge_pages.clone(),
            ended_by,
            timing: self.timing(elapsed, ended_by),
            threads: threads.map(|(slot, cpu)| thread_report(slot.counts(), *cpu)).collect(),
            notes,
        }
    }
}

fn thread_report(counts: Counts, cpu: Option<u32>) -> ThreadReport {
    ThreadReport {
        cpu,
        work: counts.work,
        busy_s: counts.busy_ns as f64 / 1e9,
        cpu_s: counts.cpu_ns as f64 / 1e9,
        latency_ns: counts.latency_since(&Counts::default()),
    }
}
