//! One body, on copies of the fixtures that take every write and on trees that refuse what the
//! kernel refuses.

mod common;

use common::{ALLOCATING, GROWTH_BYTES, Tree};
use quell_resctrl::{Monitor, Resctrl, Resource, Schemata, mask};
use quell_types::{CpuSet, KnobRange, Setting};

const GROUP: &str = "quell-batch";

fn on_each(test: impl Fn(&str, &Tree, &Resctrl)) {
    for name in ALLOCATING {
        for tree in Tree::both(name) {
            let resctrl = Resctrl::open(tree.root()).expect("the tree is mounted");
            test(name, &tree, &resctrl);
        }
    }
}

fn llc(resctrl: &Resctrl) -> Resource {
    resctrl.info().llc_resources()[0]
}

/// All values of a schemata but those of one domain of some resources.
fn others(schemata: &Schemata, changed: &[Resource], domain: u32) -> Vec<(Resource, u32, u64)> {
    let all = Resource::ALL.into_iter().flat_map(|resource| {
        let values = schemata.values(resource).unwrap_or_default();
        values.iter().map(move |(d, value)| (resource, *d, *value))
    });
    all.filter(|(r, d, _)| !(changed.contains(r) && *d == domain)).collect()
}

#[test]
fn ways_change_in_one_domain_only() {
    on_each(|name, _, resctrl| {
        let group = resctrl.create(GROUP).unwrap();
        let parts = resctrl.info().llc_resources();
        let domain = *resctrl.domains(llc(resctrl)).unwrap().last().unwrap();
        let before = group.schemata().unwrap();
        let knob = resctrl.llc_ways(&group, domain).unwrap();
        let KnobRange::Ways { full, classes, .. } = knob.range().unwrap() else {
            panic!("{name}: not a range of ways")
        };
        assert!(classes >= 2, "{name}");
        assert_eq!(knob.read(), Ok(Setting::Ways(full)), "{name}");

        knob.write(&Setting::Ways(0b1100)).unwrap();
        assert_eq!(knob.read(), Ok(Setting::Ways(0b1100)), "{name}");
        let after = group.schemata().unwrap();
        assert_eq!(others(&after, &parts, domain), others(&before, &parts, domain), "{name}");
        for part in parts {
            assert_eq!(after.get(part, domain), Some(0b1100), "{name} {part}");
        }
    });
}

#[test]
fn bandwidth_reads_back_as_rounded() {
    on_each(|name, _, resctrl| {
        let group = resctrl.create(GROUP).unwrap();
        let Ok(knob) = resctrl.memory_bandwidth(&group, 0) else {
            assert_eq!(name, "no-mba");
            return;
        };
        for percent in [100, 95, 33, 10, 1, 0, 250] {
            let before = group.schemata().unwrap();
            let wanted = Setting::Percent(percent);
            knob.write(&wanted).unwrap_or_else(|e| panic!("{name} {percent}: {e}"));
            let rounded = knob.round(&wanted).unwrap();
            assert_eq!(knob.read(), Ok(rounded.clone()), "{name} {percent}");
            assert_eq!(knob.round(&rounded).unwrap(), rounded, "{name} {percent}");
            let (old, new) = (&before, group.schemata().unwrap());
            assert_eq!(others(&new, &[Resource::Mb], 0), others(old, &[Resource::Mb], 0), "{name}");
        }
    });
}

#[test]
fn the_three_classes_never_overlap() {
    on_each(|name, _, resctrl| {
        let rules = resctrl.info().llc().unwrap().rules;
        let batch = resctrl.create(GROUP).unwrap();
        let most = mask::max_batch_ways(&rules);
        for ways in rules.min_bits.max(1)..=most {
            let split = mask::split(&rules, ways).unwrap();
            let system = resctrl.llc_ways(&resctrl.default_group(), 0).unwrap();
            system.write(&Setting::Ways(split.system)).unwrap();
            let knob = resctrl.llc_ways(&batch, 0).unwrap();
            knob.write(&Setting::Ways(split.batch.unwrap())).unwrap();
            rules.check(split.services).unwrap();
            let all = [split.batch.unwrap(), split.services, split.system];
            let sum: u32 = all.iter().map(|mask| mask.count_ones()).sum();
            assert_eq!(all.iter().fold(0, |a, b| a | b), rules.full, "{name} {ways}");
            assert_eq!(sum, rules.max_ways(), "{name} {ways}");
        }
        assert!(mask::split(&rules, most + 1).is_err(), "{name}");
    });
}

