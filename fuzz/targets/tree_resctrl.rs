//! Whole trees of `/proc` and `/sys/fs/resctrl` with one file damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::Trees;
use quell_resctrl::{Monitor, Resctrl, SchemataKnob, capabilities};
use quell_types::{Reading, Setting};
use std::path::Path;
use std::sync::LazyLock;

static TREES: LazyLock<Trees> = LazyLock::new(|| {
    Trees::of("resctrl", &["amd-milan", "cdp-on", "intel-skx-full", "mba-mbps", "monitoring-only"])
});

fuzz_target!(|data: &[u8]| TREES.damaged(data, tour));

fn tour(root: &Path) {
    let _ = capabilities(root);
    let Ok(tree) = Resctrl::open(root) else { return };
    let _ = tree.classes();
    let groups = tree.groups().unwrap_or_default();
    for group in groups.into_iter().chain([tree.default_group()]) {
        let _ = (group.tasks(), group.cpus(), group.mode(), Monitor::new(group.clone()).read());
        for domain in 0..2 {
            let (ways, bandwidth) =
                (tree.llc_ways(&group, domain), tree.memory_bandwidth(&group, domain));
            rounds_well(ways, &Setting::Ways(0b101));
            rounds_well(bandwidth, &Setting::Percent(33));
        }
    }
}

fn rounds_well(knob: Reading<SchemataKnob>, wanted: &Setting) {
    let Ok(knob) = knob else { return };
    let _ = (knob.read(), knob.range());
    if let Ok(rounded) = knob.round(wanted) {
        assert_eq!(knob.round(&rounded).ok(), Some(rounded), "rounded twice");
    }
}
