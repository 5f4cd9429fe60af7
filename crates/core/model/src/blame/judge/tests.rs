//! Tests of judging a victim.

use super::super::guilt::{GuiltParams, Measurement};
use super::super::waiting::{Demand, WaitingParams};
use super::*;
use quell_types::{Time, Waits};

fn used() -> BTreeMap<Tenant, f64> {
    [("jobs".into(), 0.5), ("backup".into(), 0.5)].into()
}

/// What is believed after these looks: (who was held, ln of the slowdown).
fn after(looks: &[(&str, f64)]) -> Guilt {
    let mut guilt = Guilt::new(GuiltParams::default());
    guilt.keep(&["backup".into(), "jobs".into()]);
    for (held, ln_slowdown) in looks {
        guilt.measure(&Measurement {
            time: Time(1),
            ln_slowdown: *ln_slowdown,
            variance: 0.02 * 0.02,
            doses_cpus: [((*held).into(), 0.5)].into(),
            experiment: true,
            void_frac: 0.0,
        });
    }
    guilt
}

fn judged(work: &Guilt, correlated: &[(Tenant, f64)], signs: VictimSigns) -> Finding {
    let latency = &after(&[("jobs", 0.0), ("backup", 0.0)]);
    let waiting = &Waiting::new(WaitingParams::default());
    let evidence = Evidence { work, latency, cpus: &used(), correlated, lockers: &[], waiting };
    judge(&evidence, &signs, &FindingParams::default())
}

#[test]
fn who_was_shown_to_harm_is_named_with_its_effect() {
    let guilt = after(&[("jobs", 0.3), ("backup", 0.0), ("jobs", 0.3), ("backup", 0.01)]);
    let finding = judged(&guilt, &[], VictimSigns::default());
    assert_eq!(finding.cause, Cause::Neighbour);
    assert_eq!(finding.culprits.len(), 1, "{finding:?}");
    let culprit = &finding.culprits[0];
    assert_eq!((culprit.workload.as_str(), culprit.status), ("jobs", Standing::Named));
    assert!((finding.slowdown - 1.35).abs() < 0.05, "{finding:?}");
    assert!(finding.evidence[0].contains("held 2 times, jobs"), "{finding:?}");
}

#[test]
fn harm_of_less_than_a_tenth_is_named_and_not_serious() {
    let serious = |harms: &[(&str, f64)]| {
        let looks: Vec<(&str, f64)> = (0..12).flat_map(|_| harms.to_vec()).collect();
        let finding = judged(&after(&looks), &[], VictimSigns::default());
        let named = finding.culprits.into_iter().filter(|c| c.status == Standing::Named);
        named.map(|c| (c.workload.to_string(), c.serious_frac)).collect::<Vec<_>>()
    };
    let little = serious(&[("jobs", 0.07), ("backup", 0.0)]);
    assert!(little.len() == 1 && little[0].1 < 0.1, "{little:?}");
    let much = serious(&[("jobs", 0.15), ("backup", 0.0)]);
    assert!(much.len() == 1 && much[0].1 > 0.99, "{much:?}");
    let both = serious(&[("jobs", 0.07), ("backup", 0.07)]);
    assert!(both.len() == 2 && both.iter().all(|(_, frac)| *frac > 0.98), "together: {both:?}");
}

#[test]
fn one_look_is_a_suspicion_however_clear() {
    let finding = judged(&after(&[("jobs", 0.4)]), &[], VictimSigns::default());
    assert_eq!(finding.culprits[0].status, Standing::Suspected);
    assert_eq!(finding.cause, Cause::Neighbour);
}

#[test]
fn correlation_alone_suspects_and_never_those_whom_experiments_acquit() {
    let innocent = after(&[("jobs", 0.0), ("jobs", 0.0)]);
    let correlated = [("jobs".into(), 0.6), ("backup".into(), 0.5)];
    let finding = judged(&innocent, &correlated, VictimSigns::default());
    let found: Vec<_> = finding.culprits.iter().map(|c| (c.workload.as_str(), c.status)).collect();
    assert_eq!(found, [("backup", Standing::Suspected)]);
    assert!((finding.slowdown - 1.0).abs() < 1e-9);
}

