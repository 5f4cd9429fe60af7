//! What can be asked for, and its checks.

use crate::{Intensity, Plan, PressureError, Resource, affinity};
use quell_types::{CpuSet, Topology};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How a kernel spends the time in which it does not work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Spins on PAUSE: the core stays awake and its clock steady.
    #[default]
    Spin,
    /// Gives the CPU away, for a millisecond at least.
    Sleep,
    /// The same, and what counts as work is CPU time: a thread that was kept from the CPU catches up,
    /// 25 ms of work at most. So it uses its share of a CPU wherever that is to be had, as work does
    /// that comes at its own pace.
    Pace,
}

impl FromStr for Idle {
    type Err = PressureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "spin" => Ok(Idle::Spin),
            "sleep" => Ok(Idle::Sleep),
            "pace" => Ok(Idle::Pace),
            other => Err(PressureError::Option {
                option: "idle",
                value: other.chars().take(40).collect(),
                allowed: "give spin, sleep or pace",
            }),
        }
    }
}

/// The pages that [`Resource::Tlb`] touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB: takes 2 MiB of memory for each entry of the TLB.
    Huge,
}

impl FromStr for PageSize {
    type Err = PressureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "small" => Ok(PageSize::Small),
            "huge" => Ok(PageSize::Huge),
            other => Err(PressureError::Option {
                option: "pages",
                value: other.chars().take(40).collect(),
                allowed: "give small or huge",
            }),
        }
    }
}

/// Where the flows of [`Resource::NetworkBandwidth`] go.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOptions {
    /// The sink; none starts one on loopback.
    pub peer: Option<SocketAddr>,
    /// TCP connections, each on its own thread.
    pub flows: usize,
    /// Congestion control, as `sysctl net.ipv4.tcp_available_congestion_control` names it.
    pub congestion: String,
    /// The link's rate in bits per second, for intensities below 100. None: learnt by sending at
    /// full speed for a quarter of a second.
    pub link_bits_per_s: Option<f64>,
    /// Send from this network namespace (a file, as `/run/netns/NAME`); none: where we are.
    pub netns: Option<PathBuf>,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        NetworkOptions {
            peer: None,
            flows: 4,
            congestion: "cubic".to_owned(),
            link_bits_per_s: None,
            netns: None,
        }
    }
}

/// Where the files of the storage kernels lie, and how large they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageOptions {
    /// On the disk under pressure; none: the folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Bytes at 100 %, all threads together. None: for capacity all that is free, less the reserve;
    /// for bandwidth 256 MiB.
    pub bytes: Option<u64>,
}

/// One application of pressure. `seconds` bounds it in any case.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// On what.
    pub resource: Resource,
    /// How hard.
    pub plan: Plan,
    /// Threads are bound to these CPUs in turn; empty: not bound.
    pub cpus: CpuSet,
    /// How many threads; none: one for each CPU given, else one. The network has one for each flow.
    pub threads: Option<usize>,
    /// For how long, at most.
    pub seconds: f64,
    /// Slice of the duty cycle.
    pub slice: Duration,
    /// What to do in the idle part of a slice.
    pub idle: Idle,
    /// Time between two progress reports.
    pub interval: Duration,
    /// Size of the last-level cache, if the kernel does not know or is wrong.
    pub llc_bytes: Option<u64>,
    /// Size of the core's own cache under pressure (first or second level), likewise.
    pub cache_bytes: Option<u64>,
    /// Entries of the second-level TLB, likewise.
    pub tlb_entries: Option<u64>,
    /// Pages that press on the TLB.
    pub pages: PageSize,
    /// Memory to stream through, all threads together; none: eight times the last-level cache,
    /// at least 256 MiB, but no more than 1 GiB or twice the cache. For [`Resource::MemoryCapacity`] what 100 % are; none: all that is
    /// available, less the reserve.
    pub region_bytes: Option<u64>,
    /// Files.
    pub storage: StorageOptions,
    /// Whoever asks knows that [`Resource::BusLock`] hurts all tenants of the socket.
    pub hurts_everyone: bool,
    /// Flows.
    pub network: NetworkOptions,
    /// A file in which other processes see the work done ([`crate::FeedReader`]), best on tmpfs.
    pub feed: Option<PathBuf>,
}

/// Most threads or flows.
const MOST_THREADS: usize = 1024;
/// Longest run of bus locks.
const MOST_BUS_LOCK_SECONDS: f64 = 5.0;
/// Longest run: 30 days.
const MOST_SECONDS: f64 = 30.0 * 86_400.0;

