//! Samples that a service pushes to a Unix datagram socket: one latency a line, in microseconds.

use super::LatencySource;
use quell_types::{Gap, LogHistogram, Reading, RequestReading};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Datagrams read at one go: a flood must not stop the agent.
const MOST_DATAGRAMS: usize = 10_000;

/// Reads datagrams like `1234.5\n980\n`: latencies of answered requests in microseconds. Only root
/// and the socket's group may send.
#[derive(Debug)]
pub struct PushedSource {
    path: PathBuf,
    socket: UnixDatagram,
    latency: LogHistogram,
    bytes: u64,
    refused_lines: u64,
}

impl PushedSource {
    /// Makes the socket. A socket that an agent which died has left is replaced; anything else at
    /// this path is not touched.
    ///
    /// # Errors
    /// Something else is at the path, or the socket cannot be made.
    pub fn open(path: &Path) -> Result<Self, String> {
        use std::os::unix::fs::FileTypeExt;
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(fail)?
            }
            Ok(_) => return Err(format!("{} is there and is no socket", path.display())),
            Err(_) => {}
        }
        let socket = UnixDatagram::bind(path).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(fail)?;
        Ok(Self {
            path: path.to_owned(),
            socket,
            latency: LogHistogram::new(),
            bytes: 0,
            refused_lines: 0,
        })
    }
}

/// Counts the latencies of a datagram; how many of its lines are none.
pub(crate) fn take(datagram: &[u8], latency: &mut LogHistogram) -> u64 {
    let mut refused_lines = 0;
    for line in String::from_utf8_lossy(datagram).lines().filter(|l| !l.trim().is_empty()) {
        match line.trim().parse::<f64>() {
            Ok(us) if us.is_finite() && us >= 0.0 => latency.record((us * 1e3) as u64),
            _ => refused_lines += 1,
        }
    }
    refused_lines
}

impl LatencySource for PushedSource {
    fn read(&mut self) -> Reading<RequestReading> {
        let mut buffer = [0; 65_536];
        for _ in 0..MOST_DATAGRAMS {
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    self.bytes += length as u64;
                    self.refused_lines += take(&buffer[..length], &mut self.latency);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Gap::failed(format!("{}: {error}", self.path.display()))),
            }
        }
        if self.latency.count() == 0 && self.refused_lines > 0 {
            let what = format!("{} lines are no latencies in microseconds", self.refused_lines);
            return Err(Gap::Ambiguous(what));
        }
        Ok(RequestReading {
            requests: self.latency.count(),
            bytes_in: self.bytes,
            bytes_out: 0,
            latency_ns: Ok(self.latency.clone()),
        })
    }
}

impl Drop for PushedSource {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_samples_are_counted_and_nonsense_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency.sock");
        let mut source = PushedSource::open(&path).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"1000\n2000\n", &path).unwrap();
        sender.send_to(b"nonsense\n-5\n1500.5", &path).unwrap();
        let reading = source.read().unwrap();
        assert_eq!(reading.requests, 3);
        let p50 = reading.latency_ns.unwrap().quantile(0.5).unwrap();
        assert!((1.2e6..1.8e6).contains(&p50), "{p50}");
        assert_eq!(source.read().unwrap().requests, 3, "a counter, not a window");
    }

    #[test]
    fn nothing_but_an_old_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "mine").unwrap();
        assert!(PushedSource::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        let socket = folder.path().join("socket");
        drop(UnixDatagram::bind(&socket).unwrap());
        assert!(socket.exists() && PushedSource::open(&socket).is_ok());
    }
}
