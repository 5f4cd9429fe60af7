//! The ground of these tests: groups of their own, a real redis in one of them, a real agent.

use quell_cgroup::{Group, Layout, create, remove};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const QUELL: &str = env!("CARGO_BIN_EXE_quell");
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];
/// Longer than anything here takes on a crowded machine.
const PATIENCE: Duration = Duration::from_secs(60);
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Two groups and what runs in them; all gone when dropped.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    layout: Layout,
    top: String,
    children: Vec<Child>,
    /// Groups of names that are not Quell's, innermost first.
    foreign: Vec<PathBuf>,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let top = format!("/quell-test-guard-{}-{number}", std::process::id());
        let ground = Self {
            folder: tempfile::tempdir().unwrap(),
            layout: Layout::discover("/"),
            top,
            children: vec![],
            foreign: vec![],
        };
        for group in ["service", "batch"] {
            ground.make(group);
        }
        ground
    }

    pub(crate) fn make(&self, group: &str) {
        create(&self.layout, &self.path(group), &CONTROLLERS).unwrap();
    }

    pub(crate) fn path(&self, group: &str) -> String {
        format!("{}/quell-{group}", self.top)
    }

    /// The group's folders, one a hierarchy.
    pub(crate) fn folders(&self, group: &str) -> Vec<PathBuf> {
        let group = Group::find(&self.layout, &self.path(group)).unwrap();
        group.places().iter().map(|place| place.dir.clone()).collect()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn status_file(&self) -> PathBuf {
        self.folder.path().join("status.json")
    }

    fn group(&self, group: &str) -> Group {
        Group::find(&self.layout, &self.path(group)).unwrap()
    }

    /// Ends all that runs, as one does whose parent collects it, and removes a group.
    pub(crate) fn remove(&mut self, group: &str) {
        for mut child in self.children.drain(..) {
            let _ = child.kill();
            child.wait().unwrap();
        }
        remove(&self.layout, &self.path(group), PATIENCE).unwrap();
    }

    /// A group as libvirt makes it for a virtual machine, with one for its first CPU below; its
    /// path.
    pub(crate) fn make_vm(&mut self, name: &str) -> String {
        // Quell makes no group of such a name: that is libvirt's to do.
        let path = format!("{}/qemu-1-{name}.libvirt-qemu", self.top);
        let top = Group::find(&self.layout, &self.top).unwrap();
        for place in top.places() {
            let own = place.dir.join(format!("qemu-1-{name}.libvirt-qemu"));
            for dir in [own.clone(), own.join("vcpu0")] {
                fs::create_dir(&dir).unwrap();
                self.foreign.insert(0, dir.clone());
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    let Ok(text) = fs::read(dir.parent().unwrap().join(file)) else { continue };
                    fs::write(dir.join(file), text).unwrap();
                }
            }
        }
        path
    }

    /// A file of the group with this path.
    pub(crate) fn file_of(&self, path: &str, name: &str) -> PathBuf {
        let group = Group::find(&self.layout, path).unwrap();
        let files = group.places().iter().map(|place| place.file(name));
        files.into_iter().find(|file| file.exists()).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Runs a command in a group; `v1_only` leaves the v2 tree out.
    pub(crate) fn run(&mut self, group: &str, v1_only: bool, command: &[&str]) -> u32 {
        let places = self.group(group);
        self.enter(&places, v1_only, command)
    }

    /// Runs a command in the group with this path.
    pub(crate) fn run_in(&mut self, path: &str, command: &[&str]) -> u32 {
        let places = Group::find(&self.layout, path).unwrap();
        self.enter(&places, false, command)
    }

    fn enter(&mut self, places: &Group, v1_only: bool, command: &[&str]) -> u32 {
        let procs: Vec<PathBuf> = places
            .places()
            .iter()
            .filter(|p| !v1_only || p.version == quell_cgroup::Version::V1)
            .map(|p| p.file("cgroup.procs"))
            .collect();
        let enter: Vec<String> =
            procs.iter().map(|p| format!("echo $$ > {}", p.display())).collect();
        let script = format!("{} && exec \"$@\"", enter.join(" && "));
        let child = Command::new("/bin/sh")
            .args(["-c", &script, "sh"])
            .args(command)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        self.children.push(child);
        pid
    }

    /// A spinner in the batch group: one process that ends by itself.
    pub(crate) fn spin(&mut self) {
        let script = "end=$(( $(date +%s) + 60 )); \
                      while [ $(date +%s) -lt $end ]; do i=0; \
                      while [ $i -lt 20000 ]; do i=$((i+1)); done; done";
        self.run("batch", false, &["sh", "-c", script]);
    }

    /// Arithmetic in a group that ends by itself and sleeps while it does not work.
    pub(crate) fn press(&mut self, group: &str, args: &[&str]) {
        let press = [QUELL, "pressure", "integer", "--idle", "sleep", "--seconds", "60"];
        self.run(group, false, &[&press, args].concat());
    }

    /// A redis in the service group, v1 hierarchies only, answering.
    pub(crate) fn redis(&mut self) -> u16 {
        let port = free_port();
        self.redis_at(port);
        port
    }

    pub(crate) fn redis_at(&mut self, port: u16) {
        let text = port.to_string();
        let redis =
            ["redis-server", "--port", &text, "--save", "", "--bind", "127.0.0.1", "--dir", "/"];
        self.run("service", true, &redis);
        until("redis", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
    }

    /// Every knob file of both groups, with its text.
    pub(crate) fn texts(&self) -> BTreeMap<PathBuf, String> {
        const KNOBS: [&str; 9] = [
            "cpu.cfs_quota_us",
            "cpu.cfs_period_us",
            "cpu.shares",
            "cpu.idle",
            "cpuset.cpus",
            "freezer.state",
            "cgroup.freeze",
            "cpu.max",
            "cpu.weight",
        ];
        let mut texts = BTreeMap::new();
        for group in ["service", "batch"] {
            for place in self.group(group).places() {
                for knob in KNOBS {
                    let path = place.file(knob);
                    if let Ok(text) = fs::read_to_string(&path) {
                        texts.insert(path, text);
                    }
                }
            }
        }
        assert!(texts.len() >= 8, "{texts:?}");
        texts
    }

    /// `quell guard` with flags for both groups, its metrics off.
    pub(crate) fn guard(&self, more: &[&str]) -> Guard {
        let batch = format!("name=jobs,cgroup={},tasks=true,max_tasks=2", self.path("batch"));
        self.guard_batch(&batch, more)
    }

    /// The same with another batch group.
    pub(crate) fn guard_batch(&self, batch: &str, more: &[&str]) -> Guard {
        let service = format!("name=web,cgroup={},p99=20ms", self.path("service"));
        let mut command = self.quell(&["guard", "--service", &service, "--batch", batch]);
        command.args(["--set", "agent.metrics=off", "--status-json"]).arg(self.status_file());
        Guard::start(command.args(more), self)
    }

    /// A command of quell with this ground's state folder.
    pub(crate) fn quell(&self, args: &[&str]) -> Command {
        let mut command = Command::new(QUELL);
        command.args(args).arg("--state-dir").arg(self.state());
        command
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        let gone = Instant::now() + Duration::from_secs(10);
        for dir in &self.foreign {
            while dir.exists() && fs::remove_dir(dir).is_err() && Instant::now() < gone {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Kills what is left in the groups, frozen or not.
        let _ = remove(&self.layout, &self.top, Duration::from_secs(10));
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// A running agent; killed when dropped.
pub(crate) struct Guard {
    child: Child,
    log: PathBuf,
    status: PathBuf,
}

impl Guard {
    pub(crate) fn start(command: &mut Command, ground: &Ground) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let log = ground.folder.path().join(format!("log-{number}"));
        let _ = fs::remove_file(ground.status_file());
        let child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Self { child, log, status: ground.status_file() }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(&self.status).ok()?).ok()
    }

    /// Waits until the status is as wanted.
    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.status().filter(&done) {
                return status;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended ({ended:?}):\n{}", self.log());
            let seen = || self.status().unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "no {what}: {}\n{:#}", self.log(), seen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn ready(&mut self) -> Value {
        self.until("first status", |status| status["samples"].as_u64() >= Some(1))
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Stops all of its threads where they are.
    pub(crate) fn hang(&self) {
        self.signal("-STOP");
        let stopped =
            |stat: String| stat.rsplit_once(") ").is_some_and(|(_, s)| s.starts_with('T'));
        let stat = format!("/proc/{}/stat", self.child.id());
        until("it stops", || fs::read_to_string(&stat).ok().filter(|s| stopped(s.clone())));
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        until("the agent's end", || self.child.try_wait().unwrap()).code()
    }

    /// Asks it to stop and waits for that.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal("-TERM");
        self.exit_code()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

pub(crate) fn file_in(group: &Ground, name: &str) -> PathBuf {
    let found = group.texts().into_keys().find(|path| {
        path.ends_with(name) && path.parent().is_some_and(|p| p.ends_with("quell-batch"))
    });
    found.unwrap_or_else(|| panic!("no {name}"))
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}
