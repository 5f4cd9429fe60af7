//! Services: Poisson arrivals, one queue, so many workers (S-9).
//!
//! A request is work in instructions. How long it takes follows from what else runs: the time
//! until a worker gets a CPU, the cycles that its instructions need there, and the link. Tails are
//! what comes of it.

use super::World;
use super::company::Company;
use crate::load::Load;
use crate::random::{LogNormal, Stream};
use crate::scene::SimService;
use quell_types::LogHistogram;
use std::collections::VecDeque;

/// Rates are looked at again at least this often, in seconds.
const LOOK_S: f64 = 0.1;
/// More requests than this wait nowhere: connections beyond it are refused.
const MOST_WAITING: usize = 100_000;

/// A service at work.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) group: usize,
    idle: Vec<usize>,
    waiting: VecDeque<(u64, f64)>,
    random: Stream,
    load: Load,
    /// Of a request, in instructions.
    size: LogNormal,
    request_bytes: u32,
    response_bytes: u32,
    /// Whether a request comes at the next arrival, or only the rate is looked at.
    comes: bool,
    pub(crate) requests: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) latency: LogHistogram,
    pub(crate) refused: u64,
    /// What it did beside whom.
    pub(crate) company: Company,
}

impl Service {
    pub(super) fn new(
        service: &SimService,
        group: usize,
        idle: Vec<usize>,
        random: Stream,
    ) -> Self {
        Self {
            group,
            idle,
            waiting: VecDeque::new(),
            random,
            load: service.load.clone(),
            size: LogNormal::new(service.instructions, service.variation),
            request_bytes: service.request_bytes,
            response_bytes: service.response_bytes,
            comes: false,
            requests: 0,
            bytes_in: 0,
            bytes_out: 0,
            latency: LogHistogram::new(),
            refused: 0,
            company: Company::default(),
        }
    }

    /// What clients offer.
    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// Another load from now on.
    pub(crate) fn set_load(&mut self, load: Load) {
        self.load = load;
    }
}

impl World {
    /// Draws the next arrival. A long gap is drawn again after a while, which changes nothing for
    /// a Poisson process and follows the rate.
    pub(super) fn draw_arrival(&mut self, service: usize) {
        let of = &mut self.services[service];
        let rate = of.load.rate(self.now as f64 / 1e9);
        let gap = if rate > 0.0 { of.random.exponential(1.0 / rate) } else { f64::INFINITY };
        of.comes = gap <= LOOK_S;
        let gap_ns = ((gap.min(LOOK_S) * 1e9) as u64).max(1);
        self.arrival_next.set(service, self.now + gap_ns);
    }

    pub(super) fn arrive(&mut self, service: usize) {
        if self.services[service].comes {
            self.take_request(service);
        }
        self.draw_arrival(service);
    }

    fn take_request(&mut self, service: usize) {
        let now = self.now;
        let of = &mut self.services[service];
        let work = of.random.log_normal(&of.size).max(1.0);
        match of.idle.pop() {
            Some(worker) => {
                self.threads[worker].arrived = now;
                self.threads[worker].left = work;
                self.wake(worker);
            }
            None if of.waiting.len() < MOST_WAITING => of.waiting.push_back((now, work)),
            None => of.refused += 1,
        }
    }

    /// A worker has done its request; it takes the next one or goes to sleep.
    pub(super) fn answer(&mut self, service: usize, worker: usize) {
        let arrived = self.threads[worker].arrived;
        let sent = self.send_response(service);
        let of = &mut self.services[service];
        of.requests += 1;
        of.bytes_in += u64::from(of.request_bytes);
        of.bytes_out += u64::from(of.response_bytes);
        of.latency.record(self.now - arrived + sent);
        self.begin_request(service);
        let of = &mut self.services[service];
        match of.waiting.pop_front() {
            Some((came, work)) => {
                self.threads[worker].arrived = came;
                self.threads[worker].left = work;
                self.refresh(self.threads[worker].cpu);
            }
            None => {
                of.idle.push(worker);
                self.block(worker);
            }
        }
    }

    /// Nanoseconds until a response has left.
    fn send_response(&mut self, service: usize) -> u64 {
        let of = &self.services[service];
        let (now, group, bytes) = (self.now, of.group, f64::from(of.response_bytes));
        match self.groups[group].links.first() {
            Some(&link) => (self.links[link].respond(now, group, bytes) * 1e9) as u64,
            None => {
                self.groups[group].egress_bytes += bytes;
                0
            }
        }
    }
}
