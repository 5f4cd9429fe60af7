//! All probes behind one door.

use crate::contention::{Contention, Stood};
use crate::error::{EbpfError, chain};
use crate::gauge::Gauge;
use crate::meter::MeterCounters;
use crate::packets::{Limits, Packets};
use crate::runqueue::RunQueue;
use crate::services::ServiceKey;
use aya::Ebpf;
use aya::sys::{Stats, enable_stats};
use quell_types::{Gap, LogHistogram, Reading, RequestReading};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Whose ids name the groups whose run-queue waits are read. A cgroup's id is the inode number of
/// its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupIds {
    /// cgroup2.
    #[default]
    V2,
    /// The `cpu` hierarchy of cgroup v1.
    V1Cpu,
}

/// What to load, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many services can be metered, 1..=255; each takes 2.4 KB a CPU in the kernel.
    pub services: u32,
    /// How many slots for groups, at least 1; each takes 2.3 KB a CPU in the kernel.
    pub slots: u32,
    /// Whose ids `track_run_queue` takes.
    pub run_queue_ids: CgroupIds,
    /// Whether bytes sent to this very machine count as egress.
    pub count_loopback: bool,
}

impl Default for Options {
    fn default() -> Self {
        let run_queue_ids = CgroupIds::default();
        Self { services: 16, slots: 64, run_queue_ids, count_loopback: false }
    }
}

/// What a program cost so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    /// The program.
    pub program: String,
    /// How often it ran while time was counted.
    pub runs: u64,
    /// How long that took, in nanoseconds, summed over CPUs.
    pub time_ns: u64,
}

/// The loaded probes. Everything is detached when this is dropped, or when the process dies.
pub struct Probes {
    packets: Result<Packets, String>,
    run_queue: Result<RunQueue, String>,
    /// Loaded when the first slot is watched.
    contention: Option<Result<Contention, String>>,
    options: Options,
    timing: Option<OwnedFd>,
}

impl Probes {
    /// Loads the programs and makes the kernel check them; nothing is attached yet. A part that
    /// this kernel refuses reads as a gap with the reason.
    ///
    /// # Errors
    /// The options are out of range, or no part could be loaded.
    pub fn load(options: Options) -> Result<Self, EbpfError> {
        let out_of_range = |what, index| EbpfError::OutOfRange { what, index, limit: 255 };
        if !(1..=255).contains(&options.services) {
            return Err(out_of_range("number of services", options.services));
        }
        if options.slots == 0 {
            return Err(out_of_range("number of slots", 0));
        }
        let limits = Limits { services: options.services, groups: options.slots };
        let packets = Packets::load(limits, options.count_loopback);
        let v1_cpu = options.run_queue_ids == CgroupIds::V1Cpu;
        let run_queue = RunQueue::load(options.slots, v1_cpu);
        give_back_memory();
        match (packets, run_queue) {
            (Err(error), Err(_)) => Err(error),
            (packets, run_queue) => Ok(Self {
                packets: packets.map_err(|error| chain(&error)),
                run_queue: run_queue.map_err(|error| chain(&error)),
                contention: None,
                options,
                timing: None,
            }),
        }
    }

    fn packets(&mut self) -> Result<&mut Packets, EbpfError> {
        self.packets.as_mut().map_err(|why| EbpfError::Unavailable(why.clone()))
    }

    fn run_queue(&mut self) -> Result<&mut RunQueue, EbpfError> {
        self.run_queue.as_mut().map_err(|why| EbpfError::Unavailable(why.clone()))
    }

    /// Why the packet programs could not be loaded, if they could not.
    #[must_use]
    pub fn packets_gap(&self) -> Option<Gap> {
        self.packets.as_ref().err().map(|why| Gap::absent(why.clone()))
    }

    /// Why the run-queue program could not be loaded, if it could not.
    #[must_use]
    pub fn run_queue_gap(&self) -> Option<Gap> {
        self.run_queue.as_ref().err().map(|why| Gap::absent(why.clone()))
    }

    /// Attaches the meter and the egress accounting to a cgroup2 directory and all below it,
    /// usually the root.
    ///
    /// # Errors
    /// It is no cgroup2 directory, or the kernel refuses.
    pub fn attach_meter(&mut self, directory: &Path) -> Result<(), EbpfError> {
        self.packets()?.attach(directory)
    }

