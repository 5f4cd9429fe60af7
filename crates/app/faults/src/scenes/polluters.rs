//! What the third way of drawing adds: laws that slow whoever locks the bus or heats a socket, the
//! clocks by which they do it, programs that give them reason to, and laws beside laws.

use super::{Drawn, concerns, machine, named, second_laws};
use crate::dice::Dice;
use crate::{Cell, KnobKind, Site};
use quell_policy::Law;
use quell_sim::{Machine, Program, Scene};
use quell_types::{CpuSet, Knob, Setting, Tenant};

/// A period that an episode has time for, and tenants as small as these.
const POWER: &str = "period_s = 2.0\nleast_cpus = 1\n";

/// The laws that write there.
pub(super) fn laws(site: Option<Site>) -> Vec<Law> {
    use Law::{Alita, BusLock, Power};
    let more: &[Law] = match site {
        Some(Site::Set(kind) | Site::Restore(kind)) => match kind {
            KnobKind::Duty => &[BusLock, BusLock, Power, Power, Alita],
            KnobKind::Bandwidth => &[BusLock, Alita],
            KnobKind::Freezer => &[BusLock],
            KnobKind::Ways | KnobKind::Memory => &[Alita],
            KnobKind::Frequency => &[Power],
            _ => &[],
        },
        Some(Site::Free | Site::Play | Site::StopTask) => &[],
        _ => &[BusLock, Power, Alita],
    };
    second_laws(site).iter().chain(more).copied().collect()
}

fn slows(law: Law) -> bool {
    matches!(law, Law::BusLock | Law::Power | Law::Alita)
}

/// Adds it to what was drawn in the manner of the second way.
pub(super) fn add(dice: &mut Dice, mut drawn: Drawn, aim: Option<Cell>) -> Drawn {
    let site = aim.map(|cell| cell.site);
    drawn.beside = beside(dice, drawn.law);
    let slows = slows(drawn.law) || drawn.beside.iter().any(|law| slows(*law));
    let has_own =
        [KnobKind::Ways, KnobKind::Memory, KnobKind::Frequency].iter().any(|k| concerns(site, *k));
    let clocks = concerns(site, KnobKind::Duty) || (slows && !has_own && !dice.one_in(4));
    if clocks && !drawn.scene.exclusive_cpus {
        drawn.scene.machine = clocked(dice);
    }
    if aim.is_some_and(|cell| cell.kind.is_of_hardware()) {
        drawn.scene.machine.lock_counter = true;
        drawn.scene.machine.power_sensor = true;
    }
    if slows {
        drawn.scene.batch.iter_mut().for_each(|batch| batch.programs.push(polluter(dice)));
        narrow(dice, &mut drawn);
        let tables = tables(dice, &drawn, site);
        drawn.config += &tables;
        let names: Vec<&str> = drawn.beside.iter().map(|law| law.name()).collect();
        let agent = format!("[agent]\nbeside = {names:?}\n");
        drawn.config = drawn.config.replacen("[agent]\n", &agent, 1);
    }
    if !drawn.scene.exclusive_cpus && (clocks || dice.one_in(4)) {
        drawn.pins = apart(&drawn.scene);
    }
    drawn
}

/// Laws that hold polluters back run beside others.
fn beside(dice: &mut Dice, law: Law) -> Vec<Law> {
    let some: &[&[Law]] = &[&[Law::BusLock], &[Law::Power], &[Law::BusLock, Law::Power]];
    if law.limits_polluters() || !dice.one_in(4) {
        return Vec::new();
    }
    dice.pick(some).map(|laws| laws.to_vec()).unwrap_or_default()
}

/// A small machine whose clocks can be modulated.
fn clocked(dice: &mut Dice) -> Machine {
    let mut machine = match dice.below(3) {
        0 => machine("platinum-8163", 1, 4, 1),
        1 => machine("platinum-8163", 1, 3, 2),
        _ => machine("platinum-8163", 2, 2, 1),
    };
    if dice.one_in(3) {
        machine.duty_parts = Some(8);
    }
    machine
}

/// Who locks the bus, heats its core, or does neither.
fn polluter(dice: &mut Dice) -> Program {
    const NAMES: [&str; 4] = ["split-lock", "split-lock", "power-virus", "phased"];
    let name = dice.pick(&NAMES).copied().unwrap_or("split-lock");
    Program { threads: dice.between(1, 2) as u32, ..named(name) }
}

