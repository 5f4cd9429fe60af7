//! Faults of the world: sensors, CPUs, workloads, disks, clocks, other programs.

use crate::arena::Arena;
use crate::dice::Dice;
use crate::director::Throw;
use crate::foreign::{any_setting, some_of};
use crate::scenes::TASK;
use crate::{FaultKind, Site};
use quell_platform::{Fault, Platform};
use quell_sim::{Program, program};
use quell_types::{Knob, KnobRange, Tenant};
use std::time::Duration;

/// Programs in a group beyond which it forks no more.
const MOST_FORKS: u32 = 2;

/// How something that went wrong comes right again.
#[derive(Clone, Debug)]
pub(crate) enum Later {
    Plug,
    ComeBack(Tenant),
    Start(Tenant, Vec<Program>),
    Room,
}

impl Arena {
    /// The rest of a throw comes about.
    pub(crate) fn befall(&mut self, throw: &mut Throw, knob: Option<&Knob>) {
        let two = throw.kinds.len() > 1;
        for kind in std::mem::take(&mut throw.kinds) {
            if self.life.is_over() && kind != FaultKind::ForeignWrite && is_of_agent(kind) {
                continue;
            }
            if let Some(details) = self.mishap(kind, &mut throw.dice, knob) {
                self.stage.director().note(kind, throw.site, &details);
                self.audit.faulted();
            }
        }
        if two && throw.site.is_some_and(Site::is_of_store) {
            self.stage.director().note_two(throw.site);
        }
    }

    /// What it did, in words; none if it cannot come about here.
    fn mishap(&mut self, kind: FaultKind, dice: &mut Dice, knob: Option<&Knob>) -> Option<String> {
        let samples = dice.between(1, 8) as u32;
        let tenant = self.some_tenant(dice)?;
        match kind {
            FaultKind::SensorSilent => self.sense(Fault::Blind(tenant), samples),
            FaultKind::SensorStall => self.sense(Fault::Stall, samples),
            FaultKind::SensorLie => {
                self.sense(Fault::Lie(tenant, dice.between(0, 40) as u32), samples)
            }
            FaultKind::SensorJump => {
                let by = 10u64.pow(dice.between(3, 14) as u32);
                self.sense(Fault::Jump(tenant, by), 1)
            }
            FaultKind::SensorVanish if dice.one_in(2) => self.sense(Fault::Gone(tenant), samples),
            FaultKind::SensorVanish => self.sense(Fault::Vanish(tenant), samples),
            FaultKind::CounterWrap => self.sense(Fault::Wrap(tenant), 1),
            FaultKind::ClockJump => {
                self.sense(Fault::Sleep(Duration::from_millis(dice.between(500, 300_000))), 1)
            }
            FaultKind::ClockSet => {
                let by = dice.between(0, 20_000_000) as i64 - 10_000_000;
                self.sense(Fault::SetClock(by), 1)
            }
            kind if kind.is_of_hardware() => self.fool_hardware(kind, dice, samples),
            FaultKind::ForeignWrite => self.foreign_write(dice, knob),
            FaultKind::CpuUnplugged => self.unplug(dice),
            FaultKind::WorkloadDies => self.die(dice, &tenant),
            FaultKind::WorkloadForks => self.fork(dice),
            FaultKind::WorkloadMoves => self.move_work(dice),
            FaultKind::WorkloadReturns => self.leave(dice, &tenant, 0.2),
            FaultKind::DiskFull => {
                self.disk.set_full(true);
                self.after(dice.between(500, 6_000) as f64 / 1e3, Later::Room);
                Some(String::new())
            }
            // Of writes: this place has no write of its own any more.
            _ => None,
        }
    }

    fn after(&mut self, seconds: f64, later: Later) {
        let at_s = self.now_s() + seconds;
        self.later.push((at_s, later));
    }

    fn sense(&mut self, fault: Fault, samples: u32) -> Option<String> {
        let details = format!("({fault:?}, {samples} samples)");
        self.faulty.throw(fault, samples);
        Some(details)
    }

    /// The machine's own sensors fail, if it has any.
    fn fool_hardware(&mut self, kind: FaultKind, dice: &mut Dice, samples: u32) -> Option<String> {
        if !self.server().senses_hardware() {
            return None;
        }
        let cpus = self.faulty.setup().managed_cpus.clone();
        match kind {
            FaultKind::HardwareStall => self.sense(Fault::HardwareStall, samples),
            FaultKind::HardwareLie => {
                self.sense(Fault::HardwareLie(dice.between(0, 40) as u32), samples)
            }
            _ => {
                let all = dice.one_in(2);
                let gone = if all { Vec::new() } else { some_of(dice, &cpus).iter().collect() };
                self.sense(Fault::HardwareVanish(gone), samples)
            }
        }
    }

    fn some_tenant(&mut self, dice: &mut Dice) -> Option<Tenant> {
        let setup = self.faulty.setup();
        let services = setup.services.iter().map(|s| s.name.clone());
        let all: Vec<Tenant> = services.chain(setup.batch.iter().map(|b| b.name.clone())).collect();
        dice.pick(&all).cloned()
    }