impl Options {
    /// Full pressure for ten seconds from one thread.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        Options {
            resource,
            plan: Plan::Hold(Intensity::FULL),
            cpus: CpuSet::new(),
            threads: None,
            seconds: 10.0,
            slice: Duration::from_millis(1),
            idle: Idle::Spin,
            interval: Duration::from_secs(1),
            llc_bytes: None,
            cache_bytes: None,
            tlb_entries: None,
            pages: PageSize::Small,
            region_bytes: None,
            storage: StorageOptions::default(),
            hurts_everyone: false,
            network: NetworkOptions::default(),
            feed: None,
        }
    }

    /// The number of worker threads.
    #[must_use]
    pub fn workers(&self) -> usize {
        match self.resource {
            Resource::NetworkBandwidth => self.network.flows,
            _ => self.threads.unwrap_or_else(|| self.cpus.len().max(1)),
        }
    }

    /// The machine, with last-level caches of the size that these options tell, where they do.
    #[must_use]
    pub fn machine(&self, topology: &Topology) -> Topology {
        let mut told = topology.clone();
        if let Some(bytes) = self.llc_bytes {
            told.llc.iter_mut().for_each(|llc| llc.size_bytes = bytes);
        }
        told
    }

    /// Checks every range, and the CPUs against the machine and this process's mask.
    pub fn check(&self, topology: &Topology) -> Result<(), PressureError> {
        let ranges = [
            (
                "seconds",
                self.seconds.to_string(),
                (1e-6..=MOST_SECONDS).contains(&self.seconds),
                "give more than 0 and at most 2592000 (30 days)",
            ),
            (
                if self.resource == Resource::NetworkBandwidth { "flows" } else { "threads" },
                self.workers().to_string(),
                (1..=MOST_THREADS).contains(&self.workers()),
                "give 1 to 1024",
            ),
            (
                "slice",
                format!("{:?}", self.slice),
                self.slice >= Duration::from_micros(20) && self.slice <= Duration::from_secs(1),
                "give 20us to 1s",
            ),
            (
                "interval",
                format!("{:?}", self.interval),
                self.interval >= Duration::from_millis(1),
                "give a millisecond or more",
            ),
            (
                "cache-bytes",
                format!("{:?}", self.cache_bytes),
                self.cache_bytes.is_none_or(|bytes| (4096..=1 << 40).contains(&bytes)),
                "give 4096 to 1099511627776 (1 TiB)",
            ),
            (
                "tlb-entries",
                format!("{:?}", self.tlb_entries),
                self.tlb_entries.is_none_or(|entries| (1..=32_768).contains(&entries)),
                "give 1 to 32768",
            ),
            (
                "link-bits-per-s",
                format!("{:?}", self.network.link_bits_per_s),
                self.network.link_bits_per_s.is_none_or(|rate| (1e3..=1e13).contains(&rate)),
                "give 1e3 to 1e13",
            ),
        ];
        for (option, value, fits, allowed) in ranges {
            if !fits {
                return Err(PressureError::Option { option, value, allowed });
            }
        }
        self.check_consent()?;
        self.check_cpus(topology)
    }

    /// Bus locks need consent, and are bounded even then.
    fn check_consent(&self) -> Result<(), PressureError> {
        if self.resource != Resource::BusLock {
            return Ok(());
        }
        if !self.hurts_everyone {
            return Err(PressureError::BusLockConsent);
        }
        if self.seconds > MOST_BUS_LOCK_SECONDS {
            let (option, value) = ("seconds", self.seconds.to_string());
            let allowed = "bus locks are for 5 s at most";
            return Err(PressureError::Option { option, value, allowed });
        }
        Ok(())
    }

    fn check_cpus(&self, topology: &Topology) -> Result<(), PressureError> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        let mask = affinity::allowed()?;
        let online = topology.online();
        let usable = if online.is_empty() { mask } else { mask.intersection(&online) };
        let unusable = self.cpus.difference(&usable);
        if unusable.is_empty() {
            return Ok(());
        }
        Err(PressureError::Cpus { unusable: unusable.to_string(), allowed: usable.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::new(Resource::Integer);
        change(&mut options);
        options.check(&Topology::default()).expect_err("should be refused").to_string()
    }

    #[test]
    fn says_what_is_wrong_with_which_option() {
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(refused(|o| o.seconds = seconds).starts_with("seconds is"), "{seconds}");
        }
        assert!(refused(|o| o.threads = Some(0)).starts_with("threads is 0"));
        assert!(refused(|o| o.threads = Some(2000)).contains("1 to 1024"));
        assert!(refused(|o| o.slice = Duration::ZERO).starts_with("slice"));
        assert!(refused(|o| o.interval = Duration::ZERO).starts_with("interval"));
        assert!(refused(|o| o.network.link_bits_per_s = Some(-3.0)).starts_with("link"));
        assert!(refused(|o| o.cache_bytes = Some(64)).starts_with("cache-bytes"));
        assert!(refused(|o| o.tlb_entries = Some(0)).starts_with("tlb-entries"));
        assert!("doze".parse::<PageSize>().is_err());
        let hurts = "--i-know-this-hurts-everyone";
        assert!(refused(|o| o.resource = Resource::BusLock).contains(hurts));
        assert!(
            refused(|o| {
                (o.resource, o.hurts_everyone, o.seconds) = (Resource::BusLock, true, 5.1);
            })
            .contains("5 s at most")
        );
        assert!(refused(|o| o.cpus = CpuSet::of(60_000)).contains("60000"));
        assert!("doze".parse::<Idle>().is_err());
    }

    #[test]
    fn caches_are_as_large_as_one_is_told() {
        let llc = quell_types::LlcDomain {
            id: 0,
            cpus: CpuSet::of(0),
            size_bytes: 32 << 20,
            ways: Some(16),
        };
        let topology = Topology { llc: vec![llc], ..Topology::default() };
        let mut options = Options::new(Resource::LlcCapacity);
        assert_eq!(options.machine(&topology), topology);
        options.llc_bytes = Some(4 << 20);
        assert_eq!(options.machine(&topology).llc[0].size_bytes, 4 << 20);
    }

    #[test]
    fn threads_follow_the_cpus() {
        let mut options = Options::new(Resource::LlcCapacity);
        assert_eq!(options.workers(), 1);
        options.cpus = [0, 1, 5].into_iter().collect();
        assert_eq!(options.workers(), 3);
        options.threads = Some(8);
        assert_eq!(options.workers(), 8);
        options.resource = Resource::NetworkBandwidth;
        assert_eq!(options.workers(), 4);
    }
}
