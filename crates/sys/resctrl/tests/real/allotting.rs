//! What is written to a schemata is what the processor is told, in the right domain and class.

use crate::lab::{Lab, caches, made};
use quell_resctrl::{Group, MbaUnit, RawFile, Resctrl, Resource};
use quell_types::{Gap, KnobRange, Setting};
use std::fs;

const GROUP: &str = "quell-a";

/// A mask for each domain that its neighbours do not have, legal on every machine of the lab.
fn own_mask(domain: u32, ways: u32) -> u64 {
    let (low, wide) = (domain % (ways - 1), 1 + domain % 2);
    (1 << low) | (1 << (low + wide - 1))
}

fn full(tree: &Resctrl) -> u64 {
    tree.info().llc().unwrap().rules.full
}

#[test]
fn what_the_kernel_says_is_what_the_machine_offers() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let (offers, info) = (lab.offers(), tree.info());
    let rmids = info.monitoring.as_ref().unwrap().rmids;
    assert_eq!(u64::from(rmids), offers["rmids"]);
    if offers["l3_ways"] == 0 {
        assert!(matches!(info.llc(), Err(Gap::Absent(_))) && info.bandwidth.is_err());
        assert!(matches!(tree.classes(), Err(Gap::Absent(_))));
        return;
    }
    let cache = info.llc().unwrap();
    assert_eq!(cache.rules.full, (1 << offers["l3_ways"]) - 1);
    assert_eq!(cache.rules.sparse, offers["l3_sparse"] == 1);
    assert_eq!(cache.rules.shareable, offers["l3_shareable"]);
    assert_eq!((cache.rules.min_bits, u64::from(cache.classes)), (1, offers["l3_classes"]));
    assert_eq!(info.caches.contains_key(&Resource::L2), offers["l2_ways"] > 0);
    let mba = info.bandwidth.as_ref().unwrap();
    assert_eq!((mba.rules.unit, mba.rules.linear), (MbaUnit::Percent, true));
    assert_eq!(mba.rules.min, 100 - offers["mba_max_delay"]);
    let fewest = [&offers["l3_classes"], &offers["mba_classes"]].into_iter().min().unwrap();
    assert_eq!(u64::from(info.classes().unwrap()), *fewest);
    for resource in [Resource::L3, Resource::Mb] {
        assert_eq!(tree.domains(resource).unwrap(), caches(), "{resource}");
    }
}

#[test]
fn every_domains_mask_and_delay_reach_the_processor() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create(GROUP));
    let (class, _) = lab.ids(&group);
    let rules = tree.info().llc().unwrap().rules;
    let bandwidth = tree.info().bandwidth.as_ref().unwrap().rules;
    for domain in caches() {
        let mask = own_mask(domain, rules.max_ways());
        tree.llc_ways(&group, domain).unwrap().write(&Setting::Ways(mask)).unwrap();
        let percent = 100 - 7 * (domain % 13);
        let knob = tree.memory_bandwidth(&group, domain).unwrap();
        knob.write(&Setting::Percent(percent)).unwrap();
        assert_eq!(knob.read(), Ok(knob.round(&Setting::Percent(percent)).unwrap()));
    }
    for domain in caches() {
        assert_eq!(lab.l3(domain, class), own_mask(domain, rules.max_ways()), "domain {domain}");
        let percent = bandwidth.round(100 - 7 * (domain % 13)).unwrap();
        assert_eq!(lab.delay(domain, class), 100 - u64::from(percent), "domain {domain}");
        assert_eq!((lab.l3(domain, 0), lab.delay(domain, 0)), (rules.full, 0), "default class");
    }
}

#[test]
fn the_crates_check_and_the_kernel_agree_on_masks() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create(GROUP));
    let (class, _) = lab.ids(&group);
    let rules = tree.info().llc().unwrap().rules;
    let step = 1 + rules.full as usize / 700;
    for mask in (0..=rules.full + 1).step_by(step).chain([rules.full + 1, u64::from(u32::MAX)]) {
        let before = lab.l3(0, class);
        match group.set(&[Resource::L3], 0, mask) {
            Ok(()) => {
                assert_eq!((rules.check(mask), lab.l3(0, class)), (Ok(()), mask), "{mask:#x}");
            }
            Err(error) => {
                assert!(rules.check(mask).is_err(), "{mask:#x}: {error}");
                let why = error.status().unwrap();
                let known = ["out of range", "non-consecutive 1-bits"];
                assert!(known.iter().any(|words| why.contains(words)), "{mask:#x}: {why}");
                assert_eq!(lab.l3(0, class), before, "{mask:#x}: nothing changed");
            }
        }
    }
}

#[test]
fn every_percentage_is_held_as_foretold() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create(GROUP));
    let (class, _) = lab.ids(&group);
    let knob = tree.memory_bandwidth(&group, 0).unwrap();
    let Ok(KnobRange::Percent { min, .. }) = knob.range() else { panic!("no percentages") };
    for percent in (0..=100).chain([250]) {
        let foretold = knob.round(&Setting::Percent(percent)).unwrap();
        knob.write(&Setting::Percent(percent)).unwrap();
        assert_eq!(knob.read(), Ok(foretold.clone()), "{percent}");
        let Setting::Percent(held) = foretold else { panic!("{foretold:?}") };
        assert_eq!(lab.delay(0, class), u64::from(100 - held), "{percent}");
    }
    for beyond in [u64::from(min) - 1, 101] {
        let error = group.set(&[Resource::Mb], 0, beyond).unwrap_err();
        let words = format!("MB value {beyond} out of range [{min},100]");
        assert_eq!((error.status(), error.errno()), (Some(words.as_str()), Some(libc::EINVAL)));
    }
}

