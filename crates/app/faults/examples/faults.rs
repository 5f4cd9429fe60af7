//! A fault run, or one of its episodes again.
//!
//! `cargo run --release -p quell-faults --example faults -- --hours 10 [--faults N] [--threads N]
//! [--run N] [--json FILE]`, `… -- --seed S`, `… -- --shrink S`

use quell_faults::{Limits, Played, replay, run, shrink};
use std::time::Instant;

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let number =
        |name: &str, default: f64| value(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    if let Some(seed) = value("--seed").and_then(|v| v.parse().ok()) {
        show(&replay(seed)?);
        return Ok(());
    }
    if let Some(seed) = value("--shrink").and_then(|v| v.parse().ok()) {
        match shrink(seed)? {
            Some(played) => show(&played),
            None => println!("nothing breaks"),
        }
        return Ok(());
    }
    let limits = Limits {
        hours: number("--hours", 1.0),
        faults: number("--faults", 0.0) as u64,
        threads: number("--threads", 2.0) as usize,
        run: number("--run", 1.0) as u64,
    };
    let begun = Instant::now();
    let most_s = number("--seconds", f64::INFINITY);
    let done = run(&limits, |so_far| {
        for broken in so_far.new {
            println!("{broken}");
        }
        eprintln!(
            "{:8.1} s  {:8.1} h  {:8} faults  {:4} cells  {} broken",
            begun.elapsed().as_secs_f64(),
            so_far.hours,
            so_far.faults,
            so_far.covered,
            so_far.broken
        );
        begun.elapsed().as_secs_f64() < most_s
    })?;
    print!("{}", done.coverage);
    for cell in done.coverage.missing().iter().take(40) {
        println!("not met: {cell}");
    }
    let report = &done.report;
    println!(
        "{} faults in {:.1} hours, {} of {} cells, {} broken, {} barred, {:.0} s",
        report.faults,
        report.hours,
        report.sites_covered,
        report.sites,
        report.broken,
        report.barred,
        begun.elapsed().as_secs_f64()
    );
    if let Some(path) = value("--json") {
        let text = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
        std::fs::write(&path, text + "\n").map_err(|e| format!("{path}: {e}"))?;
    }
    Ok(())
}

fn show(played: &Played) {
    println!(
        "seed {} law {} {:.1} s {} faults",
        played.seed, played.law, played.seconds, played.faults
    );
    if let Some(broken) = &played.broken {
        for line in &broken.thrown {
            println!("{line}");
        }
        println!("{:8.2} s  BROKEN {}", broken.at_s, broken.what);
    }
}
