//! Tests of `who` in a small world.

mod apart;
mod caches;
mod large;
mod settling;

use super::*;
use crate::testing::{GROUPS, World, observe, setup};
use quell_model::blame::{Cause, Resource, Standing};
use quell_types::{Elsewhere, ExperimentTrace, Fraction, Setting, Waits, Wish};

fn world(culprits: &[(&str, f64)], seed: u64) -> World<Who> {
    World::new(Who::new(WhoParams::default()), culprits, seed)
}

#[test]
fn the_one_who_hurts_is_named_and_its_harm_is_told() {
    for (seed, group) in (1..).zip(GROUPS) {
        let mut world = world(&[(group, 0.3)], seed);
        world.run(10.0);
        assert_eq!(world.named(), [group], "{:?}", world.finding());
        let slowdown = world.finding().slowdown;
        assert!((1.2..1.55).contains(&slowdown), "{slowdown}");
    }
}

#[test]
fn two_culprits_are_both_named() {
    let mut world = world(&[("b", 0.4), ("d", 0.3)], 11);
    world.run(20.0);
    let mut named = world.named();
    named.sort();
    assert_eq!(named, ["b", "d"], "{:?}", world.finding());
}

#[test]
fn where_nobody_hurts_nobody_is_named() {
    for seed in 1..=30 {
        let mut world = world(&[], seed);
        world.run(25.0);
        assert_eq!(world.named(), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn in_many_worlds_the_wrong_one_is_never_named() {
    let (mut found, mut wrong) = (0, 0);
    for seed in 1..=40 {
        let culprit = GROUPS[seed as usize % 5];
        let mut world = world(&[(culprit, 0.2)], 1000 + seed);
        world.run(20.0);
        let named = world.named();
        found += usize::from(named == [culprit]);
        wrong += usize::from(named.iter().any(|n| n != culprit));
    }
    assert!(wrong == 0 && found >= 36, "wrong {wrong}, found {found} of 40");
}

#[test]
fn nobody_is_held_for_more_than_its_share() {
    let mut world = world(&[("c", 0.1)], 5);
    world.run(600.0);
    for (group, held_s) in &world.held_s {
        // Half a second at first, and 0.4 for long looks, and a quarter that is lent to who is probably guilty.
        assert!(*held_s <= 1.15 + 0.01 * 600.0 + 0.05, "{group}: {held_s}");
    }
}

#[test]
fn a_service_that_began_anew_has_no_past() {
    let mut world = world(&[("c", 0.3)], 3);
    world.run(10.0);
    assert_eq!(world.named(), ["c"]);
    let seen = observe(&world.setup, 11.0).of("web", |s| s.restarted = true).done();
    let setup = world.setup.clone();
    world.policy.step(&setup, &seen);
    assert!(world.policy.findings().is_empty(), "no request was seen of the new one");
}

#[test]
fn without_a_freezer_nobody_is_held_or_named() {
    let mut world = world(&[("c", 0.5)], 7);
    world.setup.knobs.retain(|knob, _| !matches!(knob, Knob::Frozen { .. }));
    world.run(30.0);
    assert!(world.held_s.is_empty());
    assert_eq!(world.named(), Vec::<String>::new());
    let told = world.policy.degradations(&world.setup);
    assert!(told[0].contains("a, b, c, d, e"), "{told:?}");
}

#[test]
fn too_few_requests_are_no_ground_for_a_look() {
    let who = Who::new(WhoParams::default());
    assert_eq!(who.chip_us(5000.0), Some(25_000));
    assert_eq!(who.chip_us(500.0), Some(60_000));
    assert_eq!(who.chip_us(200.0), Some(100_000));
    assert_eq!(who.chip_us(10.0), None);
}

#[test]
fn a_look_that_is_lost_does_not_stop_all_others() {
    let mut world = world(&[], 9);
    world.run(1.0);
    let first = world.on_its_way.take().map(|e| e.id);
    assert!(first.is_some());
    world.run(4.0);
    assert!(!world.held_s.is_empty(), "it looked again");
    assert!(world.finding().cause == Cause::None || !world.finding().culprits.is_empty());
}

/// Ten seconds in which the service uses 0.4 CPUs and, for each group, so many of its threads stand
/// behind it while it asks for so many CPUs. Nobody can be held.
fn crowded(groups: &[(&str, f64, f64)]) -> Finding {
    let setup = groups.iter().fold(setup(2).service("web", 10.0, 4000.0), |s, g| s.batch(g.0));
    let setup = setup.without(|knob| matches!(knob, Knob::Frozen { .. }));
    let (setup, mut who) = (setup.build(), Who::new(WhoParams::default()));
    let behind: BTreeMap<Tenant, f64> = groups.iter().map(|g| (g.0.into(), g.1)).collect();
    for step in 0..40 {
        let waits =
            Waits { seconds: 0.25, running: 0.4, behind: behind.clone(), ..Waits::default() };
        let seen = observe(&setup, 0.25 * f64::from(step)).cpu("web", 0.4);
        let mut seen = seen.of("web", |s| s.waits = Ok(waits));
        for (name, _, asked) in groups {
            let standing = (asked - 0.3).max(0.0);
            seen = seen.cpu(name, 0.3).of_batch(name, |b| {
                b.standing = Ok(standing);
                b.throttled = Ok(Fraction(if *name == "quota" { 0.5 } else { 0.0 }));
            });
        }
        who.step(&setup, &seen.done());
    }
    who.findings()[&"web".into()].clone()
}

#[test]
fn who_has_the_cpu_is_named_without_requests_or_freezer() {
    let finding = crowded(&[("spin", 0.5, 3.0), ("nap", 0.3, 0.5)]);
    let found: Vec<_> = finding.culprits.iter().map(|c| (c.workload.as_str(), c.status)).collect();
    assert_eq!(found, [("spin", Standing::Named)], "who sleeps shares the CPU: {finding:?}");
    assert!(finding.evidence.iter().any(|told| told.contains("shared with nap")), "{finding:?}");
    assert_eq!((finding.cause, finding.culprits[0].resource), (Cause::Neighbour, Resource::Cpu));
}

/// Ten seconds in which a service stands behind two who sleep, while a loop has the other CPU; nobody can
/// be held. `idle`: it is of the idle class.
fn displaced(idle: bool) -> Finding {
    let names = ["loop", "nap", "doze"];
    let setup = names.iter().fold(setup(2).service("web", 10.0, 4000.0), |s, name| s.batch(name));
    let setup = setup.without(|knob| matches!(knob, Knob::Frozen { .. })).build();
    let mut who = Who::new(WhoParams::default());
    let tenants = [("loop".into(), 0.5)].into();
    let elsewhere = Elsewhere { cpus: 1, tenants, ..Elsewhere::default() };
    let behind = [("nap".into(), 0.25), ("doze".into(), 0.25)].into();
    let waits = Waits { seconds: 0.25, running: 0.4, behind, elsewhere, ..Waits::default() };
    for step in 0..40 {
        let seen = observe(&setup, 0.25 * f64::from(step)).qps("web", 500.0).cpu("web", 0.4);
        let seen = seen.cpu("loop", 0.9).cpu("nap", 0.3).cpu("doze", 0.3);
        let seen = seen.of_batch("loop", |b| b.standing = Ok(0.1));
        let seen = seen.knob(Knob::CpuIdle { tenant: "loop".into() }, Setting::Flag(idle));
        who.step(&setup, &seen.of("web", |s| s.waits = Ok(waits.clone())).done());
    }
    who.findings()[&"web".into()].clone()
}

#[test]
fn who_keeps_the_other_cpu_is_named_though_the_service_stands_behind_those_who_sleep() {
    let finding = displaced(false);
    assert_eq!(named(&finding), ["loop"], "{finding:?}");
    assert!(finding.evidence[0].contains("since it kept another CPU"), "{finding:?}");
    assert!((finding.slowdown - 2.2).abs() < 0.1, "what is stood counts once: {finding:?}");
    let idle = displaced(true);
    assert_eq!(named(&idle), Vec::<String>::new(), "it would make room: {idle:?}");
}

#[test]
fn who_stands_since_its_quota_is_spent_asks_for_no_more() {
    let finding = crowded(&[("quota", 0.5, 3.0), ("spin", 0.3, 1.5)]);
    assert_eq!(named(&finding), ["spin"], "{finding:?}");
    assert_eq!(finding.culprits.len(), 1, "it has what it may ask for: {finding:?}");
    assert!(finding.evidence[1].contains("shared with quota"), "{finding:?}");
}

#[test]
fn what_stands_while_its_own_quota_is_spent_is_not_blamed_on_others() {
    let setup = setup(2).service("web", 10.0, 4000.0).batch("spin").build();
    let mut who = Who::new(WhoParams::default());
    for step in 0..40 {
        let behind = [("spin".into(), 0.5)].into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let seen = observe(&setup, 0.25 * f64::from(step)).qps("web", 500.0).cpu("web", 0.4);
        let seen = seen.cpu("spin", 1.0).of("web", |s| {
            s.waits = Ok(waits);
            s.throttled = Ok(Fraction(0.4));
        });
        who.step(&setup, &seen.done());
    }
    let finding = &who.findings()[&"web".into()];
    assert_eq!((finding.cause, finding.culprits.len()), (Cause::Itself, 0), "{finding:?}");
}

#[test]
fn one_that_listens_proposes_nothing_and_knows_who_has_the_cpu() {
    let setup = setup(2).service("web", 10.0, 4000.0).batch("spin").build();
    let mut who = Who::listening(Duration::from_millis(250));
    assert_eq!((who.period(), who.degradations(&setup)), (Duration::from_millis(250), vec![]));
    for step in 0..40 {
        let behind = [("spin".into(), 0.5)].into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let seen = observe(&setup, 0.25 * f64::from(step)).qps("web", 500.0).cpu("web", 0.4);
        let seen = seen.cpu("spin", 1.5).of("web", |s| s.waits = Ok(waits));
        assert_eq!(who.step(&setup, &seen.done()), vec![]);
    }
    let finding = &who.findings()[&"web".into()];
    assert_eq!(finding.culprits[0].workload.as_str(), "spin", "{finding:?}");
}

/// Seven seconds in which these stand in the victim's way and ask for so many CPUs, and for the first
/// of `relieved` while others are held, of which they have the second. Every `relieve` is played, and seen in the
/// next sample, or only in the one after that. Answers with who was held, look by look, and what is said in the
/// end.
fn rivals_of_seven_seconds(
    groups: &[(&str, f64)],
    relieved: (f64, f64),
    late: bool,
) -> (Vec<Vec<Tenant>>, Finding) {
    let setup = groups.iter().fold(setup(2).service("web", 10.0, 4000.0), |s, g| s.batch(g.0));
    let (setup, mut who) = (setup.build(), Who::new(WhoParams::default()));
    let behind: BTreeMap<Tenant, f64> = groups.iter().map(|g| (g.0.into(), 0.3)).collect();
    let (mut looks, mut played, mut held): (Vec<Vec<Tenant>>, _, Vec<Tenant>) =
        (vec![], None, vec![]);
    for step in 0..28 {
        if late && played.is_some() && !held.is_empty() {
            held.clear();
            continue;
        }
        let waits =
            Waits { seconds: 0.25, running: 0.4, behind: behind.clone(), ..Waits::default() };
        let seen = observe(&setup, 0.25 * f64::from(step)).cpu("web", 0.4);
        let mut seen = seen.of("web", |s| s.waits = Ok(waits));
        for (name, asks) in groups {
            let (asks, has) = if held.is_empty() { (*asks, 0.3) } else { relieved };
            seen = seen.cpu(name, has).of_batch(name, |b| b.standing = Ok(asks - has));
        }
        let mut seen = seen.done();
        let ended = |id| ExperimentTrace { id, chips: vec![], aborted: None };
        seen.experiments = played.take().map(ended).into_iter().collect();
        held.clear();
        for proposal in who.step(&setup, &seen) {
            let Wish::Play(experiment) = proposal.wish else { panic!("{proposal:?}") };
            assert_eq!(proposal.rule, "relieve", "no request, no other look");
            (held, played) = (experiment.groups.clone(), Some(experiment.id));
            looks.push(experiment.groups);
        }
    }
    (looks, who.findings()[&"web".into()].clone())
}

fn named(finding: &Finding) -> Vec<&str> {
    let named = finding.culprits.iter().filter(|c| c.status == Standing::Named);
    named.map(|c| c.workload.as_str()).collect()
}

#[test]
fn of_rivals_who_asks_for_most_is_watched_first() {
    let groups = [("nap", 1.0), ("spin", 1.9), ("rate", 1.0)];
    let (looks, finding) = rivals_of_seven_seconds(&groups, (1.9, 0.8), false);
    assert_eq!(looks[0], [Tenant::from("nap"), Tenant::from("rate")], "{looks:?}");
    assert!(named(&finding).contains(&"spin"), "{finding:?}");
}

#[test]
fn who_sleeps_when_relieved_is_acquitted_and_a_sample_that_comes_after_the_look_tells_nothing() {
    let groups = [("loop", 1.0), ("rate", 1.0)];
    let (looks, finding) = rivals_of_seven_seconds(&groups, (1.0, 0.8), false);
    assert_eq!((looks.len(), named(&finding).len()), (2, 2), "{finding:?}");
    let (looks, finding) = rivals_of_seven_seconds(&groups, (0.5, 0.4), false);
    assert_eq!((looks.len(), named(&finding)), (2, vec![]), "they starve each other: {finding:?}");
    assert_eq!(finding.cause, Cause::Overcommitted, "{finding:?}");
    let (looks, finding) = rivals_of_seven_seconds(&groups, (1.0, 0.8), true);
    assert!(looks.len() >= 2 && named(&finding).is_empty(), "{looks:?}: {finding:?}");
}

#[test]
fn the_only_one_who_never_sleeps_is_named_only_if_it_does_not_while_others_are_held_either() {
    let groups = [("last", 1.0), ("nap", 0.7), ("doze", 0.6)];
    let (looks, finding) = rivals_of_seven_seconds(&groups, (1.0, 0.8), false);
    assert_eq!(looks[0], [Tenant::from("doze"), Tenant::from("nap")], "{looks:?}");
    assert_eq!((looks.len(), named(&finding)), (1, vec!["last"]), "{finding:?}");
    let (looks, finding) = rivals_of_seven_seconds(&groups, (0.6, 0.5), false);
    assert_eq!((looks.len(), named(&finding)), (1, vec![]), "the others starved it: {finding:?}");
    assert_eq!((finding.cause, finding.culprits.len()), (Cause::Overcommitted, 0), "{finding:?}");
}

#[test]
fn who_works_or_is_starved_is_looked_at_before_its_first_request_is_counted_and_who_is_quiet_is_not()
 {
    let setup = setup(2).service("web", 10.0, 4000.0).batch("spin").build();
    let after_ten_seconds = |cpus: f64, behind_spin: f64| {
        let mut who = Who::new(WhoParams::default());
        for step in 0..40 {
            let behind = [("spin".into(), behind_spin)].into();
            let waits = Waits { seconds: 0.25, running: cpus, behind, ..Waits::default() };
            let seen = observe(&setup, 0.25 * f64::from(step)).qps("web", 0.0).cpu("web", cpus);
            let seen = seen.cpu("spin", 1.5).of("web", |s| s.waits = Ok(waits));
            who.step(&setup, &seen.done());
        }
        who.findings()
    };
    assert_eq!(named(&after_ten_seconds(0.4, 0.5)[&"web".into()]), ["spin"]);
    assert_eq!(named(&after_ten_seconds(0.0, 1.9)[&"web".into()]), ["spin"], "it never runs");
    assert!(after_ten_seconds(0.01, 0.01).is_empty());
}

/// The kernel has trapped these.
fn trapped(world: &mut World<Who>, names: &[&str]) {
    world.lock_traps = Ok(names.iter().map(|name| ((*name).into(), 1)).collect());
}

#[test]
fn whom_the_kernel_trapped_is_looked_at_first_and_the_journal_says_why() {
    let mut world = world(&[("d", 0.3)], 4);
    trapped(&mut world, &["d"]);
    world.run(10.0);
    let (inputs, held) = &world.looks[0];
    assert!(held.contains(&"d".into()), "{held:?}");
    let value = |name: &str| inputs.iter().find(|input| input.name == name).map(|i| i.value);
    assert_eq!(value("kernel_trapped_count"), Some(1.0));
    assert!(value("kernel_trap_ratio").unwrap() > 3.9);
    assert_eq!(world.named(), ["d"]);
    let evidence = world.finding().evidence.join("\n");
    assert!(evidence.contains("the kernel trapped 1 split or bus locks of d"), "{evidence}");
}

#[test]
fn whom_the_kernel_trapped_is_not_named_for_what_another_does_or_nobody() {
    for seed in 1..=20 {
        let mut calm = world(&[], seed);
        trapped(&mut calm, &["a", "e"]);
        calm.run(25.0);
        assert_eq!(calm.named(), Vec::<String>::new(), "seed {seed}");
        let mut harmed = world(&[("c", 0.3)], seed);
        trapped(&mut harmed, &["a"]);
        harmed.run(10.0);
        assert_eq!(harmed.named(), ["c"], "seed {seed}");
    }
}

#[test]
fn who_locks_the_bus_in_bursts_is_named_in_the_first_for_what_the_gauge_tells() {
    let mut world = world(&[], 3);
    world.bursts = Some(("d".into(), 8.0));
    world.run(6.0);
    assert_eq!(world.named(), ["d"]);
    let finding = world.finding();
    let culprit = &finding.culprits[0];
    assert_eq!((culprit.resource, culprit.experiments), (Resource::BusLock, 0), "{finding:?}");
    // It locks the bus, and nobody minds: said, and held against nobody.
    let mut harmless = self::world(&[], 3);
    harmless.bursts = Some(("d".into(), 0.9));
    harmless.run(30.0);
    assert_eq!(harmless.named(), Vec::<String>::new());
    let evidence = harmless.finding().evidence.join("\n");
    assert!(evidence.contains("bus locks: while d had another CPU"), "{evidence}");
}
