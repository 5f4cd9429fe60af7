//! Probes on this machine: a real redis, pressure beside it in a group of its own. What the redis
//! tolerates depends on the machine; that pressure comes, goes and is measured must be right.

use crate::common::{Ground, QUELL, until};
use quell_linux::{Latency, Linux, LinuxOptions, Selector, ServiceBinding};
use quell_platform::{Platform, Scope};
use quell_types::{
    Action, PROBE_GROUP, Probe, ProbeTrace, ServiceSpec, SharedResource, Slo, Tenant,
};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);
const SAMPLE: Duration = Duration::from_millis(100);

/// Requests to a redis until it is dropped.
struct Requests(Child);

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn requests(port: u16) -> Requests {
    let count = ["-t", "get", "-c", "2", "-n", "100000000", "-q"];
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port.to_string()]).args(count).stdout(Stdio::null());
    Requests(command.spawn().unwrap())
}

fn probe(id: u64) -> Probe {
    Probe {
        id,
        service: "web".into(),
        resource: SharedResource::MemoryBandwidth,
        intensity_percent: 30.0,
        window_us: 80_000,
        pressed: 2,
        bound_us: 60_000_000,
    }
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
    options.probe_program = vec![QUELL.to_owned(), "pressure".to_owned()];
    Linux::open(options).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Samples until a probe has ended.
fn trace(linux: &mut Linux) -> ProbeTrace {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let sample = linux.sample(SAMPLE, Scope::Fast).unwrap();
        if let Some(trace) = sample.probes.into_iter().next() {
            return trace;
        }
        let refused = sample.outcomes.iter().find_map(|outcome| outcome.error.clone());
        assert_eq!(refused, None);
    }
    panic!("no trace came");
}

#[test]
fn a_probe_presses_in_its_windows_only_and_leaves_nothing() {
    let mut ground = Ground::new();
    let port = ground.redis();
    let _requests = requests(port);
    let mut linux = open(&ground, port);
    // In a busy guest pressure may be turned off late, so that a quiet window has some of it.
    let mut seen = Vec::new();
    let told = (10..15).any(|id| {
        let (pressing, quiet) = pressing_and_quiet_ns(&mut linux, id);
        seen.push((pressing, quiet));
        pressing > 4 * quiet
    });
    assert!(told, "ns of CPUs, pressing and quiet: {seen:?}");
    one_at_a_time_and_ended_when_asked(&mut linux);
    linux.restore().unwrap();
    let left = |root: &str| Path::new(root).join(PROBE_GROUP).exists();
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu,cpuacct"];
    assert!(!roots.iter().any(|root| left(root)), "the group is gone");
}

/// A whole probe: what pressure took of the CPUs in windows with it and in those without.
fn pressing_and_quiet_ns(linux: &mut Linux, id: u64) -> (u64, u64) {
    linux.apply(&Action::Probe(probe(id))).unwrap();
    let whole = trace(linux);
    assert_eq!((whole.probe.id, &whole.aborted), (id, &None));
    let pressed: Vec<bool> = whole.windows.iter().map(|window| window.running).collect();
    assert_eq!(pressed, [false, true, false, true, false]);
    for window in &whole.windows {
        assert!(window.victim_requests[&"web".into()].as_ref().unwrap().requests > 0);
        assert!(*window.victim_cpu_ns[&"web".into()].as_ref().unwrap() > 0);
    }
    let group = Tenant::from(PROBE_GROUP);
    let own = |running: bool| -> u64 {
        let windows = whole.windows.iter().filter(|window| window.running == running);
        windows.map(|window| *window.group_cpu_ns[&group].as_ref().unwrap()).sum()
    };
    (own(true), own(false))
}

fn one_at_a_time_and_ended_when_asked(linux: &mut Linux) {
    linux.apply(&Action::Probe(probe(2))).unwrap();
    linux.apply(&Action::Probe(probe(3))).unwrap();
    linux.apply(&Action::EndProbe { id: 3 }).unwrap();
    linux.apply(&Action::EndProbe { id: 2 }).unwrap();
    let sample = linux.sample(SAMPLE, Scope::Fast).unwrap();
    let refused = sample.outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    assert_eq!(refused, 2, "{:?}", sample.outcomes);
    let [ended] = &sample.probes[..] else { panic!("{:?}", sample.probes) };
    assert_eq!((ended.probe.id, ended.aborted.is_some()), (2, true));
}

#[test]
fn a_guard_with_probes_begins_and_ends_well() {
    let mut ground = Ground::new();
    let port = ground.redis();
    let before = ground.texts();
    let _requests = requests(port);
    let mut guard = ground.guard(&["--law", "none", "--set", "agent.probes.enabled=true"]);
    guard.until("load", |status| {
        status["services"]["web"]["qps"].as_f64().is_some_and(|qps| qps > 100.0)
    });
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(ground.texts(), before);
    until("the end of what presses", || {
        (!Path::new("/sys/fs/cgroup/unified/quell-probe").exists()).then_some(())
    });
}
