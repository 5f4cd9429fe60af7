//! Run-queue waits of cgroups.

use crate::error::{EbpfError, chain};
use crate::objects;
use crate::packets::{in_range, per_cpu};
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use quell_types::{LogHistogram, SLOTS};
use std::collections::BTreeMap;

const PROGRAM: &str = "quell_switch";

pub(crate) struct RunQueue {
    ebpf: Ebpf,
    slots: u32,
    generation: u32,
    config: Array<MapData, [u32; 2]>,
    group_map: HashMap<MapData, u64, u32>,
    waits: PerCpuArray<MapData, [u64; SLOTS]>,
    groups: BTreeMap<u64, u32>,
}

impl RunQueue {
    pub(crate) fn load(slots: u32, v1_cpu: bool) -> Result<Self, EbpfError> {
        let btf = Btf::from_sys_fs()
            .map_err(|error| EbpfError::Object { object: "runqueue", why: chain(&error) })?;
        let mut loader = EbpfLoader::new();
        let v1_cpu = u32::from(v1_cpu);
        loader.override_global("v1_cpu", &v1_cpu, true);
        loader.map_max_entries("rq_waits", slots);
        loader.map_max_entries("rq_groups", slots.max(64));
        let mut ebpf = objects::load("runqueue", objects::RUN_QUEUE, &mut loader)?;
        let program: &mut BtfTracePoint = objects::program(&mut ebpf, PROGRAM)?;
        program.load("sched_switch", &btf).map_err(EbpfError::program(PROGRAM))?;
        Ok(Self {
            slots,
            generation: 0,
            config: objects::take(&mut ebpf, "rq_config")?,
            group_map: objects::take(&mut ebpf, "rq_groups")?,
            waits: objects::take(&mut ebpf, "rq_waits")?,
            groups: BTreeMap::new(),
            ebpf,
        })
    }

    pub(crate) fn ebpf(&self) -> &Ebpf {
        &self.ebpf
    }

    /// The slot of each tracked group.
    pub(crate) fn groups(&self) -> &BTreeMap<u64, u32> {
        &self.groups
    }

    /// The program is attached with the first group, so that it costs nothing before.
    pub(crate) fn track(&mut self, cgroup: u64, slot: u32) -> Result<(), EbpfError> {
        in_range("slot", slot, self.slots)?;
        if self.groups.get(&cgroup) == Some(&slot) {
            return Ok(());
        }
        if !self.groups.values().any(|&used| used == slot) {
            let zero = per_cpu([0; SLOTS], "rq_waits")?;
            self.waits.set(slot, zero, 0).map_err(EbpfError::map("rq_waits"))?;
        }
        self.group_map.insert(cgroup, slot, 0).map_err(EbpfError::map("rq_groups"))?;
        let is_first = self.generation == 0;
        self.groups.insert(cgroup, slot);
        self.publish()?;
        if is_first {
            let program: &mut BtfTracePoint = objects::program(&mut self.ebpf, PROGRAM)?;
            program.attach().map_err(|error| EbpfError::Attach {
                program: PROGRAM,
                place: "sched_switch".into(),
                why: chain(&error),
            })?;
        }
        Ok(())
    }

    pub(crate) fn untrack(&mut self, cgroup: u64) -> Result<(), EbpfError> {
        if self.groups.remove(&cgroup).is_none() {
            return Ok(());
        }
        self.group_map.remove(&cgroup).map_err(EbpfError::map("rq_groups"))?;
        self.publish()
    }

    fn publish(&mut self) -> Result<(), EbpfError> {
        self.generation = self.generation.wrapping_add(1).max(1);
        let words = [self.generation, self.groups.len() as u32];
        self.config.set(0, words, 0).map_err(EbpfError::map("rq_config"))
    }

    pub(crate) fn read(&self, slot: u32) -> Result<LogHistogram, EbpfError> {
        if !self.groups.values().any(|&used| used == slot) {
            return Err(EbpfError::Unavailable(format!("no cgroup is tracked in slot {slot}")));
        }
        let values = self.waits.get(&slot, 0).map_err(EbpfError::map("rq_waits"))?;
        let mut total = [0u64; SLOTS];
        for value in values.iter() {
            for (all, one) in total.iter_mut().zip(value) {
                *all += one;
            }
        }
        Ok(LogHistogram::from_counts(&total))
    }
}
