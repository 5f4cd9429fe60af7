//! Carrying actions out.

use super::Linux;
use crate::experiment::Player;
use crate::tenant::TenantState;
use quell_cgroup::GroupKnob;
use quell_platform::PlatformError;
use quell_types::{Action, Experiment, Knob, Setting};

impl Linux {
    pub(super) fn carry_out(
        &mut self,
        action: &Action,
    ) -> Result<Result<(), String>, PlatformError> {
        match action {
            Action::Set { knob: Knob::EgressCeiling { tenant, link }, to: Setting::Rate(rate) } => {
                Ok(self.links.set(link, tenant, *rate))
            }
            Action::Set { knob, to } if self.resources.has(knob) => {
                let tenant = knob.tenant().and_then(|tenant| self.tenants.get(tenant));
                let Some(tenant) = tenant else { return Ok(Err(format!("{knob} is not here"))) };
                Ok(self.resources.set(&mut self.journal, knob, to, tenant)?)
            }
            Action::Set { knob, to } => {
                self.free_for(knob);
                Ok(self.knobs.set(&mut self.journal, knob, to)?)
            }
            Action::StartTask { task, tenant } => {
                let Some(state) = self.tenants.get(tenant) else {
                    return Ok(Err(format!("{tenant} is not here")));
                };
                let procs = state.procs_files();
                let output = self.state.task_output();
                let place = (tenant, procs.as_slice());
                let (queue, journal) = (&self.queue, &mut self.journal);
                Ok(self.tasks.start(queue, journal, &self.machine, *task, place, &output)?)
            }
            Action::StopTask { task } => Ok(self.tasks.stop(*task)),
            Action::Play(experiment) => self.play(experiment),
            Action::Probe(probe) => self.probe(probe),
            Action::EndProbe { id } => Ok(self.end_probe(Some(*id), "it was asked to end")),
            Action::Burst(burst) => self.burst(burst),
        }
    }

    /// A knob that freezes or thaws ends an experiment on the same group: one writer a knob.
    fn free_for(&mut self, knob: &Knob) {
        if matches!(knob, Knob::Frozen { .. })
            && let Some(mut player) = self.player.take()
        {
            self.traces.push(player.end(Some("the group was frozen or thawed by a law".into())));
        }
    }

    /// Frozen tasks cannot end.
    pub(super) fn thaw_tasks(&mut self) {
        let with_tasks = |t: &&TenantState| self.tasks.of(&t.name) > 0;
        for tenant in self.tenants.values().filter(with_tasks) {
            if let Ok(freezer) = self.knobs.freezer(&tenant.group) {
                // What fails here fails again in the restore, which reports it.
                let _ = freezer.write(&Setting::Flag(false));
            }
        }
    }

    fn play(&mut self, experiment: &Experiment) -> Result<Result<(), String>, PlatformError> {
        if self.player.is_some() {
            return Ok(Err("an experiment is being played".into()));
        }
        if self.prober.is_some() {
            return Ok(Err("a probe is under way".into()));
        }
        let mut freezers = Vec::new();
        for name in &experiment.groups {
            let Some(tenant) = self.tenants.get(name).filter(|t| !t.is_service()) else {
                return Ok(Err(format!("{name} is no batch group")));
            };
            let freezer = self.knobs.freezer(&tenant.group);
            let journalled = self.knobs.journal_freezer(&mut self.journal, name)?;
            match journalled.and(freezer) {
                Ok(freezer) => freezers.push(freezer),
                Err(gap) => return Ok(Err(gap.to_string())),
            }
        }
        let begun = Player::begin(experiment.clone(), freezers, &mut self.tenants, &mut self.meter);
        Ok(begun.map(|player| self.player = Some(player)))
    }
}
