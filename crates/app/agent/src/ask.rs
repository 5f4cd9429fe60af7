//! Asks the agent that guards now.

use crate::who::WhoReport;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An agent that takes longer is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who slows each service, as the agent that serves on this socket knows it now.
///
/// # Errors
/// Nobody serves there, or the answer is none: an agent of another version, or one that has not
/// sampled yet.
pub fn ask(socket: &Path) -> io::Result<WhoReport> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /who HTTP/1.1\r\nHost: quell\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    report(&answer)
}

fn report(answer: &str) -> io::Result<WhoReport> {
    let refused = |why: &str| io::Error::other(why.trim().to_owned());
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| refused("an answer without an end"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(refused(&format!("status {status}: {body}")));
    }
    Ok(serde_json::from_str(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::serve::on_socket;
    use crate::session::testing::status;
    use std::sync::Arc;

    #[test]
    fn an_agent_tells_what_it_knows_once_it_has_sampled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        assert_eq!(ask(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let metrics = Arc::new(Metrics::new());
        let _bound = on_socket(&path, Arc::clone(&metrics)).unwrap();
        let early = ask(&path).unwrap_err().to_string();
        assert!(early.contains("503") && early.contains("sampled"), "{early}");
        let status = status();
        metrics.update(&status);
        assert_eq!(ask(&path).unwrap(), WhoReport::of(status.seconds, status.who, status.pressing));
    }

    #[test]
    fn half_an_answer_is_an_error() {
        for answer in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\n{", "x\r\n\r\n{}"] {
            assert!(report(answer).is_err(), "{answer:?}");
        }
    }
}
