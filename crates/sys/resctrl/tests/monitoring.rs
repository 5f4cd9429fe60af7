//! Groups that are counted apart without a class of their own.

mod common;

use common::{ALLOCATING, GROWTH_BYTES, STALE_BYTES, Tree};
use quell_resctrl::{Monitor, Resctrl};
use quell_types::Gap;

const ALL: [&str; 5] =
    ["monitoring-only", ALLOCATING[0], ALLOCATING[1], ALLOCATING[2], ALLOCATING[3]];

fn on_each(test: impl Fn(&str, &Resctrl)) {
    for name in ALL {
        let Some(tree) = Tree::kernel(name) else { return };
        test(name, &Resctrl::open(tree.root()).expect("the tree is mounted"));
    }
}

#[test]
fn a_thread_is_counted_apart_and_stays_in_the_default_class() {
    on_each(|name, resctrl| {
        assert!(resctrl.monitoring_groups().unwrap().is_empty(), "{name}");
        let group = resctrl.create_monitoring("quell-a").unwrap();
        assert!(group.monitors_only() && group.dir().ends_with("mon_groups/quell-a"), "{name}");
        let me = std::process::id();
        group.add_task(me).unwrap();
        assert_eq!(group.tasks().unwrap(), [me], "{name}");
        assert_eq!(resctrl.monitoring_groups().unwrap(), std::slice::from_ref(&group), "{name}");
        assert!(resctrl.groups().unwrap().is_empty(), "{name}: it takes no class");
        let in_default = resctrl.default_group().tasks().unwrap().contains(&me);
        assert_eq!(in_default, name != "monitoring-only", "{name}");
        assert!(group.schemata().is_err() && group.snapshot().is_err(), "{name}");
        resctrl.remove_monitoring("quell-a").unwrap();
        resctrl.remove_monitoring("quell-a").unwrap();
        assert!(matches!(group.counters(), Err(Gap::Gone(_))), "{name}");
    });
}

#[test]
fn a_thread_of_another_class_is_refused_with_the_kernels_words() {
    for name in ALLOCATING {
        let Some(tree) = Tree::kernel(name) else { return };
        let resctrl = Resctrl::open(tree.root()).unwrap();
        let class = resctrl.create("quell-class").unwrap();
        class.add_task(std::process::id()).unwrap();
        let group = resctrl.create_monitoring("quell-a").unwrap();
        let error = group.add_task(std::process::id()).unwrap_err();
        let why = error.status().unwrap();
        assert!(why.starts_with("Can't move task to different control group; "), "{name}: {why}");
        // A class takes it out of a monitoring group.
        resctrl.default_group().add_task(std::process::id()).unwrap();
        group.add_task(std::process::id()).unwrap();
        class.add_task(std::process::id()).unwrap();
        assert!(group.tasks().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn groups_to_count_run_out() {
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    let resctrl = Resctrl::open(tree.root()).unwrap();
    let rmids = resctrl.info().monitoring.as_ref().unwrap().rmids;
    for nth in 1..rmids {
        resctrl.create_monitoring(&format!("quell-{nth}")).unwrap();
    }
    let error = resctrl.create_monitoring("quell-one-too-many").unwrap_err();
    assert!(error.is_exhausted(), "{error}");
    assert_eq!(error.status(), Some("Out of RMIDs"));
    assert!(!error.is_passing() && matches!(Gap::from(&error), Gap::Failed(_)), "{error}");
    resctrl.create_monitoring("quell-1").unwrap();
    // One that is given back is not to be had at once.
    resctrl.remove_monitoring("quell-1").unwrap();
    let error = resctrl.create_monitoring("quell-2-again").unwrap_err();
    assert!(error.is_exhausted() && error.is_passing(), "{error}");
    assert!(matches!(Gap::from(&error), Gap::NotYet(_)), "{error}");
    resctrl.create_monitoring("quell-2-again").unwrap();
}

#[test]
fn a_class_of_its_own_cannot_be_made_where_nothing_is_allotted() {
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    let error = Resctrl::open(tree.root()).unwrap().create("quell-a").unwrap_err();
    assert_eq!(error.errno(), Some(libc::EPERM));
}

#[test]
fn after_a_new_baseline_the_default_group_has_no_jump() {
    on_each(|name, resctrl| {
        let mut whole = Monitor::new(resctrl.default_group());
        let before = whole.read().total_bytes.unwrap();
        let mut part = Monitor::new(resctrl.create_monitoring("quell-a").unwrap());
        whole.rebase();
        assert!(part.read().total_bytes.unwrap() < STALE_BYTES, "{name}");
        let after = whole.read().total_bytes.unwrap();
        let domains = resctrl.default_group().counters().unwrap().len() as u64;
        // The readings themselves make the counters grow.
        assert!(after - before <= 8 * domains * GROWTH_BYTES, "{name}: {before} {after}");
        resctrl.remove_monitoring("quell-a").unwrap();
        whole.rebase();
        assert!(whole.read().total_bytes.unwrap() > after, "{name}: it goes on");
    });
}

#[test]
fn only_groups_of_ours_are_made_or_removed() {
    on_each(|name, resctrl| {
        for bad in ["research", "", "quell/../x", "mon_groups"] {
            assert!(resctrl.create_monitoring(bad).is_err(), "{name} {bad:?}");
            assert!(resctrl.remove_monitoring(bad).is_err(), "{name} {bad:?}");
        }
    });
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    std::fs::create_dir(tree.root().join("sys/fs/resctrl/mon_groups/research")).unwrap();
    let group = Resctrl::open(tree.root()).unwrap().monitoring_groups().unwrap().pop().unwrap();
    assert!(group.add_task(std::process::id()).is_err());
}
