//! Tests of the gauge on a made-up machine.

mod together;

use super::*;
use crate::blame::Slight;
use crate::blame::finding::{Cause, Culprit, Finding, FindingParams, Resource, Standing};
use proptest::prelude::*;
use quell_types::{GaugeCounts, KeptCounts};
use std::time::Duration;

const SLOTS: usize = 32;
/// What a sample reads usually and beside locks, as measured on an EPYC host.
const USUAL: usize = 8;
const SLOW: usize = 15;

fn none() -> GaugeCounts {
    GaugeCounts { slots: vec![0; SLOTS], ..GaugeCounts::default() }
}

/// A machine whose gauge counts.
struct World {
    gauge: Gauge,
    reading: GaugeReading,
    now: Time,
    cpus: BTreeMap<Tenant, f64>,
}

impl World {
    fn new(names: &[&str]) -> Self {
        let (all, others) = (none(), none());
        let reading = GaugeReading { all, others, ..GaugeReading::default() };
        let cpus = names.iter().map(|name| ((*name).into(), 0.3)).collect();
        Self { gauge: Gauge::new(GaugeParams::default()), reading, now: Time(0), cpus }
    }

    /// A quarter of a second with these samples: beside whom, in which slot, how many.
    fn window(&mut self, samples: &[(&str, usize, u32)]) -> Window {
        self.now = self.now + Duration::from_millis(250);
        for (name, slot, count) in samples {
            let all = &mut self.reading.all.slots[*slot];
            *all = all.wrapping_add(*count);
            if *name == "nobody" {
                continue;
            }
            let beside = match *name {
                "strangers" => &mut self.reading.others,
                name => self.reading.beside.entry(name.into()).or_insert_with(none),
            };
            beside.slots[*slot] = beside.slots[*slot].wrapping_add(*count);
        }
        self.gauge.learn(self.now, &Ok(Arc::new(self.reading.clone())), &self.cpus);
        self.gauge.window()
    }

    /// Five seconds in which these run and nobody locks.
    fn quiet(&mut self, names: &[&str]) {
        for _ in 0..20 {
            let each: Vec<_> = names.iter().map(|name| (*name, USUAL, 20)).collect();
            self.window(&[&each[..], &[("nobody", USUAL, 40), ("nobody", USUAL + 3, 3)]].concat());
        }
    }

    fn told(&self) -> Vec<(String, bool)> {
        let lockers = self.gauge.lockers();
        lockers.iter().map(|l| (l.workload.to_string(), l.alone)).collect()
    }

    fn tell(&self, finding: &mut Finding, toll: &Toll, slight: &Slight) {
        let of = Suffering { toll, slight, cpus: &self.cpus };
        self.gauge.tell(finding, of, &FindingParams::default());
    }
}

fn finding() -> Finding {
    Finding { slowdown: 1.0, cause: Cause::None, culprits: Vec::new(), evidence: Vec::new() }
}

/// A service that is so many times as slow, by latency, in held-back windows.
fn toll(times: f64, windows: usize) -> Toll {
    let mut toll = Toll::default();
    for number in 0..40 {
        let wobble = 1.0 + 0.1 * f64::from(number % 3);
        toll.see(Window::Usual, Some(1e-3 * wobble), Some(4e-3 * wobble));
    }
    (0..windows).for_each(|_| toll.see(Window::HeldBack, Some(1.1e-3), Some(4e-3 * times)));
    toll
}

#[test]
fn one_burst_tells_who_locks_and_nobody_else() {
    let mut world = World::new(&["locker", "busy", "idle"]);
    world.quiet(&["busy", "idle"]);
    assert_eq!(world.told(), []);
    for _ in 0..2 {
        let burst = [("locker", SLOW, 50), ("locker", USUAL, 4), ("busy", USUAL, 3)];
        assert_eq!(world.window(&burst), Window::HeldBack);
    }
    assert_eq!(world.told(), [("locker".into(), true)]);
    world.quiet(&["busy", "idle"]);
    assert_eq!(world.gauge.window(), Window::Usual);
    assert_eq!(world.told(), [("locker".into(), true)], "it rests, and is known");
}

