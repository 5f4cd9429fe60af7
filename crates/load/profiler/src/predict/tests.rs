//! Predictions over made-up programs whose truth is known.

use super::check::{Together, compare, programs};
use super::{Model, predict};
use crate::profile::{Class, CurvePoint, PROFILE_SCHEMA, Profile, Workload};
use crate::stats::Estimate;
use crate::{Machine, Metric};
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
        },
        pressure_cpus: quell_types::CpuSet::new(),
        same_core: false,
        quick: false,
        threshold_frac: 0.95,
        tolerated: BTreeMap::new(),
        caused: BTreeMap::from([(BANDWIDTH, Estimate::exact(causes))]),
        curves: curve(sensitive),
        yardsticks: curve(0.4),
        refreshed_unix_ms: BTreeMap::new(),
        bandwidth: None,
        bandwidth_absent: None,
        absent: BTreeMap::new(),
        class: Class::default(),
        notes: Vec::new(),
        seconds: 0.0,
    }
}

/// What really happens in this made-up world: the loss at the intensity that stands for B.
fn truth(a: &Profile, b: &Profile) -> f64 {
    let (sensitive, caused) = (a.curves[&BANDWIDTH][1], b.caused[&BANDWIDTH].value);
    (1.0 - sensitive.speed_frac.value) * caused / 40.0
}

#[test]
fn what_the_model_assumes_is_predicted_exactly() {
    let all: Vec<Profile> =
        [(0.1, 30.0), (0.5, 5.0), (0.3, 20.0), (0.0, 40.0), (0.8, 12.0), (0.2, 0.0)]
            .map(|(sensitive, causes)| program(sensitive, causes))
            .to_vec();
    let mut measured = Vec::new();
    for a in 0..all.len() {
        for b in (0..all.len()).filter(|b| *b != a) {
            measured.push(Together { a, b, lost: Estimate::exact(truth(&all[a], &all[b])) });
        }
    }
    let names = ["a", "b", "c", "d", "e", "f"];
    let report = compare(&names, &all, &measured, Machine::default());
    assert_eq!(report.pairs.len(), 30);
    assert!(report.mean_abs_error_points < 0.2, "{}", report.mean_abs_error_points);
    assert!(report.mean_of_others_error_points > 2.0, "the mean of others knows less");
    assert!(report.pairs_above_10_percent > 0);
    assert_eq!(report.schema, "quell.predict/1");
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
    for (list, word) in [
        ("", "two programs"),
        ("a: true\n", "two programs"),
        ("a: true\nfalse\n", "name: program"),
        ("a: true\na: false\n", "each name once"),
    ] {
        assert!(programs(list).unwrap_err().to_string().contains(word), "{list:?}");
    }
}
