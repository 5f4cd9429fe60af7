//! The engine on a machine of two knobs.
#![allow(clippy::unwrap_used)]

use quell_control::{Engine, EngineParams, ForeignChange, Note};
use quell_policy::Policy;
use quell_types::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn weight() -> Knob {
    Knob::CpuWeight { tenant: "jobs".into() }
}

fn idle() -> Knob {
    Knob::CpuIdle { tenant: "jobs".into() }
}

fn frozen() -> Knob {
    Knob::Frozen { tenant: "more".into() }
}

fn setup() -> Setup {
    Setup {
        knobs: BTreeMap::from([
            (frozen(), KnobRange::Flag),
            (weight(), KnobRange::Weight { min: 1, max: 10_000 }),
            (idle(), KnobRange::Flag),
        ]),
        ..Setup::default()
    }
}

/// Plays a script: what to propose at which second.
struct Script(BTreeMap<u64, Vec<Wish>>);

impl Policy for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn step(&mut self, _: &Setup, observation: &Observation) -> Vec<Proposal> {
        let second = observation.time.0 / 1_000_000_000;
        let wishes = self.0.remove(&second).unwrap_or_default();
        let proposal = |wish| Proposal {
            policy: "script".into(),
            precedence: Precedence::Partition,
            wish,
            rule: "scripted".into(),
            inputs: vec![],
        };
        wishes.into_iter().map(proposal).collect()
    }
}

/// A machine that does what it is told, unless it loses a write.
struct Machine {
    knobs: BTreeMap<Knob, Setting>,
    /// Who `jobs` is, while it is there.
    jobs: Option<u64>,
    writes: Vec<(u64, Action)>,
}

impl Machine {
    fn new() -> Self {
        let off = Setting::Flag(false);
        let knobs = BTreeMap::from([
            (weight(), Setting::Weight(100)),
            (idle(), off.clone()),
            (frozen(), off),
        ]);
        Self { knobs, jobs: Some(1), writes: vec![] }
    }

    fn jobs(&self) -> TenantReading {
        let gone = Gap::Gone("it is away".into());
        let mut reading = TenantReading::missing(&gone);
        reading.identity = self.jobs.ok_or(gone);
        reading
    }

    fn sample(&self, second: u64) -> Sample {
        let gap = || Gap::absent("not in this test");
        Sample {
            time: Time(second * 1_000_000_000),
            wall_unix_ms: second * 1000,
            host: HostReading::missing(&gap()),
            tenants: BTreeMap::from([("jobs".into(), self.jobs())]),
            links: BTreeMap::new(),
            knobs: Arc::new(self.knobs.iter().map(|(k, s)| (k.clone(), Ok(s.clone()))).collect()),
            tasks: vec![],
            experiments: vec![],
            probes: vec![],
            bursts: vec![],
            outcomes: vec![],
            link_capacity: BTreeMap::new(),
        }
    }

    /// One second: returns the notes.
    fn run(&mut self, engine: &mut Engine, second: u64, lose: bool) -> Vec<Note> {
        let decision = engine.step(&self.sample(second));
        for action in decision.actions {
            if let Action::Set { knob, to } = &action
                && !lose
            {
                self.knobs.insert(knob.clone(), to.clone());
            }
            self.writes.push((second, action));
        }
        decision.entry.notes
    }
}

fn engine(script: &[(u64, Wish)], on_foreign_change: ForeignChange) -> Engine {
    let mut by_second: BTreeMap<u64, Vec<Wish>> = BTreeMap::new();
    for (second, wish) in script {
        by_second.entry(*second).or_default().push(wish.clone());
    }
    let params = EngineParams { on_foreign_change, ..EngineParams::default() };
    Engine::new(setup(), vec![Box::new(Script(by_second))], params)
}

fn set(knob: Knob, to: Setting) -> Wish {
    Wish::Set { knob, to }
}

