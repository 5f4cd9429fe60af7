//! What the probes cost here: nanoseconds a packet and a context switch by the kernel's own
//! clock on its BPF programs, microseconds to read a service, and what redis loses at full speed
//! with the meter attached (short windows with and without it, in turn): throughput, and CPU time
//! of server and client together per command, which is steadier on a busy machine.
//!
//! `cargo run --release -p quell-ebpf --example cost -- [PAIRS]`: as root, on a quiet machine,
//! with redis-server and redis-benchmark installed.

use quell_ebpf::{Options, Probes, ProgramStats, ServiceKey};
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// From a change to the measurement after it.
const SETTLE: Duration = Duration::from_millis(250);
/// Length of one measurement.
const SPAN: Duration = Duration::from_millis(300);

/// Where redis and its clients run.
struct Group(PathBuf);

impl Group {
    fn new() -> Outcome<Self> {
        let path = cgroup2()?.join(format!("quell-cost-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// CPU time of its tasks in microseconds.
    fn usage_us(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(self.0.join("cpu.stat"))?;
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
        Ok(usage.ok_or("no usage_usec")?.parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let start = Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && start.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn cgroup2() -> Outcome<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    Ok(mounts.find(|fields| fields[2] == "cgroup2").ok_or("no cgroup2")?[1].into())
}

const PORT: &str = "17379";
const PORT_NUMBER: u16 = 17379;
type Outcome<T> = Result<T, Box<dyn Error>>;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(group: &Group, program: &str, args: &[&str]) -> Outcome<Killed> {
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", program]).args(args);
    Ok(Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
}

fn connect() -> Outcome<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", PORT_NUMBER)) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() > Duration::from_secs(5) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Commands that redis has served so far.
fn served(stream: &mut TcpStream) -> Outcome<u64> {
    stream.write_all(b"INFO stats\r\n")?;
    let (mut text, mut buffer) = (String::new(), [0; 8192]);
    while !text.contains("total_commands_processed:") || !text.ends_with("\r\n") {
        let read = stream.read(&mut buffer)?;
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    let after = text.split("total_commands_processed:").nth(1).unwrap_or_default();
    Ok(after.split('\r').next().unwrap_or_default().parse()?)
}

/// Commands a second, and CPU time a command in microseconds, once the kernel has done with loading
/// or freeing the probes, which takes CPU time of its own.
fn speed(group: &Group, stream: &mut TcpStream) -> Outcome<(f64, f64)> {
    std::thread::sleep(SETTLE);
    let (before, used, start) = (served(stream)?, group.usage_us()?, Instant::now());
    std::thread::sleep(SPAN);
    let commands = (served(stream)? - before) as f64;
    Ok((commands / start.elapsed().as_secs_f64(), (group.usage_us()? - used) / commands))
}

fn attached(with_groups: bool) -> Outcome<Probes> {
    let root = cgroup2()?;
    let mut probes = Probes::load(Options::default())?;
    probes.set_service(0, ServiceKey::ports(&[PORT_NUMBER]))?;
    if with_groups {
        let id = std::fs::metadata(&root)?.ino();
        probes.track_egress(id, 0)?;
        probes.track_run_queue(id, 0)?;
        probes.watch_waits(0)?;
    }
    probes.attach_meter(&root)?;
    Ok(probes)
}

fn print(stats: &[ProgramStats]) {
    for stat in stats.iter().filter(|stat| stat.runs > 0) {
        let each = stat.time_ns as f64 / stat.runs as f64;
        println!("  {:14} {:9} runs {each:7.1} ns each", stat.program, stat.runs);
    }
}

fn costs(group: &Group, title: &str, load: &[&str], groups: bool) -> Outcome<()> {
    let mut probes = attached(groups)?;
    let _load = start(group, "redis-benchmark", load)?;
    std::thread::sleep(Duration::from_millis(300));
    probes.count_time(true)?;
    std::thread::sleep(Duration::from_secs(2));
    probes.count_time(false)?;
    println!("{title}");
    print(&probes.stats());
    let start = Instant::now();
    for _ in 0..100 {
        probes.read_requests(0)?;
    }
    println!("  reading a service: {:.1} us", start.elapsed().as_micros() as f64 / 100.0);
    Ok(())
}

fn loss(group: &Group, pairs: usize, load: &[&str]) -> Outcome<()> {
    let _load = start(group, "redis-benchmark", load)?;
    let mut stream = connect()?;
    std::thread::sleep(Duration::from_millis(300));
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let before = speed(group, &mut stream)?;
        let probes = attached(false)?;
        let with = speed(group, &mut stream)?;
        drop(probes);
        let after = speed(group, &mut stream)?;
        // Against both neighbours, so that a drift of the machine's speed cancels.
        rates.push(2.0 * with.0 / (before.0 + after.0));
        costs.push(2.0 * with.1 / (before.1 + after.1));
    }
    for (what, ratios) in [("throughput", &mut rates), ("CPU time a command", &mut costs)] {
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[((pairs - 1) as f64 * share) as usize];
        let (low, middle, high) = (at(0.25), at(0.5), at(0.75));
        println!("{what} with the meter / without: {middle:.3} (quartiles {low:.3}, {high:.3})");
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let pairs = std::env::args().nth(1).map_or(Ok(40), |text| text.parse())?;
    let group = Group::new()?;
    let _redis = start(&group, "redis-server", &["--port", PORT, "--save", "", "--dir", "/tmp"])?;
    drop(connect()?);
    let endless = ["-p", PORT, "-n", "1000000000", "-t", "get", "-q"];
    let plain = [&endless[..], &["-c", "20"]].concat();
    let single = [&endless[..], &["-c", "1"]].concat();
    let pipelined = [&endless[..], &["-c", "20", "-P", "16"]].concat();
    costs(&group, "20 clients, meter alone", &plain, false)?;
    costs(&group, "20 clients, all probes on every cgroup", &plain, true)?;
    costs(&group, "1 client, all probes on every cgroup", &single, true)?;
    costs(&group, "20 clients, -P 16, meter alone", &pipelined, false)?;
    loss(&group, pairs, &plain)
}
