//! A generator thread that drives a server over many connections with one epoll set.

use super::LoadPlan;
use super::connection::{Connection, Event, State};
use super::pacer::Arrival;
use super::session::{Client, End, Session};
use crate::clock::{now_ns, timespec};
use crate::driver::Driver;
use crate::{Draws, LoadError, netns};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Streams of the random generator below this are for arrivals.
const CONTENT_STREAM: u64 = 1 << 32;
const EVENTS: usize = 64;

/// Makes the protocol's request stream, one for each thread.
pub(crate) type DriverMaker = dyn Fn() -> Result<Box<dyn Driver>, LoadError> + Send + Sync;

/// A server to drive.
pub(crate) struct TcpTarget {
    pub(crate) address: SocketAddr,
    /// Namespace of the client's sockets.
    pub(crate) netns: Option<String>,
    pub(crate) driver: Box<DriverMaker>,
}

impl TcpTarget {
    /// Opens this thread's connections.
    pub(super) fn client(
        &self,
        plan: &LoadPlan,
        number: u32,
        threads: u32,
    ) -> Result<Box<dyn Client>, LoadError> {
        if let Some(name) = &self.netns {
            netns::enter(name)?;
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(LoadError::system("create an epoll set"))?;
        let count = plan.connections / threads + u32::from(number < plan.connections % threads);
        let connections = (0..count)
            .map(|slot| Connection::open(self.address, &epoll, slot))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(TcpClient {
            idle: (0..connections.len()).collect(),
            connections,
            pending: VecDeque::new(),
            epoll,
            driver: (self.driver)()?,
            draws: Draws::new(plan.seed, CONTENT_STREAM + u64::from(number), plan.even),
            next_id: 0,
            busy: 0,
            down: 0,
            reconnects: 0,
        }))
    }
}

struct TcpClient {
    connections: Vec<Connection>,
    /// May name a connection that has been lost since.
    idle: VecDeque<usize>,
    /// Due, but all connections are busy.
    pending: VecDeque<Arrival>,
    epoll: OwnedFd,
    driver: Box<dyn Driver>,
    draws: Draws,
    next_id: u64,
    /// Connections with a request on its way.
    busy: u64,
    /// Connections to make again.
    down: usize,
    reconnects: u64,
}

impl Client for TcpClient {
    fn run(mut self: Box<Self>, mut session: Session) -> End {
        let mut events = Vec::with_capacity(EVENTS);
        session.sharpen();
        loop {
            let now = now_ns();
            session.follow_controls(now);
            while let Some(arrival) = session.due(now) {
                self.pending.push_back(arrival);
            }
            self.reopen(now);
            self.dispatch(&mut session);
            if session.tick_due(now) {
                session.tick(now, self.backlog());
            }
            if session.is_over(now, self.backlog()) {
                break;
            }
            self.wait(session.wake_ns(now), &mut events);
            for event in events.drain(..) {
                let epoll::Event { data, .. } = event;
                self.advance(data.u64(), &mut session);
            }
        }
        let open = self.connections.iter().filter_map(Connection::outstanding);
        let open: Vec<Arrival> = open.chain(self.pending.iter().copied()).collect();
        session.finish(open, None, self.reconnects)
    }
}

impl TcpClient {
    fn backlog(&self) -> u64 {
        self.pending.len() as u64 + self.busy
    }

    /// Sends what waits on connections that are free.
    fn dispatch(&mut self, session: &mut Session) {
        while !self.pending.is_empty() {
            let Some(slot) = self.idle.pop_front() else { return };
            let connection = &mut self.connections[slot];
            if connection.state() != State::Idle {
                continue;
            }
            let Some(arrival) = self.pending.pop_front() else { return };
            self.next_id += 1;
            self.busy += 1;
            let (driver, draws, id) = (&mut *self.driver, &mut self.draws, self.next_id);
            let event = connection
                .send(arrival, &self.epoll, |out| driver.request(id, now_ns(), draws, out));
            self.settle(slot, event, session);
        }
    }

    fn advance(&mut self, token: u64, session: &mut Session) {
        let slot = Connection::slot_of(token);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.token() == token {
            let event = connection.advance(&*self.driver, &self.epoll);
            self.settle(slot, event, session);
        }
    }

    /// Enters into the books what a connection came to.
    fn settle(&mut self, slot: usize, event: Event, session: &mut Session) {
        match event {
            Event::Nothing => {}
            Event::Connected => self.idle.push_back(slot),
            Event::Answered { arrival, answer } => {
                let done = now_ns();
                self.busy -= 1;
                if answer.ok {
                    session.answered(arrival, done, answer.service_ns, answer.queue_ns);
                } else {
                    session.failed(arrival);
                }
                if answer.closes {
                    self.connections[slot].close(done);
                    self.down += 1;
                } else {
                    self.idle.push_back(slot);
                }
            }
            Event::Lost { arrival } => {
                self.down += 1;
                if let Some(arrival) = arrival {
                    self.busy -= 1;
                    session.failed(arrival);
                }
            }
        }
    }

    /// Begins to make lost connections again.
    fn reopen(&mut self, now_ns: u64) {
        if self.down == 0 {
            return;
        }
        for connection in &mut self.connections {
            if connection.retry_at().is_some_and(|at| at <= now_ns) {
                self.reconnects += 1;
                if connection.reopen(&self.epoll) {
                    self.down -= 1;
                }
            }
        }
    }

    fn wait(&self, wake_ns: u64, events: &mut Vec<epoll::Event>) {
        let retries = self.connections.iter().filter_map(Connection::retry_at);
        let retry = if self.down > 0 { retries.min() } else { None };
        let wake = retry.map_or(wake_ns, |at| at.min(wake_ns));
        let timeout = timespec(wake.saturating_sub(now_ns()));
        // An interrupted wait only means to look again.
        let spare = rustix::buffer::spare_capacity(events);
        let _ = epoll::wait(&self.epoll, spare, Some(&timeout));
    }
}
