//! Scaled counters never go back, and a counter without time is a gap.

use proptest::prelude::*;
use quell_counters::{Event, Raw, Tally, open_error};
use quell_types::Gap;
use std::io;

fn raw(value: u64, enabled_ns: u64, running_ns: u64) -> Raw {
    Raw { value, enabled_ns, running_ns }
}

#[test]
fn half_the_time_counts_double() {
    let mut tally = Tally::default();
    assert_eq!(tally.advance(raw(100, 1000, 500)), Ok(200));
    // Alone on the PMU from here on: no more than what was counted.
    assert_eq!(tally.advance(raw(150, 2000, 1500)), Ok(250));
    // The textbook estimate 150 × 2000 / 1500 = 200 would have gone back.
}

#[test]
fn an_interval_without_the_pmu_is_a_gap_and_is_caught_up() {
    let mut tally = Tally::default();
    assert_eq!(tally.advance(raw(100, 1000, 1000)), Ok(100));
    assert!(matches!(tally.advance(raw(100, 2000, 1000)), Err(Gap::NotYet(_))));
    assert_eq!(tally.advance(raw(200, 3000, 2000)), Ok(300), "100 counted in half of 2000 ns");
    let mut never = Tally::default();
    assert!(matches!(never.advance(raw(0, 5000, 0)), Err(Gap::NotYet(_))));
}

#[test]
fn nothing_ran_is_zero_not_a_gap() {
    let mut tally = Tally::default();
    assert_eq!(tally.advance(Raw::default()), Ok(0));
    assert_eq!(tally.advance(raw(7, 10, 10)), Ok(7));
    assert_eq!(tally.advance(raw(7, 10, 10)), Ok(7));
}

proptest! {
    #[test]
    fn a_sum_never_goes_back_and_never_undercounts(
        steps in proptest::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40), 1..40),
    ) {
        let (mut now, mut tally, mut last) = (Raw::default(), Tally::default(), 0);
        for (value, enabled, running) in steps {
            let running = running.min(enabled);
            now.value += if running == 0 { 0 } else { value };
            now.enabled_ns += enabled;
            now.running_ns += running;
            if let Ok(sum) = tally.advance(now) {
                prop_assert!(sum >= last && sum >= now.value, "{} after {}", sum, last);
                last = sum;
            }
        }
    }

    #[test]
    fn any_raw_reading_is_answered(readings in proptest::collection::vec(any::<(u64, u64, u64)>(), 1..20)) {
        let (mut tally, mut last) = (Tally::default(), 0);
        for (value, enabled_ns, running_ns) in readings {
            if let Ok(sum) = tally.advance(raw(value, enabled_ns, running_ns)) {
                prop_assert!(sum >= last);
                last = sum;
            }
        }
    }

    #[test]
    fn any_errno_has_a_reason(errno in 1i32..200) {
        let gap = open_error(Event::Cycles, &io::Error::from_raw_os_error(errno));
        prop_assert!(gap.to_string().contains("cycles"));
    }
}

#[test]
fn the_usual_refusals_are_told_apart() {
    for (errno, words) in [
        (libc::ENOENT, "shows no PMU"),
        (libc::EACCES, "CAP_PERFMON"),
        (libc::EOPNOTSUPP, "not supported here"),
        (libc::EINVAL, "not supported here"),
        (libc::EMFILE, "LimitNOFILE"),
    ] {
        let gap = open_error(Event::CacheMisses, &io::Error::from_raw_os_error(errno));
        assert!(gap.to_string().contains(words), "{errno}: {gap}");
    }
}
