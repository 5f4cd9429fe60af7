//! The server itself: world, knobs, sensors, tasks, experiment. Everything but the journal.

use super::experiment::Player;
use super::knobs::KnobTable;
use super::mishaps::Mishaps;
use super::probe::Prober;
use super::reporter::Reporting;
use super::sensors::Sensors;
use super::tasks::Tasks;
use crate::scene::Scene;
use crate::world::World;
use quell_platform::Life;
use quell_types::{
    BatchSpec, CpuSet, Experiment, ExperimentTrace, Knob, Outcome, ProbeTrace, ServiceSpec,
    Setting, Setup, TaskId, Tenant,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that survives the death of an agent.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) world: World,
    pub(crate) setup: Setup,
    /// Services first, then batch, in the order of the scene: group numbers of the world.
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) knobs: KnobTable,
    pub(crate) sensors: Sensors,
    pub(crate) tasks: Tasks,
    pub(crate) player: Option<Player>,
    pub(crate) traces: Vec<ExperimentTrace>,
    pub(super) prober: Option<Prober>,
    pub(super) probed: Vec<ProbeTrace>,
    /// The world's group of what presses beside a service; none until it is first wanted.
    pub(super) probe_group: Option<usize>,
    pub(super) reporting: Reporting,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) last: u64,
    /// Bus locks by CPU as they were told last.
    pub(super) told_locks: Arc<BTreeMap<u32, u64>>,
    pages_bytes_per_s: f64,
    pub(crate) mishaps: Mishaps,
    /// Who died while putting knobs back.
    pub(crate) dying: Option<Life>,
}