#[test]
fn who_only_makes_it_wait_is_suspected_of_crowding() {
    let work = &after(&[("jobs", 0.0), ("backup", 0.0)]);
    let latency = &after(&[("jobs", 0.9), ("backup", 0.0), ("jobs", 0.9)]);
    let waiting = &Waiting::new(WaitingParams::default());
    let evidence =
        Evidence { work, latency, cpus: &used(), correlated: &[], lockers: &[], waiting };
    let finding = judge(&evidence, &VictimSigns::default(), &FindingParams::default());
    let [culprit] = &finding.culprits[..] else { panic!("{finding:?}") };
    assert_eq!(culprit.workload, "jobs".into());
    assert_eq!((culprit.resource, culprit.status), (Resource::Cpu, Standing::Suspected));
    assert!(finding.slowdown > 2.0 && finding.evidence[0].contains("waits for CPUs"));
}

#[test]
fn slowness_of_its_own_making_is_told_apart() {
    let clear = after(&[("jobs", 0.0), ("backup", 0.0), ("jobs", 0.0), ("backup", 0.0)]);
    let none = VictimSigns::default();
    let table = [
        (none, Cause::None),
        (VictimSigns { throttled_frac: Some(0.3), ..none }, Cause::Itself),
        (VictimSigns { load_frac: Some(1.1), ..none }, Cause::Itself),
        (VictimSigns { steal_frac: Some(0.2), ..none }, Cause::Hypervisor),
        (VictimSigns { steal_frac: Some(0.01), ..none }, Cause::None),
    ];
    for (signs, cause) in table {
        let finding = judged(&clear, &[], signs);
        assert_eq!(finding.cause, cause, "{signs:?}");
        assert_eq!(finding.evidence.is_empty(), cause == Cause::None);
    }
    let guilty = after(&[("jobs", 0.3), ("jobs", 0.3)]);
    let signs = VictimSigns { throttled_frac: Some(0.3), ..none };
    assert_eq!(judged(&guilty, &[], signs).cause, Cause::Neighbour, "it was shown");
}

/// Fifteen seconds in which the victim uses 0.4 CPUs, and for each group the threads of the victim
/// that stand behind it and what it asks for.
fn stood(groups: &[(&str, f64, f64)], own: f64) -> Waiting {
    let mut waiting = Waiting::new(WaitingParams::default());
    let names: Vec<Tenant> = groups.iter().map(|(name, ..)| (*name).into()).collect();
    waiting.keep(&names);
    let behind = groups.iter().map(|(name, threads, _)| ((*name).into(), *threads)).collect();
    let demand = |cpus: f64| Demand { used_cpus: 0.4, asked_cpus: cpus };
    let asked = groups.iter().map(|(name, _, cpus)| ((*name).into(), demand(*cpus))).collect();
    let waits = Waits { seconds: 0.25, running: 0.4, own, behind, ..Waits::default() };
    (0..60).for_each(|_| waiting.see(&waits, &asked, 0.0));
    waiting
}

fn judged_by_waits(groups: &[(&str, f64, f64)], own: f64, signs: VictimSigns) -> Finding {
    let nothing = &Guilt::new(GuiltParams::default());
    let cpus = groups.iter().map(|(name, ..)| ((*name).into(), 0.4)).collect();
    let evidence = Evidence {
        work: nothing,
        latency: nothing,
        cpus: &cpus,
        correlated: &[],
        lockers: &[],
        waiting: &stood(groups, own),
    };
    judge(&evidence, &signs, &FindingParams::default())
}

fn standings(finding: &Finding) -> Vec<(&str, Standing)> {
    finding.culprits.iter().map(|c| (c.workload.as_str(), c.status)).collect()
}

