//! What the platform is told: which groups are whose, and where state is kept.

use quell_types::{BatchSpec, CpuSet, LinkSpec, ServiceSpec};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How a workload is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By its cgroup path, looked up in every mounted hierarchy.
    Cgroup(String),
    /// By its systemd unit.
    Unit(String),
    /// By one of its processes.
    Pid(u32),
    /// By libvirt's name of the virtual machine.
    Vm(String),
}

/// Where a service's latency comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latency {
    /// The eBPF meter; ports are looked up where none is given.
    Ebpf {
        /// Where the service listens.
        ports: Vec<u16>,
    },
    /// A histogram of a Prometheus text endpoint.
    Prometheus {
        /// `http://host:port/path`.
        url: String,
        /// The histogram's name, without `_bucket`.
        metric: String,
        /// Labels that its samples must carry.
        labels: BTreeMap<String, String>,
    },
    /// Samples that the service pushes to this Unix socket.
    Pushed {
        /// The socket's path.
        path: PathBuf,
    },
}

/// A service and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceBinding {
    /// Name and objective.
    pub spec: ServiceSpec,
    /// How it is found.
    pub selector: Selector,
    /// Where its latency comes from.
    pub latency: Latency,
    /// Whether its processes may be moved into a group of Quell's.
    pub adopt: bool,
}

/// A batch group and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchBinding {
    /// Name and tasks.
    pub spec: BatchSpec,
    /// How it is found.
    pub selector: Selector,
    /// Whether its processes may be moved into a group of Quell's.
    pub adopt: bool,
}

/// A link and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkBinding {
    /// Name and capacity.
    pub spec: LinkSpec,
    /// Its network namespace (a name of `ip netns` or a path); none = the agent's own.
    pub netns: Option<String>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq)]
pub struct LinuxOptions {
    /// Where `/proc` and `/sys` lie: `/`, or a fixture tree.
    pub root: PathBuf,
    /// Where journal and queue are kept.
    pub state_dir: PathBuf,
    /// Services.
    pub services: Vec<ServiceBinding>,
    /// Batch groups.
    pub batch: Vec<BatchBinding>,
    /// Shaped links.
    pub links: Vec<LinkBinding>,
    /// CPUs that are managed; none = all that are online.
    pub managed_cpus: Option<CpuSet>,
    /// Whether traffic on loopback counts as egress.
    pub count_loopback: bool,
    /// Whether resctrl may be mounted where the machine has it and nobody did.
    pub mount_resctrl: bool,
    /// The program that presses in probes, with its first arguments (`quell pressure`); empty: no
    /// probe is made.
    pub probe_program: Vec<String>,
    /// The program that reports: it reads a line for each burst and answers with one (`quell pressure
    /// report`); empty: no burst is played.
    pub reporter_program: Vec<String>,
    /// Whether bus locks are counted: by perf, where the PMU has counters left.
    pub count_bus_locks: bool,
    /// Whether temperature and use of each CPU are read.
    pub read_temperatures: bool,
}

impl LinuxOptions {
    /// Nothing guarded yet.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            root: PathBuf::from("/"),
            state_dir: state_dir.into(),
            services: Vec::new(),
            batch: Vec::new(),
            links: Vec::new(),
            managed_cpus: None,
            count_loopback: false,
            mount_resctrl: false,
            probe_program: Vec::new(),
            reporter_program: Vec::new(),
            count_bus_locks: false,
            read_temperatures: false,
        }
    }
}
