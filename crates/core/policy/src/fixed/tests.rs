//! Scenarios of the law `static` and of its sweep.

use super::*;
use crate::testing::{Standing, observe, setup};

fn settled(setup: &Setup, params: StaticParams) -> Standing {
    params.validate().unwrap();
    let (mut law, mut standing) = (Static::new(params), Standing::default());
    standing.step(&mut law, setup, observe(setup, 0.0));
    let again = standing.step(&mut law, setup, observe(setup, 1.0).slack("search", -1.0));
    assert!(again.is_empty(), "{again:?}");
    standing
}

fn eight() -> Setup {
    let links = setup(8).service("search", 15.0, 1000.0).batch("a").batch("b");
    links.link("eth0", 1000.0).build()
}

#[test]
fn by_default_batch_gets_half_of_the_cpus() {
    let standing = settled(&eight(), StaticParams::default());
    assert_eq!(standing.cpus("a").to_string(), "0-3");
    assert_eq!(standing.cpus("search").to_string(), "4-7");
    assert_eq!((standing.quota_cpus("a"), standing.ceiling("a", "eth0")), (None, None));
    let one = setup(1).service("search", 15.0, 1.0).batch("a").build();
    assert_eq!(settled(&one, StaticParams::default()).quota_cpus("a"), Some(0.5));
}

#[test]
fn groups_share_limit_and_link_in_equal_parts() {
    let params = StaticParams {
        batch_limit_cpus: Some(0.1),
        batch_period_us: 2_000,
        batch_egress_frac: Some(0.5),
        ..StaticParams::default()
    };
    let standing = settled(&eight(), params);
    assert_eq!(standing.cpus("a").len(), 0);
    let knob = Knob::CpuBandwidth { tenant: "b".into() };
    // 0.05 CPU of a 2 ms period would be 0.1 ms, less than the smallest quota of 1 ms.
    let expected = CpuBandwidth { limit_cpus: Some(Cpus(0.05)), period_us: 20_000 };
    assert_eq!(standing.settings[&knob], Setting::Bandwidth(expected));
    assert_eq!(standing.ceiling("a", "eth0"), Some(125e6 / 4.0));
}

#[test]
fn a_set_that_takes_all_cpus_leaves_services_all_of_them() {
    let params =
        StaticParams { batch_cpu_set: Some("0-7".parse().unwrap()), ..StaticParams::default() };
    assert_eq!(settled(&eight(), params).cpus("search").to_string(), "0-7");
}

#[test]
fn a_sweep_lists_splits_and_limits_that_are_all_valid_and_different() {
    for (cpus, splits) in [(1, 0), (2, 1), (4, 3), (16, 5)] {
        let setup = setup(cpus).service("search", 15.0, 1.0).batch("a").build();
        let sweep = StaticParams::default().sweep(&setup);
        assert_eq!(sweep.len(), splits + 15, "{cpus} CPUs");
        assert!(sweep.iter().all(|p| p.validate().is_ok()));
        let mut lines: Vec<String> = sweep.iter().map(ToString::to_string).collect();
        assert!(lines.contains(&"batch: 0.10 CPU per 2 ms".to_owned()), "{lines:?}");
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), sweep.len());
    }
}

#[test]
fn contradicting_parameters_are_refused() {
    let base = StaticParams::default;
    let both =
        StaticParams { batch_cpu_set: Some(CpuSet::of(0)), batch_cpu_count: Some(1), ..base() };
    let empty = StaticParams { batch_cpu_set: Some(CpuSet::new()), ..base() };
    let nan = StaticParams { batch_limit_cpus: Some(f64::NAN), ..base() };
    let link = StaticParams { batch_egress_frac: Some(1.1), ..base() };
    let period = StaticParams { batch_period_us: 10, ..base() };
    for bad in [both, empty, nan, link, period] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
}

#[test]
fn what_cannot_be_set_is_said() {
    let setup = setup(2).service("search", 15.0, 1.0).batch("a").without(|_| true).build();
    let law = Static::new(StaticParams::default());
    assert_eq!(law.degradations(&setup).len(), 2);
}