#[test]
fn a_wish_stands_without_being_repeated_and_is_written_once() {
    let mut engine = engine(&[(1, set(weight(), Setting::Weight(1)))], ForeignChange::Reassert);
    let mut machine = Machine::new();
    for second in 1..10 {
        machine.run(&mut engine, second, false);
    }
    assert_eq!(machine.writes.len(), 1);
    assert_eq!(machine.knobs[&weight()], Setting::Weight(1));
}

#[test]
fn a_lost_write_is_repaired_by_the_next_step() {
    let mut engine = engine(&[(1, set(weight(), Setting::Weight(1)))], ForeignChange::Reassert);
    let mut machine = Machine::new();
    machine.run(&mut engine, 1, true);
    assert_eq!(machine.knobs[&weight()], Setting::Weight(100));
    machine.run(&mut engine, 2, false);
    assert_eq!(machine.knobs[&weight()], Setting::Weight(1));
}

#[test]
fn a_wish_that_went_there_and_back_is_written_though_an_old_reading_shows_it() {
    let script = [(1, true), (3, false), (5, true)];
    let script = script.map(|(second, held)| (second, set(frozen(), Setting::Flag(held))));
    let mut engine = engine(&script, ForeignChange::GiveUp);
    let mut machine = Machine::new();
    for second in 1..3 {
        machine.run(&mut engine, second, false);
    }
    let held = machine.sample(2);
    for second in 3..8 {
        // Sensors stall: they go on showing the first hold.
        let stalled = Sample { time: machine.sample(second).time, ..held.clone() };
        for action in engine.step(&stalled).actions {
            let Action::Set { knob, to } = action else { panic!("{action:?}") };
            machine.knobs.insert(knob, to);
        }
        let is_held = machine.knobs[&frozen()] == Setting::Flag(true);
        assert_eq!(is_held, second >= 5, "second {second}");
    }
    let before = machine.writes.len();
    assert_eq!(machine.run(&mut engine, 8, false), vec![]);
    assert_eq!(machine.writes.len(), before, "what is seen in place is not written again");
}

#[test]
fn a_release_brings_the_first_setting_back() {
    let script = [(1, set(idle(), Setting::Flag(true))), (3, Wish::Release { knob: idle() })];
    let mut engine = engine(&script, ForeignChange::Reassert);
    let mut machine = Machine::new();
    for second in 1..3 {
        machine.run(&mut engine, second, false);
    }
    assert_eq!(machine.knobs[&idle()], Setting::Flag(true));
    for second in 3..8 {
        machine.run(&mut engine, second, false);
    }
    assert_eq!(machine.knobs[&idle()], Setting::Flag(false));
    assert_eq!(machine.writes.len(), 2, "{:?}", machine.writes);
}

#[test]
fn a_change_by_others_is_put_right_or_given_up_as_configured() {
    for (on_change, expected) in [
        (ForeignChange::Reassert, Setting::Weight(1)),
        (ForeignChange::GiveUp, Setting::Weight(55)),
    ] {
        let mut engine = engine(&[(1, set(weight(), Setting::Weight(1)))], on_change);
        let mut machine = Machine::new();
        for second in 1..4 {
            machine.run(&mut engine, second, false);
        }
        machine.knobs.insert(weight(), Setting::Weight(55));
        let mut notes = vec![];
        for second in 4..8 {
            notes.extend(machine.run(&mut engine, second, false));
        }
        assert_eq!(machine.knobs[&weight()], expected);
        assert_eq!(notes.len(), 1, "{notes:?}");
    }
}

#[test]
fn the_settings_of_who_comes_back_are_its_own_and_no_change_by_others() {
    for on_change in [ForeignChange::Reassert, ForeignChange::GiveUp] {
        let release = Wish::Release { knob: weight() };
        let script = [(1, set(weight(), Setting::Weight(10))), (8, release)];
        let (mut engine, mut machine) = (engine(&script, on_change), Machine::new());
        for second in 1..4 {
            assert_eq!(machine.run(&mut engine, second, false), vec![]);
        }
        assert_eq!(machine.knobs[&weight()], Setting::Weight(10));
        machine.jobs = None;
        assert_eq!(machine.run(&mut engine, 4, false), vec![]);
        // Its owner made it anew, with another weight.
        machine.jobs = Some(2);
        machine.knobs.insert(weight(), Setting::Weight(300));
        for second in 5..8 {
            assert_eq!(machine.run(&mut engine, second, false), vec![], "{on_change:?}");
        }
        assert_eq!(machine.knobs[&weight()], Setting::Weight(10), "{on_change:?}");
        for second in 8..10 {
            machine.run(&mut engine, second, false);
        }
        assert_eq!(machine.knobs[&weight()], Setting::Weight(300), "{on_change:?}");
    }
}

