//! Feeds of work counters, and the kernel's texts on memory and links that a polluter reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_pressure::fuzzing::{available_bytes, feed, huge_bytes, sent_bytes};

fuzz_target!(|data: &[u8]| {
    let whole = [b"quellfd1", data].concat();
    for bytes in [data, &whole] {
        if let Ok(reading) = feed(bytes) {
            assert!(reading.latency_ns.is_none_or(|ns| ns.is_finite() && ns >= 0.0));
            // What lies behind the last slot is not looked at.
            let longer = [bytes, &[0xff; 64]].concat();
            assert_eq!(feed(&longer), Ok(reading));
        }
    }
    let text = text(data);
    let _ = huge_bytes(0x7f00_0000_0000..0x7fff_0000_0000, &text);
    let _ = sent_bytes(&text);
    if let Some(bytes) = available_bytes(&text) {
        let again = format!("MemAvailable:   {} kB\n", bytes / 1024);
        assert_eq!(available_bytes(&again), Some(bytes));
    }
});