#[test]
fn who_asks_for_more_than_its_turn_is_named_and_who_shares_is_not() {
    let groups = [("spin", 0.4, 4.0), ("some", 0.2, 0.8), ("one", 0.19, 1.0), ("ten", 0.01, 0.1)];
    let finding = judged_by_waits(&groups, 0.0, VictimSigns::default());
    assert_eq!(finding.cause, Cause::Neighbour);
    assert_eq!(standings(&finding)[0], ("spin", Standing::Named), "{finding:#?}");
    assert_eq!(standings(&finding)[1..], [], "`spin` may keep it awake: {finding:#?}");
    let told = finding.evidence.iter().find(|told| told.contains("shared with")).unwrap();
    assert!(told.contains("some (25 %)") && told.contains("one (24 %)"), "{told}");
    let alone = judged_by_waits(&groups[1..2], 0.0, VictimSigns::default());
    assert_eq!(standings(&alone), [], "who sleeps is no suspect: {alone:#?}");
    assert_eq!(alone.cause, Cause::Neighbour);
    assert!(alone.evidence[0].contains("shared with some (100 %)"), "{alone:#?}");
    let spin = &finding.culprits[0];
    assert_eq!(spin.resource, Resource::Cpu);
    assert!((spin.stood_frac.unwrap() - 0.33).abs() < 0.02, "{spin:?}");
    assert!(finding.evidence[0].contains("stood 33 %"), "{:?}", finding.evidence);
    assert!((spin.share_frac - 0.5).abs() < 0.01, "0.4 of 0.8 threads: {spin:?}");
}

#[test]
fn whose_part_of_the_harm_is_small_shares_the_cpu_and_is_told_apart() {
    let groups = [("spin", 1.0, 3.0), ("nap", 0.06, 0.3), ("doze", 0.04, 0.2)];
    let finding = judged_by_waits(&groups, 0.0, VictimSigns::default());
    assert_eq!(standings(&finding), [("spin", Standing::Named)], "{finding:#?}");
    assert!((finding.slowdown - 3.6).abs() < 0.2, "all of them together: {finding:#?}");
    let told = &finding.evidence[1];
    assert!(told.contains("shared with") && told.contains("nap (5 %)"), "{finding:#?}");
    let many: Vec<(String, f64, f64)> = (0..12).map(|i| (format!("g{i}"), 0.1, 0.3)).collect();
    let many: Vec<(&str, f64, f64)> = many.iter().map(|g| (g.0.as_str(), g.1, g.2)).collect();
    let finding = judged_by_waits(&many, 0.0, VictimSigns::default());
    assert_eq!((finding.cause, finding.culprits.len()), (Cause::Neighbour, 0), "{finding:#?}");
}

#[test]
fn alike_spinners_are_all_named_and_share_the_slowdown() {
    let groups = ["a", "b", "c", "d", "e"].map(|name| (name, 0.4, 1.0));
    let finding = judged_by_waits(&groups, 0.0, VictimSigns::default());
    assert_eq!(finding.culprits.len(), 5);
    assert!(finding.culprits.iter().all(|c| c.status == Standing::Named), "{finding:#?}");
    assert!((finding.slowdown - 6.0).abs() < 0.4, "2 threads stand, 0.4 run: {finding:#?}");
    let each = finding.culprits[0].slowdown;
    assert!(finding.culprits.iter().all(|c| (c.slowdown - each).abs() < 1e-9));
}

#[test]
fn shown_harm_in_caches_stands_and_another_is_named_for_the_cpu() {
    let work = &after(&[("jobs", 0.3), ("backup", 0.0), ("jobs", 0.3), ("backup", 0.01)]);
    let waiting = &stood(&[("jobs", 0.1, 1.0), ("backup", 0.2, 2.0)], 0.0);
    let latency = &Guilt::new(GuiltParams::default());
    let evidence =
        Evidence { work, latency, cpus: &used(), correlated: &[], lockers: &[], waiting };
    let finding = judge(&evidence, &VictimSigns::default(), &FindingParams::default());
    let mut found: Vec<_> =
        finding.culprits.iter().map(|c| (c.workload.as_str(), c.resource, c.status)).collect();
    found.sort_by_key(|(name, ..)| *name);
    let named = Standing::Named;
    let wanted = [("backup", Resource::Cpu, named), ("jobs", Resource::Memory, named)];
    assert_eq!(found, wanted, "{finding:#?}");
}

