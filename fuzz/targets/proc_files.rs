//! `/proc` and sysfs texts that tell of the machine: cpuinfo, meminfo, stat, cache sizes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{Numbers, text};
use quell_topology::fuzzing;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let (cpus, model) = fuzzing::cpu_info(&text);
    assert!(!model.is_empty());
    let _ = cpus.to_string();
    let _ = fuzzing::cpu_times(&text);
    if let Some(bytes) = fuzzing::cache_size(&text) {
        assert!(bytes > 0);
        assert_eq!(fuzzing::cache_size(&format!("{bytes}\n")), Some(bytes));
    }
    if let Some(bytes) = fuzzing::memory_total(&text) {
        let again = format!("MemTotal: {} kB\n", bytes / 1024);
        assert_eq!(fuzzing::memory_total(&again), Some(bytes));
    }
    let _ = fuzzing::process_stat(&text);
    let devices = format!(" CPU0 CPU1\n 7: 1 2 {}\n", text.replace('\n', " "));
    assert_eq!(fuzzing::interrupts(&devices), Some((1, 2)));
    let _ = fuzzing::interrupts(&text);
    any_name_is_read(&text, &mut Numbers(data));
});

/// A process may call itself anything.
fn any_name_is_read(name: &str, numbers: &mut Numbers<'_>) {
    let (parent, user, system, start) =
        (numbers.u32(), numbers.u64() >> 1, numbers.u64() >> 1, numbers.u64());
    let rest = "0 0 0 0 0 0 0 0 0";
    let line = format!("7 ({name}) S {parent} {rest} {user} {system} 0 0 20 0 1 0 {start} 0 0\n");
    let wanted = Some((name.to_owned(), parent, user + system, start));
    assert_eq!(fuzzing::process_stat(&line), wanted);
}
