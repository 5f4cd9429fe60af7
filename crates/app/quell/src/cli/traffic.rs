//! The memory traffic of a service under load, step by step, for `quell profile --service`.

mod class;

use super::latency::Loaded;
use class::Class;
use quell_counters::{MemoryTraffic, Target};
use quell_pressure::bind_process;
use quell_profiler::{
    BandwidthModel, BandwidthStep, ProfileError, Rig, bandwidth, bandwidth_steps,
};
use quell_types::{CpuSet, Gap, Reading, Topology};
use std::time::{Duration, Instant};

/// Loads as shares of the peak.
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// Looks at each.
const ROUNDS: usize = 3;
/// The length of a look.
const WINDOW: Duration = Duration::from_millis(700);
/// A cache that was divided anew is filled anew within this.
const SETTLED: Duration = Duration::from_millis(200);
/// Of all x86 and most others.
const USUAL_LINE_BYTES: u32 = 64;

/// The model of a service that sits on these CPUs, loaded up to `peak` requests per second, or up
/// to what it sustains.
///
/// # Errors
/// Why there is none, for people.
pub(super) fn model(
    service: &mut Loaded,
    peak: Option<f64>,
    cpus: &CpuSet,
    topology: &Topology,
) -> Result<BandwidthModel, String> {
    let counter = Counter::open(service, cpus, topology)
        .map_err(|gap| format!("memory traffic is not counted here: {gap}"))?;
    let mut say = |qps: f64| eprintln!("looking for the peak: {qps:.0}/s");
    let peak = match peak {
        Some(given) => given,
        None => service.find_peak(&mut say).map_err(|error| format!("{error:#}"))?,
    };
    let process = service.pid().map_err(|gap| gap.to_string())?;
    let steps = steps(cpus.len(), &counter.ways());
    let (cpus, seated) = (cpus.clone(), cpus.len());
    let mut rig = OnItsCpus { service, counter, peak, process, cpus, seated };
    let found = bandwidth(&mut rig, peak, &steps, ROUNDS);
    rig.seat(rig.cpus.len())?;
    found
}

/// All CPUs and half of them, each at the loads that so many can serve.
fn steps(cpus: usize, ways: &[u32]) -> Vec<BandwidthStep> {
    let mut counts = vec![cpus.div_ceil(2), cpus];
    counts.dedup();
    let at = |count: usize| {
        let most = LOADS[LOADS.len() - 1] * count as f64 / cpus.max(1) as f64;
        let loads: Vec<f64> = LOADS.iter().copied().filter(|load| *load <= most).collect();
        bandwidth_steps(&loads, &[u32::try_from(count).unwrap_or(u32::MAX)], ways)
    };
    counts.into_iter().flat_map(at).collect()
}

/// Who counts: its class of resctrl, which has its ways too, else misses on its CPUs.
enum Counter {
    Class(Box<Class>),
    Misses(MemoryTraffic),
}

impl Counter {
    fn open(service: &Loaded, cpus: &CpuSet, topology: &Topology) -> Reading<Self> {
        match Class::around(service.pid()?) {
            Ok(class) => Ok(Self::Class(Box::new(class))),
            Err(without) => match misses(cpus, topology) {
                Ok(counter) => Ok(Self::Misses(counter)),
                Err(gap) => Err(Gap::absent(format!("resctrl: {without}; perf: {gap}"))),
            },
        }
    }

    fn ways(&self) -> Vec<u32> {
        match self {
            Self::Class(class) => class.counts(),
            Self::Misses(_) => Vec::new(),
        }
    }

    fn set_ways(&self, count: u32) -> Result<(), String> {
        match self {
            Self::Class(class) => class.set_ways(count),
            Self::Misses(_) => Err("ways cannot be set here".to_owned()),
        }
    }

    fn bytes(&mut self) -> Reading<u64> {
        match self {
            Self::Class(class) => class.bytes(),
            Self::Misses(counter) => Ok(counter.read()?.bytes),
        }
    }
}

fn misses(cpus: &CpuSet, topology: &Topology) -> Reading<MemoryTraffic> {
    MemoryTraffic::usable()?;
    let line = topology.caches.iter().max_by_key(|cache| cache.level).map(|c| c.line_bytes);
    let line = line.filter(|bytes| *bytes > 0).unwrap_or(USUAL_LINE_BYTES);
    let counter = MemoryTraffic::open(&Target::Cpus(cpus.clone()), line);
    counter.map_err(|error| Gap::failed(error.to_string()))
}

/// The service alone on its CPUs.
struct OnItsCpus<'a> {
    service: &'a mut Loaded,
    counter: Counter,
    peak: f64,
    process: u32,
    cpus: CpuSet,
    /// Of its CPUs it has so many now.
    seated: usize,
}

impl OnItsCpus<'_> {
    /// Leaves it the first so many of its CPUs.
    fn seat(&mut self, count: usize) -> Result<(), String> {
        if self.seated != count {
            bind_process(self.process, &self.cpus.first(count)).map_err(|e| e.to_string())?;
            self.seated = count;
        }
        Ok(())
    }
}

impl Rig for OnItsCpus<'_> {
    fn set(&mut self, step: &BandwidthStep) -> Result<(), String> {
        self.service.set_rate(step.load_frac * self.peak);
        step.cores.map_or(Ok(()), |count| self.seat(count as usize))?;
        step.ways.map_or(Ok(()), |count| self.counter.set_ways(count))?;
        match self.service.p95_ms(SETTLED) {
            // At low rates nobody may have asked in so short a time.
            Err(ProfileError::Stopped) => Err(ProfileError::Stopped.to_string()),
            _ => Ok(()),
        }
    }

    fn bytes_per_s(&mut self) -> Reading<f64> {
        let (begun, before) = (Instant::now(), self.counter.bytes()?);
        self.service.p95_ms(WINDOW).map_err(|error| Gap::failed(error.to_string()))?;
        let (bytes, seconds) = (self.counter.bytes()?, begun.elapsed().as_secs_f64());
        Ok(bytes.saturating_sub(before) as f64 / seconds)
    }

    fn counted_by(&self) -> String {
        match self.counter {
            Counter::Class(_) => "a class of service of its own, by resctrl",
            Counter::Misses(_) => {
                "misses of the last-level cache on the service's CPUs × line size, by perf"
            }
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_cpus_are_asked_for_what_they_can_serve() {
        let of = |count: u32| {
            let mine = steps(8, &[2, 11]).into_iter().filter(move |s| s.cores == Some(count));
            mine.map(|s| (s.load_frac, s.ways)).collect::<Vec<_>>()
        };
        assert_eq!(of(8).len(), 10, "five loads with either number of ways");
        assert_eq!(of(4), [(0.1, Some(2)), (0.3, Some(2)), (0.1, Some(11)), (0.3, Some(11))]);
        assert_eq!(steps(1, &[]).len(), 5, "one CPU has no half");
        assert!(steps(1, &[]).iter().all(|s| s.cores == Some(1)));
    }
}
