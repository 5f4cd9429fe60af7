//! Tests of telling what is fought over.

use super::*;
use proptest::prelude::*;

const QUIET: [f64; 4] = [0.3, 1.5, 12.0, 90.0];

fn times(factors: [f64; 4]) -> AccessTimes {
    let [arithmetic_ns, private_ns, shared_ns, memory_ns] =
        std::array::from_fn(|k| QUIET[k] * factors[k]);
    AccessTimes { arithmetic_ns, private_ns, shared_ns, memory_ns }
}

fn at(second: f64) -> Time {
    Time((second * 1e9) as u64)
}

/// Noise of 3 % around 1, the same on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            sum += (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        }
        libm::exp(0.03 * sum)
    }

    fn on(&mut self, factors: [f64; 4]) -> [f64; 4] {
        factors.map(|factor| factor * self.next())
    }
}

/// A minute of bursts, one a second: each fifth in a hold that makes it quiet, the others as given.
fn after_a_minute(factors: [f64; 4], seed: u64) -> Signature {
    let (mut reporter, mut noise) = (Reporter::new(SignatureParams::default()), Noise(seed));
    for second in 0..60 {
        let held = second % 5 == 0;
        let factors = noise.on(if held { [1.0; 4] } else { factors });
        reporter.take(at(f64::from(second)), 3, &times(factors), held);
    }
    reporter.signature(at(60.0)).unwrap()
}

#[test]
fn every_resource_has_its_signature() {
    use Contention::{BusLocks, LastLevelCache, Memory};
    // Registers, private hits, shared hits, memory: times as long as in quiet moments.
    let table = [
        ([1.0, 1.0, 1.0, 1.0], None),
        ([1.0, 2.0, 2.0, 2.0], Some(BusLocks)),
        ([1.0, 1.5, 1.7, 1.4], Some(BusLocks)),
        ([1.0, 1.0, 1.5, 1.03], Some(LastLevelCache)),
        ([1.0, 1.0, 4.0, 1.1], Some(LastLevelCache)),
        ([1.0, 1.0, 1.3, 1.4], Some(Memory)),
        ([1.0, 1.0, 4.0, 1.6], Some(Memory)),
        // A slow clock, or a sibling, slows registers as much.
        ([1.4, 1.4, 1.3, 1.1], None),
        // Something in the core, which the others do not see.
        ([1.0, 1.6, 1.05, 1.0], None),
        // A fast clock inflates nothing.
        ([0.8, 0.8, 0.95, 1.0], None),
    ];
    for (factors, wanted) in table {
        for seed in 1..=20 {
            let told = after_a_minute(factors, seed);
            assert_eq!(told.contention, wanted, "{factors:?}, seed {seed}: {told:?}");
        }
    }
}

#[test]
fn it_is_sure_of_what_is_plain_and_tells_how_much() {
    let told = after_a_minute([1.0, 1.0, 2.0, 1.0], 7);
    assert!(told.confidence > 0.99, "{told:?}");
    assert!((told.inflation.shared - libm::log(2.0)).abs() < 0.1, "{told:?}");
    assert!(told.inflation.memory < 0.05 && told.bursts >= 10, "{told:?}");
    assert!(after_a_minute([1.0; 4], 7).confidence < 0.5);
}

#[test]
fn who_is_always_there_and_never_held_looks_like_the_machine() {
    let (mut reporter, mut noise) = (Reporter::new(SignatureParams::default()), Noise(1));
    for second in 0..60 {
        let factors = noise.on([1.0, 1.0, 3.0, 2.0]);
        reporter.take(at(f64::from(second)), 0, &times(factors), false);
    }
    assert_eq!(reporter.signature(at(60.0)).unwrap().contention, None);
}

#[test]
fn a_host_that_drifts_slowly_is_not_blamed_on_neighbours() {
    let (mut reporter, mut noise) = (Reporter::new(SignatureParams::default()), Noise(5));
    for step in 0..2_000 {
        let drift = 1.0 + 0.00015 * f64::from(step);
        let factors = noise.on([1.0, 1.0, drift, drift]);
        let now = at(2.0 * f64::from(step));
        reporter.take(now, 0, &times(factors), false);
        if step > 100 {
            let told = reporter.signature(now).unwrap();
            assert_eq!(told.contention, None, "step {step}: {told:?}");
        }
    }
    assert!(reporter.bursts() <= 400);
}

