//! The checked-in objects: reproducible, and right about slots.

use aya::programs::{BtfTracePoint, Program, SchedClassifier, TestRun, TestRunOptions};
use aya::util::KernelVersion;
use aya::{Btf, Ebpf, EbpfLoader};
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

/// The kernel gives up at a million.
const VERIFIED_AT_MOST: u32 = 100_000;

/// What the verifier looks at of each program about waits, where there are so many CPUs; 0 where it is not known
/// which of them are online.
fn verified_for(cpus: u32) -> Vec<(String, u32)> {
    static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/contention.bpf.o");
    let (often, tick_ns) = (1_000_000_u64, 4_000_000_u64);
    let mut loader = EbpfLoader::new();
    loader.override_global("online", &cpus, true);
    loader.override_global("gauge_ns", &often, true);
    loader.override_global("kept_ns", &often, true);
    loader.override_global("tick_ns", &tick_ns, true);
    for map in ["rq_lines", "rq_passed", "rq_cpus"] {
        loader.map_max_entries(map, cpus.max(1));
    }
    let mut ebpf = loader.load(OBJECT).unwrap();
    let btf = Btf::from_sys_fs().unwrap();
    let tracing = ebpf.programs_mut().filter_map(|(name, program)| match program {
        Program::BtfTracePoint(program) => Some((name.to_owned(), program)),
        _ => None,
    });
    // Before Linux 6.3 TCP's sends are counted by a program of another kind (`contention.rs`).
    let tracing =
        tracing.filter(|(name, _)| name != "quell_wait_send" || tells_sends_on_any_socket());
    let verified = |(name, program): (String, &mut BtfTracePoint)| {
        program
            .load(tracepoint_of(&name), &btf)
            .unwrap_or_else(|e| panic!("{cpus} CPUs: {name}: {e}"));
        (name, program.info().unwrap().verified_instruction_count().unwrap())
    };
    tracing.map(verified).collect()
}

fn tells_sends_on_any_socket() -> bool {
    KernelVersion::current().unwrap() >= KernelVersion::new(6, 3, 0)
}

fn tracepoint_of(program: &str) -> &'static str {
    match program {
        "quell_wait_run" => "sched_switch",
        "quell_wait_tick" => "local_timer_entry",
        "quell_wait_wake" => "sched_wakeup",
        "quell_wait_new" => "sched_wakeup_new",
        "quell_wait_move" => "sched_migrate_task",
        "quell_wait_send" => "sock_send_length",
        other => panic!("{other} is new: where is it attached?"),
    }
}

#[test]
fn programs_are_verified_for_any_number_of_cpus() {
    for cpus in [0, 1, 2, 3, 4, 5, 8, 16, 17, 64, 192, 1024] {
        let verified = verified_for(cpus);
        assert_eq!(verified.len(), if tells_sends_on_any_socket() { 6 } else { 5 });
        for (name, count) in verified {
            println!("{cpus} CPUs: {name}: {count}");
            assert!(count < VERIFIED_AT_MOST, "{cpus} CPUs: {name}: {count}");
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
