//! All keys.

use super::kinds::{
    Bool, Choice, CpuList, Integer, Labels, ListOf, Number, Rate, Seconds, Share, Span, Text,
};
use super::places::{
    AbsolutePath, Endpoint, GroupPath, InterfaceName, LatencyKind, MachineName, MetricsPlace, Name,
    SocketPath, TableOf, UnitName,
};
use super::{Default, Key, Section};
use crate::checked::ForeignChange;
use std::time::Duration;

/// An objective's range: far below what the meter tells apart, up to what still is a service.
const TARGET: Span = Span { min: Duration::from_micros(10), max: Duration::from_secs(60) };

macro_rules! keys {
    ($($(#[$attr:meta])* $name:ident: $kind:ty = $text:literal, $value:expr, $default:expr, $doc:literal;)*) => {
        $($(#[$attr])* pub(crate) static $name: Key<$kind> =
            Key { name: $text, kind: $value, default: $default, doc: $doc };)*
    };
}

keys! {
    INTERVAL: Seconds = "interval_s", Seconds { min: 0.05, max: 60.0 }, Default::Value("1.0"),
        "Time between samples, and the length of a window.";
    FAST_INTERVAL: Seconds = "fast_interval_s", Seconds { min: 0.05, max: 60.0 },
        Default::Value("0.25"),
        "Time between steps of the fast path; at most interval_s.";
    STATE_DIR: AbsolutePath = "state_dir", AbsolutePath, Default::Value("/var/lib/quell"),
        "Where the journals and the queue are kept.";
    METRICS: MetricsPlace = "metrics", MetricsPlace, Default::Value("/run/quell/metrics.sock"),
        "Where Prometheus metrics are served.";
    ON_FOREIGN_CHANGE: Choice<ForeignChange> = "on_foreign_change", Choice { of: &[
            ("reassert", ForeignChange::Reassert), ("give-up", ForeignChange::GiveUp),
        ] }, Default::Value("reassert"),
        "When somebody else changes a knob: set it again, or leave it alone from then on.";
    LAW: Text = "law", Text { expects: "the name of a control law" }, Default::Value("quell"),
        "The control law.";
    BESIDE: ListOf<Text> = "beside",
        ListOf { of: Text { expects: "the name of a control law" }, called: "a list of laws" },
        Default::Nothing("none"),
        "Laws that run beside it and limit polluters only: bus-lock, llc-bias, power, alita, \
         culprit. Where two laws want the same knob, the tighter wish stands.";
    ADOPT: Bool = "adopt", Bool, Default::Value("false"),
        "Whether tasks may be moved into groups made by Quell where a needed controller has no \
         group for them. Services and batch groups can say otherwise.";
    MANAGE: CpuList = "manage", CpuList, Default::Nothing("all CPUs that are online"),
        "The CPUs that services and batch share; the others are left alone.";
    MOUNT_RESCTRL: Bool = "mount_resctrl", Bool, Default::Value("false"),
        "Whether resctrl is mounted at /sys/fs/resctrl where the machine has it and nobody \
         mounted it; it is unmounted in the end.";
    CPU_RESERVE: Share = "cpu_reserve", Share { max: 0.5 }, Default::Value("0.2"),
        "The share of one CPU that is set aside for the agent while others starve it (it stood for \
         half a second), so that they do not keep it from finding and limiting them. 0 = none.";
    EXPERIMENTS: TableOf = "experiments", TableOf, Default::Nothing("the defaults below"),
        "Short holds of batch that show its harm: the table [agent.experiments].";

    PROBES: TableOf = "probes", TableOf, Default::Nothing("the defaults below"),
        "Short pressure beside services with slack that shows what they tolerate: the table \
         [agent.probes].";

    PROBING: Bool = "enabled", Bool, Default::Value("false"),
        "Whether they are made.";
    PROBE_SHARE: Share = "max_share", Share { max: 0.01 }, Default::Value("0.01"),
        "The most of all time in which there may be such pressure.";

    ENABLED: Bool = "enabled", Bool, Default::Value("true"),
        "Whether they are made.";
    MAX_SHARE: Share = "max_share", Share { max: 0.01 }, Default::Value("0.01"),
        "The most of all time that batch may be held for them.";
    MAX_LENGTH: Seconds = "max_length_s", Seconds { min: 0.001, max: 0.2 }, Default::Value("0.2"),
        "The longest single hold.";

    NAME: Name = "name", Name, Default::Nothing("the cgroup's last part, the unit's stem, pid-N, or the vm"),
        "Its name in metrics, journal and reports. No two services or batch groups share one.";
    CGROUP: GroupPath = "cgroup", GroupPath, Default::Nothing("one of cgroup, unit, pid, vm is needed"),
        "The cgroup, looked up in every mounted hierarchy.";
    UNIT: UnitName = "unit", UnitName, Default::Nothing("one of cgroup, unit, pid, vm is needed"),
        "The systemd unit; its limits are set through systemd.";
    PID: Integer = "pid", Integer { min: Some(1), max: Some(4_194_304) },
        Default::Nothing("one of cgroup, unit, pid, vm is needed"),
        "A process; its cgroup is meant.";
    VM: MachineName = "vm", MachineName,
        Default::Nothing("one of cgroup, unit, pid, vm is needed"),
        "A virtual machine that libvirt runs, by libvirt's name for it; its CPUs and \
         CPU time are set through libvirt.";
    P50: Span = "p50", TARGET, Default::Nothing("exactly one objective is needed"),
        "Objective: half of all requests are answered within this time.";
    P95: Span = "p95", TARGET, Default::Nothing("exactly one objective is needed"),
        "Objective: 95 % of all requests are answered within this time.";
    P99: Span = "p99", TARGET, Default::Nothing("exactly one objective is needed"),
        "Objective: 99 % of all requests are answered within this time.";
    P999: Span = "p99.9", TARGET, Default::Nothing("exactly one objective is needed"),
        "Objective: 99.9 % of all requests are answered within this time.";
    PERCENTILE: Number = "percentile", Number { min: Some(50.0), max: Some(99.99) },
        Default::Nothing("exactly one objective is needed"),
        "Objective at another percentile, in percent; with target.";
    TARGET_TIME: Span = "target", TARGET, Default::Nothing("with percentile only"),
        "The time that goes with percentile.";
    PEAK_QPS: Number = "peak_qps", Number { min: Some(0.001), max: Some(1e9) },
        Default::Nothing("load is judged by CPU use alone"),
        "The highest rate that the service sustains, in requests per second.";
    PROFILE: Text = "profile", Text { expects: "the name of a profile in the state folder's store" },
        Default::Nothing("its own name, for what probes find; no model of its memory traffic"),
        "The name by which its profile is kept (quell profile --store): law heracles takes the \
         model of its memory traffic from it, and what probes find goes into it.";
    LATENCY: LatencyKind = "latency", LatencyKind, Default::Value("ebpf"),
        "Where latency comes from: Quell's own meter on the service's sockets, or one of the \
         tables below.";
    PORTS: ListOf<Integer> = "ports",
        ListOf { of: Integer { min: Some(1), max: Some(65_535) }, called: "a list of ports" },
        Default::Nothing("found by the service's listening sockets"),
        "Listening TCP ports by which the meter knows the service; with latency = \"ebpf\" only.";
    LINKS: ListOf<Text> = "links",
        ListOf { of: Text { expects: "the name of a [[link]]" }, called: "a list" },
        Default::Nothing("none"),
        "Links that it sends on and that are shaped.";
    ADOPT_ONE: Bool = "adopt", Bool, Default::Nothing("agent.adopt"),
        "Whether its tasks may be moved into a group made by Quell.";

    PROMETHEUS: Endpoint = "prometheus", Endpoint,
        Default::Nothing("one of prometheus, socket is needed"),
        "A Prometheus text endpoint with a latency histogram in seconds.";
    METRIC: Text = "metric", Text { expects: "the name of a histogram without _bucket" },
        Default::Nothing("needed with prometheus"),
        "The histogram's name; with prometheus only.";
    LABELS: Labels = "labels", Labels, Default::Nothing("all series"),
        "Labels that its series must have; with prometheus only.";
    SOCKET: SocketPath = "socket", SocketPath,
        Default::Nothing("one of prometheus, socket is needed"),
        "A Unix socket that Quell makes, on which the service pushes its latencies.";

    TASKS: Bool = "tasks", Bool, Default::Value("false"),
        "Whether tasks of the queue (quell batch) are started in it.";
    MAX_TASKS: Integer = "max_tasks", Integer { min: Some(1), max: Some(4096) },
        Default::Value("1"),
        "How many tasks may run in it at once; with tasks = true only.";

    LINK_NAME: InterfaceName = "name", InterfaceName, Default::Required,
        "The network interface.";
    CAPACITY: Rate = "capacity", Rate, Default::Required,
        "What the link carries.";
    NETNS: Text = "netns", Text { expects: "a name of `ip netns`, or a path such as /proc/1/ns/net" },
        Default::Nothing("the agent's own"),
        "The network namespace that the interface is in.";
}

pub(crate) static AGENT: Section = Section {
    header: "[agent]",
    doc: "The agent itself. The whole table may be left out.",
    keys: &[
        &INTERVAL,
        &FAST_INTERVAL,
        &STATE_DIR,
        &METRICS,
        &ON_FOREIGN_CHANGE,
        &LAW,
        &BESIDE,
        &ADOPT,
        &MANAGE,
        &MOUNT_RESCTRL,
        &CPU_RESERVE,
        &EXPERIMENTS,
        &PROBES,
    ],
};

pub(crate) static AGENT_EXPERIMENTS: Section = Section {
    header: "[agent.experiments]",
    doc: "Short holds of batch, by which the service's CPU time per request beside batch is \
          compared with the same alone.",
    keys: &[&ENABLED, &MAX_SHARE, &MAX_LENGTH],
};

pub(crate) static AGENT_PROBES: Section = Section {
    header: "[agent.probes]",
    doc: "Short pressure on one shared resource beside a service that has slack to spare, by which \
          it is told anew what the service tolerates. It ends at once when slack falls.",
    keys: &[&PROBING, &PROBE_SHARE],
};

pub(crate) static SERVICE: Section = Section {
    header: "[[service]]",
    doc: "A latency-critical service: one table each, at least one.",
    keys: &[
        &NAME,
        &CGROUP,
        &UNIT,
        &PID,
        &VM,
        &P50,
        &P95,
        &P99,
        &P999,
        &PERCENTILE,
        &TARGET_TIME,
        &PEAK_QPS,
        &PROFILE,
        &LATENCY,
        &PORTS,
        &LINKS,
        &ADOPT_ONE,
    ],
};

pub(crate) static SERVICE_LATENCY: Section = Section {
    header: "[service.latency]",
    doc: "Another source of latency than Quell's own meter.",
    keys: &[&PROMETHEUS, &METRIC, &LABELS, &SOCKET],
};

pub(crate) static BATCH: Section = Section {
    header: "[[batch]]",
    doc: "A group of best-effort work: one table each.",
    keys: &[&NAME, &CGROUP, &UNIT, &PID, &VM, &TASKS, &MAX_TASKS, &LINKS, &ADOPT_ONE],
};

pub(crate) static LINK: Section = Section {
    header: "[[link]]",
    doc: "A network link whose egress is shaped: one table each.",
    keys: &[&LINK_NAME, &CAPACITY, &NETNS],
};

/// All sections but the laws', in the order of the documentation.
pub(crate) static SECTIONS: &[&Section] =
    &[&AGENT, &AGENT_EXPERIMENTS, &AGENT_PROBES, &SERVICE, &SERVICE_LATENCY, &BATCH, &LINK];

/// The tables at the top of a configuration.
pub(crate) const TOP: &[&str] = &["agent", "service", "batch", "link", "law"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_that_its_key_accepts() {
        for section in SECTIONS {
            for key in section.keys {
                assert!(key.default_is_read(), "{} {}", section.header, key.name());
            }
        }
    }

    #[test]
    fn no_key_is_defined_twice_and_each_is_explained() {
        for section in SECTIONS {
            let mut names: Vec<_> = section.names().collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), section.keys.len(), "{}", section.header);
            assert!(section.keys.iter().all(|k| k.doc().ends_with('.')), "{}", section.header);
        }
    }
}
