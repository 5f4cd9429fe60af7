//! Tests of what a trap weighs: it moves looks, and accuses nobody alone.

use super::super::choose::{Candidate, ChooseParams, choose};
use super::super::finding::{Cause, FindingParams, Standing};
use super::super::guilt::{Guilt, GuiltParams, Measurement};
use super::super::judge::{Evidence, VictimSigns, judge};
use super::super::waiting::{Waiting, WaitingParams};
use super::*;
use quell_types::Gap;

const CPUS: f64 = 0.5;

fn at(second: u64) -> Time {
    Time(second * 1_000_000_000)
}

fn totals(of: &[(&str, u64)]) -> Reading<BTreeMap<Tenant, u64>> {
    Ok(of.iter().map(|(name, total)| ((*name).into(), *total)).collect())
}

/// As it is when one look after the other was made: (who was held, ln of the slowdown).
fn after(suspects: &[&str], traps: &Traps, looks: &[(&str, f64)], sd: f64) -> Guilt {
    let mut guilt = Guilt::new(GuiltParams::default());
    guilt.keep(&suspects.iter().map(|s| Tenant::from(*s)).collect::<Vec<_>>());
    guilt.hear(traps.weights_ln());
    for (held, ln_slowdown) in looks {
        guilt.measure(&Measurement {
            time: at(1),
            ln_slowdown: *ln_slowdown,
            variance: sd * sd,
            doses_cpus: [((*held).into(), CPUS)].into(),
            experiment: true,
            void_frac: 0.0,
        });
    }
    guilt
}

fn judged(guilt: &Guilt, lockers: &[Tenant]) -> Finding {
    let cpus = guilt.suspects().iter().map(|s| (s.clone(), CPUS)).collect();
    let waiting = &Waiting::new(WaitingParams::default());
    let evidence =
        Evidence { work: guilt, latency: guilt, cpus: &cpus, correlated: &[], lockers, waiting };
    judge(&evidence, &VictimSigns::default(), &FindingParams::default())
}

fn trapped(names: &[(&str, u64)]) -> Traps {
    let mut traps = Traps::new(TrapParams::default());
    traps.learn(at(1), &totals(names));
    traps
}

fn ratio(traps: &Traps, name: &str) -> f64 {
    traps.weights_ln().get(&Tenant::from(name)).map_or(1.0, |ln| libm::exp(*ln))
}

#[test]
fn many_traps_weigh_as_much_as_one_and_grow_old() {
    let mut traps = trapped(&[("one", 1), ("many", 5000)]);
    assert!((ratio(&traps, "one") - 4.0).abs() < 1e-9);
    assert_eq!(ratio(&traps, "one"), ratio(&traps, "many"));
    let missing = Err(Gap::failed("the log cannot be read any more"));
    traps.learn(at(301), &missing);
    assert!((libm::log(ratio(&traps, "one")) - libm::log(4.0) / core::f64::consts::E).abs() < 1e-3);
    traps.learn(at(302), &totals(&[("one", 1), ("many", 5001)]));
    assert!(ratio(&traps, "many") > 3.99 && ratio(&traps, "one") < 2.0);
    traps.learn(at(4000), &missing);
    assert!(traps.weights_ln().is_empty());
}

#[test]
fn who_is_another_now_is_not_blamed_for_what_was_trapped_before() {
    let mut traps = trapped(&[("jobs", 3)]);
    traps.forget(&"jobs".into());
    traps.learn(at(2), &totals(&[("jobs", 3)]));
    assert_eq!(ratio(&traps, "jobs"), 1.0);
    traps.learn(at(3), &totals(&[("jobs", 4)]));
    assert!(ratio(&traps, "jobs") > 3.9);
}

#[test]
fn a_trap_alone_neither_names_nor_suspects() {
    let traps = trapped(&[("jobs", 5000)]);
    for suspects in [&["jobs"][..], &["jobs", "backup"], &["a", "b", "c", "jobs"]] {
        let guilt = after(suspects, &traps, &[], 0.02);
        let finding = judged(&guilt, &[]);
        assert!(finding.culprits.is_empty(), "{finding:?}");
        assert_eq!(finding.cause, Cause::None);
        // Looks that told nothing do not make a trap tell more, however many there are.
        let blind = after(suspects, &traps, &[("jobs", 0.3); 40], 100.0);
        let finding = judged(&blind, &["jobs".into()]);
        assert!(finding.culprits.iter().all(|c| c.status != Standing::Named), "{finding:?}");
    }
}

