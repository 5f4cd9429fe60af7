//! Client and server in one process (L-2): the generator hands requests to worker threads
//! through a queue in memory.

use super::LoadPlan;
use super::pacer::Arrival;
use super::session::{Client, End, Session};
use crate::clock::{now_ns, sleep_until, thread_cpu_ns};
use crate::embedded::{RequestSource, Service, ServiceSpec};
use crate::server::worker_count;
use crate::{Draws, LoadError};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A service with the number of threads that shall serve it.
pub(crate) struct Workers {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) spec: ServiceSpec,
    /// 0 means one a CPU.
    pub(crate) threads: u32,
}

impl Workers {
    pub(super) fn client(&self, plan: &LoadPlan) -> Result<Box<dyn Client>, LoadError> {
        let tokens = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)
            .map_err(LoadError::system("create an eventfd"))?;
        Ok(Box::new(Integrated {
            tokens,
            service: Arc::clone(&self.service),
            threads: worker_count(self.threads),
            requests: self.spec.requests()?,
            draws: Draws::new(plan.seed.wrapping_add(1 << 32), 0, plan.even),
        }))
    }
}

struct Integrated {
    service: Arc<dyn Service>,
    threads: u32,
    tokens: OwnedFd,
    requests: Box<dyn RequestSource>,
    draws: Draws,
}

struct Job {
    arrival: Arrival,
    request: Vec<u8>,
    sent_ns: u64,
}

struct Done {
    arrival: Arrival,
    queue_ns: u64,
    service_ns: u64,
    done_ns: u64,
}

/// What generator and workers share.
///
/// The generator may have real-time priority, so it must never wait for a lock that a worker
/// holds: a worker that was put off the CPU would hold it up for as long as others keep the CPU
/// busy. It hands requests over through a channel of which it is the only sender (no lock), wakes
/// workers through a semaphore of the kernel, and only tries for what they have done.
struct Shared {
    jobs: Mutex<Receiver<Job>>,
    /// Counts jobs in the channel, and one more for each worker at the end.
    tokens: OwnedFd,
    workers: Vec<Mutex<Worker>>,
    /// Requests handed over and not finished.
    open: AtomicU64,
    /// CPU time of workers that have ended, since the measured phase began.
    cpu_ns: AtomicU64,
}

#[derive(Default)]
struct Worker {
    working: Option<Arrival>,
    done: Vec<Done>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client for Integrated {
    fn run(self: Box<Self>, mut session: Session) -> End {
        let (send, jobs) = mpsc::channel();
        let Integrated { service, threads, tokens, requests, draws } = *self;
        let shared = Shared {
            jobs: Mutex::new(jobs),
            tokens,
            workers: (0..threads).map(|_| Mutex::default()).collect(),
            open: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
        };
        let open = std::thread::scope(|scope| {
            for worker in &shared.workers {
                let (shared, service) = (&shared, &*service);
                scope.spawn(move || shared.work(worker, service));
            }
            session.sharpen();
            let mut requests = Requests { source: requests, draws, send };
            requests.generate(&shared, &mut session);
            shared.close(&mut session)
        });
        session.finish(open, Some(shared.cpu_ns.load(Ordering::Relaxed)), 0)
    }
}

struct Requests {
    source: Box<dyn RequestSource>,
    draws: Draws,
    send: Sender<Job>,
}

impl Requests {
    fn generate(&mut self, shared: &Shared, session: &mut Session) {
        loop {
            let now = now_ns();
            session.follow_controls(now);
            while let Some(arrival) = session.due(now) {
                self.hand_over(arrival, shared);
            }
            let backlog = shared.open.load(Ordering::Acquire);
            if session.is_over(now, backlog) {
                return;
            }
            if session.tick_due(now) {
                shared.book(session);
                session.tick(now, backlog);
            }
            sleep_until(session.wake_ns(now).min(drain_poll(session, now)));
        }
    }

    fn hand_over(&mut self, arrival: Arrival, shared: &Shared) {
        let mut request = Vec::new();
        self.source.request(&mut self.draws, &mut request);
        shared.open.fetch_add(1, Ordering::AcqRel);
        // The receiver lives in `shared`, longer than this.
        let _ = self.send.send(Job { arrival, request, sent_ns: now_ns() });
        shared.wake(1);
    }
}

/// During the drain nothing wakes the generator when the last answer is there.
fn drain_poll(session: &Session, now_ns: u64) -> u64 {
    const POLL_NS: u64 = 1_000_000;
    if session.is_draining() { now_ns + POLL_NS } else { u64::MAX }
}

impl Shared {
    fn wake(&self, workers: u64) {
        // Fails only when the count is full, after 2^64 requests.
        let _ = rustix::io::write(&self.tokens, &workers.to_ne_bytes());
    }

    /// Enters finished requests into the session's books, as far as no worker is just at it.
    fn book(&self, session: &mut Session) {
        for worker in &self.workers {
            if let Ok(mut worker) = worker.try_lock() {
                worker.book(session);
            }
        }
    }

    /// Lets workers end; gives the requests that were never finished.
    fn close(&self, session: &mut Session) -> Vec<Arrival> {
        let jobs = lock(&self.jobs);
        let mut open: Vec<Arrival> = jobs.try_iter().map(|job| job.arrival).collect();
        for worker in &self.workers {
            let mut worker = lock(worker);
            worker.book(session);
            open.extend(worker.working);
        }
        drop(jobs);
        self.wake(self.workers.len() as u64);
        open
    }

    /// Waits for a request; none at the end.
    fn next(&self, worker: &Mutex<Worker>) -> Option<Job> {
        let mut token = [0; 8];
        while let Err(Errno::INTR) = rustix::io::read(&self.tokens, &mut token) {}
        // Both locks, so that a request is always either in the channel or in work.
        let jobs = lock(&self.jobs);
        let job = jobs.try_recv().ok()?;
        lock(worker).working = Some(job.arrival);
        Some(job)
    }

    fn work(&self, worker: &Mutex<Worker>, service: &dyn Service) {
        let (mut response, mut cpu_start) = (Vec::new(), None);
        while let Some(job) = self.next(worker) {
            if job.arrival.measured && cpu_start.is_none() {
                cpu_start = Some(thread_cpu_ns());
            }
            let begun = now_ns();
            response.clear();
            service.serve(&job.request, &mut response);
            let done_ns = now_ns();
            let mut worker = lock(worker);
            worker.working = None;
            worker.done.push(Done {
                arrival: job.arrival,
                queue_ns: begun.saturating_sub(job.sent_ns),
                service_ns: done_ns - begun,
                done_ns,
            });
            drop(worker);
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
        let cpu = cpu_start.map_or(0, |start| thread_cpu_ns() - start);
        self.cpu_ns.fetch_add(cpu, Ordering::Relaxed);
    }
}

impl Worker {
    fn book(&mut self, session: &mut Session) {
        for done in self.done.drain(..) {
            let (service, queue) = (Some(done.service_ns), Some(done.queue_ns));
            session.answered(done.arrival, done.done_ns, service, queue);
        }
    }
}
