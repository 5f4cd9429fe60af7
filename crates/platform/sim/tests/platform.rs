//! The simulated server keeps what every platform must keep.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_platform::{MemoryStore, Platform, PlatformError, Scope, conformance};
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

fn link() -> LinkSpec {
    LinkSpec { name: "eth0".into(), capacity: BytesPerSecond::from_bits(1e9) }
}

/// A service and two batch groups, one of which sends.
fn busy(machine: &str) -> Scene {
    let mut scene = scene(machine);
    scene.links = vec![link()];
    let mut web = service("web", "search", 1.0, 300.0);
    web.spec.links = vec!["eth0".into()];
    let mut jobs = batch("jobs", &["stream-dram", "phased"]);
    jobs.spec.links = vec!["eth0".into()];
    (scene.services, scene.batch) = (vec![web], vec![jobs, batch("more", &["stream-llc"])]);
    scene
}

#[test]
fn presets_conform() {
    for machine in ["vm2", "e5-2683v4", "arm-mpam", "xeon-atom"] {
        conformance::run(|| SimServer::new(&busy(machine)).unwrap());
    }
}

#[test]
fn sets_that_must_not_overlap_are_left_before_others_take_them() {
    let mut scene = scene("e5-2683v4");
    scene.exclusive_cpus = true;
    scene.services = vec![service("web", "search", 1.0, 300.0)];
    scene.batch = vec![batch("jobs", &["phased"])];
    let mut server = SimServer::new(&scene).unwrap();
    let knob = |name: &str| Knob::Cpus { tenant: name.into() };
    let Setting::Cpus(jobs) = server.standing()[&knob("jobs")].clone() else { panic!() };
    let one = jobs.first(1);
    let freed = Setting::Cpus(jobs.difference(&one));
    set(&mut server, knob("jobs"), Setting::Cpus(one.clone()));
    // The smaller set is on its way; until it is there jobs still has the others.
    assert!(server.change_behind(&knob("web"), &freed).is_err());
    server.advance(Duration::from_millis(100));
    assert_eq!(server.standing()[&knob("jobs")], Setting::Cpus(one));
    assert_eq!(server.change_behind(&knob("web"), &freed), Ok(()));
}

