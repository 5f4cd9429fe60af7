//! The open-loop load generator (L-3, L-4, L-5).
//!
//! Requests are due at times that were drawn ahead; a request that cannot be sent in time counts
//! from when it was due, so a server that stalls cannot hide what it did to those that waited
//! (no coordinated omission). Nothing here spins: each thread sleeps in the kernel until the next
//! arrival or answer, because it shares the CPUs with what it measures.

mod collector;
mod connection;
mod integrated;
mod pacer;
mod session;
mod tcp;

pub(crate) use integrated::Workers;
pub(crate) use tcp::{DriverMaker, TcpTarget};

use crate::LoadError;
use crate::clock::{SECOND_NS, now_ns};
use crate::controls::Controls;
use crate::profile::Profile;
use crate::report::RunReport;
use crate::window::{Window, WindowRule};
use collector::Collector;
use pacer::{Pacer, Timeline};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::{Batch, Client, End, Session};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Scope, ScopedJoinHandle};

/// From "all threads are ready" to the first possible arrival, so that none is late at the start.
const LEAD_NS: u64 = 20_000_000;

/// How long a phase is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// So many seconds.
    Seconds(f64),
    /// So many requests over all client threads.
    Requests(u64),
}

/// One run: how much load, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadPlan {
    /// The offered rate over time.
    pub profile: Profile,
    /// Load before the measured phase. A number of requests is turned into the time in which the
    /// profile lets that many be expected.
    pub warmup: Extent,
    /// The measured phase. A number of requests is exact.
    pub measured: Extent,
    /// How long after the measured phase answers are still waited for.
    pub drain_s: f64,
    /// Seed of arrivals and request contents.
    pub seed: u64,
    /// What decides how much a request costs is drawn evenly, not at random: read or write, words of a query. Windows
    /// of few requests differ less then, each request is as likely as before, and tails are shorter than they would be.
    pub even: bool,
    /// Generator threads; the total rate is the same however many (L-5).
    pub client_threads: u32,
    /// Connections over all threads, each with one request at a time. Enough of them let requests
    /// queue at the server; what exceeds them queues in the generator and counts all the same.
    pub connections: u32,
    /// `SCHED_FIFO` for generator threads, if the kernel permits (L-6).
    pub realtime: bool,
    /// The shortest sleep: arrivals nearer than this are sent together, each counted from its own
    /// time. Trades precision for CPU time at high rates; 0 sends each at its time.
    pub min_sleep_ns: u64,
    /// Windows.
    pub window: WindowRule,
    /// Where to write one (queue, service, sojourn) triple of 64-bit little-endian nanoseconds a
    /// request (L-4); all ones stand for an unknown time.
    pub requests_file: Option<PathBuf>,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self {
            profile: Profile::Constant { qps: 500.0 },
            warmup: Extent::Seconds(2.0),
            measured: Extent::Seconds(10.0),
            drain_s: 2.0,
            seed: 1,
            even: false,
            client_threads: 1,
            connections: 64,
            realtime: true,
            min_sleep_ns: 0,
            window: WindowRule::default(),
            requests_file: None,
        }
    }
}

impl LoadPlan {
    /// Refuses what cannot be run, saying which option.
    pub fn check(&self) -> Result<(), LoadError> {
        self.profile.check()?;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let sound = |extent: Extent, least: f64| match extent {
            Extent::Seconds(s) => s.is_finite() && s >= least,
            Extent::Requests(n) => n as f64 >= least,
        };
        let checks = [
            ("warmup", sound(self.warmup, 0.0), "must not be negative"),
            ("measured", sound(self.measured, 0.001), "must be above zero"),
            ("drain_s", self.drain_s.is_finite() && self.drain_s >= 0.0, "must not be negative"),
            ("client_threads", (1..=256).contains(&self.client_threads), "must be 1 to 256"),
            (
                "connections",
                (self.client_threads..=10_000).contains(&self.connections),
                "must be at least one a client thread and at most 10000",
            ),
            ("window length", positive(self.window.length_s), "must be above zero"),
        ];
        for (option, sound, why) in checks {
            if !sound {
                return Err(LoadError::option(option, why));
            }
        }
        Ok(())
    }
}

