//! Tests of biased isolation: worked values of the spec and small divisions.

use super::*;
use std::time::Duration;

const MIB: f64 = 1_048_576.0;

/// Three tenants of four CPUs with these shares of 33 MiB in percent, traffic in GB/s.
fn socket(second: u64, percent: [f64; 3], traffic: [f64; 3]) -> SocketReading {
    let tenant = |index: usize| TenantShare {
        cpus: 4,
        occupied_bytes: percent[index] / 100.0 * 33.0 * MIB,
        gb_per_s: traffic[index],
    };
    SocketReading {
        time: Time(0) + Duration::from_secs(second),
        llc_bytes: 33.0 * MIB,
        ways: 11,
        cpus: 48,
        gb_per_s: traffic.iter().sum(),
        tenants: ["a", "b", "c"]
            .into_iter()
            .enumerate()
            .map(|(index, name)| (Tenant::from(name), tenant(index)))
            .collect(),
    }
}

/// Plays the same division for so many intervals of 5 s, from a second on.
fn play(
    bias: &mut LlcBias,
    from_s: u64,
    intervals: u64,
    percent: [f64; 3],
    traffic: [f64; 3],
) -> BTreeMap<Tenant, Bias> {
    let step = |i| bias.step(&socket(from_s + 5 * i, percent, traffic));
    (0..intervals).map(step).last().unwrap()
}

fn names(limits: &BTreeMap<Tenant, Bias>) -> Vec<&str> {
    limits.keys().map(Tenant::as_str).collect()
}

#[test]
fn the_worked_values_of_the_coefficient() {
    let table = [
        ([60.0, 20.0, 20.0], 0.964),
        ([66.0, 17.0, 17.0], 0.945),
        ([45.0, 45.0, 10.0], 0.957),
        ([47.0, 47.0, 6.0], 0.933),
    ];
    for (percent, coefficient) in table {
        let seen = fairness(&socket(0, percent, [1.0; 3]));
        assert!((seen - coefficient).abs() < 5e-4, "{percent:?}: {seen}");
    }
    assert_eq!(fairness(&socket(0, [0.0; 3], [0.0; 3])), 1.0);
}

#[test]
fn the_worked_masks_of_slots() {
    let seen = socket(0, [34.0; 3], [1.0; 3]);
    let of = |cpus| ways_of(&seen, &TenantShare { cpus, ..TenantShare::default() });
    assert_eq!((of(4), of(24)), (2, 7));
    let slot = |side| Slot { side, ways: 2, since: Time(0), relaxed: Time(0) }.mask(seen.ways);
    assert_eq!((slot(Side::Right), slot(Side::Left)), (0x003, 0x600));
}

#[test]
fn who_takes_too_much_is_confined_and_the_others_keep_everything() {
    let mut bias = LlcBias::new(LlcBiasParams::default());
    assert!(play(&mut bias, 0, 1, [80.0, 10.0, 10.0], [5.0; 3]).is_empty(), "a moment");
    let limits = play(&mut bias, 5, 5, [80.0, 10.0, 10.0], [5.0; 3]);
    assert_eq!(limits, BTreeMap::from([("a".into(), Bias { ways: 0x600, percent: 100 })]));
    let quiet = &mut LlcBias::new(LlcBiasParams::default());
    assert!(play(quiet, 0, 9, [80.0, 10.0, 10.0], [0.5; 3]).is_empty(), "no traffic, no harm");
}

#[test]
fn two_slots_and_the_third_waits_for_a_tenure() {
    let mut bias = LlcBias::new(LlcBiasParams::default());
    play(&mut bias, 0, 6, [80.0, 10.0, 10.0], [5.0; 3]);
    let two = play(&mut bias, 30, 5, [5.0, 90.0, 5.0], [5.0; 3]);
    assert_eq!(names(&two), ["a", "b"]);
    assert_eq!(two[&"b".into()].ways, 0x003);
    let still = play(&mut bias, 55, 1, [5.0, 5.0, 90.0], [5.0; 3]);
    assert_eq!(names(&still), ["a", "b"]);
    let after = play(&mut bias, 60, 12, [5.0, 5.0, 90.0], [5.0; 3]);
    assert!(names(&after).contains(&"c") && !names(&after).contains(&"a"), "{after:?}");
    assert_eq!(after[&"c".into()].ways, 0x600, "the slot that was freed");
}

#[test]
fn once_it_is_fair_a_culprit_gets_all_ways_back_within_eleven_periods() {
    let mut bias = LlcBias::new(LlcBiasParams::default());
    play(&mut bias, 0, 6, [80.0, 10.0, 10.0], [5.0; 3]);
    let mut intervals = 0;
    while !play(&mut bias, 30 + 5 * intervals, 1, [34.0, 33.0, 33.0], [5.0; 3]).is_empty() {
        intervals += 1;
        assert!(intervals * 5 <= 11 * 30 + 30, "eleven relax periods (A-36)");
    }
    assert!(intervals * 5 >= 8 * 30, "a way at a time: {intervals}");
}

#[test]
fn full_channels_halve_the_rates_of_those_above_their_share() {
    let mut bias = LlcBias::new(LlcBiasParams::default());
    let full = play(&mut bias, 0, 1, [34.0, 33.0, 33.0], [50.0, 4.0, 4.0]);
    assert_eq!(full, BTreeMap::from([("a".into(), Bias { ways: 0x7ff, percent: 50 })]));
    let more = play(&mut bias, 5, 4, [34.0, 33.0, 33.0], [50.0, 4.0, 4.0]);
    assert_eq!(more[&"a".into()].percent, 20, "and no lower");
    let between = play(&mut bias, 25, 1, [34.0, 33.0, 33.0], [40.0, 4.0, 4.0]);
    assert_eq!(between, more, "48 is between 45 and 50");
    let free = play(&mut bias, 30, 8, [34.0, 33.0, 33.0], [4.0, 4.0, 4.0]);
    assert!(free.is_empty(), "{free:?}");
}

#[test]
fn alone_on_a_socket_nobody_is_limited_and_who_leaves_is_forgotten() {
    let mut bias = LlcBias::new(LlcBiasParams::default());
    play(&mut bias, 0, 6, [80.0, 10.0, 10.0], [5.0; 3]);
    let mut alone = socket(30, [80.0, 10.0, 10.0], [5.0; 3]);
    alone.tenants.retain(|name, _| name.as_str() == "b");
    assert!(bias.step(&alone).is_empty());
    assert!(bias.slots.is_empty());
}
