//! Way masks and bandwidth values: what is rounded must be what the hardware takes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::Numbers;
use quell_resctrl::mask::{MaskRules, max_batch_ways, split, ways};
use quell_resctrl::{MbaRules, MbaUnit};

fuzz_target!(|data: &[u8]| {
    let mut numbers = Numbers(data);
    masks(&mut numbers);
    bandwidth(&mut numbers);
});

fn masks(numbers: &mut Numbers<'_>) {
    let count = u32::from(numbers.u8() % 64) + 1;
    let min_bits = u32::from(numbers.u8()) % (count + 1);
    let sparse = numbers.u8() & 1 == 1;
    let full = ways(0, count);
    let rules = MaskRules { full, min_bits, sparse, shareable: numbers.u64() & full };
    let mask = numbers.u64();
    let rounded = rules.round(mask);
    assert_eq!(rules.check(rounded), Ok(()), "{mask:#x} -> {rounded:#x} by {rules:?}");
    assert_eq!(rules.round(rounded), rounded);
    if rules.check(mask).is_ok() {
        assert_eq!(rounded, mask);
    }
    let batch = u32::from(numbers.u8() % 66);
    if let Ok(split) = split(&rules, batch) {
        assert!(batch <= max_batch_ways(&rules));
        let parts = [split.batch.unwrap_or(0), split.services, split.system];
        assert_eq!(parts.iter().map(|part| part.count_ones()).sum::<u32>(), count, "they overlap");
        assert_eq!(parts.iter().fold(0, |all, part| all | part), full);
        assert!(parts[1..].iter().all(|part| rules.check(*part).is_ok()));
    }
}

fn bandwidth(numbers: &mut Numbers<'_>) {
    let unit = match numbers.u8() % 3 {
        0 => MbaUnit::Percent,
        1 => MbaUnit::EighthGigabytes,
        _ => MbaUnit::MegabytesPerSecond,
    };
    let (min, step) = (numbers.u64(), numbers.u64());
    let rules = MbaRules { unit, min, step, linear: numbers.u8() & 1 == 1 };
    let percent = u32::from(numbers.u8());
    if let Ok(value) = rules.to_value(percent) {
        assert!(value <= rules.max());
    }
    if let Ok(rounded) = rules.round(percent) {
        assert!(rounded <= 100);
    }
    let _ = (rules.to_percent(numbers.u64()), rules.percent_range());
}
