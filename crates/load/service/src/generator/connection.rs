//! One client connection: at most one request on its way.

use super::pacer::Arrival;
use crate::LoadError;
use crate::clock::now_ns;
use crate::driver::{Answer, Driver, MAX_ANSWER};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

const READ_BYTES: usize = 16 << 10;
const CONNECT: Duration = Duration::from_secs(5);
/// Between attempts to make a lost connection again.
const RETRY_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Lost; to be made again at this time.
    Down {
        retry_at_ns: u64,
    },
    Connecting,
    Idle,
    Busy(Arrival),
}

/// What came of a step.
#[derive(Debug)]
pub(super) enum Event {
    Nothing,
    /// Ready for a request.
    Connected,
    Answered {
        arrival: Arrival,
        answer: Answer,
    },
    /// Gone, with the request that was on its way.
    Lost {
        arrival: Option<Arrival>,
    },
}

pub(super) struct Connection {
    address: SocketAddr,
    slot: u32,
    /// Counts connections made, so that events of an old one are not taken for the new one's.
    generation: u32,
    stream: Option<TcpStream>,
    state: State,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Whether the epoll set tells when it can be written.
    wants_out: bool,
}

impl Connection {
    /// Connects, waiting a few seconds at most.
    pub(super) fn open(address: SocketAddr, epoll: &OwnedFd, slot: u32) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Connect { address, source };
        let stream = TcpStream::connect_timeout(&address, CONNECT).map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut connection = Self {
            address,
            slot,
            generation: 0,
            stream: Some(stream),
            state: State::Idle,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            wants_out: false,
        };
        connection.register(epoll, false).map_err(|errno| failed(errno.into()))?;
        Ok(connection)
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn token(&self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.slot)
    }

    pub(super) fn slot_of(token: u64) -> usize {
        (token & u64::from(u32::MAX)) as usize
    }

    pub(super) fn outstanding(&self) -> Option<Arrival> {
        if let State::Busy(arrival) = self.state { Some(arrival) } else { None }
    }

    pub(super) fn retry_at(&self) -> Option<u64> {
        if let State::Down { retry_at_ns } = self.state { Some(retry_at_ns) } else { None }
    }

    /// Sends the request that `write` appends.
    pub(super) fn send(
        &mut self,
        arrival: Arrival,
        epoll: &OwnedFd,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Event {
        self.output.clear();
        self.sent = 0;
        write(&mut self.output);
        self.state = State::Busy(arrival);
        self.flush(epoll)
    }

    /// Does what the socket is ready for.
    pub(super) fn advance(&mut self, driver: &dyn Driver, epoll: &OwnedFd) -> Event {
        match self.state {
            State::Down { .. } => Event::Nothing,
            State::Connecting => self.finish_connect(epoll),
            State::Idle | State::Busy(_) => {
                if self.sent < self.output.len() {
                    let event = self.flush(epoll);
                    if !matches!(event, Event::Nothing) {
                        return event;
                    }
                }
                self.receive(driver)
            }
        }
    }

    fn flush(&mut self, epoll: &OwnedFd) -> Event {
        while self.sent < self.output.len() {
            let Some(stream) = &mut self.stream else { return self.lose() };
            match stream.write(&self.output[self.sent..]) {
                Ok(n) if n > 0 => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return self.watch(epoll, true),
                Ok(_) | Err(_) => return self.lose(),
            }
        }
        if self.wants_out { self.watch(epoll, false) } else { Event::Nothing }
    }

    fn receive(&mut self, driver: &dyn Driver) -> Event {
        let mut chunk = [0; READ_BYTES];
        let read = match &mut self.stream {
            Some(stream) => stream.read(&mut chunk),
            None => Ok(0),
        };
        match read {
            Ok(n) if n > 0 => self.input.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Event::Nothing;
            }
            Ok(_) | Err(_) => return self.lose(),
        }
        // Bytes that nobody asked for: the two sides no longer agree on where answers begin.
        let State::Busy(arrival) = self.state else { return self.lose() };
        match driver.answer(&self.input) {
            Ok(Some(answer)) => {
                self.input.drain(..answer.length.min(self.input.len()));
                self.state = State::Idle;
                Event::Answered { arrival, answer }
            }
            Ok(None) if self.input.len() <= MAX_ANSWER => Event::Nothing,
            Ok(None) | Err(_) => self.lose(),
        }
    }

    /// Gives the connection up, to be made again at once.
    pub(super) fn close(&mut self, retry_at_ns: u64) {
        self.stream = None;
        self.input.clear();
        self.output.clear();
        self.sent = 0;
        self.state = State::Down { retry_at_ns };
    }

    fn lose(&mut self) -> Event {
        let arrival = self.outstanding();
        self.close(now_ns() + RETRY_NS);
        Event::Lost { arrival }
    }

    /// Begins to connect without waiting; false if that failed at once, to be tried again later.
    pub(super) fn reopen(&mut self, epoll: &OwnedFd) -> bool {
        self.generation = self.generation.wrapping_add(1);
        let begun = begin_connect(self.address).and_then(|stream| {
            self.stream = Some(stream);
            Ok(self.register(epoll, true)?)
        });
        match begun {
            Ok(()) => self.state = State::Connecting,
            Err(_) => self.close(now_ns() + RETRY_NS),
        }
        begun.is_ok()
    }

    fn finish_connect(&mut self, epoll: &OwnedFd) -> Event {
        let connected = match &self.stream {
            Some(stream) => matches!(sockopt::socket_error(stream), Ok(Ok(()))),
            None => false,
        };
        if !connected {
            return self.lose();
        }
        self.state = State::Idle;
        match self.watch(epoll, false) {
            Event::Nothing => Event::Connected,
            other => other,
        }
    }

    fn register(&mut self, epoll: &OwnedFd, out: bool) -> Result<(), Errno> {
        let Some(stream) = &self.stream else { return Err(Errno::NOTCONN) };
        self.wants_out = out;
        epoll::add(epoll, stream, EventData::new_u64(self.token()), interest(out))
    }

    fn watch(&mut self, epoll: &OwnedFd, out: bool) -> Event {
        let Some(stream) = &self.stream else { return self.lose() };
        self.wants_out = out;
        let data = EventData::new_u64(self.token());
        match epoll::modify(epoll, stream, data, interest(out)) {
            Ok(()) => Event::Nothing,
            Err(_) => self.lose(),
        }
    }
}

fn interest(out: bool) -> EventFlags {
    if out { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}
