//! The instrument on the machine itself: that it ends, in order, and leaves nothing. What it measures
//! is for the experiments, not for tests: another tenant may be louder than the kernel.

#![allow(clippy::unwrap_used)]

use quell_pressure::{Options, Resource, Stop, allowed_cpus};
use quell_profiler::{
    Effort, Habit, ProfileError, ProfileOptions, Seats, Subject, ValidateOptions, Validation,
    Victim, Witness, at_desk, profile, validate,
};
use quell_topology::Machine;
use std::time::{Duration, Instant};

/// As short as it can be.
const SHORT: Effort = Effort {
    window: Duration::from_millis(4),
    settle: Duration::from_millis(1),
    grid: &[50.0],
    pairs: 2,
    listens: 2,
    resolution: 50.0,
    budget: Duration::from_millis(200),
};

/// Seats beside each other where there are two CPUs, else on one.
fn seats() -> Seats {
    let alone = allowed_cpus().unwrap().len() < 2;
    Seats::choose(None, None, alone).unwrap()
}

fn options(only: &[Resource], seats: Seats) -> ProfileOptions {
    let mut pressure = Options::new(Resource::Integer);
    pressure.llc_bytes = Some(4 << 20);
    pressure.region_bytes = Some(16 << 20);
    ProfileOptions {
        only: only.to_vec(),
        quick: false,
        threshold: 0.95,
        effort: Some(SHORT),
        within: None,
        yardsticks: true,
        witnesses: true,
        seats,
        pressure,
    }
}

fn measured(
    only: &[Resource],
    seats: Seats,
    stop: &Stop,
) -> Result<quell_profiler::Profile, ProfileError> {
    let options = options(only, seats);
    let topology = Machine::new("/").topology();
    at_desk(&options.seats.pressure.clone(), || {
        let cpus = &options.seats.workload;
        let mut victim = Victim::start("chase", Habit::Chase(1 << 20), cpus, stop)?;
        profile(&mut victim, &options, &topology, stop, Instant::now(), &mut |_, _| ())
    })
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let ours = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm"))
            .is_ok_and(|name| name.starts_with("quell-"))
    };
    tasks.filter(ours).count()
}

#[test]
fn profiles_and_validations_end_in_order() {
    a_profile_has_every_resource_once();
    sharing_a_core_is_marked();
    a_stop_ends_it_and_leaves_no_thread();
    a_validation_has_its_three_parts();
    messages_press_where_two_cpus_do();
}

fn a_profile_has_every_resource_once() {
    let only = [Resource::LlcCapacity, Resource::MemoryBandwidth];
    let found = measured(&only, seats(), &Stop::new().unwrap()).unwrap();
    assert_eq!(found.schema, "quell.profile/1");
    assert_eq!(found.tolerated.len() + found.absent.len(), Resource::ALL.len());
    for resource in only {
        let (tolerated, caused) = (found.tolerated[&resource], found.caused[&resource]);
        for estimate in [tolerated, caused] {
            assert!((0.0..=100.0).contains(&estimate.value), "{resource}: {estimate:?}");
            assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
        }
        assert!(!found.curves[&resource].is_empty());
    }
    witnesses_are_heard(&found, &only);
    let text = serde_json::to_string(&found).unwrap();
    let read: quell_profiler::Profile = serde_json::from_str(&text).unwrap();
    assert_eq!(read.caused.len(), found.caused.len());
    for (resource, estimate) in &found.caused {
        // Reading JSON may change the last bit of a number.
        assert!((read.caused[resource].high - estimate.high).abs() < 1e-9, "{resource}");
    }
}

/// Beside the workload and beside each kernel at each level; not where a core is shared by time.
fn witnesses_are_heard(found: &quell_profiler::Profile, pressed: &[Resource]) {
    let parted = !found.same_core;
    assert_eq!(found.witnesses.is_empty(), !parted);
    assert!(found.witnesses.values().all(|kept| kept.value > 0.0), "{:?}", found.witnesses);
    for resource in pressed.iter().filter(|_| parted) {
        let heard = &found.bubbles[resource];
        assert!(Witness::ALL.iter().all(|w| heard[w].len() == 2), "{resource}: {heard:?}");
    }
}

