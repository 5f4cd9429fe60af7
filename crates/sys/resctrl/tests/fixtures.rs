//! Each fixture is named by what is missing: what is there is told, what is not is a gap.

mod common;

use common::{Tree, fixture};
use quell_resctrl::{AssignMode, MbaUnit, Monitor, Resctrl, Resource, capabilities};
use quell_types::{Capability, CapabilityKind, Gap};

fn detail(name: &str, kind: CapabilityKind) -> (bool, String) {
    let reports = capabilities(&fixture(name));
    let report = reports.into_iter().find(|r| r.kind == kind).expect("a report of this kind");
    match report.capability {
        Capability::Native(detail) => {
            assert_eq!(report.without, "");
            (true, detail)
        }
        Capability::Absent(why) | Capability::Emulated(why) => {
            assert_ne!(report.without, "");
            (false, why)
        }
    }
}

#[track_caller]
fn told(name: &str, kind: CapabilityKind, present: bool, words: &str) {
    let (is, text) = detail(name, kind);
    assert_eq!(is, present, "{name} {kind:?}: {text}");
    assert!(text.contains(words), "{name} {kind:?}: {text}");
}

#[test]
fn doctor_tells_what_each_machine_has() {
    use CapabilityKind::{ResctrlCat, ResctrlCdp, ResctrlMba, ResctrlMonitoring};
    told("intel-skx-full", ResctrlCat, true, "L3 in 2 domain(s): 11 ways, 8 classes");
    told("intel-skx-full", ResctrlCat, true, "ways 0x600 shared with I/O");
    told("intel-skx-full", ResctrlCdp, false, "mounted without -o cdp");
    told("intel-skx-full", ResctrlMba, true, "10..100 % in steps of 10 %, linear");
    told("intel-skx-full", ResctrlMonitoring, true, "mbm_local_bytes, 160 groups");
    told(
        "amd-milan",
        ResctrlCat,
        true,
        "L3 in 3 domain(s): 16 ways, 16 classes of service, at least 0 way(s) each, holes allowed",
    );
    told("amd-milan", ResctrlMba, true, "1/8 GB/s");
    told("no-mba", ResctrlMba, false, "no memory bandwidth allocation");
    told("no-mba", ResctrlCdp, false, "has no code and data");
    told("cdp-on", ResctrlCdp, true, "sets both alike");
    told("cdp-on", ResctrlCat, true, "8 classes");
    told("monitoring-only", ResctrlCat, false, "no L3 cache allocation");
    told("monitoring-only", ResctrlMonitoring, true, "counters must be assigned");
    told("mba-mbps", ResctrlMba, false, "mba_MBps");
    told("mba-mbps", ResctrlCat, true, "11 ways");
    for kind in [ResctrlCat, ResctrlCdp, ResctrlMba, ResctrlMonitoring] {
        told("not-mounted", kind, false, "mount -t resctrl");
        told("no-support", kind, false, "offers no cache or bandwidth control");
    }
    told("damaged", ResctrlCat, false, "cbm_mask: not a hexadecimal mask");
    told("damaged", ResctrlMba, false, "min_bandwidth: not a number");
    told("damaged", ResctrlMonitoring, false, "num_rmids");
}

#[test]
fn this_machine_gets_an_answer() {
    let reports = capabilities(std::path::Path::new("/"));
    assert_eq!(reports.len(), 4);
    for report in reports {
        assert_eq!(report.capability.is_present(), report.without.is_empty(), "{report:?}");
    }
}

#[test]
fn a_kernel_without_resctrl_is_told_from_a_cpu_without() {
    let tree = Tree::plain("not-mounted");
    std::fs::write(tree.root().join("proc/filesystems"), "nodev\tproc\n").unwrap();
    let gap = Resctrl::open(tree.root()).unwrap_err();
    assert!(gap.to_string().contains("CONFIG_X86_CPU_RESCTRL"), "{gap}");
}

