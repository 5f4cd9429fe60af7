//! What a probe's trace says.

use quell_types::{
    ChipTrace, LogHistogram, PROBE_GROUP, ProbeTrace, RequestReading, ServiceSpec, Tenant,
};

/// Fewer requests in a window tell nothing.
const LEAST_REQUESTS: u64 = 15;

/// Whether the quality of service was kept, and at which intensity it was really pressed; none where
/// the trace does not tell.
pub(super) fn of(trace: &ProbeTrace, spec: &ServiceSpec, threshold: f64) -> Option<(bool, f64)> {
    let percent = trace.probe.intensity_percent * ran_share(trace);
    let missed = tail_s(trace, spec).is_some_and(|tail| tail > spec.slo.target_s);
    if missed {
        return Some((false, percent));
    }
    // An early end may be anything's doing; only a whole one shows that it was kept.
    if trace.aborted.is_some() {
        return None;
    }
    let mut speeds = speeds(trace, &spec.name);
    speeds.sort_by(f64::total_cmp);
    let middle = *speeds.get(speeds.len() / 2)?;
    Some((middle >= threshold, percent))
}

/// Speeds under pressure over those in the quiet windows beside.
fn speeds(trace: &ProbeTrace, service: &Tenant) -> Vec<f64> {
    let costs: Vec<Option<f64>> = trace.windows.iter().map(|w| cost_s(w, service)).collect();
    let triple = |(three, windows): (&[Option<f64>], &[ChipTrace])| {
        let [before, pressed, after] = [three[0]?, three[1]?, three[2]?];
        windows[1].running.then(|| f64::midpoint(before, after) / pressed)
    };
    costs.windows(3).zip(trace.windows.windows(3)).filter_map(triple).collect()
}

/// CPU time per request in a window; none with too few requests.
fn cost_s(window: &ChipTrace, service: &Tenant) -> Option<f64> {
    let requests = requests(window, service)?.requests;
    let cpu_ns = *window.victim_cpu_ns.get(service)?.as_ref().ok()?;
    let enough = requests >= LEAST_REQUESTS && cpu_ns > 0;
    enough.then(|| cpu_ns as f64 / 1e9 / requests as f64)
}

fn requests<'a>(window: &'a ChipTrace, service: &Tenant) -> Option<&'a RequestReading> {
    window.victim_requests.get(service)?.as_ref().ok()
}

/// The tail under pressure, all windows of it together, at the objective's percentile.
fn tail_s(trace: &ProbeTrace, spec: &ServiceSpec) -> Option<f64> {
    let mut all = LogHistogram::new();
    for window in trace.windows.iter().filter(|window| window.running) {
        if let Some(latency) = requests(window, &spec.name).and_then(|r| r.latency_ns.as_ref().ok())
        {
            all.merge(latency);
        }
    }
    (all.count() >= LEAST_REQUESTS)
        .then(|| all.quantile(spec.slo.percentile_frac))?
        .map(|ns| ns / 1e9)
}

/// The share of the pressed time in which what presses really ran; all of it where that is not known.
fn ran_share(trace: &ProbeTrace) -> f64 {
    let group = Tenant::from(PROBE_GROUP);
    let (mut ran, mut wall) = (0.0, 0.0);
    for window in trace.windows.iter().filter(|window| window.running) {
        if let Some(Ok(cpu_ns)) = window.group_cpu_ns.get(&group) {
            ran += *cpu_ns as f64 / 1e9;
            wall += window.to.since(window.from).as_secs_f64();
        }
    }
    if wall > 0.0 { (ran / wall).clamp(0.0, 1.0) } else { 1.0 }
}
