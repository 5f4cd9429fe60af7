//! Scenarios of the simulated server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_simulate::Scenario;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    // A remark and blank lines at the end change nothing.
    let longer = format!("{text}\n\n# a remark\n");
    match (Scenario::parse("x", &text), Scenario::parse("x", &longer)) {
        (Ok(scenario), Ok(again)) => {
            assert_eq!(scenario, again);
            assert!(scenario.runs() <= 2_000);
        }
        (Err(errors), Err(again)) => {
            assert_eq!(errors, again);
            let lines = text.lines().count().max(1);
            for error in &errors.errors {
                assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
                let shown = error.to_string();
                assert!(!shown.contains(char::is_control), "{shown:?}");
            }
        }
        (one, other) => panic!("a remark changed it: {one:?} {other:?}"),
    }
});
