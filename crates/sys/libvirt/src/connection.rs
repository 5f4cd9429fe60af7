//! One connection: opened, logged in, calls answered in order, each within its limit.

use crate::LibvirtError;
use crate::wire::{Header, Kind, PROGRAM, Procedure, RemoteError, message, rest_of};
use crate::xdr::{Malformed, Reader, Writer};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The driver of the machines that the whole server has.
pub const SYSTEM: &str = "qemu:///system";
/// Where daemons of the whole server listen, below the root: that of QEMU alone, then the one for
/// all drivers. Those of a user's session lie elsewhere, and their machines are nobody else's.
const SOCKETS: [&str; 2] = ["run/libvirt/virtqemud-sock", "run/libvirt/libvirt-sock"];
/// The name of a socket at which nothing can be changed ends so.
const READ_ONLY: &str = "-ro";
/// Log-ins that a list may name (`REMOTE_AUTH_TYPE_LIST_MAX`).
const MAX_LOGINS: usize = 20;
/// Read at once, in bytes.
const CHUNK: usize = 16 << 10;

/// Whether anything may be changed over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only (`VIR_CONNECT_RO`).
    Read,
    /// All that root may.
    Full,
}

/// The sockets of libvirt that are there below this root, those for reading only left out.
#[must_use]
pub fn sockets(root: &Path) -> Vec<PathBuf> {
    existing(root, "")
}

fn existing(root: &Path, end: &str) -> Vec<PathBuf> {
    let paths = SOCKETS.iter().map(|path| root.join(format!("{path}{end}")));
    paths.filter(|path| path.exists()).collect()
}

/// An open connection. After an answer that came too late or made no sense, every further call
/// fails: open another one.
#[derive(Debug)]
pub struct Connection {
    socket: PathBuf,
    stream: UnixStream,
    serial: u32,
    limit: Duration,
    closed: bool,
}

impl Connection {
    /// The daemon for the whole server's machines below this root: the first one that answers; where
    /// reading is enough, also at a socket for that alone. Each call may take `limit`.
    ///
    /// # Errors
    /// There is no socket, or nobody answers at any; then the error of the last one.
    pub fn system(root: &Path, access: Access, limit: Duration) -> Result<Self, LibvirtError> {
        let none = || LibvirtError::NoSocket { looked: format!("/{}", SOCKETS.join(", /")) };
        let mut found = Err(none());
        let read_only = match access {
            Access::Read => existing(root, READ_ONLY),
            Access::Full => Vec::new(),
        };
        for socket in sockets(root).into_iter().chain(read_only) {
            found = Self::open(&socket, SYSTEM, access, limit);
            if found.is_ok() {
                break;
            }
        }
        found
    }

    /// Connects to the daemon at this socket and opens a driver by its URI. Each call may take
    /// `limit`.
    ///
    /// # Errors
    /// Nobody answers, a log-in is wanted, or the driver is unknown there.
    pub fn open(
        socket: &Path,
        uri: &str,
        access: Access,
        limit: Duration,
    ) -> Result<Self, LibvirtError> {
        let stream = dial(socket, limit).map_err(|source| match timed_out(&source) {
            true => timeout(socket, Procedure::ConnectOpen, limit),
            false => LibvirtError::Connect { socket: socket.to_owned(), source },
        })?;
        let socket = socket.to_owned();
        let mut connection = Self { socket, stream, serial: 0, limit, closed: false };
        connection.log_in()?;
        let flags = u32::from(access == Access::Read);
        let arguments = Writer::default().optional_text(Some(uri)).u32(flags);
        connection.call(Procedure::ConnectOpen, arguments)?;
        Ok(connection)
    }

    /// Where it leads.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it still answers, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// How long each further call may take.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Tells libvirt that this was all.
    ///
    /// # Errors
    /// The connection broke before.
    pub fn close(mut self) -> Result<(), LibvirtError> {
        self.call(Procedure::ConnectClose, Writer::default()).map(drop)
    }

    /// The daemon lets nobody in who has not asked how. Root needs no polkit, which may not even be
    /// there, and is told so.
    fn log_in(&mut self) -> Result<(), LibvirtError> {
        let answer = self.call(Procedure::AuthList, Writer::default())?;
        let list = |reader: &mut Reader<'_>| reader.list(MAX_LOGINS, Reader::u32);
        let ways = self.read(Procedure::AuthList, &answer, list)?;
        let (none, polkit) = (0, 2);
        if ways.is_empty() || ways.contains(&none) {
            return Ok(());
        }
        if ways.contains(&polkit) {
            return self.call(Procedure::AuthPolkit, Writer::default()).map(drop);
        }
        let name = |way: &u32| if *way == 1 { "SASL".to_owned() } else { format!("way {way}") };
        let wanted = ways.iter().map(name).collect::<Vec<_>>().join(" or ");
        Err(LibvirtError::Login { socket: self.socket.clone(), wanted })
    }

