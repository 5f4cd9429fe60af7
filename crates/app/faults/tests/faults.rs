//! Five thousand faults, and every seed that ever broke something.
#![allow(clippy::unwrap_used)]

use quell_faults::{Limits, replay, run};

#[test]
fn five_thousand_faults_break_nothing() {
    let limits = Limits { hours: 0.0, faults: 5_000, threads: 2, run: 3 };
    let done = run(&limits, |_| true).unwrap();
    let report = &done.report;
    println!("{}", done.coverage);
    println!(
        "{} faults in {:.1} hours, {} of {} cells",
        report.faults, report.hours, report.sites_covered, report.sites
    );
    assert!(report.faults >= 5_000);
    assert_eq!(report.broken_seeds, []);
}

#[test]
fn an_episode_is_played_again_exactly() {
    let seed = (9 << 10) | 5;
    let played = replay(seed).unwrap();
    assert!(played.faults > 5, "{played:?}");
    assert_eq!(replay(seed).unwrap(), played);
}