    fn some_batch(&mut self, dice: &mut Dice) -> Option<Tenant> {
        let all: Vec<Tenant> = self.faulty.setup().batch.iter().map(|b| b.name.clone()).collect();
        let there: Vec<Tenant> =
            all.into_iter().filter(|name| !self.server().is_gone(name)).collect();
        dice.pick(&there).cloned()
    }

    fn foreign_write(&mut self, dice: &mut Dice, knob: Option<&Knob>) -> Option<String> {
        let ranges = self.faulty.setup().knobs.clone();
        let all: Vec<&Knob> = ranges.keys().collect();
        let knob = knob.filter(|k| ranges.contains_key(*k)).or(dice.pick(&all).copied())?.clone();
        for _ in 0..5 {
            let to = any_setting(dice, &ranges[&knob]);
            if self.server().change_behind(&knob, &to).is_ok() {
                self.audit.foreign(&knob, &to);
                return Some(format!("({knob} to {to})"));
            }
        }
        None
    }

    fn unplug(&mut self, dice: &mut Dice) -> Option<String> {
        let cpus: Vec<u32> = self.faulty.setup().managed_cpus.iter().collect();
        let (cpu, legacy) = (dice.pick(&cpus).copied()?, dice.one_in(3));
        self.server().unplug(cpu, legacy).ok()?;
        self.audit.shaken(self.faulty.inner());
        self.after(dice.between(1_000, 15_000) as f64 / 1e3, Later::Plug);
        Some(format!("(CPU {cpu}{})", if legacy { ", sets lose it" } else { "" }))
    }

    fn die(&mut self, dice: &mut Dice, tenant: &Tenant) -> Option<String> {
        match self.server().end_programs(tenant) {
            Ok(programs) => {
                let seconds = dice.between(500, 12_000) as f64 / 1e3;
                self.after(seconds, Later::Start(tenant.clone(), programs));
                Some(format!("({tenant})"))
            }
            Err(_) => self.leave(dice, tenant, 2.0),
        }
    }

    fn leave(&mut self, dice: &mut Dice, tenant: &Tenant, least_s: f64) -> Option<String> {
        // Where sets must not overlap, whoever makes the group anew must find CPUs for it: not
        // simulated.
        let exclusive =
            |range: &KnobRange| matches!(range, KnobRange::Cpus { exclusive: true, .. });
        if self.faulty.setup().knobs.values().any(exclusive) {
            return None;
        }
        self.server().vanish(tenant).ok()?;
        let seconds = least_s + dice.between(0, 10_000) as f64 / 1e3;
        self.after(seconds, Later::ComeBack(tenant.clone()));
        Some(format!("({tenant}, for {seconds:.1} s)"))
    }

    fn fork(&mut self, dice: &mut Dice) -> Option<String> {
        let tenant = self.some_batch(dice)?;
        let child = program("integer")?;
        let child = Program { work_instructions: Some(4e9), name: TASK.into(), ..child };
        let count = dice.between(1, u64::from(MOST_FORKS));
        for _ in 0..count {
            self.server().start(&tenant, &child).ok()?;
        }
        Some(format!("({tenant}, {count} children)"))
    }

    fn move_work(&mut self, dice: &mut Dice) -> Option<String> {
        let (from, to) = (self.some_batch(dice)?, self.some_batch(dice)?);
        self.server().move_programs(&from, &to).ok()?;
        Some(format!("({from} to {to})"))
    }

    /// What went wrong for a while comes right.
    pub(crate) fn come_back_later(&mut self) {
        let now_s = self.now_s();
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.later).into_iter().partition(|(at_s, _)| *at_s <= now_s);
        self.later = later;
        for (_, what) in due {
            self.repair(what);
        }
    }

    /// Everything that went wrong for a while comes right at once.
    pub(crate) fn repair_all(&mut self) {
        for (_, what) in std::mem::take(&mut self.later) {
            self.repair(what);
        }
    }

    fn repair(&mut self, what: Later) {
        match what {
            Later::Plug => {
                self.server().plug_all();
                self.audit.shaken(self.faulty.inner());
            }
            Later::ComeBack(tenant) => {
                if self.server().come_back(&tenant).is_ok() {
                    let now_s = self.now_s();
                    self.audit.reborn(self.faulty.inner(), &tenant, now_s);
                }
            }
            Later::Start(tenant, programs) => {
                for program in &programs {
                    // A group that is gone meanwhile takes them along.
                    let _ = self.faulty.inner_mut().start(&tenant, program);
                }
            }
            Later::Room => self.disk.set_full(false),
        }
        self.audit.faulted();
        let now_s = self.now_s();
        self.stage.director().last_fault_s = now_s;
    }
}

/// Faults that only a living agent can see.
fn is_of_agent(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::SensorSilent
            | FaultKind::SensorStall
            | FaultKind::SensorLie
            | FaultKind::SensorVanish
            | FaultKind::HardwareStall
            | FaultKind::HardwareLie
            | FaultKind::HardwareVanish
    )
}
