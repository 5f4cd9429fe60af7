//! Whether eBPF can be used here, and if not why.

use crate::contention::Contention;
use crate::gauge;
use crate::packets::{Limits, Packets};
use crate::runqueue::RunQueue;
use quell_types::{Capability, CapabilityKind, CapabilityReport};
use std::fs;
use std::path::Path;

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// What of eBPF this machine has, found from files under `root` and, where `root` is `/` and
/// nothing speaks against it, by loading the programs. Never fails.
#[must_use]
pub fn capabilities(root: &Path) -> Vec<CapabilityReport> {
    let btf = btf(root);
    let obstacle = obstacle(root, &btf);
    let tried = match &obstacle {
        None if root == Path::new("/") => Some(try_here()),
        _ => None,
    };
    let part = |kind, name: &str, tried: Option<&str>, without: &str| {
        let capability = match obstacle.as_deref().or(tried) {
            Some(why) => Capability::Absent(why.to_owned()),
            None => Capability::Native(name.to_owned()),
        };
        report(kind, capability, without)
    };
    let packets = tried.as_ref().and_then(|t| t.packets.as_deref());
    let run_queue = tried.as_ref().and_then(|t| t.run_queue.as_deref());
    let contention = tried.as_ref().map(|t| &t.contention);
    let bus_locks = bus_locks(&obstacle, contention);
    let cgroup2 = cgroup2_mount(root).unwrap_or_default();
    let requests = format!("cgroup_skb programs on {cgroup2}");
    let ebpf = format!("Linux {}, programs checked in", release(root));
    vec![
        part(CapabilityKind::Ebpf, &ebpf, packets, "no request latency, run-queue waits or marks"),
        report(CapabilityKind::Btf, btf.clone(), "no eBPF program of Quell's can be loaded"),
        part(
            CapabilityKind::RequestLatency,
            &requests,
            packets,
            "name another latency source: a Prometheus endpoint or a socket",
        ),
        part(
            CapabilityKind::RunQueueLatency,
            "sched_switch program",
            run_queue,
            "run-queue waits are left out",
        ),
        part(
            CapabilityKind::CpuContention,
            "sched_switch, sched_wakeup and sched_migrate_task programs",
            contention.and_then(|tried| tried.as_ref().err()).map(String::as_str),
            "who makes a service wait for a CPU is told by experiments alone",
        ),
        report(
            CapabilityKind::BusLockGauge,
            bus_locks.clone(),
            "who locks the bus is told by counters or by experiments",
        ),
        report(
            CapabilityKind::HiddenSteal,
            late_ticks(root, bus_locks.clone(), contention),
            "time that the hypervisor takes and does not tell is not seen",
        ),
        report(
            CapabilityKind::CacheGauge,
            caches(root, bus_locks, contention),
            "who drives out what lies in the caches is told by experiments",
        ),
        part(
            CapabilityKind::EgressMeter,
            &requests,
            packets,
            "bytes sent are read from HTB classes only",
        ),
    ]
}

fn bus_locks(obstacle: &Option<String>, tried: Option<&Result<Loaded, String>>) -> Capability {
    let cpus = tried.and_then(|tried| tried.as_ref().ok()).map_or(2, |loaded| loaded.cpus);
    let failed = tried.and_then(|tried| tried.as_ref().err());
    match obstacle.as_ref().or(failed).map(String::as_str).or_else(|| gauge::why_not(cpus)) {
        Some(why) => Capability::Absent(why.to_owned()),
        None => Capability::Native("timed accesses to a core's own cache on sched_switch".into()),
    }
}

/// How late CPUs' timers come.
fn late_ticks(
    root: &Path,
    bus_locks: Capability,
    tried: Option<&Result<Loaded, String>>,
) -> Capability {
    let with = "how late each CPU's timer comes while it is busy";
    at_timers(root, bus_locks, tried, with, Capability::Absent)
}

/// Lines that were read before are read again.
fn caches(
    root: &Path,
    bus_locks: Capability,
    tried: Option<&Result<Loaded, String>>,
) -> Capability {
    let with = "lines read again at each CPU's timer and on sched_switch";
    at_timers(root, bus_locks, tried, with, |why| {
        Capability::Emulated(format!("lines read again when a turn ends only: {why}"))
    })
}

/// What stands on the same program as the gauge of `bus_locks`, and on one more at CPUs' timers.
fn at_timers(
    root: &Path,
    bus_locks: Capability,
    tried: Option<&Result<Loaded, String>>,
    with: &str,
    without: impl FnOnce(String) -> Capability,
) -> Capability {
    let ticks = tried.and_then(|tried| tried.as_ref().ok()).is_none_or(|loaded| loaded.ticks);
    match (bus_locks, gauge::why_no_tick(root, ticks)) {
        (Capability::Native(_), None) => Capability::Native(with.into()),
        (Capability::Native(_), Some(why)) => without(why),
        (absent, _) => absent,
    }
}

fn report(kind: CapabilityKind, capability: Capability, without: &str) -> CapabilityReport {
    let native = matches!(capability, Capability::Native(_));
    let without = if native { String::new() } else { without.to_owned() };
    CapabilityReport { kind, capability, without }
}

/// What loading the programs came to: why it failed, where it did.
struct Tried {
    packets: Option<String>,
    run_queue: Option<String>,
    contention: Result<Loaded, String>,
}

/// Of the programs that gauge.
struct Loaded {
    cpus: u32,
    ticks: bool,
}

