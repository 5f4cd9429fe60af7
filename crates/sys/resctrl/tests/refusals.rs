//! What the kernel refuses comes back as an error with the kernel's reason.

mod common;

use common::{ALLOCATING, Tree};
use quell_resctrl::{Resctrl, Resource};
use quell_types::{Gap, Setting};

fn with_kernel(name: &str, test: impl Fn(&Resctrl)) {
    let Some(tree) = Tree::kernel(name) else { return };
    test(&Resctrl::open(tree.root()).expect("the tree is mounted"));
}

#[test]
fn bad_masks_are_refused_with_the_kernels_words() {
    for (name, mask, words) in [
        ("intel-skx-full", 0, "Mask out of range"),
        ("intel-skx-full", 0x800, "Mask out of range"),
        ("intel-skx-full", 0x505, "The mask 505 has non-consecutive 1-bits"),
        ("no-mba", 0x100, "Need at least 2 bits in the mask"),
        ("amd-milan", 0x10000, "Mask out of range"),
    ] {
        with_kernel(name, |resctrl| {
            let group = resctrl.create("quell-a").unwrap();
            // Past the crate's own check, straight to the kernel.
            let error = group.set(&[Resource::L3], 0, mask).unwrap_err();
            assert_eq!(error.status(), Some(words), "{name} {mask:#x}");
            assert_eq!(error.errno(), Some(libc::EINVAL));
            assert!(error.to_string().contains(words), "{error}");
            // The crate's own check agrees, and nothing has changed.
            let knob = resctrl.llc_ways(&group, 0).unwrap();
            assert!(knob.write(&Setting::Ways(mask)).unwrap_err().status().is_none());
            let full = resctrl.info().llc().unwrap().rules.full;
            assert_eq!(knob.read(), Ok(Setting::Ways(full)));
        });
    }
}

#[test]
fn the_crates_check_and_the_kernel_agree_on_every_mask() {
    for (name, step) in [("intel-skx-full", 1), ("amd-milan", 97), ("no-mba", 1031)] {
        with_kernel(name, |resctrl| {
            let group = resctrl.create("quell-a").unwrap();
            let rules = resctrl.info().llc().unwrap().rules;
            for mask in (0..=rules.full + 1).step_by(step) {
                let kernel = group.set(&[Resource::L3], 0, mask).is_ok();
                assert_eq!(rules.check(mask).is_ok(), kernel, "{name} {mask:#x}");
                assert!(rules.check(rules.round(mask)).is_ok(), "{name} {mask:#x}");
            }
        });
    }
}

#[test]
fn bandwidth_out_of_range_is_refused_with_the_kernels_words() {
    for (name, value, words) in [
        ("intel-skx-full", 5, "MB value 5 out of range [10,100]"),
        ("intel-skx-full", 101, "MB value 101 out of range [10,100]"),
        ("amd-milan", 2049, "MB value 2049 out of range [0,2048]"),
    ] {
        with_kernel(name, |resctrl| {
            let group = resctrl.create("quell-a").unwrap();
            let error = group.set(&[Resource::Mb], 0, value).unwrap_err();
            assert_eq!(error.status(), Some(words), "{name}");
        });
    }
}

#[test]
fn classes_run_out_where_the_budget_says() {
    for name in ALLOCATING {
        with_kernel(name, |resctrl| {
            let budget = resctrl.classes().unwrap();
            assert_eq!(budget.used, 1, "{name}: only the default group at first");
            for nth in 0..budget.free() {
                resctrl.create(&format!("quell-{nth}")).unwrap();
            }
            assert_eq!(resctrl.classes().unwrap().free(), 0, "{name}");
            let error = resctrl.create("quell-one-too-many").unwrap_err();
            assert!(error.is_exhausted(), "{name}: {error}");
            assert_eq!(error.status(), Some("Out of CLOSIDs"), "{name}");
            // One that is there is taken again, and removing makes room.
            resctrl.create("quell-0").unwrap();
            resctrl.remove("quell-0").unwrap();
            resctrl.create("quell-one-too-many").unwrap();
        });
    }
}

#[test]
fn removing_a_group_sends_its_threads_home() {
    with_kernel("cdp-on", |resctrl| {
        let group = resctrl.create("quell-a").unwrap();
        group.add_task(std::process::id()).unwrap();
        resctrl.remove("quell-a").unwrap();
        assert!(resctrl.default_group().tasks().unwrap().contains(&std::process::id()));
        assert!(resctrl.groups().unwrap().is_empty());
        let knob = resctrl.llc_ways(&group, 0).unwrap();
        assert!(matches!(knob.read(), Err(Gap::Gone(_))), "{:?}", knob.read());
        assert!(matches!(group.counters(), Err(Gap::Gone(_))));
        resctrl.remove("quell-a").unwrap();
    });
}

#[test]
fn an_ended_thread_and_an_offline_cpu_are_refused() {
    with_kernel("intel-skx-full", |resctrl| {
        let group = resctrl.create("quell-a").unwrap();
        // Above pid_max on every machine.
        let error = group.add_task(4_999_999).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ESRCH));
        assert_eq!(error.status(), Some("No task 4999999; Error while processing task 4999999"));
        let error = group.set_cpus(&"700".parse().unwrap()).unwrap_err();
        assert_eq!(error.status(), Some("Can only assign online CPUs"));
    });
}

#[test]
fn a_reused_group_name_does_not_bring_old_traffic_back() {
    with_kernel("no-mba", |resctrl| {
        let mut monitor = quell_resctrl::Monitor::new(resctrl.create("quell-a").unwrap());
        for _ in 0..3 {
            monitor.read();
        }
        let before = monitor.read().total_bytes.unwrap();
        resctrl.remove("quell-a").unwrap();
        assert!(matches!(monitor.read().total_bytes, Err(Gap::Gone(_))));
        resctrl.create("quell-a").unwrap();
        let after = monitor.read().total_bytes.unwrap();
        assert_eq!(after, before, "the counter fell: a new baseline, no jump");
        assert!(monitor.read().total_bytes.unwrap() > after);
    });
}
