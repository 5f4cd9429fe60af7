//! Serves an embedded service over TCP (L-2, loopback and networked modes).
//!
//! All workers wait on one epoll set and each takes one ready connection at a time, in the order
//! in which they became ready: waiting requests stay in the kernel, where eBPF sees them, and no
//! worker is idle while one waits.

mod connection;
mod process;

pub use process::{ServerLaunch, ServerProcess, serve_command};

use crate::clock::thread_cpu_ns;
use crate::embedded::{Service, ServiceSpec};
use crate::{LoadError, netns};
use connection::{Connection, Outcome};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// More connections than this are refused: memory stays bounded.
const MAX_CONNECTIONS: usize = 10_000;
const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// What to serve, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServeOptions {
    /// Which service, of what size.
    pub spec: ServiceSpec,
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Worker threads; 0 means one a CPU.
    pub threads: u32,
    /// Network namespace of the listening socket: a name below `/run/netns` or a path.
    pub netns: Option<String>,
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReport {
    /// Requests that it answered.
    pub requests: u64,
    /// CPU time of its workers.
    pub cpu_s: f64,
}

/// A running server; dropping it ends it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    service: Arc<dyn Service>,
    listener: TcpListener,
    epoll: OwnedFd,
    waker: OwnedFd,
    stop: AtomicBool,
    connections: Mutex<HashMap<u64, Arc<Mutex<Connection>>>>,
    next_token: AtomicU64,
    requests: AtomicU64,
    cpu_ns: AtomicU64,
}

impl Server {
    /// Builds the service and begins to listen.
    pub fn start(options: &ServeOptions) -> Result<Self, LoadError> {
        Self::with_service(
            options.spec.build()?,
            options.listen,
            options.threads,
            options.netns.as_deref(),
        )
    }

