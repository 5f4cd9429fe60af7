//! A sink: accepts TCP flows, throws their bytes away and counts them.

use crate::{PressureError, netns};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a thread waits for bytes or a flow before it looks whether it shall end.
const LOOK: Duration = Duration::from_millis(50);
/// Most flows at a time; a further one is closed at once.
const MOST_FLOWS: usize = 1024;
/// Bytes asked for in one call. None of them is copied.
const CHUNK: usize = 1 << 20;

/// A running sink. It ends when dropped.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicU64,
    flows: AtomicU64,
    ended: AtomicBool,
}

impl Sink {
    /// Listens at `address` (port 0: any free one), in the network namespace `netns` if given.
    pub fn start(address: SocketAddr, netns: Option<&Path>) -> Result<Sink, PressureError> {
        let listener = netns::within(netns, || {
            let listener = TcpListener::bind(address)
                .map_err(|e| PressureError::system("cannot listen at", address.to_string(), e))?;
            Ok(listener)
        })?;
        let failed = |e| PressureError::system("cannot set up the sink at", address.to_string(), e);
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new()
            .name("quell-sink".to_owned())
            .spawn(move || accept(&listener, &theirs))
            .map_err(failed)?;
        Ok(Sink { address, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes that arrived so far, over all flows.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// Flows open now.
    #[must_use]
    pub fn flows(&self) -> u64 {
        self.shared.flows.load(Relaxed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Accepts until the end, then waits for the flows' threads.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut flows: Vec<JoinHandle<()>> = Vec::new();
    while !shared.ended.load(Relaxed) {
        flows.retain(|flow| !flow.is_finished());
        match listener.accept() {
            Ok((stream, _)) if flows.len() < MOST_FLOWS => {
                let theirs = Arc::clone(shared);
                let name = std::thread::Builder::new().name("quell-sink-flow".to_owned());
                flows.extend(name.spawn(move || drain(&stream, &theirs)).ok());
            }
            Ok(_) => {}
            Err(_) => wait_readable(listener),
        }
    }
    for flow in flows {
        let _ = flow.join();
    }
}

fn wait_readable(listener: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look));
}

/// Reads one flow to its end.
fn drain(stream: &TcpStream, shared: &Shared) {
    if stream.set_nonblocking(false).is_err() || stream.set_read_timeout(Some(LOOK)).is_err() {
        return;
    }
    shared.flows.fetch_add(1, Relaxed);
    while !shared.ended.load(Relaxed) {
        match discard(stream) {
            Ok(0) => break,
            Ok(bytes) => {
                shared.bytes.fetch_add(bytes as u64, Relaxed);
            }
            Err(e) if matches!(e.kind(), WouldBlock | TimedOut | Interrupted) => {}
            Err(_) => break,
        }
    }
    shared.flows.fetch_sub(1, Relaxed);
}

use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};

/// Takes up to CHUNK bytes off the socket. With MSG_TRUNC Linux drops TCP payload without copying
/// it (tcp(7)), so that the sink itself does not press on memory.
fn discard(stream: &TcpStream) -> std::io::Result<usize> {
    let (nowhere, fd) = (std::ptr::null_mut(), stream.as_raw_fd());
    // SAFETY: MSG_TRUNC on a TCP socket writes nothing to the buffer, so a null one serves.
    let taken = unsafe { libc::recv(fd, nowhere, CHUNK, libc::MSG_TRUNC) };
    usize::try_from(taken).map_err(|_| std::io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    #[test]
    fn counts_what_arrives_and_ends() {
        let sink = Sink::start("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let mut flows: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(sink.address()).unwrap()).collect();
        for flow in &mut flows {
            flow.write_all(&[7; 100_000]).unwrap();
        }
        let end = Instant::now() + Duration::from_secs(30);
        while sink.bytes() < 300_000 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(sink.bytes(), 300_000);
        drop(flows.pop());
        while sink.flows() > 2 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(sink.flows(), 2);
        let address = sink.address();
        drop(sink);
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn an_address_in_use_is_an_error() {
        let sink = Sink::start("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let second = Sink::start(sink.address(), None).unwrap_err();
        assert!(second.to_string().contains("cannot listen"), "{second}");
    }
}