fn try_here() -> Tried {
    let packets = Packets::load(Limits { services: 1, groups: 1 }, false);
    let run_queue = RunQueue::load(1, false);
    let contention = Contention::load(1, false);
    let loaded = |loaded: Contention| Loaded { cpus: loaded.cpus(), ticks: loaded.ticks() };
    Tried {
        packets: packets.err().map(|error| error.to_string()),
        run_queue: run_queue.err().map(|error| error.to_string()),
        contention: contention.map(loaded).map_err(|error| error.to_string()),
    }
}

/// The first thing that speaks against loading any program.
fn obstacle(root: &Path, btf: &Capability) -> Option<String> {
    if let Capability::Absent(why) = btf {
        return Some(why.clone());
    }
    if let Err(why) = may_load(root) {
        return Some(why);
    }
    cgroup2_mount(root).is_none().then(|| "no cgroup2 hierarchy is mounted".to_owned())
}

fn btf(root: &Path) -> Capability {
    let path = root.join("sys/kernel/btf/vmlinux");
    match fs::metadata(&path) {
        Ok(data) => Capability::Native(format!("{}, {} bytes", path.display(), data.len())),
        Err(error) => Capability::Absent(format!(
            "no type information of the kernel ({}: {error}); it is built with \
             CONFIG_DEBUG_INFO_BTF",
            path.display()
        )),
    }
}

fn may_load(root: &Path) -> Result<(), String> {
    let path = root.join("proc/self/status");
    let status = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| format!("no capabilities in {}", path.display()))?;
    let wanted =
        [(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    // CAP_SYS_ADMIN stands for the two that were split off from it.
    let held = if held & CAP_SYS_ADMIN != 0 { held | CAP_BPF | CAP_PERFMON } else { held };
    let missing: Vec<&str> =
        wanted.iter().filter(|(bit, _)| held & bit == 0).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("not root: {} missing", missing.join(", ")))
}

fn cgroup2_mount(root: &Path) -> Option<String> {
    let mounts = fs::read_to_string(root.join("proc/self/mounts")).ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).map(|fields| fields[1].to_owned())
}

fn release(root: &Path) -> String {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
    release.map_or_else(|_| "of unknown release".into(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(caps: &str, btf: bool, mounts: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for dir in ["proc/self", "proc/sys/kernel", "sys/kernel/btf"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::write(root.path().join("proc/self/status"), format!("Name:\tx\nCapEff:\t{caps}\n"))
            .unwrap();
        fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
        fs::write(root.path().join("proc/sys/kernel/osrelease"), "6.1.0-13-amd64\n").unwrap();
        if btf {
            fs::write(root.path().join("sys/kernel/btf/vmlinux"), "x").unwrap();
        }
        root
    }

    fn why_absent(root: &Path) -> String {
        let reports = capabilities(root);
        let requests = reports.iter().find(|r| r.kind == CapabilityKind::RequestLatency).unwrap();
        match &requests.capability {
            Capability::Absent(why) => why.clone(),
            other => panic!("{other:?}"),
        }
    }

    const V2: &str = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const ALL: &str = "000001ffffffffff";

    #[test]
    fn says_what_is_missing() {
        let no_root = machine("0000000000000000", true, V2);
        assert!(why_absent(no_root.path()).contains("CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON"));
        assert!(why_absent(machine(ALL, false, V2).path()).contains("CONFIG_DEBUG_INFO_BTF"));
        assert!(why_absent(machine(ALL, true, "").path()).contains("no cgroup2"));
        assert!(why_absent(Path::new("/nowhere")).contains("/nowhere"));
    }

    #[test]
    fn says_what_is_there() {
        // CAP_SYS_ADMIN and CAP_NET_ADMIN, as before Linux 5.8.
        let root = machine("0000000000201000", true, V2);
        let reports = capabilities(root.path());
        assert_eq!(reports.len(), 9);
        let there = |r: &CapabilityReport| r.capability.is_present() && r.without.is_empty();
        let gauges =
            [CapabilityKind::BusLockGauge, CapabilityKind::CacheGauge, CapabilityKind::HiddenSteal];
        let everywhere = |r: &&CapabilityReport| !gauges.contains(&r.kind);
        assert!(reports.iter().filter(everywhere).all(there));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn says_where_turns_that_last_are_not_looked_at() {
        let root = machine(ALL, true, V2);
        let of = |kind| {
            let reports = capabilities(root.path());
            reports.into_iter().find(|r| r.kind == kind).unwrap()
        };
        let told = || of(CapabilityKind::CacheGauge);
        assert!(matches!(told().capability, Capability::Native(_)), "nothing speaks against it");
        let device = root.path().join("sys/devices/system/clockevents/clockevent0");
        fs::create_dir_all(&device).unwrap();
        for (timer, whole) in [("lapic-deadline\n", true), ("Hyper-V clockevent\n", false)] {
            fs::write(device.join("current_device"), timer).unwrap();
            match told().capability {
                Capability::Native(_) => assert!(whole, "{timer}"),
                Capability::Emulated(how) => {
                    assert!(!whole && how.contains(timer.trim()), "{how}");
                }
                Capability::Absent(why) => panic!("{why}"),
            }
            assert_eq!(told().without.is_empty(), whole);
            assert_eq!(of(CapabilityKind::HiddenSteal).capability.is_present(), whole);
        }
    }

    #[test]
    fn a_cpu_alone_gauges_nothing() {
        let alone = Ok(Loaded { cpus: 1, ticks: true });
        let told = bus_locks(&None, Some(&alone));
        assert!(!told.is_present() && !caches(Path::new("/"), told, Some(&alone)).is_present());
    }
}