#[test]
fn too_few_bursts_say_nothing_and_old_ones_are_not_the_present() {
    let mut reporter = Reporter::new(SignatureParams::default());
    assert!(reporter.signature(at(0.0)).is_err());
    for second in 0..11 {
        reporter.take(at(f64::from(second)), 0, &times([1.0; 4]), false);
    }
    assert!(reporter.signature(at(11.0)).is_err());
    reporter.take(at(11.0), 0, &times([1.0; 4]), false);
    assert!(reporter.signature(at(11.0)).is_ok());
    assert!(reporter.signature(at(60.0)).is_err(), "nothing was seen of late");
    reporter.take(at(61.0), 1, &times([1.0; 4]), false);
    assert!(reporter.signature(at(61.0)).is_err(), "another CPU is compared with itself");
    reporter.take(at(700.0), 1, &times([1.0; 4]), false);
    assert_eq!(reporter.bursts(), 1, "after ten minutes the others are forgotten");
    reporter.take(at(701.0), 1, &times([f64::NAN, 1.0, 1.0, 1.0]), false);
    reporter.take(at(701.0), 1, &times([1.0, 0.0, 1.0, 1.0]), false);
    assert_eq!(reporter.bursts(), 1, "what is no time is left out");
}

#[test]
fn a_hold_that_relieves_it_shows_against_the_bursts_around_it() {
    let (mut reporter, mut noise) = (Reporter::new(SignatureParams::default()), Noise(3));
    let quiet = times([1.0; 4]);
    assert_eq!(reporter.relief(at(0.0), 0, &quiet), None, "nothing to compare with");
    for second in 0..10 {
        let factors = noise.on([1.0, 1.0, 1.5, 1.2]);
        reporter.take(at(f64::from(second)), 0, &times(factors), false);
    }
    let (ln, variance) = reporter.relief(at(10.0), 0, &quiet).unwrap();
    assert!((ln - libm::log(1.5)).abs() < 0.05 && variance < 0.01, "{ln} {variance}");
    assert_eq!(reporter.relief(at(10.0), 1, &quiet), None, "another CPU");
}

proptest! {
    #[test]
    fn the_clock_alone_is_never_taken_for_a_neighbour(
        clock in 0.4f64..3.0,
        uncore in 0.0f64..1.0,
        seed in 1u64..1_000,
    ) {
        // Shared hits follow the core's clock in part, memory does not.
        let shared = 1.0 + uncore * (clock - 1.0);
        let told = after_a_minute([clock, clock, shared, 1.0], seed);
        prop_assert_eq!(told.contention, None, "{:?}", told);
    }

    #[test]
    fn more_inflation_is_never_less_sure(
        shared in 1.3f64..3.0,
        more in 1.05f64..2.0,
        seed in 1u64..1_000,
    ) {
        let less = after_a_minute([1.0, 1.0, shared, 1.0], seed);
        let more = after_a_minute([1.0, 1.0, shared * more, 1.0], seed);
        prop_assert!(more.inflation.shared > less.inflation.shared);
        prop_assert!(more.confidence >= less.confidence - 1e-6);
        prop_assert_eq!(more.contention, Some(Contention::LastLevelCache));
    }

    #[test]
    fn any_times_are_answered(
        all in proptest::collection::vec((0u64..1_000, 0u32..3, -1.0f64..1e9, any::<bool>()), 0..80),
    ) {
        let mut reporter = Reporter::new(SignatureParams::default());
        for (second, cpu, ns, held) in all {
            let times = AccessTimes {
                arithmetic_ns: ns,
                private_ns: 2.0 * ns,
                shared_ns: 9.0,
                memory_ns: ns,
            };
            reporter.take(at(second as f64), cpu, &times, held);
            if let Ok(told) = reporter.signature(at(second as f64)) {
                prop_assert!((0.0..=1.0).contains(&told.confidence));
            }
        }
    }
}
