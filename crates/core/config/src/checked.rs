//! A configuration whose types, ranges and references hold. Whether the machine has what it names
//! is the business of [`crate::resolve`].

use crate::error::{ConfigError, ConfigErrors};
use crate::spot::Spot;
use quell_types::{BytesPerSecond, CpuSet, Link, Slo, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The agent itself.
    pub agent: AgentConfig,
    /// Services in the order of the text; at least one.
    pub services: Vec<ServiceConfig>,
    /// Batch groups in the order of the text.
    pub batch: Vec<BatchConfig>,
    /// Links in the order of the text.
    pub links: Vec<LinkConfig>,
    /// Parameters that the text gives, by law, each fit for the law's own type. Parameters that
    /// are not given are left out: their defaults are the law's.
    pub laws: BTreeMap<String, toml::Table>,
    pub(crate) law_spots: BTreeMap<(String, String), Spot>,
}

impl Checked {
    /// The parameters given for a law; empty if there are none.
    #[must_use]
    pub fn law_parameters(&self, law: &str) -> toml::Table {
        self.laws.get(law).cloned().unwrap_or_default()
    }

    /// The parameters of all laws, a table for each that the text names: what a type with one
    /// field for each law is read from.
    #[must_use]
    pub fn all_law_parameters(&self) -> toml::Table {
        self.laws.iter().map(|(law, table)| (law.clone(), table.clone().into())).collect()
    }

    /// An error about the laws that run beside the one that is chosen.
    #[must_use]
    pub fn beside_error(&self, problem: &str) -> ConfigErrors {
        let spot = &self.agent.beside_spot;
        ConfigErrors(vec![ConfigError::at(spot, "agent.beside", problem, None)])
    }

    /// An error about a law's parameter (or, with an empty `parameter`, about the law), for what
    /// only the law can judge: parameters that contradict each other.
    #[must_use]
    pub fn law_error(&self, law: &str, parameter: &str, problem: &str) -> ConfigErrors {
        let of = |p: &str| self.law_spots.get(&(law.to_owned(), p.to_owned()));
        let spot = of(parameter).or_else(|| of("")).unwrap_or(&self.agent.law_spot);
        let key = match parameter {
            "" => format!("law.{law}"),
            _ => format!("law.{law}.{parameter}"),
        };
        ConfigErrors(vec![ConfigError::at(spot, key, problem, None)])
    }
}

/// `[agent]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// Time between samples.
    pub interval: Duration,
    /// Length of the short window of the fast path.
    pub fast_interval: Duration,
    /// Where journals and the queue are kept; absolute.
    pub state_dir: String,
    /// Where metrics are served.
    pub metrics: Metrics,
    /// What to do when somebody else changes a knob.
    pub on_foreign_change: ForeignChange,
    /// The control law.
    pub law: String,
    /// Laws that run beside it and limit polluters only.
    pub beside: Vec<String>,
    /// Whether tasks may be moved into groups made by Quell.
    pub adopt: bool,
    /// CPUs that services and batch share; none = all that are online.
    pub manage: Option<CpuSet>,
    /// Whether resctrl may be mounted where nobody did.
    pub mount_resctrl: bool,
    /// The share of one CPU that is set aside for the agent while others starve it; 0 = none.
    pub cpu_reserve_frac: f64,
    /// Whether and how much batch may be held to measure its harm.
    pub experiments: Experiments,
    /// Whether and how much services are pressed to see what they tolerate.
    pub probes: Probes,
    pub(crate) law_spot: Spot,
    pub(crate) beside_spot: Spot,
    pub(crate) manage_spot: Spot,
}

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// Nowhere.
    Off,
    /// On a Unix socket at this absolute path.
    Unix(String),
    /// On an address that the configuration names.
    Address(SocketAddr),
}

/// What to do when somebody else changes a knob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForeignChange {
    /// Set it again.
    #[default]
    Reassert,
    /// Leave that knob alone from then on.
    GiveUp,
}

/// `[agent.experiments]`: short holds of batch that show its harm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experiments {
    /// Whether they are made at all.
    pub enabled: bool,
    /// The most of all time that batch may be held for them, 0..0.01.
    pub max_share_frac: f64,
    /// The longest single hold.
    pub max_length: Duration,
}

/// `[agent.probes]`: short pressure beside services that have slack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probes {
    /// Whether they are made at all.
    pub enabled: bool,
    /// The most of all time in which there may be such pressure, 0..0.01.
    pub max_share_frac: f64,
}

/// How a service or batch group is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", content = "what", rename_all = "snake_case")]
pub enum Selector {
    /// A cgroup by its path below the hierarchy's root, in whichever hierarchies have it.
    Cgroup(String),
    /// A systemd unit.
    Unit(String),
    /// The group of a process.
    Pid(u32),
    /// A virtual machine of libvirt's.
    Vm(String),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Cgroup(path) => write!(f, "cgroup {path}"),
            Selector::Unit(unit) => write!(f, "unit {unit}"),
            Selector::Pid(pid) => write!(f, "pid {pid}"),
            Selector::Vm(name) => write!(f, "vm {name}"),
        }
    }
}

/// Where a service's latency comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LatencySource {
    /// Quell's own meter on the service's sockets.
    Ebpf {
        /// Listening ports by which the service is known; empty = found by its sockets.
        ports: Vec<u16>,
    },
    /// A histogram of a Prometheus text endpoint.
    Prometheus {
        /// The endpoint, `http://…`.
        url: String,
        /// The histogram's name.
        metric: String,
        /// Labels that its series must have.
        labels: BTreeMap<String, String>,
    },
    /// Samples pushed to a Unix socket that Quell makes at this path.
    Socket(String),
}

/// `[[service]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceConfig {
    /// Its name.
    pub name: Tenant,
    /// How it is found.
    pub selector: Selector,
    /// Its objective.
    pub slo: Slo,
    /// The highest rate it sustains, in requests per second.
    pub peak_qps: Option<f64>,
    /// The name by which its profile is kept.
    pub profile: Option<String>,
    /// Where its latency comes from.
    pub latency: LatencySource,
    /// Links that it sends on.
    pub links: Vec<Link>,
    /// Whether its tasks may be moved into a group made by Quell.
    pub adopt: bool,
    pub(crate) spot: Spot,
    pub(crate) path: String,
}

/// `[[batch]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchConfig {
    /// Its name.
    pub name: Tenant,
    /// How it is found.
    pub selector: Selector,
    /// Whether tasks of the queue are started in it.
    pub takes_tasks: bool,
    /// How many tasks may run in it at once; 0 if it takes none.
    pub max_tasks: u32,
    /// Links that it sends on.
    pub links: Vec<Link>,
    /// Whether its tasks may be moved into a group made by Quell.
    pub adopt: bool,
    pub(crate) spot: Spot,
    pub(crate) path: String,
}

/// `[[link]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// The interface.
    pub name: Link,
    /// What it carries.
    pub capacity: BytesPerSecond,
    /// The network namespace it is in: a name as `ip netns` has them, or a path; none = the
    /// agent's own.
    pub netns: Option<String>,
    pub(crate) spot: Spot,
    pub(crate) path: String,
}
