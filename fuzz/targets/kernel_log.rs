//! The kernel's log of split locks, and how the kernel prints them whatever a thread is called.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_counters::{LockTrap, LockTrapKind};
use quell_fuzz::{Numbers, text};

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    for line in text.lines() {
        if let Some(trap) = LockTrap::parse(line) {
            let (head, message) = line.split_once(';').expect("a record");
            assert!(trap.tid > 0 && line.contains(&format!("{} took a ", trap.tid)));
            let user = LockTrap::parse(&format!("12,{head};{message}"));
            assert_eq!(user, None, "a program wrote it");
        }
    }
    any_name_is_read(&text, Numbers(data).u32().max(1));
});

/// A thread may call itself anything; the kernel escapes ends of lines.
fn any_name_is_read(name: &str, tid: u32) {
    let name = name.replace('\n', "\\x0a");
    let told = |mark: &str, what: &str| {
        let trapped = format!("{mark}: {name}/{tid} took a {what} trap at address: 0x40");
        LockTrap::parse(&format!("4,1,2,-;x86/split lock detection: {trapped}"))
    };
    let of = |kind| Some(LockTrap { tid, kind });
    assert_eq!(told("#AC", "split_lock"), of(LockTrapKind::SplitLock));
    assert_eq!(told("#DB", "bus_lock"), of(LockTrapKind::BusLock));
}
