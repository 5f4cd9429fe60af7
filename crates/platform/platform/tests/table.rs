//! The table keeps what every platform must keep; faults and recordings on top of it.
#![allow(clippy::unwrap_used)]

use quell_platform::*;
use quell_types::*;
use std::collections::BTreeMap;
use std::time::Duration;

fn knob() -> Knob {
    Knob::CpuWeight { tenant: "jobs".into() }
}

fn table() -> Table {
    let idle = Knob::CpuIdle { tenant: "jobs".into() };
    let setup = Setup {
        knobs: BTreeMap::from([
            (knob(), KnobRange::Weight { min: 1, max: 10_000 }),
            (idle.clone(), KnobRange::Flag),
        ]),
        ..Setup::default()
    };
    let knobs = BTreeMap::from([(knob(), Setting::Weight(100)), (idle, Setting::Flag(false))]);
    Table::new(setup, knobs)
}

fn set(weight: u32) -> Action {
    Action::Set { knob: knob(), to: Setting::Weight(weight) }
}

fn weight(platform: &mut impl Platform) -> Setting {
    let sample = platform.sample(Duration::from_secs(1), Scope::Full).unwrap();
    sample.knobs[&knob()].clone().unwrap()
}

#[test]
fn the_table_conforms() {
    conformance::run(table);
}

#[test]
fn a_platform_without_faults_conforms_when_wrapped() {
    conformance::run(|| Faulty::new(table(), BTreeMap::new()));
    conformance::run(|| Recorder::new(table(), MemoryStore::default()).unwrap());
}

#[test]
fn writes_are_lost_refused_and_late_as_told() {
    let faults = BTreeMap::from([
        (1, vec![Fault::LoseWrite]),
        (2, vec![Fault::RefuseWrite("no".into())]),
        (3, vec![Fault::DelayWrite(2)]),
    ]);
    let mut faulty = Faulty::new(table(), faults);
    assert_eq!(weight(&mut faulty), Setting::Weight(100));
    faulty.apply(&set(1)).unwrap();
    assert_eq!(weight(&mut faulty), Setting::Weight(100), "lost");
    faulty.apply(&set(2)).unwrap();
    let sample = faulty.sample(Duration::from_secs(1), Scope::Full).unwrap();
    assert_eq!(sample.outcomes[0].error.as_deref(), Some("no"));
    faulty.apply(&set(3)).unwrap();
    assert_eq!(weight(&mut faulty), Setting::Weight(100), "late");
    assert_eq!(weight(&mut faulty), Setting::Weight(3), "there at last");
}

#[test]
fn a_recording_is_gone_through_again() {
    let store = MemoryStore::default();
    let mut recorder = Recorder::new(table(), store.clone()).unwrap();
    let first = recorder.sample(Duration::from_secs(1), Scope::Full).unwrap();
    recorder.apply(&set(5)).unwrap();
    let second = recorder.sample(Duration::from_secs(1), Scope::Fast).unwrap();
    let mut replay = Replay::open(&mut store.clone()).unwrap();
    assert_eq!(replay.setup(), recorder.setup());
    assert_eq!(replay.sample(Duration::ZERO, Scope::Full).unwrap(), first);
    assert_eq!(replay.sample(Duration::ZERO, Scope::Full).unwrap(), second);
    assert!(replay.sample(Duration::ZERO, Scope::Full).is_err());
    assert_eq!(replay.recorded(), [set(5)]);
}

#[test]
fn a_damaged_recording_names_the_line() {
    let mut store = MemoryStore::default();
    store.append("{").unwrap();
    let error = Replay::open(&mut store).unwrap_err().to_string();
    assert!(error.contains("line 1"), "{error}");
}
