//! Predictions over made-up programs whose truth is known.

use super::check::{Pass, judged, programs};
use super::compare::{Together, compare};
use super::measure::Loss;
use super::{Model, predict};
use crate::canary::Try;
use crate::profile::{Class, CurvePoint, PROFILE_SCHEMA, Profile, Witness, Workload};
use crate::stats::Estimate;
use crate::{Machine, Metric, Watched};
use quell_pressure::Resource;
use std::collections::BTreeMap;

const BANDWIDTH: Resource = Resource::MemoryBandwidth;

/// A program that loses `sensitive` of its speed at full pressure, and costs the reporter `causes`
/// percent. The reporter beside itself loses 40 %.
fn program(sensitive: f64, causes: f64) -> Profile {
    let curve = |loss: f64| {
        let at = |percent: f64| CurvePoint {
            intensity_percent: percent,
            speed_frac: Estimate::exact(1.0 - loss * percent / 100.0),
            pairs: 4,
        };
        BTreeMap::from([(BANDWIDTH, vec![at(50.0), at(100.0)])])
    };
    Profile {
        schema: PROFILE_SCHEMA.to_owned(),
        machine: Machine::default(),
        workload: Workload {
            name: "made up".to_owned(),
            metric: Metric::Runs,
            cpus: quell_types::CpuSet::new(),
            requests_per_s: None,
        },
        pressure_cpus: quell_types::CpuSet::new(),
        same_core: false,
        quick: false,
        threshold_frac: 0.95,
        tolerated: BTreeMap::new(),
        caused: BTreeMap::from([(BANDWIDTH, Estimate::exact(causes))]),
        curves: curve(sensitive),
        yardsticks: curve(0.4),
        witnesses: BTreeMap::new(),
        bubbles: BTreeMap::new(),
        refreshed_unix_ms: BTreeMap::new(),
        bandwidth: None,
        bandwidth_absent: None,
        absent: BTreeMap::new(),
        class: Class::default(),
        host: None,
        notes: Vec::new(),
        seconds: 0.0,
    }
}

