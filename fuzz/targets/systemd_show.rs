//! What `systemctl show` prints, its time spans, and who owns a group by its path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_cgroup::fuzzing::{saved_assignments, timespan_us};
use quell_cgroup::{Owner, owner_of};
use quell_fuzz::{Numbers, text};

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let saved = saved_assignments(&text);
    assert_eq!(saved.len(), 4);
    assert!(saved.iter().all(|line| line.contains('=') && !line.contains('\n')), "{saved:?}");
    for delegates in [true, false] {
        if let Owner::Systemd { unit } | Owner::Delegated { unit } = owner_of(&text, |_| delegates)
        {
            assert!(text.split('/').any(|part| part == unit), "{unit} is not on the path");
        }
    }
    let us = Numbers(data).u64() >> 12;
    assert_eq!(timespan_us(&printed(us)), Some(us), "{}", printed(us));
});

/// A time span as systemd prints it.
fn printed(mut us: u64) -> String {
    let mut parts = Vec::new();
    for (unit, size) in [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ] {
        if us >= size {
            parts.push(format!("{}{unit}", us / size));
            us %= size;
        }
    }
    if us > 0 || parts.is_empty() {
        parts.push(format!("{us}us"));
    }
    parts.join(" ")
}
