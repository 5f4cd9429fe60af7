//! Who drives what out, from samples.

use super::*;
use proptest::prelude::*;

const READ_NS: f64 = 480.0;

/// As many samples in which a line that was left for so long takes this.
fn samples_of(samples: u64, line_ns: f64, left_us: u64) -> GaugeCounts {
    let took = libm::round(8.0 * libm::log2(16.0 * line_ns / 128.0)) as u64;
    let kept = KeptCounts { samples, took: samples * took, ns: 1000 * samples * left_us };
    GaugeCounts { kept, ..GaugeCounts::default() }
}

fn learnt(of: &[(&str, GaugeCounts)]) -> Kept {
    let beside = of.iter().map(|(name, counts)| ((*name).into(), counts.clone())).collect();
    let mut kept = Kept::default();
    kept.learn(1.0, &GaugeReading::default(), &GaugeReading { beside, ..Default::default() });
    kept
}

fn told(of: &[(&str, GaugeCounts)]) -> BTreeMap<Tenant, DrivesOut> {
    learnt(of).driving_out(libm::log(4.0 * READ_NS / 128.0))
}

/// As measured on an EPYC host, beside one that computes.
fn driven_out(count: u64, line_ns: f64, left_us: u64) -> Option<DrivesOut> {
    let of = [("a", samples_of(count, line_ns, left_us)), ("b", samples_of(200, 19.1, 4000))];
    told(&of).remove(&"a".into())
}

#[test]
fn who_fills_the_cache_is_told_from_who_computes() {
    let cases = [
        ("a loop", 19.1, 4000, 0.0..0.01),
        ("l2-capacity", 49.7, 4000, 0.0..0.05),
        ("gzip", 57.6, 4000, 0.0..0.06),
        ("md5sum", 82.6, 4000, 0.05..0.1),
        ("xz", 125.0, 4000, 0.12..0.2),
        ("stress-ng --stream", 175.0, 4000, 0.2..0.3),
        ("llc-capacity", 215.0, 4000, 0.3..0.5),
        ("memory-bandwidth", 269.0, 4000, 0.7..0.9),
        ("llc-capacity in short turns", 93.7, 800, 0.3..0.5),
        // Who goes through the shared cache without leaving it: what lies in the second one is there then.
        ("llc-bandwidth in short turns", 54.0, 900, 0.1..0.2),
        ("a loop in short turns", 19.1, 500, 0.0..0.01),
    ];
    for (name, line_ns, left_us, share) in cases {
        let told = driven_out(200, line_ns, left_us);
        assert!(told.is_none_or(|told| told.weight_ln() > 0.0), "{name}: {told:?}");
        let per_ms = told.map_or(0.0, |told| told.per_ms);
        assert!(share.contains(&per_ms), "{name}: {per_ms}");
    }
}

/// As on a host that gives the other thread of the core to somebody else: what a loop of nothing leaves
/// there is gone in some milliseconds.
#[test]
fn what_goes_whoever_has_the_cpu_is_put_down_to_nobody() {
    let of = |line_ns| samples_of(200, line_ns, 4000);
    let all = [("loop", of(120.0)), ("gzip", of(130.0)), ("sh", of(110.0)), ("xz", of(125.0))];
    assert_eq!(told(&all), BTreeMap::new());
    // Who drives out much all the same is told, for what comes on top of that.
    let mut more = all.to_vec();
    more.push(("fills", of(215.0)));
    let told = told(&more);
    let [(who, drives)] = &told.iter().collect::<Vec<_>>()[..] else { panic!("{told:?}") };
    assert_eq!(who.as_str(), "fills");
    assert!(drives.per_ms < 0.35 && drives.anyhow_per_ms > 0.1, "{drives:?}");
}

#[test]
fn without_others_nothing_is_told_to_compare_with() {
    let fills = samples_of(200, 215.0, 4000);
    assert_eq!(told(&[("a", fills.clone())]), BTreeMap::new());
    assert_eq!(told(&[("a", fills.clone()), ("b", samples_of(19, 19.1, 4000))]), BTreeMap::new());
    assert_eq!(told(&[("a", fills), ("b", samples_of(20, 19.1, 4000))]).len(), 1);
}

#[test]
fn what_is_old_fades_and_what_is_new_tells() {
    let counts = |samples: u64, took: u64| {
        let kept = KeptCounts { samples, took, ns: 4_000_000 * samples };
        let of = GaugeCounts { kept, ..GaugeCounts::default() };
        // Others compute all the time.
        let others = samples_of(40 * samples, 19.1, 4000);
        GaugeReading { beside: [("a".into(), of)].into(), others, ..GaugeReading::default() }
    };
    let reads_ln = libm::log(4.0 * 480.0 / 128.0);
    let (none, first, then) =
        (GaugeReading::default(), counts(50, 50 * 38), counts(90, 50 * 38 + 400));
    let mut kept = Kept::default();
    kept.learn(1.0, &none, &first);
    assert!(kept.driving_out(reads_ln).contains_key(&"a".into()));
    // Nothing new, and the old is forgotten; then it does something else.
    kept.learn(60.0, &first, &first);
    assert!(kept.driving_out(reads_ln).is_empty());
    kept.learn(1.0, &first, &then);
    assert!(kept.driving_out(reads_ln).is_empty());
    assert!((kept.of[&"a".into()].samples - 42.4).abs() < 0.5, "{kept:?}");
}

#[test]
fn few_samples_tell_nothing() {
    assert!(driven_out(9, 215.0, 4000).is_none());
    assert!(driven_out(10, 215.0, 4000).is_some());
}

proptest! {
    #[test]
    fn shares_and_weights_are_bounded(
        samples in 10u64..1000, line_ns in 8.0f64..2000.0, left_us in 300u64..12_000
    ) {
        if let Some(told) = driven_out(samples, line_ns, left_us) {
            prop_assert!(told.per_ms.is_finite() && told.per_ms > COUNTS_FROM);
            prop_assert!((0.0..=MOST_LN).contains(&told.weight_ln()));
        }
    }
}
