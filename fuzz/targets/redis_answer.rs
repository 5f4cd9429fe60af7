//! Answers of a redis server, as the load generator receives them, and what is asked of one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{answers, text};
use quell_service::fuzzing;

fuzz_target!(|data: &[u8]| {
    answers(data, fuzzing::redis);
    if let Some((keys, value_bytes, set_frac)) = fuzzing::mix(&text(data)) {
        let again = format!("keys={keys}&value_bytes={value_bytes}&set_frac={set_frac}");
        assert_eq!(fuzzing::mix(&again), Some((keys, value_bytes, set_frac)), "{again}");
    }
});