/// Now and then some groups are spared, or only some named.
fn narrow(dice: &mut Dice, drawn: &mut Drawn) {
    match dice.below(6) {
        0 => drawn.limitable.retain(|name| name.as_str() != "more"),
        1 => drawn.limitable.retain(|name| name.as_str() != "jobs"),
        2 => drawn.limitable = vec!["web".into(), "jobs".into()],
        _ => {}
    }
}

/// The laws' tables.
fn tables(dice: &mut Dice, drawn: &Drawn, site: Option<Site>) -> String {
    let mut text = String::new();
    let all = [&[drawn.law][..], &drawn.beside].concat();
    let lists = lists(drawn);
    if all.iter().any(|law| matches!(law, Law::BusLock | Law::Alita)) {
        let actuator = bus_actuator(dice, site);
        text += &format!("[law.bus-lock]\nactuator = \"{actuator}\"\n{lists}");
    }
    if all.iter().any(|law| matches!(law, Law::Power | Law::Alita)) {
        let actuator = power_actuator(dice, site);
        let step = dice.between(1, 4);
        let (quota_w, guard_w) = quota(&drawn.scene);
        text += &format!("[law.power]\nactuator = \"{actuator}\"\nstep_parts = {step}\n");
        text += &format!("quota_w = {quota_w:.1}\nguard_w = {guard_w:.1}\n{POWER}{lists}");
    }
    if drawn.law == Law::Alita {
        text += &format!("[law.llc-bias]\n{}", super::LLC_BIAS);
    }
    text
}

fn bus_actuator(dice: &mut Dice, site: Option<Site>) -> &'static str {
    let aimed = [
        (KnobKind::Freezer, "freezer"),
        (KnobKind::Bandwidth, "bandwidth"),
        (KnobKind::Duty, "clock"),
    ];
    let own = aimed.iter().find(|(kind, _)| concerns(site, *kind)).map(|(_, by)| *by);
    let any = dice.pick(&["auto", "auto", "bandwidth", "freezer"]).copied();
    own.or(any).unwrap_or("auto")
}

fn power_actuator(dice: &mut Dice, site: Option<Site>) -> &'static str {
    let aimed = [(KnobKind::Frequency, "frequency"), (KnobKind::Duty, "clock")];
    let own = aimed.iter().find(|(kind, _)| concerns(site, *kind)).map(|(_, by)| *by);
    own.or(dice.pick(&["auto", "auto", "frequency"]).copied()).unwrap_or("auto")
}

/// The words that name whom the laws may hold back.
fn lists(drawn: &Drawn) -> String {
    let batch = drawn.scene.batch.iter().map(|batch| &batch.spec.name);
    let is_service = |name: &&Tenant| drawn.scene.services.iter().any(|s| s.spec.name == **name);
    if drawn.limitable.iter().any(|name| is_service(&name)) {
        let named: Vec<&str> = drawn.limitable.iter().map(Tenant::as_str).collect();
        return format!("allow = {named:?}\n");
    }
    let spared = batch.filter(|name| !drawn.limitable.contains(name));
    let spared: Vec<&str> = spared.map(Tenant::as_str).collect();
    format!("deny = {spared:?}\n")
}

/// A bound that some busy cores reach, and one that fewer keep.
fn quota(scene: &Scene) -> (f64, f64) {
    let machine = &scene.machine;
    let cores = machine.cores() as f64 / machine.sockets() as f64;
    let quota_w = machine.power.idle_w + 0.45 * cores * machine.power.core_w;
    (quota_w, 0.2 * cores * machine.power.core_w)
}

/// Each tenant on CPUs of its own: whole cores, batch on the lowest.
fn apart(scene: &Scene) -> Vec<(Knob, Setting)> {
    let batch = scene.batch.iter().map(|batch| &batch.spec.name);
    let tenants: Vec<&Tenant> = batch.chain(scene.services.iter().map(|s| &s.spec.name)).collect();
    let (cores, threads) = (scene.machine.cores(), scene.machine.threads_per_core as usize);
    let part = cores / tenants.len();
    if part == 0 {
        return Vec::new();
    }
    let mine = |number: usize| -> CpuSet {
        let own = number * part..(number + 1) * part;
        // Hardware threads of a core are numbered so many cores apart.
        (0..threads).flat_map(|t| own.clone().map(move |core| (core + t * cores) as u32)).collect()
    };
    let pin = |(number, tenant): (usize, &&Tenant)| {
        (Knob::Cpus { tenant: (*tenant).clone() }, Setting::Cpus(mine(number)))
    };
    tenants.iter().enumerate().map(pin).collect()
}