#[test]
fn classes_are_the_fewest_that_any_resource_has() {
    for (name, total, used) in
        [("intel-skx-full", 8, 3), ("amd-milan", 16, 2), ("no-mba", 4, 2), ("cdp-on", 8, 2)]
    {
        let budget = Resctrl::open(&fixture(name)).unwrap().classes().unwrap();
        assert_eq!((budget.total, budget.used, budget.free()), (total, used, total - used));
    }
    let gap = Resctrl::open(&fixture("monitoring-only")).unwrap().classes().unwrap_err();
    assert!(matches!(gap, Gap::Absent(_)), "{gap}");
}

#[test]
fn io_takes_a_class_where_it_has_one_of_its_own() {
    let tree = Tree::plain("amd-milan");
    let io_alloc = tree.root().join("sys/fs/resctrl/info/L3/io_alloc");
    for (text, used) in [("not supported\n", 2), ("disabled\n", 2), ("enabled\n", 3)] {
        std::fs::write(&io_alloc, text).unwrap();
        assert_eq!(Resctrl::open(tree.root()).unwrap().classes().unwrap().used, used, "{text}");
    }
}

#[test]
fn info_is_read_as_each_kernel_prints_it() {
    let skx = Resctrl::open(&fixture("intel-skx-full")).unwrap();
    let rules = skx.info().llc().unwrap().rules;
    assert_eq!(
        (rules.full, rules.min_bits, rules.sparse, rules.unshared()),
        (0x7ff, 1, false, 0x1ff)
    );
    let bandwidth = skx.info().bandwidth.as_ref().unwrap();
    assert_eq!(bandwidth.rules.unit, MbaUnit::Percent);
    assert_eq!(bandwidth.thread_throttle_mode.as_deref(), Ok("max"));
    let monitoring = skx.info().monitoring.as_ref().unwrap();
    assert!(matches!(monitoring.assign_mode, Err(Gap::Absent(_))), "an older kernel");
    assert!(monitoring.has("llc_occupancy") && !monitoring.has("mbm_total_bytes_config"));

    let amd = Resctrl::open(&fixture("amd-milan")).unwrap();
    assert_eq!(amd.info().bandwidth.as_ref().unwrap().rules.unit, MbaUnit::EighthGigabytes);
    assert_eq!(amd.domains(Resource::Mb).unwrap(), [0, 1, 2]);

    let newer = Resctrl::open(&fixture("no-mba")).unwrap();
    let monitoring = newer.info().monitoring.as_ref().unwrap();
    assert_eq!(monitoring.assign_mode, Ok(AssignMode::Default));
    assert_eq!(newer.domains(Resource::L3).unwrap(), [0]);
    assert!(newer.domains(Resource::L2).is_err());

    let cdp = Resctrl::open(&fixture("cdp-on")).unwrap();
    assert!(cdp.mount().cdp);
    assert_eq!(cdp.info().llc_resources(), [Resource::L3Code, Resource::L3Data]);
}

#[test]
fn code_and_data_with_different_ways_are_ambiguous() {
    let tree = Tree::plain("cdp-on");
    let resctrl = Resctrl::open(tree.root()).unwrap();
    let default = resctrl.default_group();
    default.set(&[Resource::L3Code], 0, 0b1).unwrap();
    let knob = resctrl.llc_ways(&default, 0).unwrap();
    assert!(matches!(knob.read(), Err(Gap::Ambiguous(_))), "{:?}", knob.read());
}

#[test]
fn megabytes_per_second_are_no_percent() {
    let resctrl = Resctrl::open(&fixture("mba-mbps")).unwrap();
    let gap = resctrl.memory_bandwidth(&resctrl.default_group(), 0).unwrap_err();
    assert!(gap.to_string().contains("without that option"), "{gap}");
    let schemata = resctrl.default_group().schemata().unwrap();
    assert_eq!(schemata.get(Resource::Mb, 0), Some(4_294_967_295));
}