    /// Calls a procedure; answers with the bytes of its answer.
    pub(crate) fn call(
        &mut self,
        procedure: Procedure,
        arguments: Writer,
    ) -> Result<Vec<u8>, LibvirtError> {
        let until = Instant::now() + self.limit;
        self.serial = self.serial.wrapping_add(1);
        let bytes =
            message(procedure, Kind::Call, self.serial, false, arguments.finish().as_slice());
        if self.closed {
            let source = io::Error::new(io::ErrorKind::NotConnected, "it was closed before");
            return Err(self.broken(procedure, source));
        }
        self.send(&bytes, until).map_err(|error| self.fail(procedure, error))?;
        loop {
            let body = self.receive(until).map_err(|error| self.fail(procedure, error))?;
            let mut reader = Reader::new(&body);
            let header = match Header::read(&mut reader) {
                Ok(header) => header,
                Err(why) => return Err(self.nonsense(procedure, why)),
            };
            // Events and keep-alives that nobody asked for are no business of this call.
            if header.program != PROGRAM || header.kind != Kind::Reply {
                continue;
            }
            if !header.answers(procedure, self.serial) {
                return Err(self.nonsense(procedure, Malformed("the answer to another call")));
            }
            if header.failed {
                return Err(self.refusal(procedure, &mut reader));
            }
            return Ok(body[body.len() - reader.left()..].to_vec());
        }
    }

    /// Reads an answer.
    pub(crate) fn read<T>(
        &mut self,
        procedure: Procedure,
        answer: &[u8],
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<T, LibvirtError> {
        read(&mut Reader::new(answer)).map_err(|why| self.nonsense(procedure, why))
    }

    fn refusal(&mut self, procedure: Procedure, reader: &mut Reader<'_>) -> LibvirtError {
        match RemoteError::read(reader) {
            Ok(RemoteError { code, part, message }) => {
                LibvirtError::Refused { call: procedure.call(), message, code, part }
            }
            Err(why) => self.nonsense(procedure, why),
        }
    }

    fn send(&mut self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A message without its length.
    fn receive(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        let length = self.exactly(4, until)?;
        let length = <[u8; 4]>::try_from(length).unwrap_or_default();
        let rest =
            rest_of(length).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        self.exactly(rest, until)
    }

    /// Room is made only for what has come.
    fn exactly(&mut self, length: usize, until: Instant) -> io::Result<Vec<u8>> {
        let (mut bytes, mut chunk) = (Vec::new(), [0; CHUNK]);
        while bytes.len() < length {
            self.stream.set_read_timeout(Some(left(until)?))?;
            let room = CHUNK.min(length - bytes.len());
            match self.stream.read(&mut chunk[..room]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => bytes.extend(&chunk[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    fn fail(&mut self, procedure: Procedure, source: io::Error) -> LibvirtError {
        self.closed = true;
        if timed_out(&source) {
            return timeout(&self.socket, procedure, self.limit);
        }
        if source.kind() == io::ErrorKind::InvalidData {
            let why = source.to_string();
            return LibvirtError::Protocol {
                socket: self.socket.clone(),
                call: procedure.call(),
                why,
            };
        }
        self.broken(procedure, source)
    }

    fn broken(&self, procedure: Procedure, source: io::Error) -> LibvirtError {
        LibvirtError::Broken { socket: self.socket.clone(), call: procedure.call(), source }
    }

    fn nonsense(&mut self, procedure: Procedure, why: Malformed) -> LibvirtError {
        self.closed = true;
        let why = why.to_string();
        LibvirtError::Protocol { socket: self.socket.clone(), call: procedure.call(), why }
    }
}

fn timeout(socket: &Path, procedure: Procedure, limit: Duration) -> LibvirtError {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    LibvirtError::Timeout { socket: socket.to_owned(), call: procedure.call(), limit_ms }
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What is left until then; at least a millisecond, since 0 means for ever.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left.max(Duration::from_millis(1)))
}

/// A Unix socket's connect waits, too, while the daemon takes no more: as long as sending may.
fn dial(socket: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&fd, Timeout::Send, Some(limit.max(Duration::from_millis(1))))?;
    loop {
        match connect(&fd, &address) {
            Err(Errno::INTR) => {}
            done => {
                done?;
                return Ok(UnixStream::from(fd));
            }
        }
    }
}
