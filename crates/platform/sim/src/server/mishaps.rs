//! What can befall a server besides its agent: CPUs go, workloads die, fork, move, come back as
//! others; undoing is refused. Nothing of it is an action; an agent sees it in its samples.

use super::body::Body;
use crate::load::Load;
use crate::mask::Mask;
use crate::workload::Program;
use quell_platform::{Life, Scope};
use quell_types::{CpuSet, Gap, Knob, Reading, Sample, Setting, Tenant, TenantReading, Throttling};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What goes wrong when a knob is put back.
#[derive(Clone, Debug)]
pub enum UndoFault {
    /// The kernel refuses it this time.
    Refuse,
    /// Whoever puts back dies before it.
    DieBefore(Life),
    /// Whoever puts back dies after it.
    DieAfter(Life),
}

/// The state of all mishaps.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    offline: CpuSet,
    /// Whether CPU sets lose a CPU that goes, and refuse one that is not there (cgroup v1).
    legacy: bool,
    gone: BTreeMap<usize, Away>,
    /// How often a group was made anew.
    births: BTreeMap<usize, u64>,
    /// Counters of a group when it was made anew: what came before is not its own.
    base: BTreeMap<usize, TenantReading>,
    undo: BTreeMap<Knob, UndoFault>,
}

/// A workload that is not there.
#[derive(Debug)]
struct Away {
    programs: Vec<Program>,
    load: Option<Load>,
}

impl Mishaps {
    pub(crate) fn undo_fault(&mut self, knob: &Knob) -> Option<UndoFault> {
        self.undo.remove(knob)
    }

    pub(crate) fn spoil_undo(&mut self, knob: Knob, how: UndoFault) {
        self.undo.insert(knob, how);
    }

    pub(crate) fn calm(&mut self) {
        self.undo.clear();
    }
}

impl Body {
    pub(crate) fn is_gone(&self, tenant: &Tenant) -> bool {
        self.group(tenant).is_ok_and(|group| self.mishaps.gone.contains_key(&group))
    }

    /// Whether the machine as it is now takes this setting.
    pub(crate) fn check(&self, knob: &Knob, to: &Setting) -> Result<(), String> {
        if knob.tenant().is_some_and(|tenant| self.is_gone(tenant)) {
            return Err(format!("{knob}: No such file or directory"));
        }
        if let (Knob::FrequencyMax { cpu }, true) = (knob, !self.mishaps.offline.is_empty())
            && self.mishaps.offline.contains(*cpu)
        {
            return Err(format!("{knob}: No such device"));
        }
        if let (Setting::Cpus(set), true) = (to, self.mishaps.legacy)
            && !set.is_disjoint(&self.mishaps.offline)
        {
            return Err(format!("{knob} does not take {to}: Invalid argument"));
        }
        self.knobs.check(knob, to)
    }

    /// CPUs on which a group of this set really runs: those that are there, or if none of them is,
    /// those of its parent.
    pub(crate) fn effective(&self, set: &CpuSet) -> Mask {
        let there = set.difference(&self.mishaps.offline);
        Mask::from(&if there.is_empty() { self.online_cpus() } else { there })
    }

    /// CPUs that a tenant may really run on.
    pub(crate) fn effective_cpus(&self, tenant: &Tenant) -> CpuSet {
        let knob = Knob::Cpus { tenant: tenant.clone() };
        match self.knobs.standing(&knob) {
            Some(Setting::Cpus(set)) => self.effective(&set).iter().map(|cpu| cpu as u32).collect(),
            _ => self.online_cpus(),
        }
    }

    /// CPUs that are there.
    pub(crate) fn online_cpus(&self) -> CpuSet {
        if self.mishaps.offline.is_empty() {
            return self.setup.managed_cpus.clone();
        }
        self.setup.managed_cpus.difference(&self.mishaps.offline)
    }

