//! Plays a probe: a process of `quell pressure` in a group of Quell's, in the idle class, that is
//! stopped in quiet windows and killed at the end.
//!
//! The edges are played by the thread that also samples, as those of experiments are. Nothing needs a
//! dead man's release: a stopped process presses on nothing, the process ends with its parent and by
//! its own clock, and the journal knows it before it has pressed on anything for long.

use crate::clock;
use crate::experiment::{Edge, chip, edge};
use crate::meter::Meter;
use crate::tasks::{ENTER, kill_process_group};
use crate::tenant::TenantState;
use quell_cgroup::{Group, GroupReader};
use quell_types::{
    ChipTrace, CpuSet, Experiment, Gap, PROBE_GROUP, Probe, ProbeTrace, Reading, SharedResource,
    Tenant, Time,
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group as signal_group};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The name under which the group is made; its folder is `quell-probe`.
pub(crate) const PROBE: &str = "probe";
/// How often it is looked whether the process is ready.
const LOOK: Duration = Duration::from_millis(5);
/// Memory to stream through: a few caches, and not more than is quickly touched.
const REGION_BYTES: (u64, u64) = (64 << 20, 256 << 20);

/// What presses, and where.
pub(crate) struct Presser<'a> {
    /// Program and first arguments, to which a resource is added.
    pub(crate) program: &'a [String],
    /// Its group, and the files by which it enters it.
    pub(crate) group: &'a Group,
    pub(crate) procs: &'a [PathBuf],
    /// The CPU that it sits on.
    pub(crate) cpus: CpuSet,
    /// The last-level cache, 0 if not known.
    pub(crate) llc_bytes: u64,
}

/// A probe on its way.
pub(crate) struct Prober {
    probe: Probe,
    /// The same as an experiment that holds nobody: how its edges are read.
    watched: Experiment,
    code: Vec<bool>,
    child: Child,
    out: ChildStdout,
    /// Own CPU time.
    reader: GroupReader,
    windows: Vec<ChipTrace>,
    /// None until the process is ready.
    last: Option<(Edge, Reading<u64>)>,
    next: Time,
    bound: Time,
}

impl Prober {
    /// Starts the process; its windows begin when it is ready.
    pub(crate) fn begin(probe: &Probe, presser: &Presser<'_>) -> io::Result<Self> {
        let mut child = spawn(probe, presser)?;
        let now = clock::now();
        let Some(out) = child.stdout.take() else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        fcntl_setfl(&out, fcntl_getfl(&out)? | OFlags::NONBLOCK)?;
        let watched = Experiment {
            id: probe.id,
            groups: Vec::new(),
            victims: vec![probe.service.clone()],
            code: probe.code(),
            chip_us: probe.window_us,
            bound_us: probe.bound_us,
        };
        Ok(Self {
            code: probe.code(),
            watched,
            child,
            out,
            reader: GroupReader::new(presser.group),
            windows: Vec::new(),
            last: None,
            next: now + LOOK,
            bound: now + probe.bound(),
            probe: probe.clone(),
        })
    }

    /// The process that presses.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Which probe it is.
    pub(crate) fn id(&self) -> u64 {
        self.probe.id
    }

    /// When it wants to be stepped next.
    pub(crate) fn next_edge(&self) -> Time {
        self.next
    }

    /// Looks whether it is ready, or ends the present window and begins the next; the trace when
    /// that was the last.
    pub(crate) fn step(
        &mut self,
        tenants: &mut BTreeMap<Tenant, TenantState>,
        meter: &mut Meter,
    ) -> Option<ProbeTrace> {
        if clock::now() >= self.bound {
            return Some(self.end(Some("the bound had passed".into())));
        }
        let stepped = match self.last.take() {
            None => self.await_ready(tenants, meter),
            Some(last) => self.window(last, tenants, meter),
        };
        match stepped {
            Ok(false) => None,
            Ok(true) => Some(self.end(None)),
            Err(why) => Some(self.end(Some(why))),
        }
    }