#[test]
fn a_restart_within_the_same_group_keeps_what_it_goes_back_to() {
    let release = Wish::Release { knob: weight() };
    let script = [(1, set(weight(), Setting::Weight(10))), (6, release)];
    let mut machine = Machine::new();
    let mut engine = engine(&script, ForeignChange::Reassert);
    for second in 1..9 {
        machine.jobs = Some(if second < 4 { 1 } else { 2 });
        assert_eq!(machine.run(&mut engine, second, false), vec![]);
    }
    assert_eq!(machine.knobs[&weight()], Setting::Weight(100));
}

#[test]
fn what_the_machine_cannot_do_is_never_asked_of_it() {
    let frozen = Knob::Frozen { tenant: "jobs".into() };
    let mut engine = engine(&[(1, set(frozen, Setting::Flag(true)))], ForeignChange::Reassert);
    let mut machine = Machine::new();
    for second in 1..4 {
        machine.run(&mut engine, second, false);
    }
    assert!(machine.writes.is_empty());
}

#[test]
fn what_an_experiment_does_to_a_freezer_is_no_change_by_others() {
    let experiment = Experiment {
        id: 7,
        groups: vec!["more".into()],
        victims: vec![],
        code: vec![true, false],
        chip_us: 100_000,
        bound_us: 5_000_000,
    };
    let script = [
        (1, set(frozen(), Setting::Flag(true))),
        (2, set(frozen(), Setting::Flag(false))),
        (4, Wish::Play(experiment)),
    ];
    let mut engine = engine(&script, ForeignChange::GiveUp);
    let mut machine = Machine::new();
    for second in 1..5 {
        machine.run(&mut engine, second, false);
    }
    let writes = machine.writes.len();
    machine.knobs.insert(frozen(), Setting::Flag(true));
    assert_eq!(machine.run(&mut engine, 5, false), [], "a chip in which the group is held");
    machine.knobs.insert(frozen(), Setting::Flag(false));
    let trace = ExperimentTrace { id: 7, chips: vec![], aborted: None };
    engine.step(&Sample { experiments: vec![trace], ..machine.sample(6) });
    assert_eq!(machine.writes.len(), writes, "{:?}", machine.writes);
    machine.run(&mut engine, 7, false);
    machine.knobs.insert(frozen(), Setting::Flag(true));
    let notes = machine.run(&mut engine, 8, false);
    assert!(matches!(notes[..], [Note::GivenUp { .. }]), "now it is one: {notes:?}");
}

#[test]
fn a_knob_that_was_given_up_is_not_wished_for_again() {
    let script = [
        (1, set(weight(), Setting::Weight(1))),
        (4, set(weight(), Setting::Weight(2))),
        (5, Wish::Release { knob: weight() }),
    ];
    let mut engine = engine(&script, ForeignChange::GiveUp);
    let mut machine = Machine::new();
    for second in 1..3 {
        machine.run(&mut engine, second, false);
    }
    machine.knobs.insert(weight(), Setting::Weight(50));
    let mut entries = Vec::new();
    for second in 3..7 {
        entries.push(engine.step(&machine.sample(second)).entry);
        assert!(!engine.standing().contains_key(&weight()), "second {second}");
    }
    let refused = |e: &quell_control::Entry| matches!(e.proposals[..], [ref j] if matches!(j.verdict, Verdict::NotControllable { .. }));
    assert!(refused(&entries[1]), "{:?}", entries[1]);
    assert!(quell_control::explain(&entries, &"jobs".into()).is_empty());
    assert!(entries.iter().all(|entry| entry.actions.is_empty()));
}

