//! `quell guard` as a process of its own, from its configuration to its end.

use crate::cost::ProcessCost;
use anyhow::Context as _;
use quell_linux::{Queue, StateDir, restore_state};
use quell_types::TaskSpec;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const READY: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// An agent at work. Dropping it ends it, and puts back what it may have left.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    folder: PathBuf,
}

/// What a guard is started with.
pub(crate) struct GuardPlan<'a> {
    pub(crate) program: &'a Path,
    /// The configuration but for `[agent]`'s state folder.
    pub(crate) config: String,
    pub(crate) tasks: Vec<TaskSpec>,
    /// An empty folder for configuration, state and output.
    pub(crate) folder: PathBuf,
    /// Whether the kernel counts the time of its eBPF programs, which costs a little itself.
    pub(crate) bpf_stats: bool,
    /// A file that is rewritten with its status at every interval.
    pub(crate) status_json: Option<PathBuf>,
}

/// The agent did not say that it was ready, within [`READY`]; what it said instead.
#[derive(Debug)]
pub(crate) struct NotReady(String);

impl std::error::Error for NotReady {}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "quell guard is not ready after {} s: {}", READY.as_secs(), self.0)
    }
}

impl Guard {
    /// Fills the queue, starts the agent, and waits until it says that it is ready. It ends with
    /// the thread that calls this, if that ends first.
    pub(crate) fn start(plan: GuardPlan<'_>) -> anyhow::Result<Self> {
        let GuardPlan { program, config, tasks, folder, bpf_stats, status_json } = plan;
        fs::create_dir_all(folder.join("state"))?;
        fs::write(folder.join("guard.toml"), config)?;
        let queue = Queue::open(&StateDir(folder.join("state")).queue())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for task in &tasks {
            queue.add(task, u64::try_from(now.as_millis()).unwrap_or(u64::MAX))?;
        }
        drop(queue);
        let notify = folder.join("notify");
        let socket = UnixDatagram::bind(&notify).context("cannot make the agent's socket")?;
        let output = File::create(folder.join("output"))?;
        let child = Command::new(program)
            .arg("guard")
            .arg("--config")
            .arg(folder.join("guard.toml"))
            // It ends, and puts everything back, also if this process is killed.
            .arg("--with-parent")
            .arg(std::process::id().to_string())
            .args(bpf_stats.then_some("--bpf-stats"))
            .args(status_json.iter().flat_map(|file| ["--status-json".as_ref(), file.as_os_str()]))
            .env("NOTIFY_SOCKET", &notify)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // A group of its own: Ctrl-C shall reach it through us, after the generator.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {} guard", program.display()))?;
        let mut guard = Self { child, folder };
        guard.wait_ready(&socket)?;
        Ok(guard)
    }

    fn wait_ready(&mut self, socket: &UnixDatagram) -> anyhow::Result<()> {
        let end = Instant::now() + READY;
        socket.set_read_timeout(Some(LOOK))?;
        let mut message = [0; 1024];
        while Instant::now() < end {
            if let Ok(length) = socket.recv(&mut message)
                && String::from_utf8_lossy(&message[..length]).contains("READY=1")
            {
                return Ok(());
            }
            self.check_alive()?;
        }
        Err(NotReady(self.output()).into())
    }

    /// An error if it has ended.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => anyhow::bail!("quell guard ended ({status}): {}", self.output()),
        }
    }

    /// What the agent has cost so far.
    pub(crate) fn cost(&self) -> ProcessCost {
        ProcessCost::of(self.child.id())
    }

    /// Asks it to end and waits for it; all knobs are then as before.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.check_alive()?;
        anyhow::ensure!(self.end(), "quell guard did not end as asked: {}", self.output());
        Ok(())
    }

    /// True if it ended by itself when asked.
    fn end(&mut self) -> bool {
        if let Ok(Some(status)) = self.child.try_wait() {
            return status.success();
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Our own child, not yet waited for: the number is still its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + END;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.success();
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        false
    }

    /// The last lines it wrote.
    fn output(&self) -> String {
        let text = fs::read_to_string(self.folder.join("output")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(8).collect();
        let last: Vec<&str> = lines.into_iter().rev().collect();
        if last.is_empty() { "it wrote nothing".to_owned() } else { last.join("\n") }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.end() {
            // It cannot clean up any more; its journal can.
            let state = StateDir(self.folder.join("state"));
            let troubles = match restore_state(Path::new("/"), &state) {
                Ok(report) => report.troubles(),
                Err(error) => vec![error.to_string()],
            };
            if !troubles.is_empty() {
                let troubles = troubles.join("; ");
                eprintln!("quell: the agent's knobs could not all be put back: {troubles}");
            }
        }
    }
}
