//! The flash crowd: how long until the SLO holds again under law `quell`.

use crate::cell::{Charge, Stage};
use crate::report::TracePoint;
use crate::service::Load;
use crate::{Contender, Mix};
use quell_service::{Profile, RunReport, WindowRule};

/// Load before the crowd and while it is there, as shares of the peak.
const BASE_FRAC: f64 = 0.3;
const CROWD_FRAC: f64 = 0.9;
/// Length of a window: fine enough for a few seconds' recovery.
const WINDOW_S: f64 = 0.25;
/// The SLO holds again once it held for so long without a break.
const STEADY_S: f64 = 1.0;

/// What was seen.
pub(crate) struct Crowd {
    pub(crate) recovery_s: Option<f64>,
    pub(crate) trace: Vec<TracePoint>,
    /// Share of one CPU that the agent's eBPF programs took.
    pub(crate) bpf_cpu_frac: Option<f64>,
}

/// Runs it: settle, `before_s` of calm, then the crowd for `hold_s`.
pub(crate) fn run(
    stage: &Stage<'_>,
    settle_s: f64,
    before_s: f64,
    hold_s: f64,
    seed: u64,
) -> anyhow::Result<Crowd> {
    let peak = stage.objective.peak_qps;
    // A profile counts from the start, warm-up included.
    let at_s = settle_s + before_s;
    let load = Load {
        profile: Profile::Step { from_qps: BASE_FRAC * peak, to_qps: CROWD_FRAC * peak, at_s },
        warmup_s: settle_s,
        seconds: before_s + hold_s,
        window: WindowRule { length_s: WINDOW_S, min_requests: 50 },
        seed,
    };
    let charge = Charge { bpf_stats: true, ..Charge::new(Contender::Quell, Mix::Mix) };
    let seen = stage.cell(&charge, &load, &mut |_| ())?;
    let mut trace = seen.trace(stage.percentile, stage.cpus);
    trace.iter_mut().for_each(|point| point.t_s -= before_s);
    let bpf = seen.cost.filter(|(cost, _)| cost.bpf_ns > 0);
    Ok(Crowd {
        recovery_s: recovery(&seen.run, stage.percentile, stage.objective.slo_ms, before_s),
        trace,
        bpf_cpu_frac: bpf.map(|(cost, seconds)| cost.bpf_ns as f64 / 1e9 / seconds),
    })
}

/// From the jump to the end of the last window that missed the SLO before it held for
/// [`STEADY_S`]; none if it never did. 0 if it was never missed.
fn recovery(run: &RunReport, percentile: f64, slo_ms: f64, jump_s: f64) -> Option<f64> {
    let mut since = jump_s;
    for window in run.windows.iter().filter(|w| w.start_s + w.length_s > jump_s) {
        let end_s = window.start_s + window.length_s;
        let kept = window.percentile_ms(percentile).is_some_and(|tail| tail <= slo_ms);
        if !kept {
            since = end_s;
        } else if end_s - since >= STEADY_S - 1e-9 {
            return Some(since - jump_s);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_service::Window;

    fn window(start_s: f64, tail_ms: f64) -> Window {
        Window {
            start_monotonic_ns: 0,
            start_s,
            length_s: 0.5,
            offered: 100,
            answered: 100,
            failed: 0,
            backlog: 0,
            offered_qps: 200.0,
            answered_qps: 200.0,
            mean_ms: None,
            p50_ms: None,
            p95_ms: Some(tail_ms),
            p99_ms: None,
            p999_ms: None,
            short: false,
        }
    }

    fn recovered(tails: &[f64]) -> Option<f64> {
        let start = |i: usize| i as f64 * 0.5;
        let windows = tails.iter().enumerate().map(|(i, &tail)| window(start(i), tail)).collect();
        let summary = |ms: f64| {
            serde_json::json!({"count": 1, "mean_ms": ms, "p50_ms": ms, "p90_ms": ms, "p95_ms": ms,
                "p99_ms": ms, "p999_ms": ms, "max_ms": ms})
        };
        let mut run: RunReport = serde_json::from_value(serde_json::json!({
            "seed": 1, "measured_s": 5.0, "warmup_requests": 0, "offered": 1, "answered": 1,
            "answered_in_time": 1, "failed": 0, "unanswered": 0, "offered_qps": 1.0,
            "answered_qps": 1.0, "served_qps": 1.0, "sojourn": summary(1.0), "queue": null, "service": null,
            "server_queue": null, "windows": [], "backlog_samples": [],
            "generator": {"cpu_s": 0.0, "cpu_frac": 0.0, "service_cpu_s": null, "late_p50_us": 0.0,
                "late_p99_us": 0.0, "realtime": {"state": "off"}, "threads": 1, "connections": 1,
                "reconnects": 0}
        }))
        .unwrap();
        run.windows = windows;
        recovery(&run, 95.0, 2.0, 1.0)
    }

    #[test]
    fn the_time_is_that_of_the_last_miss_before_calm() {
        assert_eq!(recovered(&[1.0, 1.0, 1.0, 1.0, 1.0]), Some(0.0));
        assert_eq!(recovered(&[1.0, 1.0, 9.0, 1.0, 9.0, 1.0, 1.0, 1.0]), Some(1.5));
        assert_eq!(recovered(&[1.0, 1.0, 9.0, 1.0, 9.0, 1.0]), None);
        assert_eq!(recovered(&[9.0, 9.0, 1.0, 1.0]), Some(0.0));
    }
}