#[test]
fn a_cpu_that_the_kernel_took_out_of_a_set_is_no_change_by_others() {
    let knob = || Knob::Cpus { tenant: "web".into() };
    let cpus = |text: &str| -> CpuSet { text.parse().unwrap() };
    let within = KnobRange::Cpus { within: cpus("0-3"), exclusive: true };
    let setup = Setup { knobs: BTreeMap::from([(knob(), within)]), ..Setup::default() };
    let script = Script(BTreeMap::from([(1, vec![set(knob(), Setting::Cpus(cpus("1-3")))])]));
    let params =
        EngineParams { on_foreign_change: ForeignChange::GiveUp, ..EngineParams::default() };
    let mut engine = Engine::new(setup, vec![Box::new(script)], params);
    let mut step = |second, real: &str, online: &str| {
        let mut sample = Machine::new().sample(second);
        sample.knobs = Arc::new(BTreeMap::from([(knob(), Ok(Setting::Cpus(cpus(real))))]));
        sample.host.online_cpus = Ok(cpus(online));
        let decision = engine.step(&sample);
        (decision.actions.len(), decision.entry.notes)
    };
    assert_eq!(step(1, "2-3", "0-3").0, 1, "the law's own wish");
    step(2, "1-3", "0-3");
    for second in [10, 20, 30] {
        let gone = step(second, "1,3", "0-1,3");
        assert_eq!(gone, (0, vec![]), "it could not be had");
        let back = step(second + 1, "1,3", "0-3");
        assert_eq!(back, (1, vec![]), "it is put in again");
        assert_eq!(step(second + 2, "1-3", "0-3"), (0, vec![]));
    }
    let (_, notes) = step(40, "0-3", "0-3");
    assert!(matches!(notes[..], [Note::GivenUp { .. }]), "this was somebody: {notes:?}");
}

/// A look at the group `more`.
fn look(id: u64) -> Wish {
    Wish::Play(Experiment {
        id,
        groups: vec!["more".into()],
        victims: vec![],
        code: vec![true, false],
        chip_us: 100_000,
        bound_us: 5_000_000,
    })
}

#[test]
fn a_freezer_that_is_left_to_others_is_not_moved_by_experiments() {
    let script = [
        (1, set(frozen(), Setting::Flag(true))),
        (2, set(frozen(), Setting::Flag(false))),
        (6, look(7)),
    ];
    let mut engine = engine(&script, ForeignChange::GiveUp);
    let mut machine = Machine::new();
    for second in 1..5 {
        machine.run(&mut engine, second, false);
    }
    machine.knobs.insert(frozen(), Setting::Flag(true));
    assert_eq!(machine.run(&mut engine, 5, false).len(), 1, "given up");
    let decision = engine.step(&machine.sample(6));
    assert!(decision.actions.is_empty(), "{:?}", decision.actions);
    let verdict = &decision.entry.proposals[0].verdict;
    assert!(matches!(verdict, Verdict::NotControllable { .. }), "{verdict:?}");
}

#[test]
fn a_freezer_that_still_reads_as_in_an_experiment_that_ended_is_no_change_by_others() {
    let script = [
        (1, set(frozen(), Setting::Flag(true))),
        (2, set(frozen(), Setting::Flag(false))),
        (4, look(7)),
        (5, look(8)),
    ];
    let mut engine = engine(&script, ForeignChange::GiveUp);
    let mut machine = Machine::new();
    for second in 1..5 {
        machine.run(&mut engine, second, false);
    }
    // The trace is there, the sensor stalls.
    machine.knobs.insert(frozen(), Setting::Flag(true));
    let trace = ExperimentTrace { id: 7, chips: vec![], aborted: None };
    let decision = engine.step(&Sample { experiments: vec![trace], ..machine.sample(5) });
    assert_eq!(decision.entry.notes, []);
    assert!(decision.actions.iter().any(|action| matches!(action, Action::Play(_))));
}
