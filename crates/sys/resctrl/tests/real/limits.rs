//! Classes and RMIDs run out; groups want their ways for themselves.

use crate::lab::{Lab, caches, made, waits};
use quell_resctrl::{Group, Resctrl, Resource};
use quell_types::Gap;
use std::fs;

#[test]
fn classes_run_out_where_the_budget_says() {
    let Some((_lab, tree)) = Lab::allotting("") else { return };
    let budget = tree.classes().unwrap();
    assert_eq!(budget.used, 1, "only the default group at first");
    for nth in 0..budget.free() {
        made(|| tree.create(&format!("quell-{nth}")));
    }
    assert_eq!(tree.classes().unwrap().free(), 0);
    let error = tree.create("quell-one-too-many").unwrap_err();
    assert!(error.is_exhausted(), "{error}");
    assert_eq!(error.status(), Some("Out of CLOSIDs"));
    assert!(error.to_string().contains("Out of CLOSIDs"), "{error}");
    made(|| tree.create("quell-0"));
    tree.remove("quell-0").unwrap();
    made(|| tree.create("quell-one-too-many"));
}

#[test]
fn rmids_run_out_and_those_that_still_fill_the_cache_come_back_later() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let rmids = tree.info().monitoring.as_ref().unwrap().rmids;
    for nth in 1..rmids {
        made(|| tree.create_monitoring(&format!("quell-{nth}")));
    }
    let error = tree.create_monitoring("quell-one-too-many").unwrap_err();
    assert_eq!((error.status(), error.errno()), (Some("Out of RMIDs"), Some(libc::ENOSPC)));
    assert!(error.is_exhausted() && matches!(Gap::from(&error), Gap::Failed(_)), "{error}");

    // Its lines stay in the cache of one domain when its last thread has gone.
    let (_, rmid) = lab.ids(&monitoring(&tree, "quell-1"));
    let domain = *caches().last().unwrap();
    lab.count(domain, rmid, "occupancy", 1 << 20);
    tree.remove_monitoring("quell-1").unwrap();
    let error = tree.create_monitoring("quell-1").unwrap_err();
    assert_eq!((error.status(), error.errno()), (Some("Out of RMIDs"), Some(libc::EBUSY)));
    assert!(error.is_passing() && matches!(Gap::from(&error), Gap::NotYet(_)), "{error}");
    lab.count(domain, rmid, "occupancy", 0);
    waits("the RMID is free again", || tree.create_monitoring("quell-1").ok());
}

fn monitoring(tree: &Resctrl, name: &str) -> Group {
    let groups = tree.monitoring_groups().unwrap();
    groups.into_iter().find(|group| group.name() == Some(name)).unwrap()
}

#[test]
fn where_nothing_is_allotted_no_class_can_be_made() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    if lab.offers()["l3_ways"] > 0 {
        return;
    }
    assert_eq!(tree.create("quell-a").unwrap_err().errno(), Some(libc::EPERM));
    let group = made(|| tree.create_monitoring("quell-a"));
    group.add_task(std::process::id()).unwrap();
    assert_eq!(group.tasks().unwrap(), [std::process::id()]);
}

/// Sets all masks of a group, in every cache and domain.
fn fill(tree: &Resctrl, group: &Group, mask: u64) {
    for resource in tree.info().caches.keys().filter(|resource| resource.is_mask()) {
        for domain in tree.domains(*resource).unwrap() {
            group.set(&[*resource], domain, mask).unwrap();
        }
    }
}

#[test]
fn what_a_group_has_for_itself_the_kernel_refuses_to_others_with_a_reason() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let (owner, other) = (made(|| tree.create("quell-a")), made(|| tree.create("quell-b")));
    let mode = owner.dir().join("mode");
    assert_eq!(owner.mode().unwrap(), "shareable");
    assert_eq!(fs::write(&mode, "exclusive\n").unwrap_err().raw_os_error(), Some(libc::EINVAL));
    fill(&tree, &tree.default_group(), 0b11);
    fill(&tree, &other, 0b1100);
    fill(&tree, &owner, 0b11_0000);
    fs::write(&mode, "exclusive\n").unwrap();
    assert_eq!(owner.mode().unwrap(), "exclusive");
    let (class, _) = lab.ids(&other);
    let error = other.set(&[Resource::L3], 0, 0b11_1100).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EINVAL));
    let why = error.status().unwrap();
    assert!(why.contains("verlap"), "{why}");
    assert_eq!(lab.l3(0, class), 0b1100, "nothing changed");
    // A fresh group gets nothing of what is another's alone.
    let fresh = made(|| tree.create("quell-c"));
    let mask = fresh.schemata().unwrap().get(Resource::L3, 0).unwrap();
    assert_eq!(mask & 0b11_0000, 0, "{mask:#x}");
}

#[test]
fn pseudo_locking_is_refused_on_a_processor_that_the_kernel_does_not_know() {
    let Some((_lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create("quell-a"));
    let wanted = fs::write(group.dir().join("mode"), "pseudo-locksetup\n");
    assert!(wanted.is_err(), "QEMU's processor has no known switch for prefetchers");
    assert_eq!(group.mode().unwrap(), "shareable");
    // And the group is as usable as before.
    group.set(&[Resource::L3], 0, 0b1).unwrap();
}