    /// A ready process has printed its first line of progress. It is stopped for the first window.
    fn await_ready(
        &mut self,
        tenants: &mut BTreeMap<Tenant, TenantState>,
        meter: &mut Meter,
    ) -> Result<bool, String> {
        self.next = clock::now() + LOOK;
        match self.out.read(&mut [0u8; 4096]) {
            Ok(0) => Err("what should press has ended".into()),
            Ok(_) => {
                self.signal(Signal::STOP)?;
                let at = self.look(tenants, meter);
                self.begin_window(at);
                Ok(false)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// True when that was the last window.
    fn window(
        &mut self,
        last: (Edge, Reading<u64>),
        tenants: &mut BTreeMap<Tenant, TenantState>,
        meter: &mut Meter,
    ) -> Result<bool, String> {
        let now = self.look(tenants, meter);
        let mut window = chip(&last.0, &now.0, self.code[self.windows.len()]);
        window.group_cpu_ns.insert(PROBE_GROUP.into(), grown(&last.1, &now.1));
        self.windows.push(window);
        // Nobody reads its progress: the pipe must not fill.
        let _ = self.out.read(&mut [0u8; 1 << 16]);
        let Some(pressed) = self.code.get(self.windows.len()) else { return Ok(true) };
        self.signal(if *pressed { Signal::CONT } else { Signal::STOP })?;
        self.begin_window(now);
        Ok(false)
    }

    fn begin_window(&mut self, at: (Edge, Reading<u64>)) {
        self.next = at.0.time + Duration::from_micros(self.probe.window_us);
        self.last = Some(at);
    }

    fn look(
        &mut self,
        tenants: &mut BTreeMap<Tenant, TenantState>,
        meter: &mut Meter,
    ) -> (Edge, Reading<u64>) {
        (edge(&self.watched, tenants, meter), self.reader.cpu_ns())
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        signal_group(Pid::from_child(&self.child), signal).map_err(|e| e.to_string())
    }

    /// Kills what presses, and waits until it is gone.
    pub(crate) fn end(&mut self, aborted: Option<String>) -> ProbeTrace {
        kill_process_group(self.child.id());
        let _ = self.child.wait();
        let windows = std::mem::take(&mut self.windows);
        ProbeTrace { probe: self.probe.clone(), windows, aborted }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end(None);
        }
    }
}

fn grown(from: &Reading<u64>, to: &Reading<u64>) -> Reading<u64> {
    match (from, to) {
        (Ok(from), Ok(to)) => Ok(to.saturating_sub(*from)),
        (Err(gap), _) | (_, Err(gap)) => Err(Gap::clone(gap)),
    }
}

fn spawn(probe: &Probe, presser: &Presser<'_>) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "quell-probe"]).args(presser.procs).arg("--");
    command.args(presser.program).args(arguments(probe, presser));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

/// What `quell pressure` is told. A stopped process's clock goes on, so it ends by itself even then.
fn arguments(probe: &Probe, presser: &Presser<'_>) -> Vec<String> {
    let pair = |name: &str, value: String| [name.to_owned(), value];
    let mut all = vec![probe.resource.name().to_owned(), "--json".to_owned()];
    all.extend(pair("--intensity", probe.intensity_percent.to_string()));
    all.extend(pair("--seconds", probe.bound().as_secs_f64().to_string()));
    all.extend(pair("--interval", "0.002".to_owned()));
    all.extend(pair("--cpus", presser.cpus.to_string()));
    all.extend(pair("--with-parent", std::process::id().to_string()));
    if probe.resource == SharedResource::MemoryBandwidth {
        let bytes = (2 * presser.llc_bytes).clamp(REGION_BYTES.0, REGION_BYTES.1);
        all.extend(pair("--region-bytes", bytes.to_string()));
    }
    all
}
