//! Lines of the decision journal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_control::Entry;
use quell_fuzz::json;

fuzz_target!(|data: &[u8]| {
    for line in data.split(|b| *b == b'\n') {
        if let Some(entry) = json::<Entry>(line) {
            let _ = entry.is_empty();
        }
    }
});
