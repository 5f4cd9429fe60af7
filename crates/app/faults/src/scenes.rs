//! Small machines, and what runs on them under which law: enough for every site to be written.

mod boundless;
mod polluters;

use crate::dice::Dice;
use crate::drawing::Drawing;
use crate::{Cell, KnobKind, Site};
use quell_policy::Law;
use quell_sim::{Load, Machine, Program, Scene, SimBatch, SimService, preset, program};
use quell_types::{BatchSpec, BytesPerSecond, Knob, LinkSpec, ServiceSpec, Setting, Slo, Tenant};
use std::fmt::Write;

/// Name of the program that tasks of the queue run.
pub(crate) const TASK: &str = "task";
/// Requests a second that a service of these scenes can serve at most, about.
const PEAK_QPS: f64 = 120.0;
const TARGET_S: f64 = 0.060;
/// Instructions of such a request.
const INSTRUCTIONS: f64 = 3e7;
/// Requests are so many times as frequent, and as short, where a law must find out who slows them.
const FREQUENT: f64 = 8.0;

/// A scene, and the agent that guards it.
pub(crate) struct Drawn {
    pub(crate) law: Law,
    /// Laws beside it.
    pub(crate) beside: Vec<Law>,
    /// Whom laws that hold polluters back may hold back.
    pub(crate) limitable: Vec<Tenant>,
    /// How knobs stand before the agent begins.
    pub(crate) pins: Vec<(Knob, Setting)>,
    pub(crate) config: String,
    pub(crate) scene: Scene,
}

/// Draws a scene in which what a seed aims at comes about.
pub(crate) fn draw(dice: &mut Dice, seed: u64, aim: Option<Cell>, way: Drawing) -> Drawn {
    let site = aim.map(|cell| cell.site);
    let law = law_for(dice, site, way);
    let exclusive = site.is_none_or(|site| site == Site::Set(KnobKind::Cpus)) && dice.one_in(3);
    let machine = if exclusive { machine("vm2", 1, 4, 1) } else { machine_for(dice, site) };
    let links = dice.one_in(3) || concerns(site, KnobKind::Egress);
    let mut scene = Scene::new(machine, seed);
    scene.tick = std::time::Duration::from_millis(10);
    scene.sensing.period = std::time::Duration::from_millis(500);
    scene.exclusive_cpus = exclusive;
    if links {
        let capacity = BytesPerSecond::from_bits(1e8);
        scene.links = vec![LinkSpec { name: "eth0".into(), capacity }];
    }
    let services = if !exclusive && dice.one_in(5) { 2 } else { 1 };
    let groups = if exclusive { 1 } else { dice.between(1, 2) };
    let often = if law == Law::Culprit { FREQUENT } else { 1.0 };
    let each = often / services as f64;
    scene.services = (0..services).map(|n| service(dice, n, (each, often), links)).collect();
    scene.batch = (0..groups).map(|n| batch(dice, n, links)).collect();
    let instructions = if site == Some(Site::StopTask) { 3e11 } else { 3e9 };
    let work =
        Program { work_instructions: Some(instructions), name: TASK.into(), ..named("integer") };
    scene.programs = vec![work];
    let config = config(dice, law, site);
    let limitable = scene.batch.iter().map(|batch| batch.spec.name.clone()).collect();
    let drawn = Drawn { law, beside: Vec::new(), limitable, pins: Vec::new(), config, scene };
    let drawn = if way >= Drawing::Third { polluters::add(dice, drawn, aim) } else { drawn };
    if way >= Drawing::Fourth { boundless::add(dice, drawn) } else { drawn }
}

fn concerns(site: Option<Site>, kind: KnobKind) -> bool {
    matches!(site, Some(Site::Set(k) | Site::Restore(k)) if k == kind)
}

/// A law that writes there.
fn law_for(dice: &mut Dice, site: Option<Site>, way: Drawing) -> Law {
    let some = match way {
        Drawing::First => first_laws(site).to_vec(),
        Drawing::Second => second_laws(site).to_vec(),
        Drawing::Third => polluters::laws(site),
        Drawing::Fourth => boundless::laws(site),
    };
    dice.pick(&some).copied().unwrap_or_default()
}

