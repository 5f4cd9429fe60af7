//! Whole trees of `/proc` and `/sys/fs/cgroup` with one file damaged: layouts, groups, knobs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_cgroup::{Exclusivity, Group, GroupReader, Layout, knobs_of};
use quell_fuzz::Trees;
use std::path::Path;
use std::sync::LazyLock;

static TREES: LazyLock<Trees> = LazyLock::new(|| {
    Trees::of("cgroup", &["container", "hybrid-split", "none", "v1-docker", "v2-systemd"])
});
const GROUPS: &[&str] =
    &["/app", "/batch", "/docker", "/quell-batch", "/system.slice", "/system.slice/redis.service"];

fuzz_target!(|data: &[u8]| TREES.damaged(data, tour));

fn tour(root: &Path) {
    let layout = Layout::discover(root);
    let _ = (layout.kind(), layout.describe());
    let named = GROUPS.iter().filter_map(|path| Group::find(&layout, path).ok());
    let of_process = [12, 31].into_iter().filter_map(|pid| Group::of_pid(&layout, pid).ok());
    for group in named.chain(of_process) {
        let _ = GroupReader::new(&group).read();
        let _ = (group.pids(), group.tids(), group.identity());
        for (name, knob) in knobs_of(&group, Exclusivity::Shared) {
            let Ok(knob) = knob else { continue };
            let _ = (knob.range(), knob.raw_files());
            if let Ok(setting) = knob.read() {
                let rounded = knob.round(&setting);
                assert_eq!(knob.round(&rounded), rounded, "{name}: rounded twice");
            }
        }
    }
}