#[test]
fn a_snapshot_of_the_default_group_comes_back_word_for_word() {
    on_each(|name, _, resctrl| {
        let default = resctrl.default_group();
        let knob = resctrl.llc_ways(&default, 0).unwrap();
        let raw = knob.raw_files().unwrap();
        assert_eq!(raw, [default.snapshot().unwrap()]);
        knob.write(&Setting::Ways(0b11)).unwrap();
        assert_ne!(default.snapshot().unwrap(), raw[0], "{name}");
        default.restore(&raw[0]).unwrap();
        assert_eq!(default.snapshot().unwrap(), raw[0], "{name}");
        // As a journal does it, without this crate.
        knob.write(&Setting::Ways(0b11)).unwrap();
        std::fs::write(&raw[0].path, &raw[0].text).unwrap();
        assert_eq!(default.snapshot().unwrap(), raw[0], "{name}");
    });
}

#[test]
fn a_snapshot_of_another_group_is_refused() {
    on_each(|_, _, resctrl| {
        let group = resctrl.create(GROUP).unwrap();
        let other = resctrl.default_group().snapshot().unwrap();
        let error = group.restore(&other).unwrap_err();
        assert!(error.to_string().contains("another group"), "{error}");
    });
}

#[test]
fn tasks_and_cpus_move_into_the_group() {
    on_each(|name, tree, resctrl| {
        let group = resctrl.create(GROUP).unwrap();
        let me = std::process::id();
        group.add_task(me).unwrap();
        assert_eq!(group.tasks().unwrap(), [me], "{name}");
        let wanted: CpuSet = "2-3".parse().unwrap();
        group.set_cpus(&wanted).unwrap();
        assert_eq!(group.cpus().unwrap(), wanted, "{name}");
        assert_eq!(group.mode().unwrap(), "shareable", "{name}");
        if tree.refuses {
            let rest = "0-1".parse().unwrap();
            assert_eq!(resctrl.default_group().cpus().unwrap(), rest, "{name}");
        }
    });
}

#[test]
fn a_monitor_starts_at_zero_whatever_the_rmid_counted_before() {
    on_each(|name, tree, resctrl| {
        let group = resctrl.create(GROUP).unwrap();
        let mut monitor = Monitor::new(group.clone());
        let first = monitor.read();
        if name == "amd-milan" && !tree.refuses {
            // One domain says "Unavailable": a sum without it would be too small.
            assert!(first.total_bytes.unwrap_err().to_string().contains("not yet"));
            return;
        }
        let domains = group.counters().unwrap().len() as u64;
        let step = if tree.refuses { domains * GROWTH_BYTES } else { 0 };
        assert_eq!(first.total_bytes, Ok(step), "{name}");
        // The line above that counted the domains has read the files as well.
        let second = monitor.read();
        assert_eq!(second.bandwidth.unwrap().bytes, 3 * step, "{name}");
        assert!(second.llc_bytes.unwrap() > 0, "{name}");
        assert_eq!(monitor.group().name(), Some(GROUP));
    });
}

#[test]
fn a_setting_of_another_kind_is_refused() {
    on_each(|name, _, resctrl| {
        let knob = resctrl.llc_ways(&resctrl.default_group(), 0).unwrap();
        for wanted in [Setting::Percent(50), Setting::Flag(true)] {
            assert!(knob.write(&wanted).is_err(), "{name}");
            assert!(knob.round(&wanted).is_err(), "{name}");
        }
        assert!(resctrl.llc_ways(&resctrl.default_group(), 99).unwrap().read().is_err());
    });
}

#[test]
fn only_groups_of_ours_are_made_or_changed() {
    on_each(|name, _, resctrl| {
        for bad in ["batch", "", "quell/../x", "quell x", "Quell", "info"] {
            assert!(resctrl.create(bad).is_err(), "{name} {bad:?}");
            assert!(resctrl.remove(bad).is_err(), "{name} {bad:?}");
        }
        resctrl.remove("quell-never-made").unwrap();
    });
    let tree = Tree::plain("intel-skx-full");
    let resctrl = Resctrl::open(tree.root()).unwrap();
    let research = resctrl.groups().unwrap().pop().unwrap();
    assert_eq!(research.name(), Some("research"));
    let before = research.snapshot().unwrap();
    let knob = resctrl.llc_ways(&research, 0).unwrap();
    assert_eq!(knob.read(), Ok(Setting::Ways(0xf)));
    let error = knob.write(&Setting::Ways(1)).unwrap_err();
    assert!(error.to_string().contains("begin with \"quell\""), "{error}");
    assert!(research.add_task(1).is_err());
    assert_eq!(research.snapshot().unwrap(), before);
}
