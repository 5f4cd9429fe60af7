//! The checked-in objects: reproducible, and right about slots.

use aya::Ebpf;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use quell_types::{LogHistogram, SLOTS};
use std::path::Path;
use std::process::Command;

/// Users need no clang, CI has it: there the objects must be what their sources give.
#[test]
fn objects_are_what_their_sources_give() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let has_clang = Command::new("clang-14").arg("--version").output().is_ok();
    assert!(has_clang || std::env::var_os("CI").is_none(), "CI must have clang-14 and llvm-14");
    let fresh = tempfile::tempdir().unwrap();
    if has_clang {
        let built = Command::new(bpf.join("build.sh")).arg(fresh.path()).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    for object in ["packets.bpf.o", "runqueue.bpf.o", "contention.bpf.o", "slot_test.bpf.o"] {
        let kept = std::fs::read(bpf.join(object)).unwrap();
        let list = format!("{object}.sha256");
        let sum = Command::new("sha256sum").args(["-c", &list]).current_dir(&bpf).output().unwrap();
        assert!(sum.status.success(), "{}", String::from_utf8_lossy(&sum.stdout));
        if has_clang {
            let built = std::fs::read(fresh.path().join(object)).unwrap();
            assert!(built == kept, "{object} is stale: run crates/sys/ebpf/bpf/build.sh");
        }
    }
}

#[test]
fn the_kernel_and_rust_agree_on_every_slot() {
    static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/slot_test.bpf.o");
    let mut ebpf = Ebpf::load(OBJECT).unwrap();
    let program: &mut SchedClassifier = ebpf.program_mut("slot_test").unwrap().try_into().unwrap();
    program.load().unwrap();
    let mut values: Vec<u64> = (0..SLOTS).map(LogHistogram::lower_bound).collect();
    values.extend((0..64).map(|bit| 1u64 << bit));
    values.extend((0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 64)));
    values.extend([u64::MAX, 0]);
    let around: Vec<u64> =
        values.iter().flat_map(|&v| [v.wrapping_sub(1), v, v.wrapping_add(1)]).collect();
    for value in around {
        let mut packet = [0u8; 64];
        packet[14..22].copy_from_slice(&value.to_le_bytes());
        let mut options = TestRunOptions::new();
        options.data_in = Some(&packet);
        let slot = program.test_run(options).unwrap().return_value;
        assert_eq!(slot as usize, LogHistogram::slot_of(value), "{value}");
    }
}
