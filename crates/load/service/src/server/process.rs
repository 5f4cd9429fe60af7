//! A server in a process of its own, so that it can have its own cgroup and namespace.
//!
//! The child is some program that calls [`serve_command`] with its last argument: for users
//! `quell load serve JSON`. It says where it listens on its standard output and lives until its
//! standard input closes, so it cannot outlive its parent.

use super::{ServeOptions, Server, ServerReport};
use crate::LoadError;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time to generate the data, with room for a machine that is busy with other work.
const START: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(5);
const LISTENING: &str = "listening ";

/// The program that becomes the server: it is run with `args` and, last, the options as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerLaunch {
    /// Usually the running program itself.
    pub program: PathBuf,
    /// Arguments before the JSON, as `load serve`.
    pub args: Vec<String>,
    /// Environment variables to add.
    pub env: Vec<(String, String)>,
}

impl ServerLaunch {
    /// This very program, called with `args`.
    pub fn this_program(args: &[&str]) -> Result<Self, LoadError> {
        let program = std::env::current_exe().map_err(LoadError::io("find this program"))?;
        let args = args.iter().map(|&arg| arg.into()).collect();
        Ok(Self { program, args, env: Vec::new() })
    }
}

/// A server process; dropping it ends it.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// Closing it tells the server to end.
    stdin: Option<ChildStdin>,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts the server and waits until it listens.
    pub fn start(launch: &ServerLaunch, options: &ServeOptions) -> Result<Self, LoadError> {
        let failed = |why: String| LoadError::Server { program: launch.program.clone(), why };
        let json = serde_json::to_string(options).map_err(|e| failed(e.to_string()))?;
        let mut command = Command::new(&launch.program);
        command.args(&launch.args).arg(json).envs(launch.env.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let unspecified = options.listen;
        let mut server = Self { child, stdin, address: unspecified };
        let stdout = stdout.ok_or_else(|| failed("has no standard output".into()))?;
        server.address = address_from(stdout).map_err(failed)?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id, to put it into a cgroup.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn end(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It did not listen to reason; it is our own child, so the pid is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for the line that says where the server listens, and goes on emptying its output so
/// that it never blocks on it.
fn address_from(stdout: impl Read + Send + 'static) -> Result<SocketAddr, String> {
    let (tell, told) = mpsc::channel();
    let read = move || {
        let mut lines = BufReader::new(stdout).lines();
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
            // Other output may stand before it on the same line.
            let (_, text) = line.split_once(LISTENING)?;
            text.trim().parse().ok()
        });
        // The starter may have given up; then nobody listens.
        let _ = tell.send(found);
        for _ in lines.map_while(Result::ok) {}
    };
    let named = std::thread::Builder::new().name("quell-server-out".into());
    named.spawn(read).map_err(|e| e.to_string())?;
    match told.recv_timeout(START) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err("ended before it listened; its error output says why".into()),
        Err(_) => Err(format!("does not listen after {} s", START.as_secs())),
    }
}

/// The server's side: serves what `json` (a [`ServeOptions`]) says, tells on standard output
/// where, and returns when standard input closes.
pub fn serve_command(json: &str) -> Result<ServerReport, LoadError> {
    let options: ServeOptions =
        serde_json::from_str(json).map_err(|e| LoadError::option("serve", e.to_string()))?;
    let server = Server::start(&options)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{LISTENING}{}", server.address())
        .and_then(|()| stdout.flush())
        .map_err(LoadError::io("tell the server's address"))?;
    drop(stdout);
    io::copy(&mut io::stdin().lock(), &mut io::sink())
        .map_err(LoadError::io("wait for the end of standard input"))?;
    Ok(server.stop())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{ServiceSpec, StoreParams};

    fn options() -> ServeOptions {
        ServeOptions {
            spec: ServiceSpec::Store(StoreParams::default()),
            listen: "127.0.0.1:0".parse().unwrap(),
            threads: 1,
            netns: None,
        }
    }

    #[test]
    fn the_address_is_found_among_other_output() {
        let text: &[u8] = b"hello\nrunning test ... listening 127.0.0.1:42\nmore\n";
        assert_eq!(address_from(text).unwrap(), "127.0.0.1:42".parse().unwrap());
        assert!(address_from(&b"nothing\n"[..]).is_err());
    }

    #[test]
    fn a_program_that_ends_is_an_error() {
        let launch =
            ServerLaunch { program: "/bin/true".into(), args: Vec::new(), env: Vec::new() };
        let error = ServerProcess::start(&launch, &options()).unwrap_err();
        assert!(error.to_string().contains("/bin/true"), "{error}");
    }

    #[test]
    fn options_survive_the_command_line() {
        let json = serde_json::to_string(&options()).unwrap();
        assert_eq!(serde_json::from_str::<ServeOptions>(&json).unwrap(), options());
        assert!(serve_command("{").is_err());
    }
}
