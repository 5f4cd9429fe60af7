//! The memory traffic of a service under load, step by step, for `quell profile --service`.

use super::latency::Loaded;
use quell_counters::{MemoryTraffic, Target};
use quell_profiler::{BandwidthModel, BandwidthStep, Rig, bandwidth, bandwidth_steps};
use quell_types::{CpuSet, Gap, Reading, Topology};
use std::time::{Duration, Instant};

/// Loads as shares of the peak.
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// Looks at each.
const ROUNDS: usize = 3;
/// The length of a look.
const WINDOW: Duration = Duration::from_millis(700);
/// Of all x86 and most others.
const USUAL_LINE_BYTES: u32 = 64;

/// The model of a service that sits on these CPUs, loaded up to `peak` requests per second.
///
/// # Errors
/// Why there is none, for people.
pub(super) fn model(
    service: &mut Loaded,
    peak: Option<f64>,
    cpus: &CpuSet,
    topology: &Topology,
) -> Result<BandwidthModel, String> {
    let peak = peak.ok_or("name the rate that counts as a load of 1 with --peak")?;
    MemoryTraffic::usable().map_err(|gap| format!("memory traffic is not counted here: {gap}"))?;
    let line = topology.caches.iter().max_by_key(|cache| cache.level).map(|c| c.line_bytes);
    let line = line.filter(|bytes| *bytes > 0).unwrap_or(USUAL_LINE_BYTES);
    let counter = MemoryTraffic::open(&Target::Cpus(cpus.clone()), line);
    let counter = counter.map_err(|error| error.to_string())?;
    let cores = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
    let mut rig = OnItsCpus { service, counter, peak };
    bandwidth(&mut rig, peak, &bandwidth_steps(&LOADS, &[cores], &[]), ROUNDS)
}

/// The service alone on its CPUs, whose misses are counted.
struct OnItsCpus<'a> {
    service: &'a mut Loaded,
    counter: MemoryTraffic,
    peak: f64,
}

impl Rig for OnItsCpus<'_> {
    fn set(&mut self, step: &BandwidthStep) -> Result<(), String> {
        self.service.set_rate(step.load_frac * self.peak);
        Ok(())
    }

    fn bytes_per_s(&mut self) -> Reading<f64> {
        let (begun, before) = (Instant::now(), self.counter.read()?.bytes);
        self.service.p95_ms(WINDOW).map_err(|error| Gap::failed(error.to_string()))?;
        let (bytes, seconds) = (self.counter.read()?.bytes, begun.elapsed().as_secs_f64());
        Ok(bytes.saturating_sub(before) as f64 / seconds)
    }

    fn counted_by(&self) -> String {
        "misses of the last-level cache on the service's CPUs × line size, by perf".to_owned()
    }
}
