//! One client of a server.

use crate::clock::now_ns;
use crate::embedded::Service;
use crate::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

const READ_BYTES: usize = 16 << 10;
/// A client that does not take its answers for this long is given up.
const STUCK: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Open,
    Closed,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::new(), output: Vec::new() })
    }

    /// Reads what has come and answers each whole request of it.
    pub(super) fn advance(&mut self, service: &dyn Service, served: &AtomicU64) -> Outcome {
        let mut chunk = [0; READ_BYTES];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Outcome::Closed,
            Ok(n) => self.input.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Outcome::Closed,
        }
        let mut used = 0;
        loop {
            match wire::read_request(&self.input[used..]) {
                Ok(Some((request, length))) => {
                    respond(&request, service, &mut self.output);
                    served.fetch_add(1, Ordering::Relaxed);
                    used += length;
                    if self.send().is_err() {
                        return Outcome::Closed;
                    }
                }
                Ok(None) => break,
                Err(_) => return Outcome::Closed,
            }
        }
        self.input.drain(..used);
        Outcome::Open
    }

    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait_writable()?,
                Err(e) => return Err(e),
            }
        }
        self.output.clear();
        Ok(())
    }

    fn wait_writable(&self) -> io::Result<()> {
        let mut waits = [PollFd::new(&self.stream, PollFlags::OUT)];
        match poll(&mut waits, Some(&STUCK))? {
            0 => Err(ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

fn respond(request: &wire::Request<'_>, service: &dyn Service, output: &mut Vec<u8>) {
    let begun = now_ns();
    let at = output.len();
    wire::write_response(output, request.id, |out| service.serve(request.payload, out));
    let queue = request.sent_ns.map(|sent| begun.saturating_sub(sent));
    wire::stamp_response(output, at, queue, now_ns() - begun);
}
