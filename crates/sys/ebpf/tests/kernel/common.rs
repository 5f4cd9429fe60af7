//! What the tests share. Whatever is made here is removed when dropped.

use quell_ebpf::{CgroupIds, Options, Probes};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Generous: other work may hold the CPUs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A name that no other test has.
pub(crate) fn unique(what: &str) -> String {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("quell-test-ebpf-{}-{what}{serial}", std::process::id())
}

/// Polls until the condition holds; fails with what it last saw.
pub(crate) fn eventually<T>(what: &str, mut poll: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match poll() {
            Ok(value) => return value,
            Err(seen) if start.elapsed() > PATIENCE => panic!("{what}: {seen}"),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The mount point of the hierarchy of this type and option.
fn mount(kind: &str, option: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.find(|fields| {
        fields[2] == kind && (option.is_empty() || fields[3].split(',').any(|o| o == option))
    });
    found.map(|fields| fields[1].into())
}

pub(crate) fn cgroup2_root() -> PathBuf {
    mount("cgroup2", "").expect("cgroup2 is mounted")
}

/// A cgroup made for a test; its processes are killed with it.
pub(crate) struct Cgroup(pub(crate) PathBuf);

impl Cgroup {
    pub(crate) fn v2(what: &str) -> Self {
        Self::below(&cgroup2_root(), what)
    }

    /// In the v1 hierarchy of the cpu controller; none where all is v2.
    pub(crate) fn v1_cpu(what: &str) -> Option<Self> {
        mount("cgroup", "cpu").map(|root| Self::below(&root, what))
    }

    /// In v1 alone, so that v2 does not tell it from others; in v2 where there is no v1.
    pub(crate) fn v1_if_any(what: &str) -> Self {
        Self::v1_cpu(what).unwrap_or_else(|| Self::v2(what))
    }

    pub(crate) fn below(parent: &Path, what: &str) -> Self {
        let path = parent.join(unique(what));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn id(&self) -> u64 {
        fs::metadata(&self.0).unwrap().ino()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let start = Instant::now();
        while fs::remove_dir(&self.0).is_err() && start.elapsed() < PATIENCE {
            let left = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for pid in left.lines().filter_map(|line| line.parse().ok()) {
                // SAFETY: sends a signal, to a process within a group of this test's own.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A child that is killed and waited for when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that joins these groups before it becomes the program.
pub(crate) fn in_groups(groups: &[&Cgroup], program: &[&str]) -> Command {
    let mut script = String::new();
    for group in groups {
        script.push_str(&format!("echo $$ > {}/cgroup.procs && ", group.0.display()));
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{script}exec \"$@\"")).arg("sh").args(program);
    command
}

pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {text}{errors}");
    text
}

/// A port that was free a moment ago, below the range that clients get theirs from.
pub(crate) fn free_port() -> u16 {
    loop {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed) * 7 + std::process::id() * 31;
        let port = 10_000 + (serial % 20_000) as u16;
        let v4 = TcpListener::bind(("0.0.0.0", port));
        if v4.is_ok() && TcpListener::bind(("::1", port)).is_ok() {
            return port;
        }
    }
}

/// A redis server of its own.
pub(crate) struct Redis {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

impl Redis {
    pub(crate) fn start(groups: &[&Cgroup]) -> Self {
        Self::start_by(&[], groups, free_port())
    }

    /// With words in front of the command, as `ip netns exec NAME`.
    pub(crate) fn start_by(front: &[&str], groups: &[&Cgroup], port: u16) -> Self {
        let port_text = port.to_string();
        let own = ["redis-server", "--port", &port_text, "--save", "", "--appendonly", "no"];
        let bind = ["--bind", "*", "-::*", "--protected-mode", "no", "--dir", "/tmp"];
        // A replica would write what it gets from its master into a file first, and leave that.
        let load = ["--repl-diskless-load", "on-empty-db"];
        let words = [front, &own, &bind, &load].concat();
        let process = Process::start(&mut in_groups(groups, &words));
        let redis = Self { process, port };
        if front.is_empty() {
            redis.client("127.0.0.1").ping();
        }
        redis
    }

    pub(crate) fn client(&self, host: &str) -> Client {
        Client::connect(SocketAddr::new(host.parse::<IpAddr>().unwrap(), self.port))
    }
}

pub(crate) const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
pub(crate) const PONG: &[u8] = b"+PONG\r\n";

/// A client of redis.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = eventually("connect", || {
            TcpStream::connect_timeout(&address, PATIENCE).map_err(|e| format!("{address}: {e}"))
        });
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Writes, and reads until as many bytes have come.
    pub(crate) fn ask(&mut self, request: &[u8], answer_bytes: usize) -> Vec<u8> {
        self.0.write_all(request).unwrap();
        self.answer(answer_bytes)
    }

    pub(crate) fn answer(&mut self, bytes: usize) -> Vec<u8> {
        let mut answer = vec![0; bytes];
        self.0.read_exact(&mut answer).unwrap();
        answer
    }

    pub(crate) fn ping(&mut self) {
        assert_eq!(self.ask(PING, PONG.len()), PONG);
    }
}

/// Probes attached at the cgroup2 root.
pub(crate) fn probes() -> Probes {
    probes_with(CgroupIds::V2)
}

pub(crate) fn probes_with(run_queue_ids: CgroupIds) -> Probes {
    let mut probes = Probes::load(Options { run_queue_ids, ..Options::default() }).unwrap();
    assert_eq!((probes.packets_gap(), probes.run_queue_gap()), (None, None));
    probes.attach_meter(&cgroup2_root()).unwrap();
    probes
}

/// A server in this process: answers each line with `ok` and a line end.
pub(crate) struct LineServer(SocketAddr);

impl LineServer {
    /// On a numeric address, port 0 for any. Its threads end with their connections.
    pub(crate) fn start(address: &str) -> Self {
        Self::start_with(address, || {})
    }

    /// With something to be done before each answer.
    pub(crate) fn start_with(address: &str, before: fn()) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let local = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || answer_lines(stream.unwrap(), before));
            }
        });
        Self(local)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.0)
    }
}

fn answer_lines(mut stream: TcpStream, before: fn()) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 65536];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        let lines = buffer[..read].iter().filter(|&&byte| byte == b'\n').count();
        before();
        if stream.write_all(&b"ok\n".repeat(lines)).is_err() {
            return;
        }
    }
}

/// A network namespace of its own, with its loopback up; removed when dropped.
pub(crate) struct Netns(pub(crate) String);

impl Netns {
    pub(crate) fn new(what: &str) -> Self {
        let name = unique(what);
        sh(&format!("ip netns add {name} && ip -n {name} link set lo up"));
        Self(name)
    }

    /// A veth pair: `ours` here with address `.1`, `theirs` there with `.2` of a /24.
    pub(crate) fn link(&self, other: &Netns, ours: &str, theirs: &str, net: &str) {
        let (a, b) = (&self.0, &other.0);
        sh(&format!(
            "ip link add name {ours} netns {a} type veth peer name {theirs} netns {b} && \
             ip -n {a} addr add {net}.1/24 dev {ours} && ip -n {a} link set {ours} up && \
             ip -n {b} addr add {net}.2/24 dev {theirs} && ip -n {b} link set {theirs} up"
        ));
    }

    /// Runs within the namespace, on a thread of its own.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.0);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = fs::File::open(path).unwrap();
                // SAFETY: the descriptor is open; the call changes nothing but this thread.
                let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
                work()
            });
            thread.join().unwrap()
        })
    }

    pub(crate) fn sh(&self, script: &str) -> String {
        self.run(|| sh(script))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}