#[test]
fn a_snapshot_comes_back_word_for_word_and_so_does_the_processor() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let default = tree.default_group();
    // Something that is not what a fresh mount has.
    tree.llc_ways(&default, 0).unwrap().write(&Setting::Ways(0b110)).unwrap();
    tree.memory_bandwidth(&default, 0).unwrap().write(&Setting::Percent(60)).unwrap();
    let (raw, mask, delay) = (default.snapshot().unwrap(), lab.l3(0, 0), lab.delay(0, 0));
    let others: Vec<u64> = caches().iter().skip(1).map(|domain| lab.l3(*domain, 0)).collect();
    for put_back in [as_the_crate_does, as_a_journal_does] {
        for domain in caches() {
            tree.llc_ways(&default, domain).unwrap().write(&Setting::Ways(1)).unwrap();
        }
        tree.memory_bandwidth(&default, 0).unwrap().write(&Setting::Percent(100)).unwrap();
        assert_ne!(default.snapshot().unwrap(), raw);
        put_back(&default, &raw);
        assert_eq!(default.snapshot().unwrap(), raw);
        assert_eq!((lab.l3(0, 0), lab.delay(0, 0)), (mask, delay));
        let now: Vec<u64> = caches().iter().skip(1).map(|domain| lab.l3(*domain, 0)).collect();
        assert_eq!(now, others);
    }
}

fn as_the_crate_does(group: &Group, raw: &RawFile) {
    group.restore(raw).unwrap();
}

fn as_a_journal_does(_: &Group, raw: &RawFile) {
    fs::write(&raw.path, &raw.text).unwrap();
}

#[test]
fn ways_of_l2_are_kept_when_those_of_l3_change() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let Ok(second) = tree.domains(Resource::L2) else {
        assert_eq!(lab.offers()["l2_ways"], 0);
        return;
    };
    let group = made(|| tree.create(GROUP));
    let (class, _) = lab.ids(&group);
    let mask = |domain: u32| 1 << (domain % 8);
    for domain in &second {
        group.set(&[Resource::L2], *domain, mask(*domain)).unwrap();
    }
    for domain in caches() {
        tree.llc_ways(&group, domain).unwrap().write(&Setting::Ways(0b11)).unwrap();
    }
    for domain in second {
        assert_eq!(lab.l2(domain, class), mask(domain), "L2 {domain}");
        assert_eq!(lab.l2(domain, 0), 0xff, "L2 {domain}, default class");
    }
}

#[test]
fn with_cdp_code_and_data_get_the_same_ways() {
    let Some((lab, tree)) = with_cdp() else { return };
    assert!(tree.mount().cdp && lab.ask("cdp 0") == "1");
    let halved = lab.offers()["l3_classes"] / 2;
    assert_eq!(u64::from(tree.info().llc().unwrap().classes), halved);
    let group = made(|| tree.create(GROUP));
    let (class, _) = lab.ids(&group);
    let domain = *caches().last().unwrap();
    let knob = tree.llc_ways(&group, domain).unwrap();
    knob.write(&Setting::Ways(0b11100)).unwrap();
    assert_eq!(knob.read(), Ok(Setting::Ways(0b11100)));
    let halves = [2 * class, 2 * class + 1].map(|slot| lab.l3(domain, slot));
    assert_eq!(halves, [0b11100, 0b11100], "data and code");
    assert_eq!([0, 1].map(|slot| lab.l3(domain, slot)), [full(&tree); 2], "default class");

    group.set(&[Resource::L3Code], domain, 0b1).unwrap();
    assert!(matches!(knob.read(), Err(Gap::Ambiguous(_))), "{:?}", knob.read());
    assert_eq!((lab.l3(domain, 2 * class), lab.l3(domain, 2 * class + 1)), (0b11100, 0b1));
}

fn with_cdp() -> Option<(Lab, Resctrl)> {
    let lab = Lab::get().filter(|lab| lab.offers()["l3_cdp"] == 1)?;
    let tree = lab.mount("cdp");
    Some((lab, tree))
}

#[test]
fn with_megabytes_per_second_there_is_no_percentage_and_ways_work() {
    let Some((lab, tree)) = Lab::allotting("mba_MBps") else { return };
    assert!(tree.mount().mba_mbps);
    let group = made(|| tree.create(GROUP));
    let (class, _) = lab.ids(&group);
    let gap = tree.memory_bandwidth(&group, 0).unwrap_err();
    assert!(gap.to_string().contains("mba_MBps"), "{gap}");
    let before = group.schemata().unwrap().get(Resource::Mb, 0);
    tree.llc_ways(&group, 0).unwrap().write(&Setting::Ways(0b110)).unwrap();
    assert_eq!(lab.l3(0, class), 0b110);
    assert_eq!(group.schemata().unwrap().get(Resource::Mb, 0), before);
}
