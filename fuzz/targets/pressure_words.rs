//! Words of `quell pressure`: intensities, ramps, resources.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{Numbers, text};
use quell_pressure::{Idle, Intensity, Plan, Resource};
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let _ = text.parse::<Idle>();
    if let Ok(resource) = text.parse::<Resource>() {
        assert_eq!(resource.name().parse::<Resource>().ok(), Some(resource));
    }
    let mut numbers = Numbers(data);
    if let Ok(intensity) = text.parse::<Intensity>() {
        assert!((0.0..=100.0).contains(&intensity.percent()));
        assert_eq!(intensity.to_string().parse::<Intensity>().ok(), Some(intensity));
        let whole = numbers.u64();
        assert!(intensity.of(whole) <= whole, "{intensity} of {whole}");
    }
    if let Ok(plan) = text.parse::<Plan>() {
        let plan = plan.over(Duration::from_nanos(numbers.u64()));
        for _ in 0..4 {
            let now = plan.at(Duration::from_nanos(numbers.u64()));
            assert!((0.0..=100.0).contains(&now.percent()), "{plan}: {now}");
            assert!(now <= plan.peak(), "{plan}: {now} above its peak");
        }
    }
});
