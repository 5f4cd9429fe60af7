//! The published experiments, played: which of their figures hold is written down, so that no change
//! of the simulator or of a law loses one, or gains one, without being seen.
//!
//! Those that last over a minute are left to `quell simulate --all`: a day of Heracles, and a day
//! without polluters.
#![allow(clippy::unwrap_used)]

use quell_simulate::*;
use std::fmt::Write as _;

/// Scenarios that are not played here.
const LONG: [&str; 2] = ["H-E1", "A-calm"];

/// One line for a scenario, and one for each figure that does not hold.
fn outcome(id: &str) -> String {
    let scenario = find(id).unwrap().unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options { jobs: 2, ..Options::default() };
    let report = simulate(&scenario, &options, &|_, _| ()).unwrap().report;
    if report.status == Status::Pending {
        return String::new();
    }
    let missed: Vec<&Figure> = report.figures.iter().filter(|figure| !figure.held).collect();
    let of = report.figures.len();
    let mut lines = format!("{id}: {} of {of}\n", of - missed.len());
    for figure in missed {
        writeln!(lines, "  missed: {}", figure.name).unwrap();
    }
    lines
}

/// When a change is meant, replace the file by what the failing test prints, and the tables of
/// `docs/experiments` by those that `quell simulate ID --report DIR` writes.
#[test]
fn the_figures_that_hold_are_those_that_are_written_down() {
    let short = LIBRARY.iter().map(|(id, _)| *id).filter(|id| !LONG.contains(id));
    let found: String = short.map(outcome).collect();
    let golden = include_str!("golden/published.txt");
    assert!(found == golden, "other figures hold now:\n{found}");
}
