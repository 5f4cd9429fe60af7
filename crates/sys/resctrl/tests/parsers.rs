//! Any text is answered; what is formatted is read back; masks and bandwidth keep their rules.

use proptest::prelude::*;
use quell_resctrl::mask::{self, MaskRules};
use quell_resctrl::{
    CpuSupport, Line, MbaRules, MbaUnit, Resource, Schemata, parse_assign_mode, parse_counter,
    parse_domain, parse_mounts,
};
use std::collections::BTreeMap;

fn schemata() -> impl Strategy<Value = Schemata> {
    let values = proptest::collection::btree_map(any::<u32>(), any::<u64>(), 1..6);
    let resources = proptest::sample::subsequence(Resource::ALL.to_vec(), 0..8);
    resources.prop_flat_map(move |resources| {
        let count = resources.len();
        proptest::collection::vec(values.clone(), count).prop_map(move |all| {
            let line =
                |(r, v): (&Resource, BTreeMap<u32, u64>)| Line::Known(*r, v.into_iter().collect());
            Schemata::new(resources.iter().zip(all).map(line).collect()).expect("no name twice")
        })
    })
}

fn rules() -> impl Strategy<Value = MaskRules> {
    (1u32..=32, 0u32..=2, any::<bool>()).prop_map(|(ways, min_bits, sparse)| MaskRules {
        full: mask::ways(0, ways),
        min_bits: min_bits.min(ways),
        sparse,
        shareable: 0,
    })
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,60}", lines in "[L3MB:=;0-9a-f \n]{0,60}") {
        for text in [&text, &lines] {
            let _ = text.parse::<Schemata>();
            let _ = parse_counter(text);
            let _ = parse_domain(text);
            let _ = parse_assign_mode(text);
            let _ = parse_mounts(text);
            let _ = CpuSupport::parse(text);
        }
    }

    #[test]
    fn what_is_formatted_is_read_back(schemata in schemata()) {
        let text = schemata.to_string();
        prop_assert_eq!(text.parse::<Schemata>().unwrap(), schemata);
    }

    #[test]
    fn what_is_read_is_formatted_alike(text in "[L3MB2:=;0-9a-f\n]{0,80}") {
        if let Ok(schemata) = text.parse::<Schemata>() {
            prop_assert_eq!(schemata.to_string().parse::<Schemata>().unwrap(), schemata);
        }
    }

    #[test]
    fn setting_one_domain_leaves_the_others(schemata in schemata(), value in any::<u64>()) {
        let first = Resource::ALL.into_iter().find_map(|r| Some((r, schemata.values(r)?[0].0)));
        let Some((resource, domain)) = first else { return Ok(()) };
        let mut changed = schemata.clone();
        prop_assert!(changed.set(resource, domain, value));
        prop_assert_eq!(changed.get(resource, domain), Some(value));
        let old = schemata.get(resource, domain).unwrap();
        prop_assert!(changed.set(resource, domain, old));
        prop_assert_eq!(changed, schemata);
    }

    #[test]
    fn a_rounded_mask_is_taken_and_a_good_one_stays(rules in rules(), mask in any::<u64>()) {
        let rounded = rules.round(mask);
        prop_assert!(rules.check(rounded).is_ok(), "{:#x} -> {:#x}", mask, rounded);
        prop_assert_eq!(rules.round(rounded), rounded);
        if rules.check(mask).is_ok() {
            prop_assert_eq!(rounded, mask);
        }
    }

    #[test]
    fn a_split_covers_all_ways_once(rules in rules(), batch in 0u32..40) {
        let Ok(split) = mask::split(&rules, batch) else {
            let min = rules.min_bits.max(1);
            prop_assert!(batch > mask::max_batch_ways(&rules) || batch < min
                || rules.max_ways() < 2 * min);
            return Ok(());
        };
        let batch_mask = split.batch.unwrap_or(0);
        prop_assert_eq!(batch_mask | split.services | split.system, rules.full);
        prop_assert_eq!(batch_mask ^ split.services ^ split.system, rules.full);
        prop_assert!(batch_mask == 0 || batch_mask > split.services);
        prop_assert!(split.services > split.system);
        for mask in [split.services, split.system].into_iter().chain(split.batch) {
            prop_assert!(rules.check(mask).is_ok());
        }
    }

    #[test]
    fn rounded_bandwidth_stays(
        unit in 0..2, min in 1u64..=50, step in 1u64..=20, linear in any::<bool>(), want in 0u32..200,
    ) {
        let unit = [MbaUnit::Percent, MbaUnit::EighthGigabytes][unit as usize];
        let rules = MbaRules { unit, min, step, linear };
        let rounded = rules.round(want).unwrap();
        prop_assert!(rounded <= 100);
        prop_assert!(rules.to_value(want).unwrap() <= rules.max());
        if unit == MbaUnit::Percent {
            prop_assert_eq!(rules.round(rounded).unwrap(), rounded);
            prop_assert!(rounded >= min as u32);
        }
        prop_assert!(rules.round(want + 1).unwrap() >= rounded, "never less for more");
    }
}

