//! Durations, rates, sizes and shares of the configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_config::{format_duration, parse_duration, parse_fraction, parse_rate, parse_size};
use quell_fuzz::text;
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    if let Ok(span) = parse_duration(&text) {
        assert_eq!(parse_duration(&format_duration(span)), Ok(span));
        near_float(&text, span);
    }
    if let Ok(bytes) = parse_size(&text) {
        assert_eq!(parse_size(&format!("{}B", bytes.0)), Ok(bytes));
        // A size is never taken for a rate; a size a second always is one.
        assert!(parse_rate(&text).is_err());
        let rate = parse_rate(&format!("{}/s", text.trim())).expect("a size a second");
        assert_eq!(rate.0, bytes.0 as f64);
    }
    if let Ok(rate) = parse_rate(&text) {
        assert!(rate.0.is_finite() && rate.0 >= 0.0);
    }
    if let Ok(share) = parse_fraction(&text) {
        assert!(share.is_finite() && share >= 0.0);
        if text.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            assert_eq!(Ok(share), parse_fraction(&format!("{}", share)));
        }
    }
    for error in [parse_duration(&text).err(), parse_size(&text).err(), parse_rate(&text).err()] {
        let shown = error.map(|e| e.problem + &e.help).unwrap_or_default();
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
});

/// Exact reading by integers against a reading by floating point.
fn near_float(text: &str, span: Duration) {
    let bare = text.trim();
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').expect("it has a unit");
    let seconds = match bare[end..].trim() {
        "ns" => 1e-9,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => 1e-6,
    };
    let float: f64 = bare[..end].parse().expect("it begins with a number");
    let difference = (span.as_secs_f64() - float * seconds).abs();
    assert!(difference <= 2e-9 + float * seconds * 1e-12, "{text:?}: {span:?}");
}