fn sharing_a_core_is_marked() {
    let seats = Seats::choose(None, None, true).unwrap();
    let found = measured(&[Resource::L1Data], seats, &Stop::new().unwrap()).unwrap();
    assert!(found.same_core && found.tolerated.contains_key(&Resource::L1Data));
    assert_eq!(found.workload.cpus, found.pressure_cpus);
}

fn a_stop_ends_it_and_leaves_no_thread() {
    let stop = Stop::new().unwrap();
    stop.request();
    let end = measured(&[Resource::LlcCapacity], seats(), &stop);
    assert!(
        matches!(end, Err(ProfileError::Stopped | ProfileError::Resource { .. })) || stopped(&end)
    );
    assert_eq!(threads(), 0, "no kernel and no victim is left");
}

/// A kernel that cannot be armed because of the stop is named as absent.
fn stopped(end: &Result<quell_profiler::Profile, ProfileError>) -> bool {
    end.as_ref().is_ok_and(|found| found.tolerated.is_empty())
}

fn a_validation_has_its_three_parts() {
    if allowed_cpus().unwrap().len() < 2 {
        return;
    }
    // On a crowded machine a victim may get nothing done in a short window; then look longer.
    let windows = [5, 20, 30, 30, 30].map(Duration::from_millis);
    let mut tries = windows.iter().map(|window| validated(*window));
    let found = tries.find(|found| found.crosstalk.len() == 9).expect("each beside each");
    assert_eq!((found.schema.as_str(), found.kernels.len()), ("quell.validate/1", 3));
    assert!(found.timing.len() == 3 && found.timing.iter().all(|t| t.stop_ms.is_some()));
    assert_eq!(found.ended_early, None);
    assert_eq!(found.impact.len(), 5, "four of ours and another, beside one resource");
    let integer = found.kernels.iter().find(|k| k.resource == Resource::Integer).unwrap();
    assert_eq!(integer.levels.len(), 11);
    assert_eq!(threads(), 0);
}

/// Two CPUs that press can pass messages; the one of the victims cannot.
fn messages_press_where_two_cpus_do() {
    let cpus = allowed_cpus().unwrap();
    if cpus.len() < 2 {
        return;
    }
    let only = vec![Resource::Integer, Resource::Interconnect];
    let seats = Seats { pressure: cpus.first(2), ..seats() };
    let ms = Duration::from_millis;
    let mut tries = [20, 60, 200].into_iter().map(|window| {
        let options = ValidateOptions { only: only.clone(), ..parts(ms(window), seats.clone()) };
        let (stop, topology) = (Stop::new().unwrap(), Machine::new("/").topology());
        let validate = || validate(&options, &mut [], &topology, &stop, &mut |_| ());
        at_desk(&seats.pressure, validate).unwrap()
    });
    let found = tries.find(|found| found.crosstalk.len() == 2).expect("two sources");
    assert!(found.crosstalk.iter().all(|pair| pair.victim == Resource::Integer));
    assert!(found.crosstalk.iter().any(|pair| pair.source == Resource::Interconnect));
    assert!(found.absent[&Resource::Interconnect].contains("two CPUs"), "{:?}", found.absent);
    assert_eq!(threads(), 0);
}

/// Cross-talk alone, as quickly as it goes.
fn parts(window: Duration, seats: Seats) -> ValidateOptions {
    ValidateOptions {
        only: Vec::new(),
        rounds: 2,
        window,
        patience: Duration::ZERO,
        linearity: false,
        timing: false,
        impact: false,
        crosstalk: true,
        pressure: options(&[], seats.clone()).pressure,
        seats,
        sources: None,
    }
}

fn validated(window: Duration) -> Validation {
    let options = ValidateOptions {
        only: vec![Resource::Integer, Resource::LlcBandwidth, Resource::PageFaults],
        linearity: true,
        timing: true,
        impact: true,
        ..parts(window, seats())
    };
    let (stop, topology) = (Stop::new().unwrap(), Machine::new("/").topology());
    at_desk(&options.seats.pressure.clone(), || {
        let cpus = &options.seats.workload;
        let victim: Box<dyn Subject> =
            Box::new(Victim::start("another", Habit::Stream(1 << 20), cpus, &stop)?);
        validate(&options, &mut [victim], &topology, &stop, &mut |_| ())
    })
    .unwrap()
}