    /// Meters a service under this index, or changes by what it is known (a restart with other
    /// ports): its counts go on, and the connections that still belong to it too.
    ///
    /// # Errors
    /// The index is out of range, or another service claims the same address or cgroup.
    pub fn set_service(&mut self, index: u32, key: ServiceKey) -> Result<(), EbpfError> {
        self.packets()?.set_service(index, key)
    }

    /// Ends the metering of a service; its index may be given to another, which counts from zero.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_service(&mut self, index: u32) -> Result<(), EbpfError> {
        self.packets()?.remove_service(index)
    }

    /// Requests, bytes and latency of a service since it was set. The latency is a gap where
    /// requests cannot be told apart, judged over the traffic since the last reading.
    pub fn read_requests(&mut self, index: u32) -> Reading<RequestReading> {
        match &mut self.packets {
            Ok(packets) => packets.requests(index).map_err(gap),
            Err(why) => Err(Gap::absent(why.clone())),
        }
    }

    /// All that the meter counted of a service, duplicates and pushed segments among it.
    pub fn read_counters(&self, index: u32) -> Reading<MeterCounters> {
        match &self.packets {
            Ok(packets) => packets.counters(index).map_err(gap),
            Err(why) => Err(Gap::absent(why.clone())),
        }
    }

    /// Keeps the run-queue waits of a cgroup, groups below it included, in a slot. Several
    /// cgroups may share one. Ids are those of [`Options::run_queue_ids`].
    ///
    /// # Errors
    /// The slot is out of range, or the kernel refuses.
    pub fn track_run_queue(&mut self, cgroup_id: u64, slot: u32) -> Result<(), EbpfError> {
        self.run_queue()?.track(cgroup_id, slot)?;
        match &mut self.contention {
            Some(Ok(contention)) => contention.track(cgroup_id, slot),
            _ => Ok(()),
        }
    }

    /// Ends that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn untrack_run_queue(&mut self, cgroup_id: u64) -> Result<(), EbpfError> {
        self.run_queue()?.untrack(cgroup_id)?;
        match &mut self.contention {
            Some(Ok(contention)) => contention.untrack(cgroup_id),
            _ => Ok(()),
        }
    }

    /// The waits for a CPU, in nanoseconds, of the tasks tracked in this slot: one for each time
    /// that a task ran, counted when it leaves the CPU. Time in which a group was throttled is
    /// waiting too.
    pub fn read_run_queue(&self, slot: u32) -> Reading<LogHistogram> {
        match &self.run_queue {
            Ok(run_queue) => run_queue.read(slot).map_err(gap),
            Err(why) => Err(Gap::absent(why.clone())),
        }
    }

    /// From now on it is kept behind whom the tasks of this slot's groups stand for a CPU, by slot;
    /// up to [`crate::MAX_VICTIMS`] slots can be watched. Needs Linux 5.16.
    ///
    /// # Errors
    /// The slot is out of range, there are too many, or the kernel refuses.
    pub fn watch_waits(&mut self, slot: u32) -> Result<(), EbpfError> {
        if self.contention.is_none() {
            let loaded = self.load_contention();
            give_back_memory();
            self.contention = Some(loaded.map_err(|error| chain(&error)));
        }
        match &mut self.contention {
            Some(Ok(contention)) => contention.watch(slot),
            Some(Err(why)) => Err(EbpfError::Unavailable(why.clone())),
            None => Ok(()),
        }
    }

    fn load_contention(&mut self) -> Result<Contention, EbpfError> {
        let v1_cpu = self.options.run_queue_ids == CgroupIds::V1Cpu;
        let mut contention = Contention::load(self.options.slots, v1_cpu)?;
        for (cgroup, slot) in self.run_queue()?.groups() {
            contention.track(*cgroup, *slot)?;
        }
        Ok(contention)
    }

    /// Behind whom the tasks of a watched slot stood ready to run. What a task stands for now is
    /// in it up to the last time that its CPU turned to another task.
    pub fn read_waits(&self, slot: u32) -> Reading<Stood> {
        match &self.contention {
            Some(Ok(contention)) => contention.read(slot).map_err(gap),
            Some(Err(why)) => Err(Gap::absent(why.clone())),
            None => Err(Gap::absent("no slot is watched")),
        }
    }

    /// How long accesses take beside whom, since the first slot was watched: a gap before.
    ///
    /// # Errors
    /// A gap where nothing is watched, or the programs could not be loaded.
    pub fn read_gauge(&self) -> Reading<Gauge> {
        match &self.contention {
            Some(Ok(contention)) => contention.gauge().map_err(gap),
            Some(Err(why)) => Err(Gap::absent(why.clone())),
            None => Err(Gap::not_yet("no service is watched")),
        }
    }

    /// Keeps the bytes that sockets of a cgroup2 group, groups below it included, send in a slot.
    ///
    /// # Errors
    /// The slot is out of range, or the kernel refuses.
    pub fn track_egress(&mut self, cgroup2_id: u64, slot: u32) -> Result<(), EbpfError> {
        self.packets()?.track(cgroup2_id, slot)
    }

    /// Ends that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn untrack_egress(&mut self, cgroup2_id: u64) -> Result<(), EbpfError> {
        self.packets()?.untrack(cgroup2_id)
    }

    /// Bytes sent since the slot was first used, IP headers included, those of a super-packet's
    /// parts too.
    pub fn read_egress(&self, slot: u32) -> Reading<u64> {
        match &self.packets {
            Ok(packets) => packets.egress(slot).map_err(gap),
            Err(why) => Err(Gap::absent(why.clone())),
        }
    }

    /// Makes HTB put what a cgroup2 group sends into a class (`major << 16 | minor`), by the
    /// packets' priority; none ends that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_class(&mut self, cgroup2_id: u64, classid: Option<u32>) -> Result<(), EbpfError> {
        self.packets()?.set_class(cgroup2_id, classid)
    }

    /// Marks what a pod sends for an HTB class, at the host's end of its veth pair. The mark acts
    /// on interfaces given to [`Probes::attach_nic`]. Before Linux 6.6 (no TCX) both interfaces
    /// need a `clsact` qdisc, which the caller adds and removes.
    ///
    /// # Errors
    /// No such interface in this network namespace, more than [`crate::MAX_CLASSES`] classes, or
    /// no place to attach to.
    pub fn mark_veth(&mut self, interface: &str, classid: u32) -> Result<(), EbpfError> {
        self.packets()?.mark_veth(interface, classid)
    }

    /// Makes an interface put marked packets into their HTB class.
    ///
    /// # Errors
    /// No such interface in this network namespace, or no place to attach to.
    pub fn attach_nic(&mut self, interface: &str) -> Result<(), EbpfError> {
        self.packets()?.attach_nic(interface)
    }

    /// Turns the kernel's clock on its BPF programs on or off (it is machine-wide and costs each
    /// run about 50 ns; off unless asked for).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn count_time(&mut self, on: bool) -> Result<(), EbpfError> {
        if !on {
            self.timing = None;
        } else if self.timing.is_none() {
            let refused = |error| EbpfError::Unavailable(chain(&error));
            self.timing = Some(enable_stats(Stats::RunTime).map_err(refused)?);
        }
        Ok(())
    }

    /// What each loaded program cost while time was counted.
    #[must_use]
    pub fn stats(&self) -> Vec<ProgramStats> {
        let packets = self.packets.as_ref().map(Packets::ebpf).ok();
        let run_queue = self.run_queue.as_ref().map(RunQueue::ebpf).ok();
        let contention = self.contention.as_ref().and_then(|c| c.as_ref().ok());
        let contention = contention.map(Contention::ebpf);
        packets.into_iter().chain(run_queue).chain(contention).flat_map(costs).collect()
    }
}

fn costs(ebpf: &Ebpf) -> Vec<ProgramStats> {
    let cost = |(name, program): (&str, &aya::programs::Program)| {
        let info = program.info().ok()?;
        Some(ProgramStats {
            program: name.to_owned(),
            runs: info.run_count(),
            time_ns: u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX),
        })
    };
    ebpf.programs().filter_map(cost).collect()
}

fn gap(error: EbpfError) -> Gap {
    match error {
        EbpfError::Unavailable(why) => Gap::absent(why),
        error => Gap::failed(error),
    }
}

/// Loading parses the kernel's BTF, which takes some 30 MB of heap for a moment; the allocator
/// would keep them for good, and the agent lives on other people's servers.
fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim only returns free pages of the heap to the kernel; it takes no pointer
    // and may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