    /// Serves a service of the caller's.
    pub fn with_service(
        service: Arc<dyn Service>,
        listen: SocketAddr,
        threads: u32,
        namespace: Option<&str>,
    ) -> Result<Self, LoadError> {
        let listener = netns::inside(namespace, || {
            TcpListener::bind(listen)
                .map_err(|source| LoadError::Listen { address: listen, source })
        })?;
        let address = listener.local_addr().map_err(LoadError::io("read the server's address"))?;
        let shared = Arc::new(Shared::new(service, listener)?);
        let workers = (0..worker_count(threads))
            .map(|number| spawn_worker(number, &shared))
            .collect::<Result<_, _>>()?;
        Ok(Self { address, shared, workers })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it; requests in work are finished, waiting ones are not.
    #[must_use]
    pub fn stop(mut self) -> ServerReport {
        self.end();
        ServerReport {
            requests: self.shared.requests.load(Ordering::Relaxed),
            cpu_s: self.shared.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // The counter cannot be full: it is written once.
        let _ = rustix::io::write(&self.shared.waker, &1u64.to_ne_bytes());
        for worker in self.workers.drain(..) {
            // A worker that panicked has already said so; there is nothing left to save.
            let _ = worker.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// One a CPU where none are named.
pub(crate) fn worker_count(threads: u32) -> u32 {
    let cpus = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    if threads == 0 { cpus() } else { threads }
}

fn spawn_worker(number: u32, shared: &Arc<Shared>) -> Result<JoinHandle<()>, LoadError> {
    let shared = Arc::clone(shared);
    let work = move || {
        shared.work();
        shared.cpu_ns.fetch_add(thread_cpu_ns(), Ordering::Relaxed);
    };
    let name = format!("quell-serve-{number}");
    std::thread::Builder::new().name(name).spawn(work).map_err(LoadError::io("start a worker"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(service: Arc<dyn Service>, listener: TcpListener) -> Result<Self, LoadError> {
        listener.set_nonblocking(true).map_err(LoadError::io("set the listener up"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(LoadError::system("create an epoll set"))?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(LoadError::system("create an eventfd"))?;
        let (listens, wakes) =
            (epoll::EventData::new_u64(LISTENER), epoll::EventData::new_u64(WAKER));
        epoll::add(
            &epoll,
            &listener,
            listens,
            epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE,
        )
        .and_then(|()| epoll::add(&epoll, &waker, wakes, epoll::EventFlags::IN))
        .map_err(LoadError::system("fill an epoll set"))?;
        Ok(Self {
            service,
            listener,
            epoll,
            waker,
            stop: AtomicBool::new(false),
            connections: Mutex::default(),
            next_token: AtomicU64::new(FIRST_CONNECTION),
            requests: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
        })
    }

    fn work(&self) {
        while !self.stop.load(Ordering::Acquire) {
            let mut event = Vec::with_capacity(1);
            let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut event), None);
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing that a worker could do about a broken epoll set; the others see it too.
                Err(_) => return,
            }
            for event in &event {
                let epoll::Event { data, .. } = *event;
                match data.u64() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    token => self.advance(token),
                }
            }
        }
    }

    fn accept(&self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if lock(&self.connections).len() >= MAX_CONNECTIONS {
                continue;
            }
            let Ok(connection) = Connection::new(stream) else { continue };
            let token = self.next_token.fetch_add(1, Ordering::Relaxed);
            let connection = Arc::new(Mutex::new(connection));
            lock(&self.connections).insert(token, Arc::clone(&connection));
            let data = epoll::EventData::new_u64(token);
            if epoll::add(&self.epoll, &lock(&connection).stream, data, ONCE).is_err() {
                lock(&self.connections).remove(&token);
            }
        }
    }

    /// Serves what a ready connection asks, then waits for more.
    fn advance(&self, token: u64) {
        let Some(connection) = lock(&self.connections).get(&token).map(Arc::clone) else { return };
        let mut connection = lock(&connection);
        let outcome = connection.advance(&*self.service, &self.requests);
        let data = epoll::EventData::new_u64(token);
        let armed = outcome == Outcome::Open
            && epoll::modify(&self.epoll, &connection.stream, data, ONCE).is_ok();
        if !armed {
            lock(&self.connections).remove(&token);
        }
    }
}

/// Exactly one worker is told, and none more until the connection is armed again.
const ONCE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ONESHOT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    struct Echo;

    impl Service for Echo {
        fn serve(&self, request: &[u8], response: &mut Vec<u8>) {
            response.extend_from_slice(request);
        }
    }

    fn server() -> Server {
        Server::with_service(Arc::new(Echo), "127.0.0.1:0".parse().unwrap(), 2, None).unwrap()
    }

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn receive(stream: &mut TcpStream, input: &mut Vec<u8>) -> (u64, Vec<u8>) {
        loop {
            if let Some((response, used)) = wire::read_response(input).unwrap() {
                let answer = (response.id, response.payload.to_vec());
                assert!(response.service_ns.is_some());
                input.drain(..used);
                return answer;
            }
            let mut chunk = [0; 4096];
            let n = stream.read(&mut chunk).unwrap();
            assert!(n > 0, "closed early");
            input.extend_from_slice(&chunk[..n]);
        }
    }

    #[test]
    fn answers_pipelined_and_split_requests() {
        let server = server();
        let mut stream = connect(&server);
        let mut out = Vec::new();
        for id in 0..3 {
            wire::write_request(&mut out, id, 0, |out| out.extend_from_slice(&[id as u8; 9]));
        }
        let (first, second) = out.split_at(out.len() - 5);
        stream.write_all(first).unwrap();
        let mut input = Vec::new();
        assert_eq!(receive(&mut stream, &mut input), (0, vec![0; 9]));
        stream.write_all(second).unwrap();
        assert_eq!(receive(&mut stream, &mut input), (1, vec![1; 9]));
        assert_eq!(receive(&mut stream, &mut input), (2, vec![2; 9]));
        assert_eq!(server.stop().requests, 3);
    }

    #[test]
    fn nonsense_closes_only_its_own_connection() {
        let server = server();
        let (mut good, mut bad) = (connect(&server), connect(&server));
        bad.write_all(&[0xff; 64]).unwrap();
        // Closed with unread bytes may reset the connection: both are an end.
        assert!(matches!(bad.read(&mut [0; 8]), Ok(0) | Err(_)));
        let mut out = Vec::new();
        wire::write_request(&mut out, 7, 0, |_| ());
        good.write_all(&out).unwrap();
        assert_eq!(receive(&mut good, &mut Vec::new()).0, 7);
    }

    #[test]
    fn a_taken_port_is_named() {
        let server = server();
        let again = Server::with_service(Arc::new(Echo), server.address(), 1, None);
        let error = again.err().unwrap().to_string();
        assert!(error.contains(&server.address().to_string()), "{error}");
    }
}
