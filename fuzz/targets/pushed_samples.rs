//! Datagrams of pushed latencies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_linux::fuzzing::pushed;

fuzz_target!(|data: &[u8]| {
    let (latency, refused) = pushed(data);
    let lines = text(data).lines().filter(|line| !line.trim().is_empty()).count() as u64;
    assert_eq!(latency.count() + refused, lines);
    let twice = [data, b"\n", data].concat();
    let (both, both_refused) = pushed(&twice);
    assert_eq!((both.count(), both_refused), (2 * latency.count(), 2 * refused));
    if let Some(p99) = latency.quantile(0.99) {
        assert!(p99.is_finite() && p99 >= 0.0);
    }
});
