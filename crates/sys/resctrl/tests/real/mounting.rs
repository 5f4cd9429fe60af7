//! Mounting, unmounting, and what both leave.

use crate::lab::{Lab, POINT, caches, made};
use quell_resctrl::{Resctrl, capabilities, mount, mountable, unmount};
use quell_types::{CapabilityKind, Setting};
use std::fs::{self, File};
use std::path::Path;

#[test]
fn it_is_found_mountable_mounted_and_unmounted() {
    let Some(_lab) = Lab::get() else { return };
    let (root, point) = (Path::new("/"), Path::new(POINT));
    assert_eq!(mountable(root).as_deref(), Some(point));
    let gap = Resctrl::open(root).unwrap_err();
    assert!(gap.to_string().contains("supported but not mounted"), "{gap}");
    mount(point).unwrap();
    assert_eq!(mountable(root), None);
    let tree = Resctrl::open(root).unwrap();
    assert_eq!(tree.mount().path, point);
    assert!(!tree.mount().cdp && !tree.mount().mba_mbps);
    assert!(tree.groups().unwrap().is_empty() && tree.monitoring_groups().unwrap().is_empty());
    let open = File::open(point.join("info/last_cmd_status")).unwrap();
    let error = unmount(point).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EBUSY), "{error}");
    drop(open);
    unmount(point).unwrap();
    unmount(point).unwrap();
    assert_eq!(mountable(root).as_deref(), Some(point));
}

#[test]
fn unmounting_gives_all_ways_and_all_bandwidth_to_everybody() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create("quell-a"));
    let (class, _) = lab.ids(&group);
    for domain in caches() {
        for group in [&group, &tree.default_group()] {
            tree.llc_ways(group, domain).unwrap().write(&Setting::Ways(0b1)).unwrap();
            let knob = tree.memory_bandwidth(group, domain).unwrap();
            knob.write(&Setting::Percent(20)).unwrap();
        }
        assert_eq!((lab.l3(domain, class), lab.delay(domain, class)), (1, 80));
    }
    let full = tree.info().llc().unwrap().rules.full;
    // Removing a group alone leaves its registers as they are.
    tree.remove("quell-a").unwrap();
    assert_eq!((lab.l3(0, class), lab.delay(0, class)), (1, 80));
    unmount(Path::new(POINT)).unwrap();
    for domain in caches() {
        for slot in [0, class] {
            let (mask, delay) = (lab.l3(domain, slot), lab.delay(domain, slot));
            assert_eq!((mask, delay), (full, 0), "class {slot} in domain {domain}");
        }
    }
}

#[test]
fn what_others_left_is_seen_and_not_touched() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    fs::create_dir(Path::new(POINT).join("research")).unwrap();
    let theirs = tree.groups().unwrap().pop().unwrap();
    assert_eq!((theirs.name(), tree.classes().unwrap().used), (Some("research"), 2));
    let before = theirs.snapshot().unwrap();
    let knob = tree.llc_ways(&theirs, 0).unwrap();
    assert!(knob.write(&Setting::Ways(1)).is_err() && theirs.add_task(1).is_err());
    assert!(tree.remove("research").is_err());
    assert_eq!(theirs.snapshot().unwrap(), before);
    assert_eq!(lab.l3(0, 0), tree.info().llc().unwrap().rules.full);
}

#[test]
fn the_doctor_says_what_this_machine_has() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let offers = lab.offers();
    for (kind, there) in [
        (CapabilityKind::ResctrlCat, offers["l3_ways"] > 0),
        (CapabilityKind::ResctrlMba, offers["mba_classes"] > 0),
        (CapabilityKind::ResctrlCdp, false),
        (CapabilityKind::ResctrlMonitoring, offers["rmids"] > 0),
    ] {
        let report = capabilities(Path::new("/")).into_iter().find(|r| r.kind == kind).unwrap();
        assert_eq!(report.capability.is_present(), there, "{report:?}");
    }
    if offers["l3_ways"] > 0 {
        assert_eq!(tree.domains(tree.info().llc_resources()[0]).unwrap(), caches());
    }
}