    pub(crate) fn unplug(&mut self, cpu: u32, legacy: bool) -> Result<(), String> {
        let left = self.online_cpus();
        if !left.contains(cpu) || left.len() < 2 {
            return Err(format!("CPU {cpu} cannot go: Device or resource busy"));
        }
        self.mishaps.offline.insert(cpu);
        self.mishaps.legacy |= legacy;
        if self.mishaps.legacy {
            self.shrink_sets(cpu);
        }
        self.settle_sets();
        Ok(())
    }

    /// The CPU is back, and all others that went.
    pub(crate) fn plug_all(&mut self) {
        self.mishaps.offline = CpuSet::new();
        self.mishaps.legacy = false;
        self.settle_sets();
    }

    /// On cgroup v1 a set loses the CPU; one that would become empty keeps it in name.
    fn shrink_sets(&mut self, cpu: u32) {
        for tenant in self.tenants.clone() {
            let knob = Knob::Cpus { tenant };
            let Some(Setting::Cpus(set)) = self.knobs.standing(&knob) else { continue };
            let left = set.difference(&CpuSet::of(cpu));
            if !left.is_empty() {
                self.knobs.settle(&knob, &Setting::Cpus(left));
            }
        }
    }

    fn settle_sets(&mut self) {
        for (group, tenant) in self.tenants.clone().into_iter().enumerate() {
            let knob = Knob::Cpus { tenant };
            if let Some(Setting::Cpus(set)) = self.knobs.standing(&knob) {
                let mask = self.effective(&set);
                self.world.set_cpus(group, mask);
            }
        }
    }

    /// A workload ends, and its group goes with it.
    pub(crate) fn vanish(&mut self, tenant: &Tenant) -> Result<(), String> {
        let group = self.group(tenant)?;
        if self.mishaps.gone.contains_key(&group) {
            return Err(format!("{tenant} is gone already"));
        }
        let number = self.service_number(tenant).ok();
        let load = number.map(|number| {
            let service = &mut self.world.services[number];
            let load = service.load().clone();
            service.set_load(Load::Constant(0.0));
            load
        });
        let programs = if number.is_none() { self.end_programs(group) } else { Vec::new() };
        self.mishaps.gone.insert(group, Away { programs, load });
        self.knobs.forget_pending_of(tenant);
        Ok(())
    }

    /// It is back in a group made anew, which stands as the kernel makes groups.
    pub(crate) fn come_back(&mut self, tenant: &Tenant) -> Result<(), String> {
        let group = self.group(tenant)?;
        let away = self.mishaps.gone.remove(&group).ok_or_else(|| format!("{tenant} is here"))?;
        for (knob, to) in self.knobs.first_of_group(tenant) {
            self.set_now(&knob, &to)?;
        }
        *self.mishaps.births.entry(group).or_default() += 1;
        self.mishaps.base.remove(&group);
        self.world.settle_all();
        let counters = self.tenant(group, Scope::Full);
        self.mishaps.base.insert(group, counters);
        for program in &away.programs {
            self.world.add_work(group, program, None);
        }
        if let (Ok(number), Some(load)) = (self.service_number(tenant), away.load) {
            self.world.services[number].set_load(load);
        }
        Ok(())
    }

    /// The processes of a batch group end, the group stays. Answers what ran.
    pub(crate) fn end_programs(&mut self, group: usize) -> Vec<Program> {
        let works = self.world.works.iter().enumerate();
        let mine: Vec<usize> = works
            .filter(|(index, w)| w.group == group && w.alive && !self.tasks.owns(*index))
            .map(|(index, _)| index)
            .collect();
        mine.into_iter()
            .map(|work| {
                let program = self.world.works[work].program.clone();
                self.world.end_work(work);
                program
            })
            .collect()
    }

    /// What runs in one batch group goes on in another.
    pub(crate) fn move_programs(&mut self, from: &Tenant, to: &Tenant) -> Result<(), String> {
        let (from, to) = (self.batch_group(from)?, self.batch_group(to)?);
        for program in self.end_programs(from) {
            self.world.add_work(to, &program, None);
        }
        Ok(())
    }

