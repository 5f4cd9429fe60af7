//! The scenario language: what it takes, and what it says of what it does not.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quell_simulate::Scenario;

const GOOD: &str = "\
scenario X \"a test\"
machine e5-2683v4
  cores 4
vary load 20% 50%
service xapian
  load $load
batch jobs
  run stream-dram x 2
policy thesis
  cool_down_s 30s
run 5s after 2s
expect \"tail\" max p95_ms where load<=20% < 100
";

/// Line, column and words of all that is wrong.
fn errors(text: &str) -> Vec<String> {
    let errors = Scenario::parse("x", text).unwrap_err().errors;
    errors.iter().map(ToString::to_string).collect()
}

/// The good text with one line replaced.
fn with(line: &str, by: &str) -> String {
    assert!(GOOD.contains(line), "{line}");
    GOOD.replace(line, by)
}

#[test]
fn a_good_scenario_is_read() {
    let scenario = Scenario::parse("x", GOOD).unwrap();
    assert_eq!((scenario.id.as_str(), scenario.title.as_str()), ("X", "a test"));
    assert_eq!(scenario.runs(), 1, "only the point that is asked for");
}

#[test]
fn unknown_names_come_with_their_place_and_the_nearest_known_one() {
    for (line, by, place, words) in [
        ("machine e5-2683v4", "machine e5-2683v5", "2:9", "did you mean `e5-2683v4`"),
        ("  cores 4", "  coers 4", "3:3", "did you mean `cores`"),
        ("service xapian", "service xapain", "5:9", "did you mean `xapian`"),
        ("  run stream-dram x 2", "  run steam-dram x 2", "8:7", "did you mean `stream-dram`"),
        ("policy thesis", "policy tesis", "9:8", "did you mean `thesis`"),
        ("  cool_down_s 30s", "  cooldown_s 30s", "10:3", "did you mean `cool_down_s`"),
        ("run 5s after 2s", "ran 5s after 2s", "11:1", "did you mean `run`"),
        ("max p95_ms where", "max p96_ms where", "12:19", "did you mean `p95_ms`"),
        ("where load<=20%", "where loud<=20%", "12:32", "did you mean `load`"),
        ("  load $load", "  load $laod", "6:8", "did you mean `load`"),
    ] {
        let found = errors(&with(line, by)).join("\n");
        assert!(found.contains(words) && found.contains(place), "{by}: {found}");
    }
}

#[test]
fn what_does_not_fit_comes_with_what_was_expected() {
    for (line, by, words) in [
        ("run 5s after 2s", "run 5 after 2s", "has no unit"),
        ("run 5s after 2s", "run 5s after", "the line ends too early; expected a time"),
        ("run 5s after 2s", "run 5s after 2s window 9s", "shorter than its window"),
        ("run 5s after 2s", "run 500ms after 2s", "whole seconds"),
        ("run 5s after 2s", "run 5s after 2s exactly", "unknown word `exactly`"),
        ("  cores 4", "  cores none", "expected a whole number"),
        ("  cores 4", "  cores 4 5", "expected the end of the line"),
        ("  load $load", "  load much", "a share such as 0.4"),
        ("  load $load", "  load steps 5s 20% 1s 30%", "later than the one before"),
        ("  run stream-dram x 2", "  cpus 0-9", "the machine has CPUs 0-7"),
        ("  run stream-dram x 2", "  link eth0", "unknown link"),
        ("  cool_down_s 30s", "  slack_pause_frac 3", "within 0 to 1"),
        ("scenario X \"a test\"", "scenario X \"a test", "a `\"` opens a name"),
        ("scenario X \"a test\"", "  scenario X", "an indented line"),
        (
            "expect \"tail\" max p95_ms where",
            "print trace p95_ms where",
            "unknown metric over time",
        ),
        ("< 100", "~ 100", "expected a condition such as"),
        ("< 100", "= 100", "expected `within`"),
        (
            "max p95_ms where",
            "max p95_ms of xapain where",
            "unknown service or batch group `xapain`: did you mean `xapian`",
        ),
    ] {
        let found = errors(&with(line, by)).join("\n");
        assert!(found.contains(words), "{by}: {found}");
    }
    assert!(errors("").join("").contains("the scenario has no name"));
}

#[test]
fn impossible_machines_are_refused() {
    for (by, words) in [
        ("  threads 3", "1 or 2 threads"),
        ("  cores 5000", "more than 320 CPUs"),
        ("  ways 64", "ways of the cache"),
        ("  power_limit_w 1", "power limit is below idle"),
    ] {
        let found = errors(&with("  cores 4", by)).join("\n");
        assert!(found.contains(words) && found.contains("2:9"), "{by}: {found}");
    }
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_text() {
    let text = with("cores 4", "threads 3")
        .replace("x 2", "x none")
        .replace("policy thesis", "policy tesis");
    let found =
        errors(&text.replace("service xapian", "service xapain").replace("run 5s", "run 5"));
    let places: Vec<&str> = found.iter().map(|e| e.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["2:9", "5:9", "8:21", "9:8", "11:5"], "{found:?}");
    let text = with("run 5s", "ran 5s").replace("vary load", "varry load");
    let found = errors(&text);
    assert!(
        found.len() >= 2 && found[0].starts_with("4:1") && found[1].starts_with("11:1"),
        "{found:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(lines in proptest::collection::vec("( {0,2})(machine|service|vary|at|expect|print|run|x|\\$load|\"|#|[a-z0-9%=<.:-]{0,8}| )*", 0..12)) {
        let _ = Scenario::parse("x", &lines.join("\n"));
    }

    #[test]
    fn a_damaged_scenario_is_answered(at in 0usize..GOOD.len(), by in "[ -~]{0,3}") {
        let text = GOOD[..at].to_owned() + &by + &GOOD[(at + by.len()).min(GOOD.len())..];
        if let Err(errors) = Scenario::parse("x", &text) {
            prop_assert!(!errors.errors.is_empty());
            prop_assert!(!errors.to_string().contains('\t'));
        }
    }
}