#[test]
fn two_runs_are_alike_to_the_bit_and_other_seeds_differ() {
    let play = |seed: u64| {
        let mut server = SimServer::new(&Scene { seed, ..busy("e5-2683v4") }).unwrap();
        let mut text = String::new();
        for step in 0..40 {
            if step == 10 {
                let bandwidth = CpuBandwidth::limited(0.3, Duration::from_millis(10));
                let knob = Knob::CpuBandwidth { tenant: "jobs".into() };
                set(&mut server, knob, Setting::Bandwidth(bandwidth));
                let knob = Knob::LlcWays { tenant: "more".into(), domain: 0 };
                set(&mut server, knob, Setting::Ways(0x3));
            }
            let scope = if step % 3 == 0 { Scope::Full } else { Scope::Fast };
            let sample = server.sample(Duration::from_millis(100), scope).unwrap();
            text.push_str(&serde_json::to_string(&sample).unwrap());
        }
        text
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn what_a_machine_lacks_is_a_gap_with_its_reason() {
    let mut server = SimServer::new(&busy("vm2")).unwrap();
    let sample = full(&mut server, SECOND);
    let jobs = &sample.tenants[&"jobs".into()];
    assert!(matches!(&jobs.memory, Err(Gap::Absent(why)) if !why.is_empty()));
    assert!(matches!(&jobs.llc_bytes, Err(Gap::Absent(_))));
    assert!(matches!(&sample.host.power, Err(Gap::Absent(_))));
    assert!(matches!(&sample.host.frequency_khz, Err(Gap::Absent(_))));
    assert!(matches!(&jobs.requests, Err(Gap::Absent(_))));
    let cache = |k: &&Knob| matches!(k, Knob::LlcWays { .. } | Knob::FrequencyMax { .. });
    assert_eq!(server.setup().knobs.keys().filter(cache).count(), 0);
    let mut server = SimServer::new(&busy("e5-2683v4")).unwrap();
    let sample = full(&mut server, SECOND);
    assert!(sample.tenants[&"jobs".into()].memory.clone().unwrap().bytes > 1_000_000);
    assert!(sample.host.power.unwrap()[&0].0 > 10.0);
}

#[test]
fn a_knob_reads_pending_until_it_works() {
    let mut server = SimServer::new(&busy("vm2")).unwrap();
    let knob = Knob::Cpus { tenant: "jobs".into() };
    full(&mut server, SECOND);
    set(&mut server, knob.clone(), Setting::Cpus(CpuSet::of(1)));
    let soon = full(&mut server, Duration::from_millis(20));
    assert_eq!(soon.knobs[&knob], Err(Gap::Pending));
    let later = full(&mut server, Duration::from_millis(15));
    assert_eq!(later.knobs[&knob], Ok(Setting::Cpus(CpuSet::of(1))));
}

#[test]
fn settings_are_refused_as_a_kernel_refuses_them() {
    let mut server = SimServer::new(&busy("haswell2")).unwrap();
    let jobs = || Tenant::from("jobs");
    for (knob, to) in [
        (Knob::Cpus { tenant: jobs() }, Setting::Cpus(CpuSet::new())),
        (Knob::Cpus { tenant: jobs() }, Setting::Cpus(CpuSet::of(400))),
        (Knob::CpuWeight { tenant: jobs() }, Setting::Weight(0)),
        (Knob::LlcWays { tenant: jobs(), domain: 0 }, Setting::Ways(0b101)),
        (Knob::LlcWays { tenant: jobs(), domain: 7 }, Setting::Ways(0b11)),
        (Knob::Frozen { tenant: "web".into() }, Setting::Flag(true)),
        (Knob::Frozen { tenant: jobs() }, Setting::Weight(1)),
    ] {
        let before = full(&mut server, Duration::from_millis(1)).knobs;
        set(&mut server, knob.clone(), to.clone());
        let after = full(&mut server, Duration::from_millis(100));
        assert!(after.outcomes[0].error.is_some(), "{knob} to {to}");
        assert_eq!(after.knobs, before, "{knob} to {to}");
    }
}

#[test]
fn classes_of_service_run_out() {
    let mut scene = scene("haswell2");
    scene.batch = ["a", "b", "c", "d"].map(|name| batch(name, &[])).into();
    let mut server = SimServer::new(&scene).unwrap();
    for name in ["a", "b", "c", "d"] {
        let knob = Knob::LlcWays { tenant: name.into(), domain: 0 };
        set(&mut server, knob, Setting::Ways(0b11));
    }
    let outcomes = full(&mut server, SECOND).outcomes;
    let refused: Vec<bool> = outcomes.iter().map(|o| o.error.is_some()).collect();
    assert_eq!(refused, [false, false, false, true], "4 classes, one of them everybody's");
}

#[test]
fn an_experiment_holds_a_group_chip_by_chip_and_shows_its_harm() {
    let mut scene = scene("vm2");
    scene.services = vec![service("web", "search", 0.5, 600.0)];
    scene.batch = vec![batch("jobs", &["stream-dram"])];
    let mut server = SimServer::new(&scene).unwrap();
    full(&mut server, SECOND);
    let experiment = Experiment {
        id: 7,
        groups: vec!["jobs".into()],
        victims: vec!["web".into()],
        code: vec![true, false, false, true],
        chip_us: 200_000,
        bound_us: 2_000_000,
    };
    server.apply(&Action::Play(experiment.clone())).unwrap();
    server.apply(&Action::Play(experiment)).unwrap();
    let sample = full(&mut server, SECOND);
    assert!(sample.outcomes[0].error.is_none() && sample.outcomes[1].error.is_some());
    let chips = &sample.experiments[0].chips;
    assert_eq!(chips.iter().map(|c| c.running).collect::<Vec<_>>(), [true, false, false, true]);
    let cost = |running: bool| {
        let of = |c: &&ChipTrace| c.running == running;
        let cpu: u64 = chips
            .iter()
            .filter(of)
            .map(|c| *c.victim_cpu_ns[&"web".into()].as_ref().unwrap())
            .sum();
        let served = |c: &ChipTrace| c.victim_requests[&"web".into()].as_ref().unwrap().requests;
        cpu as f64 / chips.iter().filter(of).map(served).sum::<u64>() as f64
    };
    assert!(cost(true) > 1.03 * cost(false), "{} against {}", cost(true), cost(false));
    for chip in chips {
        assert_eq!(chip.to.since(chip.from), Duration::from_millis(200));
        let used = chip.group_cpu_ns[&"jobs".into()].clone().unwrap();
        assert_eq!(used > 0, chip.running);
    }
    let frozen = &sample.knobs[&Knob::Frozen { tenant: "jobs".into() }];
    assert_eq!(frozen, &Ok(Setting::Flag(false)));
}

/// A service alone, and a probe beside it.
fn probed(resource: SharedResource, percent: f64) -> (SimServer, Probe) {
    let mut scene = scene("vm2");
    scene.services = vec![service("web", "search", 0.5, 600.0)];
    let mut server = SimServer::new(&scene).unwrap();
    full(&mut server, SECOND);
    let probe = Probe {
        id: 5,
        service: "web".into(),
        resource,
        intensity_percent: percent,
        window_us: 100_000,
        pressed: 3,
        bound_us: 3_000_000,
    };
    server.apply(&Action::Probe(probe.clone())).unwrap();
    (server, probe)
}

#[test]
fn a_probe_presses_in_its_windows_and_the_harder_the_dearer() {
    for resource in SharedResource::ALL {
        let harm = |percent: f64| {
            let (mut server, probe) = probed(resource, percent);
            let sample = full(&mut server, SECOND);
            assert_eq!(sample.outcomes[0].error, None);
            let [trace] = &sample.probes[..] else { panic!("{:?}", sample.probes) };
            assert_eq!((&trace.probe, &trace.aborted), (&probe, &None));
            let code: Vec<bool> = trace.windows.iter().map(|w| w.running).collect();
            assert_eq!(code, probe.code());
            for window in &trace.windows {
                assert_eq!(window.to.since(window.from), Duration::from_millis(100));
                let own = *window.group_cpu_ns[&PROBE_GROUP.into()].as_ref().unwrap();
                assert_eq!(own > 0, window.running, "{window:?}");
            }
            let cost = |running: bool| {
                let of = trace.windows.iter().filter(|w| w.running == running);
                let cpu = |w: &ChipTrace| *w.victim_cpu_ns[&"web".into()].as_ref().unwrap();
                let served =
                    |w: &ChipTrace| w.victim_requests[&"web".into()].as_ref().unwrap().requests;
                let sums = of.fold((0, 0), |sums, w| (sums.0 + cpu(w), sums.1 + served(w)));
                sums.0 as f64 / sums.1 as f64
            };
            cost(true) / cost(false)
        };
        let (little, much) = (harm(1.0), harm(100.0));
        // The simulated cache has room, but its bandwidth has no end.
        let modelled = resource != SharedResource::LlcBandwidth;
        assert!(much > 1.03 && (little < much || !modelled), "{resource}: {little} and {much}");
    }
}

#[test]
fn a_probe_ends_when_asked_with_the_agent_and_by_itself() {
    let pressing = |server: &mut SimServer| {
        let before = server.truth();
        server.advance(SECOND);
        server.truth().memory_utilisation[0] > 0.2 && before.memory_utilisation[0] >= 0.0
    };
    let (mut server, _) = probed(SharedResource::MemoryBandwidth, 100.0);
    server.advance(Duration::from_millis(150));
    server.apply(&Action::EndProbe { id: 9 }).unwrap();
    server.apply(&Action::EndProbe { id: 5 }).unwrap();
    let sample = full(&mut server, SECOND);
    let errors: Vec<bool> = sample.outcomes.iter().map(|o| o.error.is_some()).collect();
    assert_eq!(errors, [false, true, false], "there is no ninth");
    assert_eq!(sample.probes[0].windows.len(), 1);
    assert!(sample.probes[0].aborted.is_some() && !pressing(&mut server));
    let (mut server, probe) = probed(SharedResource::MemoryBandwidth, 100.0);
    server.advance(Duration::from_millis(150));
    server.apply(&Action::Probe(probe)).unwrap();
    let mut server = server.agent_dies(MemoryStore::default()).unwrap();
    assert!(!pressing(&mut server));
    assert!(full(&mut server, SECOND).probes.is_empty(), "nobody is left to hear of it");
}

#[test]
fn an_experiment_ends_at_its_bound() {
    let mut server = SimServer::new(&busy("vm2")).unwrap();
    let experiment = Experiment {
        id: 1,
        groups: vec!["jobs".into()],
        victims: vec![],
        code: vec![false; 10],
        chip_us: 100_000,
        bound_us: 150_000,
    };
    server.apply(&Action::Play(experiment)).unwrap();
    let sample = full(&mut server, SECOND);
    assert!(sample.experiments[0].aborted.is_some());
    assert!(cpus(&mut server, "jobs", SECOND) > 0.1, "it runs again");
}

#[test]
fn with_a_full_disk_nothing_is_changed() {
    let store = MemoryStore::with_room(1);
    let mut server = SimServer::with_journal(&busy("vm2"), store).unwrap().unwrap();
    let weight = |tenant: &str| Knob::CpuWeight { tenant: tenant.into() };
    let write = |knob| Action::Set { knob, to: Setting::Weight(7) };
    server.apply(&write(weight("jobs"))).unwrap();
    let error = server.apply(&write(weight("more"))).unwrap_err();
    assert!(matches!(error, PlatformError::Journal(_)), "{error}");
    let knobs = full(&mut server, SECOND).knobs;
    assert_eq!(knobs[&weight("jobs")], Ok(Setting::Weight(7)));
    assert_eq!(knobs[&weight("more")], Ok(Setting::Weight(100)));
}

#[test]
fn a_new_agent_puts_back_what_a_dead_one_left() {
    let store = MemoryStore::default();
    let mut server = SimServer::with_journal(&busy("vm2"), store.clone()).unwrap().unwrap();
    let first = full(&mut server, SECOND).knobs;
    let jobs = || Tenant::from("jobs");
    set(&mut server, Knob::CpuWeight { tenant: jobs() }, Setting::Weight(3));
    set(&mut server, Knob::Cpus { tenant: jobs() }, Setting::Cpus(CpuSet::of(0)));
    let experiment = Experiment {
        id: 1,
        groups: vec!["more".into()],
        victims: vec![],
        code: vec![false, true],
        chip_us: 500_000,
        bound_us: 2_000_000,
    };
    server.apply(&Action::Play(experiment)).unwrap();
    server.advance(Duration::from_millis(200));
    let mut server = server.agent_dies(store).unwrap();
    let left = full(&mut server, SECOND);
    assert_eq!(left.knobs[&Knob::Frozen { tenant: "more".into() }], Ok(Setting::Flag(true)));
    server.restore().unwrap();
    assert_eq!(full(&mut server, SECOND).knobs, first);
}

#[test]
fn tasks_start_end_and_go_back_to_the_queue() {
    let mut scene = scene("vm2");
    let work = Program { work_instructions: Some(3e9), ..program("integer").unwrap() };
    scene.programs = vec![Program { name: "short".into(), ..work }];
    scene.batch = vec![batch("jobs", &[])];
    let mut server = SimServer::new(&scene).unwrap();
    let spec = |name: &str| TaskSpec {
        command: vec![name.into()],
        tenant: None,
        directory: None,
        retries: 0,
    };
    let ids = ["short", "integer", "nothing"].map(|name| server.submit(spec(name)));
    for task in ids {
        server.apply(&Action::StartTask { task, tenant: "jobs".into() }).unwrap();
    }
    let soon = full(&mut server, Duration::from_millis(100));
    let states: Vec<TaskState> = soon.tasks.iter().map(|t| t.state).collect();
    assert_eq!(states, [TaskState::Running, TaskState::Running, TaskState::Failed]);
    assert!(soon.outcomes[2].error.is_some());
    server.apply(&Action::StopTask { task: ids[1] }).unwrap();
    let later = full(&mut server, 2 * SECOND);
    let states: Vec<TaskState> = later.tasks.iter().map(|t| t.state).collect();
    assert_eq!(states, [TaskState::Finished, TaskState::Ready], "failed ones are shown once");
    // 3e9 instructions of 0.5 cycles at 3 GHz.
    let used = server.truth().cpu_ns[&"jobs".into()] as f64 / 1e9;
    assert!((used - 0.6).abs() < 0.02, "{used} s");
}

#[test]
fn sensors_are_noisy_late_and_never_go_back() {
    let mut scene = busy("e5-2683v4");
    scene.sensing = Sensing {
        noise_frac: 0.02,
        period: Duration::from_millis(50),
        delay: Duration::from_millis(200),
    };
    let mut server = SimServer::new(&scene).unwrap();
    let early = full(&mut server, Duration::from_millis(100));
    assert!(matches!(early.host.memory, Err(Gap::NotYet(_))), "{:?}", early.host.memory);
    let (mut last, mut differs) = (0, false);
    for _ in 0..20 {
        let sample = full(&mut server, Duration::from_millis(130));
        let bytes = sample.host.memory.unwrap().bytes;
        assert!(bytes >= last);
        let held = sample.tenants[&"more".into()].llc_bytes.clone().unwrap() as f64;
        let truth = server.truth().llc_bytes[&"more".into()];
        differs |= (held / truth - 1.0).abs() > 1e-6;
        last = bytes;
    }
    let truth: f64 = server.truth().traffic_bytes.values().sum();
    assert!(differs && (last as f64) < truth && last as f64 > 0.8 * truth, "{last} of {truth}");
}
