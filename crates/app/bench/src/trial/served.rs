//! The service of a trial: one of Quell's own, or anybody's server.

use super::crowd::TrialGroups;
use super::draw::Program;
use super::worker::doors;
use crate::folder::RunFolder;
use crate::service::{ENTER, start_in};
use crate::ui::Interrupt;
use anyhow::Context as _;
use quell_cgroup::Group;
use quell_service::{Bench, LoadError, ServiceSpec, Target};
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that is not reached for so long never will be.
const REACHED: Duration = Duration::from_secs(60);
/// What is left of it is gone by then.
const END: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// So much of what it said last is told if it fails.
const LAST_LINES: usize = 5;

/// Whom the culprit hurts.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialService {
    /// One of Quell's own.
    Own(ServiceSpec),
    /// Anybody's server.
    Server {
        /// What starts it. It may go to the background, but stays in its control group.
        command: Program,
        /// Where it listens then, and what is asked of it.
        target: Target,
    },
}

impl TrialService {
    /// In words, for reports.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Own(spec) => spec.name().to_owned(),
            Self::Server { command, target } => format!("{} ({command})", target.describe()),
        }
    }

    /// Starts it in its group, and waits until it answers.
    pub(super) fn start(
        &self,
        quell: &Path,
        groups: &TrialGroups,
        folder: &RunFolder,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Served> {
        match self {
            Self::Own(spec) => {
                let bench = start_in(quell, &groups.service_doors(), spec)?;
                Ok(Served { bench, server: None })
            }
            Self::Server { command, target } => {
                let log = folder.path().join("server.log");
                let mut server = Server::start(command, target, groups.service(), log)?;
                let bench = server.reached(target, interrupt)?;
                Ok(Served { bench, server: Some(server) })
            }
        }
    }
}

/// A service that answers.
pub(super) struct Served {
    pub(super) bench: Bench,
    server: Option<Server>,
}

impl Served {
    /// The error, and what the server said last if that is why.
    pub(super) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match &self.server {
            Some(server) if !server.lives() => error.context(server.gone()),
            _ => error,
        }
    }
}

/// A server at work. Dropping it ends it.
struct Server {
    child: Child,
    group: Group,
    log: PathBuf,
    words: String,
}

impl Server {
    fn start(
        command: &Program,
        target: &Target,
        group: &Group,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        if let Some(address) = target.address()? {
            anyhow::ensure!(
                !listens(address),
                "somebody listens at {address} already: give the server an address of its own"
            );
        }
        let said = File::create(&log).context("cannot write what the server says")?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", ENTER, "quell-trial"]).args(doors(group)).arg("--");
        shell.args(command.words()).stdin(Stdio::null());
        shell.stdout(said.try_clone()?).stderr(said).process_group(0);
        let child = shell.spawn().context("cannot start /bin/sh")?;
        Ok(Self { child, group: group.clone(), log, words: command.to_string() })
    }

    /// Waits until it answers.
    fn reached(&mut self, target: &Target, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let begun = Instant::now();
        loop {
            match Bench::open(target, None) {
                Ok(bench) if bench.address().is_none_or(listens) => return Ok(bench),
                Ok(_) | Err(LoadError::Connect { .. } | LoadError::Loading { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            // What was started may be over, and the server in the background; or not be in the group yet.
            let over = self.child.try_wait()?.is_some() && !self.lives();
            anyhow::ensure!(!over, self.gone());
            anyhow::ensure!(
                begun.elapsed() < REACHED,
                "{} does not answer as {}: {}",
                self.words,
                target.describe(),
                self.said()
            );
            interrupt.sleep(POLL)?;
        }
    }

    /// Whether anything of it is in its group.
    fn lives(&self) -> bool {
        self.group.pids().is_ok_and(|pids| !pids.is_empty())
    }

    fn gone(&self) -> String {
        format!("{} has ended: {}", self.words, self.said())
    }

    /// What it said last.
    fn said(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        match lines.len() {
            0 => "it said nothing".to_owned(),
            count => format!("it said\n{}", lines[count.saturating_sub(LAST_LINES)..].join("\n")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.group.kill(END);
        let _ = self.child.wait();
    }
}

fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    /// A group for a server, and a run's folder.
    fn stage() -> (RunFolder, TrialGroups) {
        let folder = RunFolder::make().unwrap();
        let groups = TrialGroups::make(folder.name(), 1).unwrap();
        (folder, groups)
    }

    fn service(command: &str, target: &str) -> TrialService {
        TrialService::Server { command: command.parse().unwrap(), target: target.parse().unwrap() }
    }

    fn refused(service: &TrialService) -> String {
        let (folder, groups) = stage();
        let started = service.start(Path::new("/nowhere"), &groups, &folder, &Interrupt::default());
        started.err().unwrap().to_string()
    }

    #[test]
    fn a_server_that_ends_at_once_is_told_with_what_it_said() {
        let error = refused(&service("sh -c 'echo no such option; exit 3'", "redis://127.0.0.1:1"));
        assert!(error.contains("has ended") && error.contains("no such option"), "{error}");
    }

    #[test]
    fn an_address_that_is_taken_is_refused() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("http://{}/", taken.local_addr().unwrap());
        let error = refused(&service("sleep 100", &target));
        assert!(error.contains("listens at"), "{error}");
    }

    fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn a_server_that_loads_its_data_is_waited_for() {
        let (port, (folder, groups)) = (free_port(), stage());
        let redis = |more: &str| {
            let dir = folder.path().display();
            let command = format!("redis-server --port {port} --dir {dir} --appendonly no {more}");
            service(&command, &format!("redis://127.0.0.1:{port}?keys=200"))
        };
        let start = |service: &TrialService| {
            service.start(Path::new("/nowhere"), &groups, &folder, &Interrupt::default()).unwrap()
        };
        let filled = start(&redis("--save 900000 1"));
        let mut line = TcpStream::connect(("127.0.0.1", port)).unwrap();
        line.write_all(b"SAVE\r\n").unwrap();
        line.read_exact(&mut [0; 5]).unwrap();
        drop(filled);
        // Five milliseconds for each key, and it looks at its connections in between.
        let slow = redis("--key-load-delay 5000 --loading-process-events-interval-bytes 1024");
        let begun = Instant::now();
        drop(start(&slow));
        assert!(begun.elapsed() >= Duration::from_millis(200 * 5), "it had nothing to load");
    }

    #[test]
    fn a_server_in_the_background_is_reached_and_ended() {
        let port = free_port();
        let command = format!("memcached -d -U 0 -l 127.0.0.1 -p {port} -u nobody");
        let service = service(&command, &format!("memcached://127.0.0.1:{port}?keys=100"));
        let (folder, groups) = stage();
        let quell = Path::new("/nowhere");
        let served = service.start(quell, &groups, &folder, &Interrupt::default()).unwrap();
        assert_eq!(served.bench.address().unwrap().port(), port);
        assert!(service.in_words().contains("memcached -d"), "{}", service.in_words());
        drop(served);
        assert_eq!(groups.service().pids().unwrap(), Vec::<u32>::new());
    }
}
