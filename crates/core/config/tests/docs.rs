//! The example and the key table.

mod common;

use common::{check, laws};
use quell_config::{example, key_table};

#[test]
fn the_example_is_accepted() {
    let config = check(example()).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((config.services.len(), config.batch.len(), config.links.len()), (2, 1, 1));
}

#[test]
fn the_example_shows_the_defaults() {
    let shown = check(example()).unwrap().agent;
    let least = check(common::LEAST).unwrap().agent;
    assert_eq!(shown.interval, least.interval);
    assert_eq!(shown.fast_interval, least.fast_interval);
    assert_eq!(shown.state_dir, least.state_dir);
    assert_eq!(shown.metrics, least.metrics);
    assert_eq!(shown.on_foreign_change, least.on_foreign_change);
    assert_eq!((shown.law, shown.adopt), (least.law, least.adopt));
    assert_eq!(shown.experiments, least.experiments);
}

/// The names in the key table, in its own notation.
fn keys(page: &str) -> Vec<&str> {
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.len());
    page.lines().filter_map(|line| name(line).map(|len| &line[3..3 + len])).collect()
}

#[test]
fn the_example_names_every_key() {
    let page = key_table(&quell_config::Laws::default());
    let keys = keys(&page);
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys {
        let bare = format!("{key} = ");
        let shown = example().lines().any(|line| {
            let line = line.trim_start_matches(['#', ' ']);
            line.starts_with(&bare) || line.contains(&format!("\"{key}\""))
        });
        let named = example().contains(&format!("{key}, "))
            || example().contains(&format!("[agent.{key}]"));
        assert!(shown || named, "the example says nothing of {key}");
    }
}

#[test]
fn the_key_table_tells_range_default_and_meaning() {
    let page = key_table(&laws());
    for line in [
        "## `[agent]`",
        "| `interval_s` | seconds, 0.05 to 60, or a text with its unit such as \"250ms\" | `1.0` |",
        "| `capacity` | a rate such as \"100Mbit\" or \"12.5MB/s\" | required |",
        "## `[law.quell]`",
        "| `settle_s` | a number, 0 to 10 (seconds, or a text such as \"250ms\") | `1.5` | Wait",
        "| `profile` | \"author\" or \"report\" | `\"author\"` |",
    ] {
        assert!(page.contains(line), "no {line:?} in\n{page}");
    }
    let rows = page.lines().filter(|line| line.starts_with('|'));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 5, "{row}");
    }
}
