//! What a Linux machine tells of itself, read below a root directory: its shape (CPUs, caches,
//! NUMA nodes, memory), whether it is virtual, its CPU times, its stall times, its processes.
//!
//! [`Machine::new`] takes `/` on a real machine and a fixture tree in tests. Nothing here writes,
//! and nothing fails because a piece is missing: a value that is not there is a
//! [`Gap`], and [`Machine::topology`] answers with what it found.

mod caches;
mod cpuinfo;
mod cpus;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hypervisor;
mod interrupts;
mod nodes;
mod process;
mod stat;
mod text;

pub use cpuinfo::CpuInfo;
pub use interrupts::Interrupts;
pub use process::{CgroupMembership, ProcessInfo};

use quell_types::{CpuSet, CpuTimes, Gap, Pressure, Reading, Topology};
use std::path::{Path, PathBuf};
use text::Tree;

/// Kernel ticks per second in `/proc`: `USER_HZ`, part of the ABI and 100 on every architecture
/// that Quell runs on.
pub const USER_HZ: u64 = 100;
/// Nanoseconds of one tick.
pub(crate) const TICK_NS: u64 = 1_000_000_000 / USER_HZ;

/// A Linux machine as seen through its `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct Machine {
    tree: Tree,
}

impl Machine {
    /// The machine whose `/proc` and `/sys` lie below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { tree: Tree::new(root.into()) }
    }

    /// The directory that `/proc` and `/sys` lie in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.tree.root()
    }

    /// The machine's shape. Never fails: what the kernel does not tell is left empty, and a
    /// machine without `/sys` is one socket with as many cores as it has CPUs.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let info = self.cpu_info();
        let cpus = cpus::read(&self.tree, &info);
        let online: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
        let caches = caches::read(&self.tree, &online);
        let memory_bytes = nodes::total_memory(&self.tree).unwrap_or(0);
        Topology {
            model: info.model(),
            llc: caches::last_level(&caches, &online),
            caches: caches.into_iter().map(|found| found.cache).collect(),
            nodes: nodes::read(&self.tree, &online, memory_bytes),
            memory_bytes,
            hypervisor: self.hypervisor(),
            cpus,
        }
    }

    /// `/proc/cpuinfo`, empty if there is none.
    #[must_use]
    pub fn cpu_info(&self) -> CpuInfo {
        CpuInfo::parse(&self.tree.text("proc/cpuinfo").unwrap_or_default())
    }

    /// The hypervisor's name as `systemd-detect-virt` spells it (`kvm`, `xen`, `microsoft`, …);
    /// `unknown` if the machine is virtual but does not say on what; none on bare metal.
    #[must_use]
    pub fn hypervisor(&self) -> Option<String> {
        hypervisor::detect(&self.tree, &self.cpu_info()).map(str::to_owned)
    }

    /// CPUs that are online now.
    ///
    /// # Errors
    /// A gap if the kernel does not tell.
    pub fn online_cpus(&self) -> Reading<CpuSet> {
        let text = self.tree.read(cpus::ONLINE)?;
        text.trim().parse().map_err(|error| Gap::failed(format!("{}: {error}", cpus::ONLINE)))
    }

    /// CPU times of the machine since boot, all CPUs together (`/proc/stat`).
    ///
    /// # Errors
    /// A gap if the file is missing or has no `cpu` line.
    pub fn cpu_times(&self) -> Reading<CpuTimes> {
        stat::total(&self.tree.read("proc/stat")?)
    }

    /// CPU times of each CPU since boot, by CPU number.
    ///
    /// # Errors
    /// A gap if the file is missing or names no CPU.
    pub fn cpu_times_by_cpu(&self) -> Reading<Vec<(u32, CpuTimes)>> {
        stat::by_cpu(&self.tree.read("proc/stat")?)
    }

    /// How often each CPU answered each device since boot (`/proc/interrupts`).
    ///
    /// # Errors
    /// A gap if the file is missing or names no CPU.
    pub fn interrupts(&self) -> Reading<Vec<Interrupts>> {
        interrupts::parse(&self.tree.read("proc/interrupts")?)
    }

    /// Stall times of the machine since boot (`/proc/pressure`).
    ///
    /// # Errors
    /// [`Gap::Absent`] if the kernel has no PSI or it is switched off.
    pub fn pressure(&self) -> Reading<Pressure> {
        stat::pressure(&self.tree)
    }

    /// Changes with each boot.
    ///
    /// # Errors
    /// A gap if the kernel does not tell.
    pub fn boot_id(&self) -> Reading<String> {
        Ok(self.tree.read("proc/sys/kernel/random/boot_id")?.trim().to_owned())
    }

    /// What `/proc/PID` tells of a process.
    ///
    /// # Errors
    /// [`Gap::Gone`] if there is no such process.
    pub fn process(&self, pid: u32) -> Reading<ProcessInfo> {
        process::read(&self.tree, pid)
    }

    /// Numbers of all processes, rising; those that end meanwhile may be among them.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.tree.numbered("proc", "")
    }
}