#[test]
fn where_bus_locks_are_told_who_was_trapped_is_suspected_of_them_until_looks_say_otherwise() {
    let traps = trapped(&[("jobs", 1)]);
    let lockers = ["jobs".into()];
    let finding = judged(&after(&["backup", "jobs"], &traps, &[], 0.02), &lockers);
    let [culprit] = &finding.culprits[..] else { panic!("{finding:?}") };
    assert_eq!((culprit.status, culprit.resource), (Standing::Suspected, Resource::BusLock));
    assert!(finding.evidence[0].contains("trapped jobs"), "{finding:?}");
    let held = after(&["backup", "jobs"], &traps, &[("jobs", 0.0)], 0.02);
    assert!(judged(&held, &lockers).culprits.is_empty());
}

#[test]
fn with_a_trap_fewer_looks_suffice_but_never_less_than_two() {
    let looks = |traps: &Traps, sd: f64| {
        let named = |count: &usize| {
            let guilt = after(&["backup", "jobs"], traps, &vec![("jobs", 0.15); *count], sd);
            judged(&guilt, &[]).culprits.iter().any(|c| c.status == Standing::Named)
        };
        (0..100).find(named).unwrap()
    };
    let (without, with) = (trapped(&[]), trapped(&[("jobs", 1)]));
    assert!(looks(&with, 0.12) < looks(&without, 0.12), "{}", looks(&without, 0.12));
    assert_eq!((looks(&with, 0.01), looks(&without, 0.01)), (2, 2));
}

#[test]
fn a_trapped_innocent_is_looked_at_first_and_acquitted_and_the_other_is_named() {
    let traps = trapped(&[("jobs", 7)]);
    let unknown = after(&["backup", "jobs"], &traps, &[], 0.02);
    let all: Vec<Candidate> =
        ["backup", "jobs"].map(|name| Candidate { suspect: name.into(), cpus: CPUS }).into();
    let first = choose(&unknown, &all, 0.01, &ChooseParams { most: 1, ..Default::default() });
    assert_eq!(first, [Tenant::from("jobs")]);
    let looks = [("jobs", 0.0), ("backup", 0.3), ("jobs", 0.01), ("backup", 0.29)];
    let finding = judged(&after(&["backup", "jobs"], &traps, &looks, 0.02), &["jobs".into()]);
    let [culprit] = &finding.culprits[..] else { panic!("{finding:?}") };
    assert_eq!((culprit.workload.as_str(), culprit.status), ("backup", Standing::Named));
}

#[test]
fn the_journal_and_the_finding_say_what_it_weighed() {
    let traps = trapped(&[("jobs", 7)]);
    let inputs = traps.inputs(&["backup".into(), "jobs".into()]);
    let seen: Vec<_> = inputs.iter().map(|input| (input.name.as_ref(), input.value)).collect();
    assert_eq!(seen[0], ("kernel_trapped_count", 1.0));
    assert!(seen[1].0 == "kernel_trap_ratio" && (seen[1].1 - 4.0).abs() < 1e-9);
    assert!(traps.inputs(&["backup".into()]).is_empty());
    let looks = [("jobs", 0.3), ("jobs", 0.3)];
    let mut finding = judged(&after(&["backup", "jobs"], &traps, &looks, 0.02), &[]);
    traps.tell(&mut finding);
    let said = finding.evidence.last().unwrap();
    assert!(said.contains("trapped 7 split or bus locks of jobs") && said.contains("4.0 times"));
}

#[test]
fn without_its_word_guilt_is_what_it_would_have_been() {
    let (silent, said) = (trapped(&[]), trapped(&[("jobs", 1), ("backup", 1)]));
    let looks = [("jobs", 0.1), ("other", 0.05)];
    let suspects = ["backup", "jobs", "other"];
    let with = after(&suspects, &said, &looks, 0.1);
    let only_backup = after(&suspects, &trapped(&[("backup", 1)]), &looks, 0.1);
    let guilt = |guilt: &Guilt| guilt.belief(&"jobs".into()).unwrap().guilt;
    let left = guilt(&with) * with.unheard_frac(&"jobs".into());
    assert!((left - guilt(&only_backup)).abs() < 1e-9);
    assert_eq!(after(&suspects, &silent, &looks, 0.1).unheard_frac(&"jobs".into()), 1.0);
}