/// As it was before there were laws beside these six.
fn first_laws(site: Option<Site>) -> &'static [Law] {
    use Law::{Heracles, OsOnly, Quell, Static, Thesis};
    match site {
        Some(Site::Set(kind) | Site::Restore(kind)) => match kind {
            KnobKind::Cpus => &[Thesis, Heracles, Static],
            KnobKind::Bandwidth => &[Quell, Static],
            KnobKind::Weight | KnobKind::Idle => &[OsOnly, Quell],
            KnobKind::Freezer => &[Thesis, Heracles],
            KnobKind::Egress => &[Quell, Thesis, Heracles, Static],
            KnobKind::Ways => &[Quell, Thesis, Heracles],
            KnobKind::Memory => &[Quell],
            KnobKind::Frequency => &[Heracles],
            KnobKind::Duty => &[],
        },
        Some(Site::Free) => &[Static, Thesis, Heracles],
        Some(Site::Play) => &[Quell],
        Some(Site::StopTask) => &[Thesis, Heracles],
        _ => &[Law::None, OsOnly, Static, Thesis, Heracles, Quell, Quell],
    }
}

/// As it was before clocks were modulated.
fn second_laws(site: Option<Site>) -> &'static [Law] {
    use Law::{Culprit, Heracles, LlcBias, OsOnly, Parties, Quell, Static, StaticWays, Thesis};
    match site {
        Some(Site::Set(kind) | Site::Restore(kind)) => match kind {
            KnobKind::Cpus => &[Thesis, Heracles, Static, Parties],
            KnobKind::Bandwidth => &[Quell, Static, Culprit],
            KnobKind::Freezer => &[Thesis, Heracles, Parties],
            KnobKind::Ways => &[Quell, Thesis, Heracles, Parties, StaticWays, LlcBias],
            KnobKind::Memory => &[Quell, LlcBias],
            KnobKind::Frequency => &[Heracles, Parties],
            _ => first_laws(site),
        },
        Some(Site::Free) => &[Static, Thesis, Heracles, Parties],
        Some(Site::Play) => &[Quell, Culprit],
        Some(Site::StopTask) => &[Thesis, Heracles],
        _ => &[
            Law::None,
            OsOnly,
            Static,
            Thesis,
            Heracles,
            Parties,
            StaticWays,
            LlcBias,
            Culprit,
            Quell,
            Quell,
        ],
    }
}

fn named(name: &str) -> Program {
    program(name).unwrap_or_else(|| unreachable!("{name} is a program of the simulator"))
}

fn machine(name: &str, sockets: u32, cores: u32, threads: u32) -> Machine {
    let of = preset(name).unwrap_or_else(|| unreachable!("{name} is a preset"));
    let mut machine = Machine {
        sockets_per_server: sockets,
        cores_per_domain: cores,
        threads_per_core: threads,
        ..of
    };
    machine.clock.turbo = vec![(cores, machine.clock.base_khz)];
    // As many classes of service as there may be tenants.
    if let Some(allocation) = &mut machine.allocation {
        allocation.classes = 16;
    }
    machine
}

fn machine_for(dice: &mut Dice, site: Option<Site>) -> Machine {
    let kind = match site {
        Some(Site::Set(kind) | Site::Restore(kind)) => Some(kind),
        _ => None,
    };
    let throttled = || machine("platinum-8163", 1, 3, 1);
    let powered = || machine("haswell2", 2, 2, 1);
    match kind {
        Some(KnobKind::Memory) => throttled(),
        Some(KnobKind::Frequency) => powered(),
        Some(KnobKind::Ways) => match dice.below(3) {
            0 => throttled(),
            1 => powered(),
            _ => machine("arm-mpam", 1, 4, 1),
        },
        _ => match dice.below(8) {
            0 => throttled(),
            1 => powered(),
            2 => machine("arm-mpam", 1, 4, 1),
            3 => machine("e5-2683v4", 1, 2, 2),
            4 => machine("vm2", 1, 4, 1),
            _ => machine("vm2", 1, 2, 1),
        },
    }
}

fn on(links: bool) -> Vec<quell_types::Link> {
    if links { vec!["eth0".into()] } else { vec![] }
}

/// One that serves `each` times the usual peak of requests, each `often` times as short.
fn service(dice: &mut Dice, number: u64, (each, often): (f64, f64), links: bool) -> SimService {
    let name = ["web", "shop"][number as usize % 2];
    let peak = PEAK_QPS * each;
    SimService {
        spec: ServiceSpec {
            name: name.into(),
            slo: Slo { percentile_frac: 0.95, target_s: TARGET_S },
            peak_qps: (!dice.one_in(4)).then_some(peak),
            links: on(links),
        },
        program: named("search"),
        workers: 2,
        instructions: INSTRUCTIONS / often,
        variation: 0.4,
        request_bytes: 100,
        response_bytes: 20_000,
        load: load(dice, peak),
    }
}

