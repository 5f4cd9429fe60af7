//! Probes: their group, and what presses in it.

use super::Linux;
use crate::adopt;
use crate::clock;
use crate::probe::{PROBE, Presser, Prober};
use quell_cgroup::{Group, GroupKnob, IdleKnob, WeightKnob};
use quell_platform::{PlatformError, Undo};
use quell_types::{KnobRange, Probe, Setting, Tenant};

impl Linux {
    pub(super) fn probe(&mut self, probe: &Probe) -> Result<Result<(), String>, PlatformError> {
        if self.prober.is_some() || self.player.is_some() {
            return Ok(Err("a probe or an experiment is being played".into()));
        }
        let service = self.tenants.get(&probe.service).filter(|t| t.is_service());
        if service.is_none() {
            return Ok(Err(format!("{} is no service", probe.service)));
        }
        if self.options.probe_program.is_empty() {
            return Ok(Err("no program that presses was named".into()));
        }
        let group = match self.probe_group()? {
            Ok(group) => group,
            Err(why) => return Ok(Err(why)),
        };
        let procs: Vec<_> = group.places().iter().map(|p| p.file("cgroup.procs")).collect();
        let topology = &self.setup.topology;
        let presser = Presser {
            program: &self.options.probe_program,
            group: &group,
            procs: &procs,
            cpus: self.setup.managed_cpus.last(1),
            llc_bytes: topology.llc.iter().map(|llc| llc.size_bytes).max().unwrap_or(0),
        };
        let prober = match Prober::begin(probe, &presser) {
            Ok(prober) => prober,
            Err(error) => return Ok(Err(format!("what should press: {error}"))),
        };
        let pid = prober.pid();
        let start_ns = self.machine.process(pid).map_or(0, |process| process.start_ns);
        let key = format!("probe process {pid} started at {start_ns}");
        // Dropped on an error: then it is killed.
        self.journal.before_write(&key, || vec![Undo::EndProcess { pid, start_ns }])?;
        self.prober = Some((prober, key));
        Ok(Ok(()))
    }

    /// The group of what presses, in the idle class where the kernel has one, else of least weight.
    pub(super) fn probe_group(&mut self) -> Result<Result<Group, String>, PlatformError> {
        if let Some(group) = &self.probe_group {
            return Ok(Ok(group.clone()));
        }
        let (tenant, journal) = (Tenant::from(PROBE), &mut self.journal);
        if self.tenants.values().any(|t| t.group.name() == adopt::adopted_path(&tenant)) {
            return Ok(Err("the group of what presses is a tenant's".into()));
        }
        let made = adopt::adopt(&self.layout, &self.machine, journal, &tenant, &[])?;
        let group = match made {
            Ok(group) => group,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if least(&group).is_none() {
            return Ok(Err("its group has neither an idle class nor a weight".into()));
        }
        self.probe_group = Some(group.clone());
        Ok(Ok(group))
    }

    /// Ends a probe: this one, or any.
    pub(super) fn end_probe(&mut self, id: Option<u64>, why: &str) -> Result<(), String> {
        let is_it = |(prober, _): &mut (Prober, String)| id.is_none_or(|id| id == prober.id());
        let Some((mut prober, key)) = self.prober.take_if(is_it) else {
            return Err("no such probe is under way".into());
        };
        self.probed.push(prober.end(Some(why.to_owned())));
        self.forget_process(&key);
        Ok(())
    }

    /// Plays an edge that is due.
    pub(super) fn step_prober(&mut self) {
        let now = clock::now();
        let Some((prober, _)) = self.prober.as_mut().filter(|(p, _)| p.next_edge() <= now) else {
            return;
        };
        if let Some(trace) = prober.step(&mut self.tenants, &mut self.meter)
            && let Some((_, key)) = self.prober.take()
        {
            self.probed.push(trace);
            self.forget_process(&key);
        }
    }

    /// A process that is gone needs no ending. That the record stays, if it cannot be written, does
    /// no harm: its start time is in it.
    pub(super) fn forget_process(&mut self, key: &str) {
        let _ = self.journal.forget(key);
    }
}

/// Gives way to everybody else.
fn least(group: &Group) -> Option<()> {
    if let Ok(idle) = IdleKnob::new(group)
        && idle.write(&Setting::Flag(true)).is_ok()
    {
        return Some(());
    }
    let weight = WeightKnob::new(group).ok()?;
    let Ok(KnobRange::Weight { min, .. }) = weight.range() else { return None };
    weight.write(&Setting::Weight(min)).ok()
}