    /// What a tenant reads after all that befell it.
    pub(crate) fn tenant_now(&self, group: usize, scope: Scope) -> TenantReading {
        if self.mishaps.gone.contains_key(&group) {
            return TenantReading::missing(&Gap::Gone(format!("{} is gone", self.tenants[group])));
        }
        let mut reading = self.tenant(group, scope);
        if let (Ok(identity), Some(births)) =
            (&mut reading.identity, self.mishaps.births.get(&group))
        {
            *identity += 1_000 * births;
        }
        match self.mishaps.base.get(&group) {
            Some(base) => since(reading, base),
            None => reading,
        }
    }

    /// Knobs of groups that are gone cannot be read.
    pub(crate) fn hide_gone(&self, sample: &mut Sample) {
        if self.mishaps.gone.is_empty() {
            return;
        }
        for (knob, reading) in Arc::make_mut(&mut sample.knobs) {
            if knob.tenant().is_some_and(|tenant| self.is_gone(tenant)) {
                *reading = Err(Gap::Gone(knob.to_string()));
            }
        }
    }
}

/// Counters of a group that was made anew: they begin at nothing.
fn since(mut now: TenantReading, base: &TenantReading) -> TenantReading {
    let less = |now: &mut Reading<u64>, base: &Reading<u64>| {
        if let (Ok(now), Ok(base)) = (now, base) {
            *now = now.saturating_sub(*base);
        }
    };
    less(&mut now.cpu_ns, &base.cpu_ns);
    less(&mut now.egress_bytes, &base.egress_bytes);
    less(&mut now.bus_locks, &base.bus_locks);
    if let (Ok(now), Ok(base)) = (&mut now.memory, &base.memory) {
        now.bytes = now.bytes.saturating_sub(base.bytes);
    }
    if let (Ok(now), Ok(base)) = (&mut now.throttling, &base.throttling) {
        *now = Throttling {
            periods: now.periods.saturating_sub(base.periods),
            throttled_periods: now.throttled_periods.saturating_sub(base.throttled_periods),
            throttled_ns: now.throttled_ns.saturating_sub(base.throttled_ns),
        };
    }
    if let (Ok(now), Ok(base)) = (&mut now.pressure, &base.pressure) {
        now.cpu_some_ns = now.cpu_some_ns.saturating_sub(base.cpu_some_ns);
    }
    if let (Ok(now), Ok(base)) = (&mut now.run_queue_ns, &base.run_queue_ns) {
        *now = now.since(base);
    }
    if let (Ok(now), Ok(base)) = (&mut now.waits, &base.waits) {
        for (tenant, ns) in &mut now.behind_ns {
            *ns = ns.saturating_sub(base.behind_ns.get(tenant).copied().unwrap_or(0));
        }
        now.own_ns = now.own_ns.saturating_sub(base.own_ns);
        now.nobody_ns = now.nobody_ns.saturating_sub(base.nobody_ns);
        let (now, base) = (&mut now.elsewhere, &base.elsewhere);
        for (tenant, ns) in &mut now.tenants_ns {
            *ns = ns.saturating_sub(base.tenants_ns.get(tenant).copied().unwrap_or(0));
        }
        now.others_ns = now.others_ns.saturating_sub(base.others_ns);
        now.nobody_ns = now.nobody_ns.saturating_sub(base.nobody_ns);
    }
    if let (Ok(now), Ok(base)) = (&mut now.requests, &base.requests) {
        now.requests = now.requests.saturating_sub(base.requests);
        now.bytes_in = now.bytes_in.saturating_sub(base.bytes_in);
        now.bytes_out = now.bytes_out.saturating_sub(base.bytes_out);
        if let (Ok(now), Ok(base)) = (&mut now.latency_ns, &base.latency_ns) {
            *now = now.since(base);
        }
    }
    now
}
