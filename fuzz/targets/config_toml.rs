//! Configuration files, up to what the control laws say of their parameters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_agent::{check_laws, known_laws};
use quell_config::{Checked, ConfigErrors, Laws, Raw};
use quell_fuzz::text;
use std::sync::OnceLock;

static LAWS: OnceLock<Laws> = OnceLock::new();

fn check(text: &str) -> Result<Checked, ConfigErrors> {
    Raw::from_toml("quell.toml", text).check(LAWS.get_or_init(known_laws))
}

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    match check(&text) {
        Ok(checked) => {
            if let Err(errors) = check_laws(&checked) {
                told_well(&errors, &text);
            }
            let again = check(&format!("{text}\n# the end\n")).expect("a remark changes nothing");
            assert_eq!(again.agent, checked.agent);
            assert_eq!(again.services.len(), checked.services.len());
        }
        Err(errors) => told_well(&errors, &text),
    }
});

/// Errors have a place in the text, and can be shown on a terminal.
fn told_well(errors: &ConfigErrors, text: &str) {
    assert!((1..=100).contains(&errors.0.len()));
    let lines = text.split('\n').count();
    for error in &errors.0 {
        assert!((1..=lines).contains(&error.line), "line {} of {lines}", error.line);
        assert!(error.column >= 1 && !error.problem.is_empty());
    }
    let shown = errors.to_string();
    let bad = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(bad), "a control character reaches the terminal: {shown:?}");
}
