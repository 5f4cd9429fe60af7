//! Traffic inside a [`super::Lab`]: bulk senders, a receiver that counts, a small echo.
//!
//! Every thread here ends when its value is dropped: its sockets are shut down and it is joined.

use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::sys;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const CHUNK: usize = 64 * 1024;
const POLL: Duration = Duration::from_millis(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a group of threads shares with its owner.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    bytes: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Remembers a stream so that it can be shut down; refuses once stopped.
    fn keep(&self, stream: &TcpStream) -> io::Result<()> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stopped() {
            return Err(io::Error::other("stopped"));
        }
        streams.push(stream.try_clone()?);
        Ok(())
    }

    fn shut_down(&self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        for stream in streams.drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A listener whose connections are each served by a thread.
#[derive(Debug)]
struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<Option<()>>>,
}

type Serve = fn(&mut TcpStream, &Shared) -> io::Result<()>;

impl Server {
    fn start(namespace: &Netns, address: SocketAddr, name: &str, serve: Serve) -> Result<Self> {
        let doing = format!("listen on {address} in {namespace}");
        let listener = namespace
            .run(|| TcpListener::bind(address).and_then(|l| l.set_nonblocking(true).map(|()| l)))?
            .map_err(EgressError::system(doing.clone()))?;
        let address = listener.local_addr().map_err(EgressError::system(doing))?;
        let shared = Arc::new(Shared::default());
        let mine = Arc::clone(&shared);
        let acceptor = namespace.spawn(name, move || accept_all(&listener, &mine, serve))?;
        Ok(Self { shared, address, acceptor: Some(acceptor) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.shut_down();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, serve: Serve) {
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stopped() {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(POLL);
            continue;
        };
        if shared.keep(&stream).is_err() || stream.set_nonblocking(false).is_err() {
            continue;
        }
        let shared = Arc::clone(shared);
        workers.push(thread::spawn(move || {
            // The peer's end or our own stop is how a connection ends.
            let _ = serve(&mut stream, &shared);
        }));
    }
    for worker in workers {
        let _ = worker.join();
    }
}

/// Receives and counts: what really arrived at the far end of a link.
#[derive(Debug)]
pub struct Sink(Server);

impl Sink {
    /// Listens in a namespace; port 0 chooses a free one.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub fn start(namespace: &Netns, address: impl Into<SocketAddr>) -> Result<Self> {
        Server::start(namespace, address.into(), "quell-sink", |stream, shared| {
            let mut buffer = vec![0; CHUNK];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(()),
                    n => shared.bytes.fetch_add(n as u64, Ordering::Relaxed),
                };
            }
        })
        .map(Self)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Payload bytes received so far on all connections.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.shared.bytes.load(Ordering::Relaxed)
    }
}

/// Senders that send as fast as they are let.
#[derive(Debug)]
pub struct Bulk {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Starts `flows` TCP connections with CUBIC from a namespace. With `class`, their packets go
    /// to that class of the link's HTB.
    ///
    /// # Errors
    /// If a connection cannot be made, or the kernel has no CUBIC.
    pub fn start(
        namespace: &Netns,
        to: SocketAddr,
        flows: usize,
        class: Option<u32>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut bulk = Self { shared, threads: Vec::new() };
        for _ in 0..flows {
            let stream = namespace
                .run(|| open_flow(to, class))?
                .and_then(|stream| bulk.shared.keep(&stream).map(|()| stream))
                .map_err(EgressError::system(format!("connect to {to} in {namespace}")))?;
            let shared = Arc::clone(&bulk.shared);
            bulk.threads.push(thread::spawn(move || pour(stream, &shared)));
        }
        Ok(bulk)
    }

    /// Bytes handed to the kernel so far; the receiver's count says what arrived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.shared.shut_down();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn open_flow(to: SocketAddr, class: Option<u32>) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, ANSWER_TIMEOUT)?;
    sys::set_congestion(&stream, "cubic")?;
    class.map_or(Ok(()), |class| sys::set_priority(&stream, class))?;
    Ok(stream)
}

fn pour(mut stream: TcpStream, shared: &Shared) {
    let chunk = vec![0x71; CHUNK];
    while !shared.stopped() {
        match stream.write(&chunk) {
            Ok(n) => shared.bytes.fetch_add(n as u64, Ordering::Relaxed),
            Err(_) => return,
        };
    }
}

/// Sends back what it gets, byte for byte.
#[derive(Debug)]
pub struct Echo(Server);

impl Echo {
    /// Listens in a namespace; port 0 chooses a free one.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub fn start(namespace: &Netns, address: impl Into<SocketAddr>) -> Result<Self> {
        Server::start(namespace, address.into(), "quell-echo", |stream, _| {
            stream.set_nodelay(true)?;
            let mut buffer = vec![0; CHUNK];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(()),
                    n => stream.write_all(&buffer[..n])?,
                }
            }
        })
        .map(Self)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}

/// How to ask an [`Echo`]: one request at a time, so a trip holds no queueing of its own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoLoad {
    /// How long.
    pub duration: Duration,
    /// Time between the starts of two requests; longer where an answer takes longer.
    pub every: Duration,
    /// Payload of a request and of its answer.
    pub bytes: usize,
}

impl EchoLoad {
    /// Asks from a namespace over one connection; gives the round trips in the order of requests.
    ///
    /// # Errors
    /// If there is no connection, or an answer takes more than 5 s.
    pub fn measure(&self, namespace: &Netns, to: SocketAddr) -> Result<Vec<Duration>> {
        namespace
            .run(|| self.ask(to))?
            .map_err(EgressError::system(format!("ask the echo at {to} from {namespace}")))
    }

    fn ask(&self, to: SocketAddr) -> io::Result<Vec<Duration>> {
        let mut stream = TcpStream::connect_timeout(&to, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let (request, mut answer) = (vec![0x65; self.bytes], vec![0; self.bytes]);
        let begin = Instant::now();
        let mut trips = Vec::new();
        while begin.elapsed() < self.duration {
            let sent = Instant::now();
            stream.write_all(&request)?;
            stream.read_exact(&mut answer)?;
            let trip = sent.elapsed();
            trips.push(trip);
            thread::sleep(self.every.saturating_sub(trip));
        }
        Ok(trips)
    }
}