#[test]
fn standing_behind_its_own_threads_is_its_own_making() {
    let finding = judged_by_waits(&[("jobs", 0.01, 0.5)], 0.3, VictimSigns::default());
    assert_eq!((finding.cause, finding.culprits.len()), (Cause::Itself, 0), "{finding:?}");
    assert!(finding.evidence[0].contains("behind each other"), "{finding:?}");
    let beside = judged_by_waits(&[("jobs", 0.8, 2.0)], 0.3, VictimSigns::default());
    assert_eq!(beside.cause, Cause::Neighbour, "{beside:?}");
}

/// Where others can be held, so that nobody is named who was not watched alone.
fn judged_patiently(waiting: &Waiting, groups: &[&str], signs: VictimSigns) -> Finding {
    let patient = FindingParams { relief_patience_s: f64::INFINITY, ..FindingParams::default() };
    let nothing = &Guilt::new(GuiltParams::default());
    let cpus = groups.iter().map(|name| ((*name).into(), 0.4)).collect();
    let evidence = Evidence {
        work: nothing,
        latency: nothing,
        cpus: &cpus,
        correlated: &[],
        lockers: &[],
        waiting,
    };
    judge(&evidence, &signs, &patient)
}

#[test]
fn beside_who_is_named_for_the_cpu_nobody_is_suspected_who_was_not_watched() {
    let (mut waiting, names) = (stood(&[("a", 0.4, 1.0), ("b", 0.3, 1.0)], 0.0), ["a", "b"]);
    let none = VictimSigns::default();
    let alone = |name: &str, used_cpus, asked_cpus| {
        BTreeMap::from([(name.into(), Demand { used_cpus, asked_cpus })])
    };
    waiting.relieve(&alone("a", 0.9, 1.0), 1.0, false);
    let told = judged_patiently(&waiting, &names, none);
    assert_eq!(standings(&told), [("a", Standing::Named)], "{told:#?}");
    assert!(told.evidence.iter().any(|line| line.contains("shared with b")), "{told:#?}");
    waiting.relieve(&alone("b", 0.9, 1.0), 1.0, false);
    let both = standings(&judged_patiently(&waiting, &names, none)).len();
    assert_eq!(both, 2, "watched, and it does not sleep");
}

#[test]
fn who_sleeps_only_when_alone_overcommits_the_cpu_with_the_others_and_nobody_is_named() {
    let groups = [("a", 0.3, 1.0), ("b", 0.3, 1.0), ("nap", 0.2, 0.3)];
    let (mut waiting, names) = (stood(&groups, 0.0), ["a", "b", "nap"]);
    let none = VictimSigns::default();
    let before = judged_patiently(&waiting, &names, none);
    let suspected = Standing::Suspected;
    assert_eq!(standings(&before), [("a", suspected), ("b", suspected)], "{before:#?}");
    assert_eq!(before.cause, Cause::Neighbour, "one of them may be to blame");
    let slept =
        |name: &str| BTreeMap::from([(name.into(), Demand { used_cpus: 0.5, asked_cpus: 0.6 })]);
    waiting.relieve(&slept("a"), 1.0, false);
    assert_eq!(
        standings(&judged_patiently(&waiting, &names, none)),
        [("b", suspected)],
        "not watched yet"
    );
    waiting.relieve(&slept("b"), 1.0, false);
    let after = judged_patiently(&waiting, &names, none);
    assert_eq!((standings(&after), after.cause), (vec![], Cause::Overcommitted), "{after:#?}");
    let told = &after.evidence[0];
    assert!(told.contains("overcommitted by these together: a (38 %), b (38 %), nap"), "{told}");
    let stolen = VictimSigns { steal_frac: Some(0.2), ..none };
    assert_eq!(judged_patiently(&waiting, &names, stolen).cause, Cause::Hypervisor);
}

#[test]
fn nobody_is_suspected_of_waits_that_are_too_short_to_be_told() {
    let suspected = |threads: f64| {
        let waiting = stood(&[("a", threads, 1.0), ("b", threads, 1.0)], 0.0);
        let finding = judged_patiently(&waiting, &["a", "b"], VictimSigns::default());
        (finding.culprits.len(), finding.cause)
    };
    assert_eq!(suspected(0.0185), (0, Cause::None), "1.09 times");
    assert_eq!(suspected(0.04), (2, Cause::Neighbour), "1.2 times");
}