#[test]
fn who_is_there_when_another_locks_is_not_told() {
    // Three CPUs: the third one has a group that always runs, or happens to run in this burst.
    for usually in [40, 12] {
        let mut world = World::new(&["locker", "there"]);
        for _ in 0..20 {
            world.window(&[("there", USUAL, usually), ("nobody", USUAL, 60 - usually)]);
        }
        world.window(&[("nobody", SLOW, 20), ("there", SLOW, 40)]);
        // In all of these the locker was there too.
        let beside = world.reading.beside.entry("locker".into()).or_insert_with(none);
        beside.slots[SLOW] += 60;
        world.window(&[("there", USUAL, usually), ("nobody", USUAL, 60 - usually)]);
        assert_eq!(world.told(), [("locker".into(), true)], "there in {usually} of 60");
    }
}

#[test]
fn what_streams_do_is_not_taken_for_locks() {
    let mut world = World::new(&["stream"]);
    world.quiet(&["nobody"]);
    for _ in 0..40 {
        // As measured: the tail reaches the fourth slot above.
        world.window(&[("stream", USUAL, 45), ("stream", USUAL + 3, 15), ("stream", USUAL + 4, 7)]);
    }
    assert_eq!((world.told(), world.gauge.window()), (vec![], Window::Usual));
}

#[test]
fn who_locks_while_the_victim_suffers_is_named() {
    let mut world = World::new(&["locker"]);
    world.quiet(&["nobody"]);
    world.window(&[("locker", SLOW, 50)]);
    world.window(&[("locker", SLOW, 50)]);
    let said = |toll: &Toll| {
        let mut finding = finding();
        world.tell(&mut finding, toll, &Slight::default());
        finding
    };
    let named = said(&toll(8.0, 2));
    let [culprit] = &named.culprits[..] else { panic!("{named:?}") };
    assert_eq!((culprit.status, culprit.resource), (Standing::Named, Resource::BusLock));
    assert!(culprit.held_back_frac.unwrap() > 0.9 && named.slowdown > 5.0, "{named:?}");
    assert!(named.evidence[0].contains("locker") && named.cause == Cause::Neighbour);
    // It locks, and the victim does not mind; or was not seen meanwhile.
    for toll in [toll(0.9, 8), toll(8.0, 0)] {
        let finding = said(&toll);
        assert!(finding.culprits.is_empty() && finding.evidence.len() == 1, "{finding:?}");
    }
    // One window is little: it is surely slower, and by how much is open.
    assert_eq!(said(&toll(2.0, 1)).culprits[0].status, Standing::Suspected);
}

#[test]
fn who_was_named_by_looks_for_more_stays_so_and_the_resource_is_known() {
    let mut world = World::new(&["locker"]);
    world.quiet(&["nobody"]);
    world.window(&[("locker", SLOW, 100)]);
    let mut finding = finding();
    finding.culprits.push(Culprit {
        workload: "locker".into(),
        confidence: 0.995,
        serious_frac: 0.995,
        status: Standing::Named,
        resource: Resource::Memory,
        slowdown: 20.0,
        share_frac: 1.0,
        harm_ln_per_cpu: 3.0,
        experiments: 4,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    });
    world.tell(&mut finding, &toll(5.0, 3), &Slight::default());
    let [culprit] = &finding.culprits[..] else { panic!("{finding:?}") };
    assert_eq!((culprit.experiments, culprit.resource), (4, Resource::BusLock));
    assert!(culprit.held_back_frac.is_some());
}

#[test]
fn its_bursts_are_counted_and_their_cpus_known() {
    let mut world = World::new(&["locker"]);
    world.quiet(&["nobody"]);
    assert_eq!(world.gauge.pulse_of(&"locker".into()), None);
    for _ in 0..3 {
        world.window(&[("locker", SLOW, 50)]);
        // What it used is told in the next full sample.
        world.cpus.insert("locker".into(), 0.9);
        world.window(&[("nobody", USUAL, 50)]);
        world.cpus.insert("locker".into(), 0.0);
        world.quiet(&["nobody"]);
    }
    let (cpus, apart_s) = world.gauge.pulse_of(&"locker".into()).unwrap();
    assert!((0.8..=0.9).contains(&cpus) && (apart_s - 5.5).abs() < 1e-6, "{cpus} {apart_s}");
    world.gauge.forget(&"locker".into());
    assert_eq!((world.told(), world.gauge.pulse_of(&"locker".into())), (vec![], None));
}

