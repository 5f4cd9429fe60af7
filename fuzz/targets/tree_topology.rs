//! Whole trees of `/proc` and `/sys` with one file damaged: the machine's shape.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::Trees;
use quell_topology::Machine;
use std::sync::LazyLock;

static TREES: LazyLock<Trees> =
    LazyLock::new(|| Trees::of("topology", &["firecracker-2cpu", "arm-server", "bare"]));

fuzz_target!(|data: &[u8]| {
    TREES.damaged(data, |root| {
        let machine = Machine::new(root);
        let topology = machine.topology();
        for cache in &topology.caches {
            assert!(cache.size_bytes > 0 && !cache.cpus.is_empty());
        }
        for domain in &topology.llc {
            let _ = domain.cpus.to_string();
        }
        let json = serde_json::to_string(&topology).expect("a topology can be written");
        assert_eq!(serde_json::from_str(&json).ok(), Some(topology), "{json}");
        let _ = (machine.cpu_times(), machine.cpu_times_by_cpu(), machine.pressure());
        for pid in machine.processes() {
            let _ = machine.process(pid);
        }
    });
});
