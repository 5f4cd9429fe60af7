//! What holds of every partitioning law whatever it sees.

use crate::heracles::{Heracles, HeraclesParams};
use crate::testing::{Seen, Standing, observe, setup};
use crate::thesis::{DramLimiter, Thesis, ThesisParams};
use crate::{OnDisable, Policy};
use proptest::prelude::*;
use quell_types::{Gap, Knob, KnobRange, Setting, Setup};

/// A machine: CPUs, SMT, exclusive sets, ways, fewest ways of a mask, batch groups.
type Machine = (u32, bool, bool, Option<u32>, u32, bool);

fn machine((cpus, smt, exclusive, ways, min_bits, second): Machine) -> Setup {
    let mut builder = setup(cpus).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x");
    builder = builder.link("eth0", 100.0).mba().frequency(1_000_000, 2_000_000);
    if second {
        builder = builder.batch("y");
    }
    if smt {
        builder = builder.smt();
    }
    if exclusive {
        builder = builder.exclusive();
    }
    if let Some(ways) = ways {
        builder = builder.ways(ways);
    }
    let mut setup = builder.build();
    for range in setup.knobs.values_mut() {
        if let KnobRange::Ways { min_bits: bits, .. } = range {
            *bits = min_bits;
        }
    }
    setup
}

/// One observation: seconds since the last, then readings, none = a gap.
type Reading = Option<f64>;
type Moment = (f64, Reading, Reading, Reading, Reading, u8);

fn reading(low: f64, high: f64) -> impl Strategy<Value = Reading> {
    prop_oneof![1 => Just(None), 5 => (low..high).prop_map(Some)]
}

fn moment() -> impl Strategy<Value = Moment> {
    // Growth needs calm stretches, so good and bad times are drawn apart.
    let slack = prop_oneof![3 => reading(0.4, 1.0), 1 => reading(-2.0, 0.5)];
    let load = prop_oneof![3 => reading(0.0, 0.5), 1 => reading(0.0, 1.2)];
    (0.1f64..6.0, slack, load, reading(0.0, 80e9), reading(0.0, 60e9), 0u8..32)
}

fn seen(setup: &Setup, second: f64, moment: Moment) -> Seen {
    let (_, slack, load, total, batch, whims) = moment;
    let mut seen = observe(setup, second).power(&[90.0]).frequencies(&[1_500_000; 16]);
    if let Some(slack) = slack {
        seen = seen.slack("a", slack).slack("b", 0.9);
    }
    if let Some(load) = load {
        seen = seen.load("a", load).egress("a", load * 20e6).egress("b", 0.0);
    }
    if let Some(total) = total {
        seen = seen.host_memory(total);
    }
    if let Some(batch) = batch {
        seen = seen.memory("x", batch);
    }
    match whims {
        0 => seen.gone("a"),
        1 => seen.gone("x"),
        2 => seen.tasks("x", 0, 0).cpu("x", 0.0),
        3 => seen.with(|o| std::sync::Arc::make_mut(&mut o.host).power = Err(Gap::Pending)),
        4 => seen.slack("a", f64::NAN),
        _ => seen,
    }
}

fn contiguous(mask: u64) -> bool {
    let bits = mask >> mask.trailing_zeros();
    mask != 0 && bits & bits.wrapping_add(1) == 0
}

fn hold(setup: &Setup, standing: &Standing, exclusive: bool) -> Result<(), TestCaseError> {
    let service = standing.cpus("a");
    for batch in setup.batch.iter().map(|b| b.name.as_str()) {
        let held = standing.frozen(batch) || standing.quota_cpus(batch).is_some_and(|q| q <= 0.001);
        let cpus = standing.cpus(batch);
        prop_assert_eq!(service.is_empty(), cpus.is_empty());
        prop_assert!(cpus.is_empty() || !service.is_empty(), "services keep a CPU");
        prop_assert!((held && !exclusive) || service.is_disjoint(&cpus), "{} {}", service, cpus);
        prop_assert_eq!(standing.cpus("b"), service.clone());
        let (mine, theirs) = (standing.ways("a"), standing.ways(batch));
        if setup.controls(&Knob::LlcWays { tenant: batch.into(), domain: 0 }) && mine > 0 {
            prop_assert!(contiguous(mine) && contiguous(theirs), "{mine:#x} {theirs:#x}");
            prop_assert!(held || mine & theirs == 0, "{mine:#x} {theirs:#x}");
        }
    }
    for (knob, setting) in &standing.settings {
        prop_assert!(setup.controls(knob), "{knob} cannot be set");
        if let Setting::Rate(Some(rate)) = setting {
            prop_assert!(rate.0 >= 12.5 && rate.0 <= 12.5e6, "{rate:?}");
        }
    }
    Ok(())
}

fn follow(law: &mut dyn Policy, on: Machine, moments: &[Moment]) -> Result<(), TestCaseError> {
    let setup = machine(on);
    let (mut standing, mut second) = (Standing::default(), 0.0);
    for moment in moments {
        second += moment.0;
        let seen = seen(&setup, second, *moment).obedient(&standing).done();
        let proposals = law.step(&setup, &seen);
        standing.take(&proposals);
        hold(&setup, &standing, on.2)?;
        for p in &proposals {
            prop_assert!(p.inputs.iter().all(|i| i.value.is_finite()), "{:?}", p);
            prop_assert_eq!(&p.policy, law.name());
        }
    }
    Ok(())
}

fn machines() -> impl Strategy<Value = Machine> {
    let ways = prop_oneof![Just(None), (1u32..24).prop_map(Some)];
    (1u32..17, any::<bool>(), any::<bool>(), ways, 1u32..4, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn thesis_keeps_both_sides_apart(
        on in machines(),
        moments in proptest::collection::vec(moment(), 1..60),
        sub in any::<bool>(), stop in any::<bool>(), mba in any::<bool>(),
    ) {
        let params = ThesisParams {
            sub_core_step_cores: if sub { 0.25 } else { 0.0 },
            on_disable: if stop { OnDisable::StopTasks } else { OnDisable::Freeze },
            dram_limiter: if mba { DramLimiter::Mba } else { DramLimiter::Cores },
            ..ThesisParams::default()
        };
        follow(&mut Thesis::new(params), on, &moments)?;
    }

    #[test]
    fn heracles_keeps_both_sides_apart(
        on in machines(),
        moments in proptest::collection::vec(moment(), 1..60),
        limit in any::<bool>(), power in any::<bool>(),
    ) {
        let params = HeraclesParams {
            peak_dram_bytes_per_s: limit.then_some(45e9),
            tdp_w: power.then_some(95.0),
            guaranteed_khz: power.then_some(1_600_000),
            cool_down_s: 10.0,
            ..HeraclesParams::default()
        };
        follow(&mut Heracles::new(params), on, &moments)?;
    }
}
