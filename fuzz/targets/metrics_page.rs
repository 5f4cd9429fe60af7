//! Requests to the agent's metrics page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_agent::fuzzing::metrics_answer;

fuzz_target!(|data: &[u8]| {
    let answer = metrics_answer(data).expect("memory takes it");
    // The load generator reads HTTP, too.
    let (length, ok, closes) =
        quell_service::fuzzing::http(&answer).expect("an answer").expect("a whole one");
    assert_eq!(length, answer.len());
    assert!(closes);
    if ok {
        assert!(data.starts_with(b"GET /"));
    }
});
