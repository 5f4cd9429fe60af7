//! CPU lists (`0-3,8`) against CPU masks (`ff,00000000`) and against a plain reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{Numbers, text};
use quell_topology::fuzzing::cpu_mask;
use quell_types::CpuSet;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    if let Ok(set) = text.parse::<CpuSet>() {
        assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set.clone()));
        assert_eq!(cpu_mask(&mask_of(&set)).as_ref(), Some(&set));
        let json = serde_json::to_string(&set).expect("a set can be written");
        assert_eq!(serde_json::from_str::<CpuSet>(&json).ok(), Some(set.clone()));
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let plain = |c: char| c.is_ascii_digit() || c == '-';
            assert!(part.chars().all(plain), "{part:?} was taken for a part of a list");
        }
    }
    if let Some(set) = cpu_mask(&text) {
        assert!(set.is_empty() || set.to_string().parse() == Ok(set));
    }
    // Numbers that no list may hold come from elsewhere (cpuinfo): they must be printable, too.
    let mut numbers = Numbers(data);
    let mut set = CpuSet::new();
    while !numbers.is_empty() {
        set.insert(numbers.u32());
    }
    let _ = set.to_string();
});

/// The kernel's form: words of 32 bits, the highest first.
fn mask_of(set: &CpuSet) -> String {
    let words = set.iter().next_back().map_or(1, |cpu| cpu / 32 + 1);
    let word =
        |w: u32| (0..32).filter(|bit| set.contains(w * 32 + bit)).fold(0u32, |m, b| m | 1 << b);
    let words: Vec<String> = (0..words).rev().map(|w| format!("{:08x}", word(w))).collect();
    words.join(",")
}
