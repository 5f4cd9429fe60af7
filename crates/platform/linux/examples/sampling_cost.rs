//! What sampling costs: 500 idle groups at one full sample a second, and one service beside five
//! batch groups at one full and three fast samples a second, as shares of one CPU.
//!
//! Run as root on a quiet machine: `cargo run --release -p quell-linux --example sampling_cost`. It makes
//! groups below `/quell-cost-<pid>` and removes them. The targets (2 % and 0.3 %) are printed beside
//! what was measured; the exit status tells whether both were met.

use quell_cgroup::{Layout, create, remove};
use quell_linux::{BatchBinding, Latency, Linux, LinuxOptions, Selector, ServiceBinding};
use quell_platform::{Platform, Scope};
use quell_types::{BatchSpec, ServiceSpec, Slo};
use rustix::thread::ClockId;
use std::error::Error;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];
const IDLE_GROUPS: usize = 500;
const IDLE_SAMPLES: u32 = 20;
const IDLE_TARGET_PERCENT: f64 = 2.0;
const USUAL_BATCH: usize = 5;
const USUAL_SECONDS: u32 = 10;
const USUAL_TARGET_PERCENT: f64 = 0.3;
/// Samples a second where a service is guarded; the first of each second is a full one.
const USUAL_RATE: u32 = 4;

type Failed = Box<dyn Error>;

/// Groups and a state folder of this run, removed at its end.
struct Ground {
    layout: Layout,
    top: String,
    state: PathBuf,
}

impl Ground {
    fn new(groups: usize) -> Result<Self, Failed> {
        let name = format!("quell-cost-{}", std::process::id());
        let (layout, state) = (Layout::discover("/"), std::env::temp_dir().join(&name));
        std::fs::create_dir_all(&state)?;
        let ground = Self { layout, top: format!("/{name}"), state };
        for index in 0..groups {
            create(&ground.layout, &ground.path(index), &CONTROLLERS)?;
        }
        Ok(ground)
    }

    fn path(&self, index: usize) -> String {
        format!("{}/quell-{index}", self.top)
    }

    fn options(&self, batch: std::ops::Range<usize>) -> LinuxOptions {
        let binding = |index| BatchBinding {
            spec: BatchSpec {
                name: format!("group-{index}").as_str().into(),
                links: Vec::new(),
                takes_tasks: false,
                max_tasks: 0,
            },
            selector: Selector::Cgroup(self.path(index)),
            adopt: false,
        };
        LinuxOptions { batch: batch.map(binding).collect(), ..LinuxOptions::new(&self.state) }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.layout, &self.top, Duration::from_secs(5)) {
            eprintln!("{error}");
        }
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// CPU time of this process: in user mode (to the clock tick), and in all.
#[derive(Clone, Copy)]
struct Spent {
    user: Duration,
    all: Duration,
}

impl Spent {
    fn now() -> Result<Self, Failed> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // Fields after the command's closing bracket; user time is the 14th of the line.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks: u64 = fields.split_whitespace().nth(11).ok_or("no user time")?.parse()?;
        let per_second = rustix::param::clock_ticks_per_second();
        let user = Duration::from_nanos(ticks * 1_000_000_000 / per_second);
        let t = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let all = Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec)?);
        Ok(Self { user, all })
    }

    /// Shares of one CPU in percent since `self`, over this many seconds.
    fn percent_since(self, seconds: f64) -> Result<(f64, f64), Failed> {
        let now = Self::now()?;
        let share = |spent: Duration| 100.0 * spent.as_secs_f64() / seconds;
        Ok((share(now.user - self.user), share(now.all - self.all)))
    }
}

/// Prints a result; true if user time keeps the target.
fn report(what: &str, (user, all): (f64, f64), target: f64) -> bool {
    println!("{what}: user {user:.2} %, user and system {all:.2} % of one CPU (target {target} %)");
    user <= target
}

/// Samples back to back: each stands for one second.
fn idle() -> Result<bool, Failed> {
    let ground = Ground::new(IDLE_GROUPS)?;
    let mut linux = open(ground.options(0..IDLE_GROUPS))?;
    linux.sample(Duration::ZERO, Scope::Full)?;
    let (begun, started) = (Spent::now()?, Instant::now());
    for _ in 0..IDLE_SAMPLES {
        linux.sample(Duration::ZERO, Scope::Full)?;
    }
    let lasts = started.elapsed() / IDLE_SAMPLES;
    println!("a full sample of {IDLE_GROUPS} groups lasts {lasts:.2?}");
    let what = format!("{IDLE_GROUPS} idle groups at 1 Hz");
    Ok(report(&what, begun.percent_since(f64::from(IDLE_SAMPLES))?, IDLE_TARGET_PERCENT))
}

/// In real time.
fn usual() -> Result<bool, Failed> {
    let ground = Ground::new(1 + USUAL_BATCH)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let service = ServiceBinding {
        spec: ServiceSpec {
            name: "service".into(),
            slo: Slo { percentile_frac: 0.99, target_s: 0.01 },
            peak_qps: None,
            links: Vec::new(),
        },
        selector: Selector::Cgroup(ground.path(0)),
        latency: Latency::Ebpf { ports: vec![listener.local_addr()?.port()] },
        adopt: false,
    };
    let batch = ground.options(1..1 + USUAL_BATCH);
    let mut linux = open(LinuxOptions { services: vec![service], ..batch })?;
    let period = Duration::from_secs(1) / USUAL_RATE;
    linux.sample(period, Scope::Full)?;
    let begun = Spent::now()?;
    for turn in 0..USUAL_SECONDS * USUAL_RATE {
        let full = turn % USUAL_RATE == 0;
        linux.sample(period, if full { Scope::Full } else { Scope::Fast })?;
    }
    let what = format!("1 service and {USUAL_BATCH} batch groups, 1 full and 3 fast samples/s");
    Ok(report(&what, begun.percent_since(f64::from(USUAL_SECONDS))?, USUAL_TARGET_PERCENT))
}

fn open(options: LinuxOptions) -> Result<Linux, Failed> {
    Linux::open(options).map_err(|errors| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into()
    })
}

fn main() -> ExitCode {
    match idle().and_then(|first| Ok(usual()? && first)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