#[test]
fn padded_and_plain_schemata_are_the_same() {
    let old: Schemata = "    MB:0= 30;1=100\n    L3:0=003;1=7ff\n".parse().unwrap();
    let new: Schemata = "MB:0=30;1=100\nL3:0=3;1=7ff\n".parse().unwrap();
    assert_eq!(old, new);
    assert_eq!(new.to_string(), "MB:0=30;1=100\nL3:0=3;1=7ff\n");
}

#[test]
fn an_unknown_resource_is_kept_word_for_word() {
    let text = "L3:0=3\nXBW:0=a/b;1=?\n";
    assert_eq!(text.parse::<Schemata>().unwrap().to_string(), text);
}

#[test]
fn what_is_no_schemata_is_refused() {
    for text in [
        "L3:uninitialized",
        "L3",
        "L3:",
        "L3:0",
        "L3:0=",
        "L3:0=xyz",
        "L3:+1=3",
        "L3:0=+3",
        "MB:0=1f",
        "L3:0=1;0=2",
        "L3:0=1\nL3:0=1",
        "L3:0=1;",
    ] {
        assert!(text.parse::<Schemata>().is_err(), "{text:?}");
    }
}

#[test]
fn the_layout_is_batch_services_system_from_high_to_low() {
    let rules = MaskRules { full: 0xfffff, min_bits: 1, sparse: false, shareable: 0xc0000 };
    let start = mask::split(&rules, 0).unwrap();
    assert_eq!((start.batch, start.services, start.system), (None, 0xffffe, 1));
    let later = mask::split(&rules, 4).unwrap();
    assert_eq!((later.batch, later.services, later.system), (Some(0xf0000), 0xfffe, 1));
    assert_eq!(mask::max_batch_ways(&rules), 18);
    assert_eq!(rules.unshared(), 0x3ffff);
}

#[test]
fn delays_that_are_not_linear_are_powers_of_two() {
    let rules = MbaRules { unit: MbaUnit::Percent, min: 10, step: 10, linear: false };
    for (want, get) in [(100, 100), (99, 99), (97, 96), (90, 84), (50, 36), (10, 36), (0, 36)] {
        assert_eq!(rules.round(want).unwrap(), get, "{want}");
    }
}

#[test]
fn counters_that_are_no_numbers_are_gaps() {
    use quell_types::Gap;
    assert_eq!(parse_counter("1234\n"), Ok(1234));
    assert!(matches!(parse_counter("Unavailable\n"), Err(Gap::NotYet(_))));
    assert!(matches!(parse_counter("Unassigned\n"), Err(Gap::Absent(_))));
    for text in ["Error\n", "", "-1", "12a", "99999999999999999999999"] {
        assert!(matches!(parse_counter(text), Err(Gap::Failed(_))), "{text:?}");
    }
}

#[test]
fn domains_and_mounts_are_read() {
    assert_eq!(parse_domain("mon_L3_00"), Some(0));
    assert_eq!(parse_domain("mon_L3_135"), Some(135));
    for name in ["mon_sub_L3_00", "mon_L3_", "mon_L3_x", "mon_PERF_PKG_00", "mon_L3_+1"] {
        assert_eq!(parse_domain(name), None, "{name}");
    }
    let mount = parse_mounts("r /mnt/a\\040b resctrl rw,cdp,mba_MBps 0 0\n").unwrap();
    assert_eq!(mount.path.to_str(), Some("/mnt/a b"));
    assert!(mount.cdp && mount.mba_mbps);
    assert_eq!(parse_mounts("resctrl /x tmpfs rw 0 0\n"), None);
}