/// What the load goes to.
pub(crate) enum Backend<'a> {
    /// A server behind sockets.
    Tcp(&'a TcpTarget),
    /// Worker threads in this process.
    Integrated(&'a Workers),
}

/// Runs one plan; `on_window` is called for each window as it closes.
pub(crate) fn drive(
    plan: &LoadPlan,
    backend: &Backend<'_>,
    controls: &Controls,
    on_window: &mut dyn FnMut(&Window),
) -> Result<RunReport, LoadError> {
    plan.check()?;
    let (batches, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads = match backend {
            Backend::Tcp(_) => plan.client_threads,
            // A queue in memory has one end to push at; more threads would only contend for it.
            Backend::Integrated(_) => 1,
        };
        let clients = (0..threads)
            .map(|number| Thread::start(scope, number, threads, plan, backend, batches.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        drop(batches);
        for client in &clients {
            client.ready.recv().map_err(|_| LoadError::Panicked("generator"))??;
        }
        let timeline = Timeline::new(plan, now_ns() + LEAD_NS);
        for (number, client) in (0..).zip(&clients) {
            let pacer = Pacer::new(plan, timeline.clone(), controls.clone(), number, threads);
            client.go.send(pacer).map_err(|_| LoadError::Panicked("generator"))?;
        }
        let mut collector = Collector::new(plan, &timeline, threads)?;
        collector.collect(&receive, on_window)?;
        let ends = clients.into_iter().map(Thread::join).collect::<Result<Vec<_>, _>>()?;
        let connections = if matches!(backend, Backend::Tcp(_)) { plan.connections } else { 0 };
        collector.report(plan, ends, connections)
    })
}

/// A generator thread as its starter sees it.
struct Thread<'scope> {
    /// Its connections stand, or why not.
    ready: Receiver<Result<(), LoadError>>,
    go: Sender<Pacer>,
    handle: ScopedJoinHandle<'scope, Option<End>>,
}

impl<'scope> Thread<'scope> {
    fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        number: u32,
        threads: u32,
        plan: &'env LoadPlan,
        backend: &'env Backend<'_>,
        batches: Sender<Batch>,
    ) -> Result<Self, LoadError> {
        let (tell_ready, ready) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        let run = move || {
            let client: Result<Box<dyn Client>, LoadError> = match backend {
                Backend::Tcp(target) => target.client(plan, number, threads),
                Backend::Integrated(workers) => workers.client(plan),
            };
            let (client, outcome) = match client {
                Ok(client) => (Some(client), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // If the starter is gone or another thread failed, there is nothing to do.
            tell_ready.send(outcome).ok()?;
            let pacer: Pacer = wait.recv().ok()?;
            Some(client?.run(Session::new(pacer, plan, number, batches)))
        };
        let handle = std::thread::Builder::new()
            .name(format!("quell-load-{number}"))
            .spawn_scoped(scope, run)
            .map_err(LoadError::io("start a generator thread"))?;
        Ok(Self { ready, go, handle })
    }

    fn join(self) -> Result<End, LoadError> {
        let end = self.handle.join().map_err(|_| LoadError::Panicked("generator"))?;
        end.ok_or(LoadError::Panicked("generator"))
    }
}

pub(crate) fn seconds_ns(seconds: f64) -> u64 {
    // Far beyond any run, and far from overflow when added to the clock.
    (seconds.clamp(0.0, 1e9) * SECOND_NS as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_checked() {
        let plan = LoadPlan::default();
        assert!(plan.check().is_ok());
        for bad in [
            LoadPlan { profile: Profile::Constant { qps: -1.0 }, ..plan.clone() },
            LoadPlan { warmup: Extent::Seconds(f64::NAN), ..plan.clone() },
            LoadPlan { measured: Extent::Requests(0), ..plan.clone() },
            LoadPlan { measured: Extent::Seconds(0.0), ..plan.clone() },
            LoadPlan { client_threads: 0, ..plan.clone() },
            LoadPlan { client_threads: 8, connections: 7, ..plan.clone() },
            LoadPlan { window: WindowRule { length_s: 0.0, min_requests: 1 }, ..plan.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
