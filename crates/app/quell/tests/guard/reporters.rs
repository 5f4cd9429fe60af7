//! Bursts of a reporter on this machine. How long accesses take here is the machine's; that near is
//! nearer than far, what a burst costs, and that nothing is left, must be right.

use crate::common::{Ground, QUELL};
use quell_linux::{Latency, Linux, LinuxOptions, Selector, ServiceBinding};
use quell_platform::{Platform, Scope};
use quell_types::{AccessTimes, Action, Burst, BurstTrace, CpuSet, PROBE_GROUP, ServiceSpec, Slo};
use std::path::Path;
use std::time::{Duration, Instant};

/// A machine on which others work has an idle CPU now and then.
const PATIENCE: Duration = Duration::from_secs(60);
const SAMPLE: Duration = Duration::from_millis(250);
/// So many bursts are enough.
const BURSTS: usize = 7;

fn burst(id: u64, not_on: CpuSet) -> Burst {
    Burst { id, delay_us: 2_000, warm_us: 2_000, slice_us: 250, rounds: 5, not_on }
}

fn open(ground: &Ground, port: u16) -> Linux {
    let slo = Slo { percentile_frac: 0.99, target_s: 0.02 };
    let service = ServiceBinding {
        spec: ServiceSpec { name: "web".into(), slo, peak_qps: None, links: Vec::new() },
        selector: Selector::Cgroup(ground.path("service")),
        latency: Latency::Ebpf { ports: vec![port] },
        adopt: false,
    };
    let mut options = LinuxOptions::new(ground.state());
    options.services = vec![service];
    options.reporter_program = ["", "pressure", "report"].map(str::to_owned).to_vec();
    options.reporter_program[0] = QUELL.to_owned();
    Linux::open(options).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// One burst, or why there was none.
fn trace(linux: &mut Linux, id: u64, not_on: CpuSet) -> BurstTrace {
    linux.apply(&Action::Burst(burst(id, not_on))).unwrap();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let sample = linux.sample(SAMPLE, Scope::Full).unwrap();
        let refused = sample.outcomes.iter().find_map(|outcome| outcome.error.clone());
        assert_eq!(refused, None);
        if let [trace] = &sample.bursts[..] {
            assert_eq!(trace.id, id);
            return trace.clone();
        }
    }
    panic!("no trace came");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn bursts_on_an_idle_cpu_tell_near_from_far_and_leave_nothing() {
    let mut ground = Ground::new();
    let port = ground.redis();
    let before = ground.texts();
    let mut linux = open(&ground, port);
    (0..2).for_each(|_| drop(linux.sample(SAMPLE, Scope::Full).unwrap()));
    let (mut played, mut id) = (Vec::new(), 0);
    let end = Instant::now() + PATIENCE;
    while played.len() < BURSTS && Instant::now() < end {
        id += 1;
        let trace = trace(&mut linux, id, CpuSet::new());
        match trace.cpu {
            Some(_) => played.push(trace),
            None => assert_eq!(trace.report.cpu_ns, 0, "none was idle: none was used"),
        }
    }
    told_apart(&played);
    let everywhere = linux.setup().topology.online();
    assert_eq!(trace(&mut linux, id + 1, everywhere).cpu, None, "it may run nowhere");
    linux.restore().unwrap();
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu,cpuacct"];
    let left = |root: &str| Path::new(root).join(PROBE_GROUP).exists();
    assert!(!roots.iter().any(|root| left(root)), "the group is gone");
    drop(linux);
    assert_eq!(ground.texts(), before);
}

/// Medians over bursts; the first of all pays for the memory too.
fn told_apart(played: &[BurstTrace]) {
    let whole = burst(0, CpuSet::new()).duration().as_nanos() as u64;
    for trace in played.iter().skip(1) {
        assert!(trace.report.cpu_ns <= 2 * whole, "{trace:?}");
    }
    let times: Vec<AccessTimes> =
        played.iter().filter_map(|trace| trace.report.times.as_ref().ok().copied()).collect();
    if times.is_empty() {
        return;
    }
    let of = |pick: fn(&AccessTimes) -> f64| median(times.iter().map(pick).collect());
    let ratio = of(|t| t.shared_ns) / of(|t| t.private_ns);
    assert!(ratio > 1.0, "shared hits take {ratio:.2} times as long as private ones: {times:?}");
    assert!(of(|t| t.memory_ns) > of(|t| t.private_ns), "{times:?}");
}