#[test]
fn counts_wrap_and_gaps_say_nothing() {
    let mut world = World::new(&["locker"]);
    world.reading.all.slots[USUAL] = u32::MAX - 10;
    world.quiet(&["nobody"]);
    world.window(&[("locker", SLOW, 60)]);
    assert_eq!(world.told(), [("locker".into(), true)]);
    let absent = Err(quell_types::Gap::absent("no eBPF"));
    world.gauge.learn(world.now, &absent, &world.cpus);
    assert_eq!(world.gauge.window(), Window::Unknown);
}

proptest! {
    /// Whatever innocents do, where no sample is slow nobody is told.
    #[test]
    fn without_slow_samples_nobody_is_told(
        windows in proptest::collection::vec(proptest::collection::vec((0usize..3, 6usize..11, 0u32..80), 1..6), 1..40)
    ) {
        let names = ["a", "b", "nobody"];
        let mut world = World::new(&["a", "b"]);
        world.quiet(&["a", "b"]);
        for window in windows {
            let samples: Vec<_> = window.iter().map(|(n, slot, k)| (names[*n], *slot, *k)).collect();
            world.window(&samples);
            prop_assert_eq!(world.told(), vec![]);
        }
    }
}

#[test]
fn who_works_between_its_bursts_is_told_all_the_same() {
    let mut world = World::new(&["locker", "busy"]);
    for _ in 0..3 {
        world.quiet(&["locker", "busy"]);
        world.window(&[("locker", SLOW, 30)]);
    }
    assert_eq!(world.told(), [("locker".into(), true)]);
    assert!(world.gauge.lockers()[0].slow_frac < 0.1, "most of its samples are as usual");
}

/// One that presses on the caches, and one that does not, each with most of a CPU.
fn pressing() -> World {
    let mut world = World::new(&["presses", "computes"]);
    let cpus = [("presses".into(), 0.9), ("computes".into(), 0.9)];
    world.cpus = cpus.into();
    for (name, took) in [("presses", 38), ("computes", 10)] {
        let of = world.reading.beside.entry(name.into()).or_insert_with(none);
        of.kept = KeptCounts { samples: 100, took: 100 * took, ns: 400_000_000 };
    }
    let before = GaugeReading { all: none(), others: none(), ..GaugeReading::default() };
    world.gauge.learn(world.now, &Ok(Arc::new(before)), &world.cpus);
    world.reading.all.memory = 100 * 31;
    world.reading.all.memory_squares = 100 * 31 * 31;
    world.window(&[("nobody", USUAL, 100)]);
    world
}

#[test]
fn who_drives_out_as_much_in_a_twentieth_of_the_time_is_not_suspected() {
    let mut world = pressing();
    let mut slight = Slight::default();
    slight.keep(&["computes".into(), "presses".into()]);
    for (cpus, suspected) in [(0.9, true), (0.2, true), (0.05, false), (0.0, false)] {
        world.cpus.insert("presses".into(), cpus);
        let mut finding = finding();
        world.tell(&mut finding, &Toll::default(), &slight);
        assert_eq!(finding.culprits.len(), usize::from(suspected), "{cpus}: {finding:?}");
    }
}

