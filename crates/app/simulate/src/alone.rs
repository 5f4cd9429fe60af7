//! What services and batch do alone: the measure of what they do together.

use crate::drive::Drive;
use crate::stage::{ChosenLaw, Peak, Stage, Timing};
use crate::windows::{Snapshot, Window};
use quell_sim::Load;
use quell_types::Tenant;
use std::collections::BTreeMap;
use std::time::Duration;

/// Searches of a peak begin at this share of what the workers could serve at best.
const LIGHT: f64 = 0.05;
/// Searches of a peak end when its rate is known this well.
const PEAK_PRECISION: f64 = 0.01;

/// One tenant alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    /// Instructions per second.
    pub(crate) instructions_per_s: f64,
    /// Instructions per second of CPU time.
    pub(crate) instructions_per_cpu_s: f64,
}

/// All tenants: services without batch, batch without services.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Alone(pub(crate) BTreeMap<Tenant, Pace>);

/// Nothing is controlled and nothing happens.
fn quiet(stage: &Stage, seconds: u64) -> Stage {
    let timing = Timing {
        warm: Duration::from_secs(2),
        span: Duration::from_secs(seconds),
        window: Duration::from_secs(seconds),
        ..stage.timing
    };
    Stage { law: ChosenLaw::none(), events: Vec::new(), timing, ..stage.clone() }
}

/// Services as staged, batch groups empty.
pub(crate) fn services_alone(stage: &Stage) -> Stage {
    let mut alone = quiet(stage, 10);
    alone.scene.batch.iter_mut().for_each(|batch| batch.programs.clear());
    alone
}

/// Batch as staged on the whole machine, no requests.
pub(crate) fn batch_alone(stage: &Stage) -> Stage {
    let mut alone = quiet(stage, 20);
    alone.pins.clear();
    for service in &mut alone.scene.services {
        service.load = Load::Constant(0.0);
    }
    alone
}

/// Plays a stage without windows; answers the paces of all tenants.
///
/// # Errors
/// It cannot be played.
pub(crate) fn paces(stage: &Stage) -> anyhow::Result<Alone> {
    let (then, now, _) = between(stage)?;
    let (done, cpus) = (now.rate(&then, |s| &s.instructions), now.rate(&then, |s| &s.cpu_s));
    let pace = |(name, per_s): (Tenant, f64)| {
        let cpus = cpus.get(&name).copied().unwrap_or(0.0);
        let per_cpu = if cpus > 0.0 { per_s / cpus } else { 0.0 };
        (name, Pace { instructions_per_s: per_s, instructions_per_cpu_s: per_cpu })
    };
    Ok(Alone(done.into_iter().map(pace).collect()))
}

/// The counters before and after the measured part, and all of it as one window.
fn between(stage: &Stage) -> anyhow::Result<(Snapshot, Snapshot, Window)> {
    let specs: Vec<_> = stage.scene.services.iter().map(|s| s.spec.clone()).collect();
    let mut drive = Drive::new(stage.clone(), false)?;
    let mut then = None;
    loop {
        let step = drive.step()?;
        let at = step.sample.time.0 / 1_000_000_000;
        if !step.full || at < stage.timing.warm.as_secs() {
            continue;
        }
        let now = Snapshot::take(&step, &specs, drive.truth());
        let first = then.get_or_insert_with(|| now.clone());
        if at >= (stage.timing.warm + stage.timing.span).as_secs() {
            let window = Window::between(first, &now, &specs);
            return Ok((first.clone(), now, window));
        }
    }
}

/// The rate at which a service counts as fully loaded.
///
/// # Errors
/// It cannot be played, or misses the tail that the scenario names even when hardly loaded.
pub(crate) fn peak_of(stage: &Stage, number: usize) -> anyhow::Result<f64> {
    let (percentile_frac, latency_s) = match stage.loads[number].1 {
        Peak::Rate(rate) => return Ok(rate),
        Peak::AtTail { percentile_frac, latency_s } => (percentile_frac, latency_s),
    };
    let mut alone = services_alone(stage);
    alone.timing.span = Duration::from_secs(20);
    for service in &mut alone.scene.services {
        service.load = Load::Constant(0.0);
    }
    alone.scene.services[number].spec.slo.percentile_frac = percentile_frac;
    let mut fits = |rate: f64| -> anyhow::Result<bool> {
        alone.scene.services[number].load = Load::Constant(rate);
        let (_, _, window) = between(&alone)?;
        let tail = window.latency_s[number];
        // A queue that grows has not yet shown its tail; arrivals are few or many by chance.
        let seconds = alone.timing.span.as_secs_f64();
        let least = 0.98 * rate - 3.0 * (rate / seconds).sqrt();
        Ok(tail.is_some_and(|s| s <= latency_s) && window.qps[number] > least)
    };
    let low = LIGHT * capacity(stage, number);
    let (mut low, mut high) = (low, 2.0 * low);
    let name = &stage.scene.services[number].spec.name;
    anyhow::ensure!(fits(low)?, "{name} is slower than {latency_s} s even with {low} requests/s");
    while fits(high)? {
        (low, high) = (high, 2.0 * high);
        anyhow::ensure!(high < 1e8, "{name} never becomes as slow as {latency_s} s");
    }
    while high / low > 1.0 + PEAK_PRECISION {
        let middle = (low * high).sqrt();
        if fits(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Requests per second if every worker had a CPU and never waited for memory.
fn capacity(stage: &Stage, number: usize) -> f64 {
    let service = &stage.scene.services[number];
    let cpi = service.program.phases.first().map_or(1.0, |phase| phase.base_cpi);
    let hz = stage.scene.machine.clock.base_khz as f64 * 1e3;
    f64::from(service.workers) * hz / (service.instructions * cpi)
}