impl Body {
    pub(crate) fn new(scene: &Scene) -> Self {
        let world = World::new(scene);
        let services: Vec<ServiceSpec> = scene.services.iter().map(|s| s.spec.clone()).collect();
        let batch: Vec<BatchSpec> = scene.batch.iter().map(|b| b.spec.clone()).collect();
        let names = services.iter().map(|s| &s.name).chain(batch.iter().map(|b| &b.name));
        let all: CpuSet = (0..world.machine.cpus() as u32).collect();
        let mut setup = Setup {
            topology: world.shape.topology(&world.machine),
            managed_cpus: all,
            links: scene.links.clone(),
            ..Setup::default()
        };
        let tenants: Vec<Tenant> = names.cloned().collect();
        (setup.services, setup.batch) = (services, batch);
        let knobs = KnobTable::new(&setup, &world.machine, scene.actuation, scene.exclusive_cpus);
        setup.knobs = knobs.ranges();
        Self {
            sensors: Sensors::new(scene, tenants.len()),
            tasks: Tasks::new(&scene.programs),
            player: None,
            traces: Vec::new(),
            prober: None,
            probed: Vec::new(),
            probe_group: None,
            reporting: Reporting::new(scene.seed, scene.sensing.noise_frac),
            outcomes: Vec::new(),
            last: 0,
            told_locks: Arc::default(),
            pages_bytes_per_s: scene.actuation.pages_bytes_per_s,
            mishaps: Mishaps::default(),
            dying: None,
            world,
            setup,
            tenants,
            knobs,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.world.now
    }

    pub(crate) fn group(&self, tenant: &Tenant) -> Result<usize, String> {
        let group = self.tenants.iter().position(|name| name == tenant);
        group.ok_or_else(|| format!("{tenant} is not here"))
    }

    pub(crate) fn batch_group(&self, tenant: &Tenant) -> Result<usize, String> {
        let group = self.group(tenant)?;
        let is_batch = group >= self.setup.services.len();
        is_batch.then_some(group).ok_or_else(|| format!("{tenant} is no batch group"))
    }

    pub(crate) fn service_number(&self, tenant: &Tenant) -> Result<usize, String> {
        let number = self.setup.services.iter().position(|s| &s.name == tenant);
        number.ok_or_else(|| format!("{tenant} is no service"))
    }

    /// Lets time pass, with everything that is due on the way.
    pub(crate) fn run_until(&mut self, end: u64) {
        loop {
            let edge = self.player.as_ref().map_or(u64::MAX, Player::next);
            let edge = self.prober.as_ref().map_or(edge, |prober| prober.next().min(edge));
            let edge = edge.min(self.reporting.next());
            let due = self.knobs.next_due().min(edge).min(self.sensors.next());
            let to = due.min(end).max(self.world.now);
            self.world.run_until(to);
            self.note_ends();
            if due > end {
                return;
            }
            while let Some((knob, to)) = self.knobs.take_due(self.world.now) {
                self.take_effect(&knob, &to);
            }
            if self.sensors.next() <= self.world.now {
                self.world.settle_all();
                self.world.settle_heat();
                self.sensors.take(&self.world);
            }
            self.step_player();
            self.step_prober();
            self.step_reporter();
        }
    }

    fn note_ends(&mut self) {
        for work in std::mem::take(&mut self.world.ended) {
            self.tasks.finished(work);
        }
    }

    /// Sends a setting on its way.
    pub(crate) fn send(&mut self, knob: &Knob, to: &Setting) {
        let takes_ns = self.begin_slowly(knob, to);
        if self.knobs.send(self.world.now, knob, to, takes_ns) {
            self.take_effect(knob, to);
        }
    }

    /// Begins what takes effect bit by bit; answers how long it will take.
    fn begin_slowly(&mut self, knob: &Knob, to: &Setting) -> u64 {
        let (Knob::MemoryNodes { tenant }, Setting::Nodes(nodes)) = (knob, to) else { return 0 };
        let Ok(group) = self.group(tenant) else { return 0 };
        let nodes = nodes.iter().map(|node| node as usize).collect();
        self.world.move_pages(group, nodes, self.pages_bytes_per_s)
    }

    /// Sets a knob at once; what was on its way to it is forgotten.
    pub(crate) fn set_now(&mut self, knob: &Knob, to: &Setting) -> Result<(), String> {
        self.check(knob, to)?;
        self.knobs.check_at_once(knob, to)?;
        self.knobs.forget_pending(knob);
        self.knobs.settle(knob, to);
        self.take_effect(knob, to);
        Ok(())
    }

    fn take_effect(&mut self, knob: &Knob, to: &Setting) {
        let group = knob.tenant().map_or(Ok(0), |tenant| self.group(tenant));
        let Ok(group) = group else { return };
        if let Setting::Cpus(set) = to {
            let mask = self.effective(set);
            return self.world.set_cpus(group, mask);
        }
        let world = &mut self.world;
        match (knob, to) {
            (Knob::CpuBandwidth { .. }, Setting::Bandwidth(bandwidth)) => {
                let period_ns = bandwidth.period_us * 1_000;
                let quota = bandwidth.quota_us().map(|us| (us * 1_000, period_ns));
                world.set_quota(group, quota);
            }
            (Knob::CpuWeight { .. }, Setting::Weight(weight)) => {
                world.set_class(group, *weight, world.groups[group].idle);
            }
            (Knob::CpuIdle { .. }, Setting::Flag(idle)) => {
                world.set_class(group, world.groups[group].weight, *idle);
            }
            (Knob::Frozen { .. }, Setting::Flag(frozen)) => world.set_frozen(group, *frozen),
            (Knob::EgressCeiling { link, .. }, Setting::Rate(rate)) => {
                let index = self.setup.links.iter().position(|l| &l.name == link);
                if let Some(index) = index {
                    world.links[index].classes[group].ceiling = rate.map(|r| r.0);
                }
            }
            (Knob::LlcWays { domain, .. }, Setting::Ways(mask)) => {
                world.set_ways(group, *domain as usize, *mask);
            }
            (Knob::MemoryBandwidth { domain, .. }, Setting::Percent(percent)) => {
                world.groups[group].percent[*domain as usize] = *percent;
                world.wake_hardware();
            }
            (Knob::DutyCycle { cpu }, Setting::Duty(parts)) => {
                let all = world.machine.duty_parts.unwrap_or(*parts);
                world.cpus[*cpu as usize].duty = f64::from(*parts) / f64::from(all.max(1));
                world.wake_hardware();
            }
            (Knob::MemoryNodes { .. }, Setting::Nodes(nodes)) => {
                let nodes = nodes.iter().map(|node| node as usize).collect();
                world.place_pages(group, nodes);
            }
            (Knob::StayAwake { cpu }, Setting::Flag(polls)) => {
                world.set_polls(*cpu as usize, *polls);
            }
            (Knob::FrequencyMax { cpu }, Setting::Frequency(khz)) => {
                world.cpus[*cpu as usize].cap_khz = khz.0;
                world.wake_hardware();
            }
            // `KnobTable::check` lets no other pair through.
            _ => {}
        }
    }

    pub(crate) fn start_task(&mut self, task: TaskId, tenant: &Tenant) -> Result<(), String> {
        let group = self.batch_group(tenant)?;
        let time = quell_types::Time(self.world.now);
        self.tasks.start(task, (group, tenant), time, &mut self.world)
    }

    pub(crate) fn stop_task(&mut self, task: TaskId) -> Result<(), String> {
        self.tasks.stop(task, &mut self.world)
    }

    pub(crate) fn play(&mut self, experiment: &Experiment) -> Result<(), String> {
        if self.player.is_some() {
            return Err("an experiment is being played".into());
        }
        if self.prober.is_some() {
            return Err("a probe is under way".into());
        }
        let groups = experiment.groups.iter().map(|group| self.batch_group(group));
        let groups = groups.collect::<Result<Vec<usize>, String>>()?;
        if experiment.code.is_empty() || experiment.chip_us == 0 {
            return Err("the experiment has no chip".into());
        }
        self.world.settle_all();
        self.player = Some(Player::begin(experiment, groups, self));
        Ok(())
    }

    fn step_player(&mut self) {
        let Some(mut player) = self.player.take_if(|p| p.next() <= self.world.now) else { return };
        self.world.settle_all();
        match player.step(self) {
            Some(trace) => self.traces.push(trace),
            None => self.player = Some(player),
        }
    }

    /// Ends an experiment.
    pub(crate) fn free_groups(&mut self, why: &str) {
        if let Some(mut player) = self.player.take() {
            let trace = player.end(self, Some(why.to_owned()));
            self.traces.push(trace);
        }
    }

    /// Ends experiment and tasks.
    pub(crate) fn end_all(&mut self) {
        self.free_groups("the agent ends");
        let _ = self.end_probe(None, "the agent ends");
        self.end_reporter();
        self.tasks.stop_all(&mut self.world);
        self.knobs.forget_all_pending();
    }

    pub(crate) fn is_dying(&self) -> bool {
        self.dying.as_ref().is_some_and(Life::is_over)
    }

    /// What an agent had in memory is gone.
    pub(crate) fn forget_agent(&mut self) {
        self.dying = None;
        self.player = None;
        // What presses dies with the agent.
        let _ = self.end_probe(None, "the agent died");
        self.probed.clear();
        self.end_reporter();
        self.reporting.forget();
        self.traces.clear();
        self.outcomes.clear();
    }
}
