//! Histograms of a Prometheus endpoint.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{Numbers, text};
use quell_linux::fuzzing::prometheus;
use std::collections::BTreeMap;
use std::fmt::Write;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let none = BTreeMap::new();
    let some = BTreeMap::from([("path".to_owned(), "/a".to_owned())]);
    let all = prometheus(&text, "d", &none);
    if let Ok(all) = &all {
        let latency = all.latency_ns.as_ref().expect("a histogram");
        assert_eq!(latency.count(), all.requests);
        let _ = latency.quantile(0.99);
    }
    if let Ok(part) = prometheus(&text, "d", &some) {
        assert!(part.requests <= all.expect("a part of something").requests);
    }
    what_follows_a_value_does_not_count(&text, &mut Numbers(data));
});

/// Timestamps and exemplars change nothing, whatever a label holds.
fn what_follows_a_value_does_not_count(label: &str, numbers: &mut Numbers<'_>) {
    let label: String = label.chars().filter(|c| !c.is_control()).take(20).collect();
    let label = label.replace('\\', "\\\\").replace('"', "\\\"");
    let (mut plain, mut rich) = (String::new(), String::new());
    let (mut bound, mut count) = (0u64, 0u64);
    for _ in 0..4 {
        // Two lines of one bound would add up, as two series do.
        bound += 1 + u64::from(numbers.u16());
        count += u64::from(numbers.u32());
        let line = format!("d_bucket{{path=\"{label}\",le=\"{}\"}} {count}", bound as f64 * 1e-4);
        let _ = writeln!(plain, "{line}");
        let _ = writeln!(rich, "{line} 1700000000 # {{trace_id=\"x}}\"}} 0.5 1700000000");
    }
    let expected = prometheus(&plain, "d", &BTreeMap::new()).expect("a histogram");
    assert_eq!(expected.requests, count);
    assert_eq!(prometheus(&rich, "d", &BTreeMap::new()), Ok(expected), "{rich}");
}