#[test]
fn an_unassigned_counter_is_a_gap_of_the_sum() {
    let resctrl = Resctrl::open(&fixture("monitoring-only")).unwrap();
    let reading = Monitor::new(resctrl.default_group()).read();
    assert_eq!(reading.llc_bytes, Ok(65_536 + 131_072));
    let gap = reading.bandwidth.unwrap_err();
    assert!(gap.to_string().contains("no counter is assigned"), "{gap}");
    assert!(resctrl.default_group().schemata().is_err(), "there is none");
}

#[test]
fn local_traffic_stands_in_where_no_total_is_counted() {
    let tree = Tree::plain("no-mba");
    let data = tree.root().join("sys/fs/resctrl/quell-batch/mon_data/mon_L3_00");
    std::fs::remove_file(data.join("mbm_total_bytes")).unwrap();
    let resctrl = Resctrl::open(tree.root()).unwrap();
    let mut monitor = Monitor::new(resctrl.create("quell-batch").unwrap());
    std::fs::write(data.join("mbm_local_bytes"), "5900\n").unwrap();
    assert_eq!(monitor.read().bandwidth.unwrap().bytes, 5000);
    std::fs::write(data.join("mbm_local_bytes"), "12\n").unwrap();
    assert_eq!(monitor.read().bandwidth.unwrap().bytes, 5000, "it fell: never back");
    std::fs::write(data.join("mbm_local_bytes"), "112\n").unwrap();
    assert_eq!(monitor.read().bandwidth.unwrap().bytes, 5100);
    std::fs::write(data.join("mbm_local_bytes"), "Unavailable\n").unwrap();
    assert!(matches!(monitor.read().bandwidth, Err(Gap::NotYet(_))));
}

#[test]
fn damage_is_told_and_nothing_is_written() {
    let tree = Tree::plain("damaged");
    let resctrl = Resctrl::open(tree.root()).unwrap();
    let default = resctrl.default_group();
    let before = default.snapshot().unwrap();
    let error = default.set(&[Resource::L3], 0, 1).unwrap_err();
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert!(resctrl.llc_ways(&default, 0).is_err());
    assert!(resctrl.memory_bandwidth(&default, 0).is_err());
    assert!(default.tasks().is_err() && default.cpus().is_err());
    let counters = default.counters().unwrap().remove(&0).unwrap();
    for counter in [counters.llc_bytes, counters.total_bytes, counters.local_bytes] {
        assert!(matches!(counter, Err(Gap::Failed(_))), "{counter:?}");
    }
    assert_eq!(default.snapshot().unwrap(), before);
}

#[test]
fn only_what_is_supported_and_not_mounted_can_be_mounted() {
    for name in ["no-support", "intel-skx-full", "monitoring-only"] {
        assert_eq!(quell_resctrl::mountable(&fixture(name)), None, "{name}");
    }
    let tree = Tree::plain("not-mounted");
    let point = quell_resctrl::mountable(tree.root()).unwrap();
    assert_eq!(point, tree.root().join("sys/fs/resctrl"));
    // No such folder here, so that no machine mounts it.
    let error = quell_resctrl::mount(&point).unwrap_err();
    assert!(error.to_string().contains("cannot mount resctrl at"), "{error}");
    quell_resctrl::unmount(&point).unwrap();
    told("not-mounted", CapabilityKind::ResctrlMonitoring, false, "agent.mount_resctrl = true");
}

#[test]
fn a_mount_point_without_info_is_told() {
    let tree = Tree::plain("not-mounted");
    let mounts = "resctrl /sys/fs/resctrl resctrl rw 0 0\n";
    std::fs::write(tree.root().join("proc/mounts"), mounts).unwrap();
    let gap = Resctrl::open(tree.root()).unwrap_err();
    assert!(gap.to_string().contains("no info folder"), "{gap}");
}
