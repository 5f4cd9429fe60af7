//! What a person reads while a load runs, and at its end.

use quell_service::{LatencySummary, LoadReport, Window};
use std::fmt::Write as _;

pub(super) fn window(window: &Window) -> String {
    let ms = |value: Option<f64>| value.map_or("–".to_owned(), |ms| format!("{ms:.3}"));
    format!(
        "{:7.1} s  {:9.1}/s  p50 {:>8} ms  p95 {:>8} ms  p99 {:>8} ms  waiting {}",
        window.start_s + window.length_s,
        window.answered_qps,
        ms(window.p50_ms),
        ms(window.p95_ms),
        ms(window.p99_ms),
        window.backlog
    )
}

pub(super) fn report(report: &LoadReport) -> String {
    let mut text = format!("{}\n", report.target);
    for run in &report.runs {
        let _ = writeln!(
            text,
            "seed {}: {} of {} requests answered, {:.1}/s, {} failed, {} unanswered",
            run.seed, run.answered, run.offered, run.answered_qps, run.failed, run.unanswered
        );
        let _ = writeln!(text, "  sojourn {}", summary(&run.sojourn));
        for (name, part) in [("queue", &run.queue), ("service", &run.service)] {
            if let Some(part) = part {
                let _ = writeln!(text, "  {name:7} {}", summary(part));
            }
        }
        let generator = &run.generator;
        let _ = writeln!(
            text,
            "  generator {:.1} % of a CPU, late by {:.0} us (median), {:.0} us (99 %)",
            generator.cpu_frac * 100.0,
            generator.late_p50_us,
            generator.late_p99_us
        );
    }
    if let Some(tail) = &report.tail {
        let _ = writeln!(
            text,
            "p{} over {} runs: {:.3} ms ± {:.1} %{}",
            tail.percentile,
            report.runs.len(),
            tail.interval.mean_ms,
            tail.interval.half_width_frac * 100.0,
            if tail.narrow_enough { "" } else { ", not as narrow as wanted" }
        );
    }
    text.truncate(text.trim_end().len());
    text
}

fn summary(latency: &LatencySummary) -> String {
    format!(
        "mean {:.3}  p50 {:.3}  p95 {:.3}  p99 {:.3}  p99.9 {:.3} ms",
        latency.mean_ms, latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.p999_ms
    )
}
