//! Serves metrics: one thread, one request at a time, nothing but `GET /metrics` and
//! `GET /who`.

use crate::error::AgentError;
use crate::metrics::Metrics;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A client that is slower than this is let go.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest request that is read.
const LONGEST: usize = 8 << 10;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Where metrics are served; a Unix socket is removed at the end.
#[derive(Debug)]
pub(crate) struct Server {
    socket: Option<PathBuf>,
    /// The folder of the socket, if it was made for it.
    folder: Option<PathBuf>,
}

/// What was found where the socket shall be.
#[derive(Debug)]
pub(crate) enum Bound {
    /// It is served.
    Here(Server),
    /// Another agent serves there.
    Taken,
}

/// Serves on a Unix socket.
///
/// # Errors
/// The socket cannot be made, or something that is no socket is in its place.
pub(crate) fn on_socket(path: &Path, metrics: Arc<Metrics>) -> Result<Bound, AgentError> {
    let fail = |source| AgentError::Metrics { place: path.display().to_string(), source };
    let folder = path.parent().filter(|folder| !folder.exists()).map(Path::to_owned);
    if let Some(folder) = &folder {
        fs::create_dir_all(folder).map_err(fail)?;
    }
    if !free(path).map_err(fail)? {
        return Ok(Bound::Taken);
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(fail)?;
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = prepared(&stream).and_then(|()| answer(stream, &metrics));
        }
    })
    .map_err(fail)?;
    Ok(Bound::Here(Server { socket: Some(path.to_owned()), folder }))
}

/// Serves on an address.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn on_address(address: SocketAddr, metrics: Arc<Metrics>) -> Result<Server, AgentError> {
    let fail = |source| AgentError::Metrics { place: address.to_string(), source };
    let listener = TcpListener::bind(address).map_err(fail)?;
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = prepared_tcp(&stream).and_then(|()| answer(stream, &metrics));
        }
    })
    .map_err(fail)?;
    Ok(Server { socket: None, folder: None })
}

fn spawn(serve: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let name = "quell-metrics".to_owned();
    // The thread ends with the process: it holds nothing that needs an end of its own.
    std::thread::Builder::new().name(name).stack_size(128 << 10).spawn(serve).map(drop)
}

/// Removes a socket that an agent which died has left. False if somebody serves there.
fn free(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if UnixStream::connect(path).is_ok() => Ok(false),
        Ok(_) => fs::remove_file(path).map(|()| true),
    }
}

fn prepared(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn prepared_tcp(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

pub(crate) fn answer(mut stream: impl Read + Write, metrics: &Metrics) -> io::Result<()> {
    let request = read_head(&mut stream)?;
    let mut words = request.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => ("200 OK", OPENMETRICS, metrics.text()),
        (Some("GET"), Some("/who")) => who(metrics),
        (Some("GET"), _) => ("404 Not Found", TEXT, "try /metrics or /who\n".to_owned()),
        _ => ("405 Method Not Allowed", TEXT, "GET only\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

/// Who slows whom, as JSON.
fn who(metrics: &Metrics) -> (&'static str, &'static str, String) {
    match metrics.who().and_then(|report| serde_json::to_string(&report).ok()) {
        Some(json) => ("200 OK", "application/json", json),
        None => ("503 Service Unavailable", TEXT, "nothing was sampled yet\n".to_owned()),
    }
}

/// Reads up to the empty line that ends the head.
fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0; 512];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < LONGEST {
        let count = stream.read(&mut part)?;
        if count == 0 {
            break;
        }
        head.extend_from_slice(&part[..count]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = fs::remove_file(socket);
        }
        if let Some(folder) = &self.folder {
            // Not empty any more: then it is in use.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &Path, request: &str) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_socket_serves_metrics_and_nothing_else_and_goes_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/metrics.sock");
        let metrics = Arc::new(Metrics::new());
        let bound = on_socket(&path, Arc::clone(&metrics)).unwrap();
        let answer = ask(&path, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("# EOF"), "{answer}");
        assert!(ask(&path, "GET /who HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"));
        assert!(ask(&path, "GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(&path, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(matches!(on_socket(&path, Arc::clone(&metrics)).unwrap(), Bound::Taken));
        drop(bound);
        assert!(!folder.path().join("run").exists());
    }

    #[test]
    fn a_dead_agents_socket_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (dead, file) = (folder.path().join("dead"), folder.path().join("file"));
        drop(UnixListener::bind(&dead).unwrap());
        let metrics = Arc::new(Metrics::new());
        assert!(matches!(on_socket(&dead, Arc::clone(&metrics)).unwrap(), Bound::Here(_)));
        fs::write(&file, "precious").unwrap();
        assert!(on_socket(&file, metrics).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
}