/// What really happens in this made-up world: the loss at the intensity that stands for B.
fn truth(a: &Profile, b: &Profile) -> f64 {
    let (sensitive, caused) = (a.curves[&BANDWIDTH][1], b.caused[&BANDWIDTH].value);
    (1.0 - sensitive.speed_frac.value) * caused / 40.0
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn all_programs() -> Vec<Profile> {
    [(0.1, 30.0), (0.5, 5.0), (0.3, 20.0), (0.0, 40.0), (0.8, 12.0), (0.2, 0.0)]
        .map(|(sensitive, causes)| program(sensitive, causes))
        .to_vec()
}

/// All pairs as they are in that world; those of which `disturbed` says so lose a fifth more.
fn measured(all: &[Profile], disturbed: impl Fn(usize, usize) -> bool) -> Vec<Together> {
    let pairs = (0..all.len()).flat_map(|a| (0..all.len()).map(move |b| (a, b)));
    let one = |(a, b): (usize, usize)| {
        let (disturbed, lost) = (disturbed(a, b), truth(&all[a], &all[b]));
        let lost = Estimate::exact(lost + if disturbed { 0.2 } else { 0.0 });
        Together { a, b, lost, disturbed, tries: 1, steal_percent: None }
    };
    pairs.filter(|(a, b)| a != b).map(one).collect()
}

#[test]
fn what_the_model_assumes_is_predicted_exactly() {
    let all = all_programs();
    let report = compare(&NAMES, &[&all], &measured(&all, |_, _| false), Machine::default());
    assert_eq!(report.pairs.len(), 30);
    assert!(report.mean_abs_error_points < 0.2, "{}", report.mean_abs_error_points);
    assert!(report.mean_of_others_error_points > 2.0, "the mean of others knows less");
    assert!(report.pairs_above_10_percent > 0);
    for pair in &report.pairs {
        assert!((pair.by_resource[&BANDWIDTH] - pair.measured).abs() < 0.2, "{pair:?}");
        let b = &all[NAMES.iter().position(|name| *name == pair.b).unwrap()];
        assert!((pair.scores[&BANDWIDTH] - b.caused[&BANDWIDTH].value / 0.4).abs() < 1e-6);
    }
    assert_eq!(report.schema, "quell.predict/1");
    let undisturbed = report.undisturbed.unwrap();
    assert_eq!(undisturbed.pairs, 30);
    assert_eq!(undisturbed.mean_abs_error_points, report.mean_abs_error_points);
    assert_eq!(report.mean_abs_error_points_first_tries, None, "nothing was measured twice");
}

/// A world in which a neighbour is a kernel for a share of the time, and nobody loses in proportion to what
/// the reporter does.
#[test]
fn with_witnesses_a_pair_is_half_a_mixture_and_needs_no_other_pair() {
    let share = |program: &Profile| program.caused[&BANDWIDTH].value / 40.0;
    let at = |hurt: f64| {
        let point = |intensity_percent, loss| CurvePoint {
            intensity_percent,
            speed_frac: Estimate::exact(1.0 - loss),
            pairs: 4,
        };
        vec![point(50.0, 0.8 * hurt), point(100.0, hurt)]
    };
    let hurt = [(Witness::NearChase, 0.8), (Witness::FarChase, 0.2), (Witness::Stream, 0.4)];
    let heard = |program: Profile| {
        let like = share(&program);
        let lost = 1.0 - program.curves[&BANDWIDTH][1].speed_frac.value;
        Profile {
            curves: BTreeMap::from([(BANDWIDTH, at(lost))]),
            witnesses: hurt.map(|(w, hurt)| (w, Estimate::exact(1.0 - like * hurt))).into(),
            bubbles: BTreeMap::from([(BANDWIDTH, hurt.map(|(w, hurt)| (w, at(hurt))).into())]),
            ..program
        }
    };
    let all: Vec<Profile> = all_programs().into_iter().map(heard).collect();
    let pairs = measured(&all, |_, _| false);
    let report = compare(&NAMES, &[&all, &all], &pairs, Machine::default());
    let mut off = 0.0;
    for pair in &report.pairs {
        assert_eq!(pair.form, super::Form::Mean);
        let mean = f64::midpoint(pair.by_mixture.unwrap(), pair.by_resource[&BANDWIDTH].max(0.0));
        assert!((pair.predicted - mean).abs() < 1e-9, "{pair:?}");
        off += (pair.by_mixture.unwrap() - pair.measured).abs() / 30.0;
        assert!(pair.mixture.iter().all(|part| part.resource == BANDWIDTH), "{pair:?}");
    }
    let by_form = |form| report.forms.iter().find(|f| f.form == form).unwrap();
    let mixture = by_form(super::Form::Mixture).mean_abs_error_points;
    assert!(off < 0.5 && (mixture - off).abs() < 1e-9, "{off}, {mixture}");
    let (mean, max) =
        (report.mean_abs_error_points, by_form(super::Form::Max).mean_abs_error_points);
    assert!(mixture < mean && mean < max, "{mixture} {mean} {max}");
    // Profiles of before have none: then as before.
    let deaf = all_programs();
    let report = compare(&NAMES, &[&deaf], &measured(&deaf, |_, _| false), Machine::default());
    assert!(report.pairs.iter().all(|p| p.by_mixture.is_none() && p.mixture.is_empty()));
    assert!(report.forms.iter().all(|f| !f.form.mixes()));
}

#[test]
fn disturbed_pairs_count_in_one_error_and_teach_nothing() {
    let all = all_programs();
    let report =
        compare(&NAMES, &[&all], &measured(&all, |a, b| a == 2 && b > 2), Machine::default());
    let undisturbed = report.undisturbed.unwrap();
    assert_eq!(undisturbed.pairs, 27);
    assert!(undisturbed.mean_abs_error_points < 0.2, "learnt from clean ones only");
    let all_error = report.mean_abs_error_points;
    assert!((all_error - 3.0 * 20.0 / 30.0).abs() < 0.2, "{all_error}: three are off by a fifth");
    assert_eq!(report.pairs.iter().filter(|pair| pair.disturbed).count(), 3);
    let none = compare(&NAMES, &[&all], &measured(&all, |_, _| true), Machine::default());
    assert_eq!(none.undisturbed, None);
    assert!(none.mean_abs_error_points > 5.0, "what all of it was learnt from");
}

#[test]
fn the_last_try_counts_and_the_first_is_told() {
    let all = all_programs();
    let last = measured(&all, |_, _| false);
    let pairs: Vec<(usize, usize)> = last.iter().map(|t| (t.a, t.b)).collect();
    let one = |t: &Together| {
        let again = t.a == 2;
        let loss =
            |more: f64| Loss { shares: vec![t.lost.value + more; 3], steal_percent: Some(0.5) };
        let first = loss(if again { 0.2 } else { 0.0 });
        Try { found: loss(0.0), first, disturbed: false, tries: if again { 2 } else { 1 } }
    };
    let tries: Vec<Try<Loss>> = last.iter().map(one).collect();
    let passes = [Pass { profiles: all, pairs: tries }];
    let report = judged(&NAMES, &pairs, &passes, Machine::default()).unwrap();
    assert!(report.mean_abs_error_points < 0.2);
    assert!(report.mean_abs_error_points_first_tries.unwrap() > 3.0);
    assert!(report.pairs.iter().all(|p| p.tries == if p.a == "c" { 2 } else { 1 }));
    assert!(report.pairs.iter().all(|p| p.steal_percent == Some(0.5)));
}

/// A host on which everybody hurts everybody a third as much, or three times as much, as usual.
fn pass(pairs: &[(usize, usize)], harder: f64) -> Pass {
    let harder = |profile: Profile| {
        let (sensitive, caused) = (&profile.curves[&BANDWIDTH][1], &profile.caused[&BANDWIDTH]);
        let sensitive = (1.0 - sensitive.speed_frac.value) * harder;
        program(sensitive, caused.value)
    };
    let profiles: Vec<Profile> = all_programs().into_iter().map(harder).collect();
    let one = |&(a, b): &(usize, usize)| {
        let found =
            Loss { shares: vec![truth(&profiles[a], &profiles[b]); 3], steal_percent: None };
        Try { first: found.clone(), found, disturbed: false, tries: 1 }
    };
    Pass { pairs: pairs.iter().map(one).collect(), profiles }
}

#[test]
fn a_host_that_changes_is_followed_by_profiles_that_are_as_old_as_the_pairs() {
    let all = all_programs();
    let pairs: Vec<(usize, usize)> =
        measured(&all, |_, _| false).iter().map(|t| (t.a, t.b)).collect();
    let passes = [pass(&pairs, 0.3), pass(&pairs, 1.0), pass(&pairs, 0.6)];
    let report = judged(&NAMES, &pairs, &passes, Machine::default()).unwrap();
    assert_eq!(report.passes, 3);
    assert!(report.mean_abs_error_points < 0.2, "{}", report.mean_abs_error_points);
    // The same pairs, predicted by profiles of the first stretch alone.
    let old = passes.clone().map(|pass| Pass { profiles: passes[0].profiles.clone(), ..pass });
    let old = judged(&NAMES, &pairs, &old, Machine::default()).unwrap();
    assert!(old.forms.iter().any(|form| form.mean_abs_error_points > 3.0), "{:?}", old.forms);
}

/// What a profile says that was measured while both CPUs shared a core: quiet windows have a sibling
/// that spins, and those under pressure one that works, so all resources seem to hurt, and the
/// reporter loses as much beside the program.
#[test]
fn a_disturbed_profile_predicts_harm_that_does_not_come_and_is_left_out() {
    let mut all = all_programs();
    let pairs = measured(&all, |_, _| false);
    let (calm, host) = (all[5].clone(), Watched { kept_windows: 8, ..Watched::default() });
    all[5] = Profile { host: Some(host), ..program(0.4, 20.0) };
    let report = compare(&NAMES, &[&all], &pairs, Machine::default());
    let with_it = |p: &&super::Pair| p.a == "f" || p.b == "f";
    assert!(report.pairs.iter().filter(with_it).all(|p| !p.disturbed), "the pairs were clean");
    let worst = report.pairs.iter().filter(with_it).map(super::Pair::error).fold(0.0, f64::max);
    assert!(worst > 15.0, "{worst}");
    assert_eq!(report.undisturbed.map(|u| u.pairs), Some(20));
    let model = Model::plain(super::Form::Max);
    assert!(predict(&all[5], &all[3], &model).value > predict(&calm, &all[3], &model).value + 10.0);
}

#[test]
fn reports_of_before_are_read() {
    let all = all_programs();
    let report = compare(&NAMES, &[&all], &measured(&all, |_, _| false), Machine::default());
    let mut old = serde_json::to_value(&report).unwrap();
    for field in ["undisturbed", "mean_abs_error_points_first_tries", "host", "passes"] {
        old.as_object_mut().unwrap().remove(field);
    }
    for pair in old["pairs"].as_array_mut().unwrap() {
        for field in ["disturbed", "tries", "steal_percent"] {
            pair.as_object_mut().unwrap().remove(field);
        }
    }
    let read: super::PredictReport = serde_json::from_value(old).unwrap();
    assert_eq!(read.pairs, report.pairs);
}

#[test]
fn what_is_not_known_is_no_harm() {
    let (a, mut b) = (program(0.5, 10.0), program(0.5, 20.0));
    let model = Model::plain(super::Form::Max);
    assert!((predict(&a, &b, &model).value - 25.0).abs() < 1e-9);
    b.yardsticks.clear();
    assert_eq!(predict(&a, &b, &model), Estimate::exact(0.0));
}

#[test]
fn lists_are_read_and_their_errors_told() {
    let good = programs("# remark\n\nsort: sort -R /etc/services\nxz: xz -k /a b\n").unwrap();
    assert_eq!((good.len(), good[0].name.as_str(), good[1].command.len()), (2, "sort", 4));
    let quoted = programs("a: mawk '{print $1 \"x y\"}' /f\nb: sh -c \"exit 0\"\n").unwrap();
    assert_eq!(quoted[0].command, ["mawk", "{print $1 \"x y\"}", "/f"]);
    assert_eq!(quoted[1].command, ["sh", "-c", "exit 0"]);
    for (list, word) in [
        ("", "two programs"),
        ("a: true\n", "two programs"),
        ("a: true\nfalse\n", "name: program"),
        ("a: true\na: false\n", "each name once"),
        ("a: true\nb: sh -c 'exit 0\n", "close each quote"),
    ] {
        assert!(programs(list).unwrap_err().to_string().contains(word), "{list:?}");
    }
}