/// Calm and busy stretches, silence, and more than can be served.
fn load(dice: &mut Dice, peak: f64) -> Load {
    const SHARES: [f64; 9] = [0.0, 0.1, 0.2, 0.2, 0.4, 0.6, 0.8, 0.95, 1.2];
    let mut at_s = 0.0;
    let mut steps = Vec::new();
    while at_s < 400.0 {
        let share = dice.pick(&SHARES).copied().unwrap_or(0.2);
        steps.push((at_s, share * peak));
        at_s += dice.between(6, 40) as f64;
    }
    Load::Steps(steps)
}

fn batch(dice: &mut Dice, number: u64, links: bool) -> SimBatch {
    const NAMES: [&str; 4] = ["integer", "stream-llc", "stream-dram", "phased"];
    let name = Tenant::from(["jobs", "more"][number as usize % 2]);
    let programs = dice.between(0, 1);
    let programs = (0..programs)
        .map(|_| Program { threads: 1, ..named(dice.pick(&NAMES).copied().unwrap_or("integer")) });
    let programs = programs.collect();
    let takes_tasks = number == 0;
    SimBatch { spec: BatchSpec { name, links: on(links), takes_tasks, max_tasks: 2 }, programs }
}

fn config(dice: &mut Dice, law: Law, site: Option<Site>) -> String {
    let mut text = String::new();
    let fast = dice.pick(&["0.25", "0.5", "1.0"]).copied().unwrap_or("0.5");
    let on_change = if dice.one_in(3) { "give-up" } else { "reassert" };
    let parameters = match law {
        Law::Quell => format!("period_s = {fast}\n"),
        Law::Static => fixed(dice, site),
        Law::Thesis => thesis(dice, site),
        Law::Heracles => heracles(dice, site),
        Law::LlcBias => LLC_BIAS.into(),
        _ => String::new(),
    };
    let _ = write!(
        text,
        "[agent]\nlaw = \"{law}\"\ninterval_s = 1.0\nfast_interval_s = {fast}\n\
         on_foreign_change = \"{on_change}\"\n[[service]]\nname = \"web\"\ncgroup = \"/web\"\n\
         p95 = \"60ms\"\n[[batch]]\nname = \"jobs\"\ncgroup = \"/jobs\"\n"
    );
    if !parameters.is_empty() {
        let _ = write!(text, "[law.{law}]\n{parameters}");
    }
    text
}

fn fixed(dice: &mut Dice, site: Option<Site>) -> String {
    let mut text = String::new();
    if concerns(site, KnobKind::Bandwidth) || dice.one_in(2) {
        text += "batch_limit_cpus = 0.5\n";
    }
    if concerns(site, KnobKind::Cpus) || site == Some(Site::Free) || dice.one_in(2) {
        text += "batch_cpu_count = 1\n";
    }
    if concerns(site, KnobKind::Egress) || dice.one_in(2) {
        text += "batch_egress_frac = 0.3\n";
    }
    text
}

/// Bounds that these small machines reach, and periods that an episode has time for.
const LLC_BIAS: &str = "period_s = 1.0\ntenure_s = 10.0\nrelax_period_s = 3.0\n\
    least_traffic_gb_per_s = 0.2\nfull_gb_per_s = 3.0\nfull_guard_gb_per_s = 1.0\n";

/// Shorter periods than the thesis' own, so that more is decided in an hour.
fn thesis(dice: &mut Dice, site: Option<Site>) -> String {
    let stops = site == Some(Site::StopTask) || dice.one_in(3);
    let on_disable = if stops { "stop-tasks" } else { "freeze" };
    let limiter = if dice.one_in(2) { "mba" } else { "cores" };
    let step = if dice.one_in(3) { "0.5" } else { "0.0" };
    format!(
        "top_period_s = 3.0\ncore_memory_period_s = 2.0\nsettle_s = 1.5\ncool_down_s = 2.0\n\
         on_disable = \"{on_disable}\"\ndram_limiter = \"{limiter}\"\n\
         sub_core_step_cores = {step}\ndram_limit_bytes_per_s = 8e9\n"
    )
}

fn heracles(dice: &mut Dice, site: Option<Site>) -> String {
    let stops = site == Some(Site::StopTask) || dice.one_in(3);
    let on_disable = if stops { "stop-tasks" } else { "freeze" };
    let power = if concerns(site, KnobKind::Frequency) || dice.one_in(2) {
        "tdp_w = 20.0\nguaranteed_khz = 2300000\n"
    } else {
        ""
    };
    format!(
        "top_period_s = 3.0\ncore_memory_period_s = 2.0\nsettle_s = 2.0\ncool_down_s = 4.0\n\
         on_disable = \"{on_disable}\"\npeak_dram_bytes_per_s = 2e10\n{power}"
    )
}