#[test]
fn who_presses_on_the_caches_is_suspected_of_a_little_harm_and_guilt_is_likelier() {
    let world = pressing();
    let weights = world.gauge.weights_ln();
    assert_eq!(weights.keys().map(Tenant::as_str).collect::<Vec<_>>(), ["presses"]);
    let mut slight = Slight::default();
    slight.keep(&["computes".into(), "presses".into()]);
    let mut finding = finding();
    world.tell(&mut finding, &Toll::default(), &slight);
    let [suspect] = &finding.culprits[..] else { panic!("{finding:?}") };
    assert_eq!((suspect.workload.as_str(), suspect.status), ("presses", Standing::Suspected));
    assert_eq!((suspect.resource, finding.cause), (Resource::LastLevelCache, Cause::Neighbour));
    assert!(
        suspect.slowdown == 1.0 && suspect.experiments == 0,
        "nothing was measured: {suspect:?}"
    );
    // Who is accused already is told over what, once.
    let accused =
        Culprit { resource: Resource::Memory, status: Standing::Named, ..suspect.clone() };
    finding.culprits = vec![accused];
    world.tell(&mut finding, &Toll::default(), &slight);
    let [named] = &finding.culprits[..] else { panic!("{finding:?}") };
    assert_eq!((named.resource, named.status), (Resource::LastLevelCache, Standing::Named));
    // And over memory, in whatever order it is said, if it loads that as well.
    let mut world = world;
    let of = world.reading.beside.get_mut(&"presses".into()).unwrap();
    (of.memory, of.memory_squares) = (200 * 41, 200 * 41 * 41);
    world.reading.all.memory += of.memory;
    world.reading.all.memory_squares += of.memory_squares;
    world.window(&[("presses", USUAL, 200)]);
    for culprits in [vec![], vec![named.clone()]] {
        let mut finding = Finding { culprits, ..finding.clone() };
        world.tell(&mut finding, &Toll::default(), &slight);
        let [culprit] = &finding.culprits[..] else { panic!("{finding:?}") };
        assert_eq!(culprit.resource, Resource::MemoryBandwidth, "{finding:?}");
    }
    // Who loads memory and leaves the caches alone, as far as can be told, is suspected of that alone.
    world.gauge.driving_out.clear();
    let mut loads = Finding { culprits: vec![], ..finding.clone() };
    world.tell(&mut loads, &Toll::default(), &slight);
    let [culprit] = &loads.culprits[..] else { panic!("{loads:?}") };
    assert_eq!(
        (culprit.resource, culprit.status),
        (Resource::MemoryBandwidth, Standing::Suspected)
    );
    // Begun anew nothing is known.
    let mut gauge = world.gauge.clone();
    gauge.forget(&"presses".into());
    assert!(gauge.weights_ln().is_empty());
}

#[test]
fn what_everybody_presses_on_is_told_whether_or_not_it_hurts() {
    let mut world = World::new(&["fills", "calm"]);
    assert!(world.gauge.pressing().is_empty(), "nothing was seen");
    for _ in 0..20 {
        for (name, eighths, took) in [("fills", 36, 38), ("calm", 30, 10)] {
            let beside = world.reading.beside.entry(name.into()).or_insert_with(none);
            beside.memory += 20 * eighths;
            beside.memory_squares += 20 * eighths * eighths;
            beside.kept.samples += 10;
            beside.kept.took += 10 * took;
            beside.kept.ns += 10 * 4_000_000;
            world.reading.all.memory += 20 * eighths;
            world.reading.all.memory_squares += 20 * eighths * eighths;
        }
        world.window(&[("fills", USUAL, 20), ("calm", USUAL, 20)]);
    }
    let told = world.gauge.pressing();
    let [calm, fills] = &told[..] else { panic!("{told:?}") };
    assert_eq!((calm.workload.as_str(), fills.workload.as_str()), ("calm", "fills"));
    assert!(fills.loads_memory && fills.drives_out_frac > 0.1, "{fills:?}");
    assert!(fills.reads_ratio.is_some_and(|ratio| (1.5..1.8).contains(&ratio)), "{fills:?}");
    assert!(!calm.loads_memory && calm.drives_out_frac == 0.0, "{calm:?}");
    assert!(calm.line_ns.is_some() && calm.left_ms == Some(4.0), "{calm:?}");
    world.gauge.forget(&"fills".into());
    assert!(world.gauge.pressing().iter().all(|one| one.workload.as_str() == "calm"));
}
