//! Counters of service and batch, read several times a second beside a run.

use crate::batch::{WorkMeter, feed};
use crate::groups::Groups;
use crate::readings::Readings;
use crate::{Polluter, TracePoint};
use quell_cgroup::{CpuUsage, Group};
use quell_service::now_ns;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two readings.
const PERIOD: Duration = Duration::from_millis(200);

/// One reading of all counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at_ns: u64,
    pub(crate) service_cpu_ns: u64,
    pub(crate) batch_cpu_ns: u64,
    /// Work of each polluter, in the order they were named.
    pub(crate) work: Vec<u64>,
    /// What batch may use, in CPUs; none where nothing limits it.
    pub(crate) budget_cpus: Option<f64>,
}

/// A thread that reads until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Sampler(Readings<Reading>);

struct Source {
    cpu: CpuUsage,
    work: WorkMeter,
    bandwidth: Option<PathBuf>,
    freezer: Option<PathBuf>,
}

impl Source {
    fn new(group: &Group, feed: PathBuf) -> Self {
        Self {
            cpu: CpuUsage::new(group),
            work: WorkMeter::new(feed),
            bandwidth: group.v1("cpu").map(|place| place.dir.clone()),
            freezer: group.v1("freezer").map(|place| place.file("freezer.state")),
        }
    }

    /// The CPU time it may use, in CPUs; infinite if nothing limits it.
    fn budget(&self) -> f64 {
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        if self.freezer.as_ref().is_some_and(|path| !text(path).starts_with("THAWED")) {
            return 0.0;
        }
        let number = |name: &str| {
            let folder = self.bandwidth.as_ref()?;
            text(&folder.join(name)).trim().parse::<f64>().ok()
        };
        match (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")) {
            (Some(quota), Some(period)) if quota >= 0.0 && period > 0.0 => quota / period,
            _ => f64::INFINITY,
        }
    }
}

impl Sampler {
    /// Starts to read the service and these polluters, whose feeds lie in `folder`.
    pub(crate) fn start(
        groups: &Groups,
        polluters: &[Polluter],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let mut service = CpuUsage::new(groups.service());
        let named = polluters.iter().filter_map(|&p| Some((p, groups.batch(p)?)));
        let mut batch: Vec<Source> =
            named.map(|(p, group)| Source::new(group, feed(folder, p))).collect();
        let read = move || read(&mut service, &mut batch);
        Ok(Self(Readings::start("quell-sampler", PERIOD, read)?))
    }

    /// Ends it and gives what it read.
    pub(crate) fn finish(self) -> anyhow::Result<Vec<Reading>> {
        self.0.finish()
    }
}

fn read(service: &mut CpuUsage, batch: &mut [Source]) -> Reading {
    let budget: f64 = batch.iter().map(Source::budget).sum();
    Reading {
        service_cpu_ns: service.read().unwrap_or(0),
        batch_cpu_ns: batch.iter_mut().map(|source| source.cpu.read().unwrap_or(0)).sum(),
        work: batch.iter_mut().map(|source| source.work.read()).collect(),
        budget_cpus: Some(budget).filter(|cpus| cpus.is_finite()),
        at_ns: now_ns(),
    }
}

/// How much counters grew over a span of time, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// In CPUs.
    pub(crate) service_cpus: f64,
    /// In CPUs.
    pub(crate) batch_cpus: f64,
    /// Work per second of each polluter.
    pub(crate) work_per_s: Vec<f64>,
}

/// Rates between two times, counters taken to grow evenly between readings. None without readings
/// on both sides, or without time between.
pub(crate) fn rates(readings: &[Reading], from_ns: u64, to_ns: u64) -> Option<Rates> {
    let seconds = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
    let (from, to) = (at(readings, from_ns)?, at(readings, to_ns)?);
    let mut grown = to.iter().zip(&from).map(|(to, from)| (to - from) / seconds);
    let (service, batch) = (grown.next()?, grown.next()?);
    Some(Rates {
        service_cpus: service / 1e9,
        batch_cpus: batch / 1e9,
        work_per_s: grown.collect(),
    })
}

/// All counters at a time.
fn at(readings: &[Reading], at_ns: u64) -> Option<Vec<f64>> {
    let values = |r: &Reading| -> Vec<f64> {
        let work = r.work.iter().copied();
        [r.service_cpu_ns, r.batch_cpu_ns].into_iter().chain(work).map(|v| v as f64).collect()
    };
    let after = readings.partition_point(|r| r.at_ns < at_ns);
    let (before, after) = (readings.get(after.checked_sub(1)?)?, readings.get(after)?);
    let length = (after.at_ns - before.at_ns).max(1) as f64;
    let way = (at_ns - before.at_ns) as f64 / length;
    let pairs = values(before).into_iter().zip(values(after));
    Some(pairs.map(|(before, after)| before + (after - before) * way).collect())
}

/// The same as a timeline.
pub(crate) fn trace(readings: &[Reading], cpus: usize, start_ns: u64) -> Vec<TracePoint> {
    let seconds = |ns: u64| (ns as f64 - start_ns as f64) / 1e9;
    let pairs = readings.iter().zip(readings.iter().skip(1));
    pairs
        .filter_map(|(from, to)| {
            let rates = rates(readings, from.at_ns + 1, to.at_ns)?;
            Some(TracePoint {
                t_s: seconds(to.at_ns),
                tail_ms: None,
                batch_cpus: rates.batch_cpus,
                service_cpus: rates.service_cpus,
                budget_cpus: to.budget_cpus.unwrap_or(cpus as f64).min(cpus as f64),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_s: f64, service: f64, work: u64) -> Reading {
        Reading {
            at_ns: (at_s * 1e9) as u64,
            service_cpu_ns: (service * 1e9) as u64,
            work: vec![work],
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_those_between_the_edges() {
        let readings = [reading(0.0, 0.0, 0), reading(1.0, 0.5, 100), reading(2.0, 1.5, 100)];
        let found = rates(&readings, 500_000_000, 1_500_000_000).unwrap();
        assert!((found.service_cpus - 0.75).abs() < 1e-9, "{found:?}");
        assert!((found.work_per_s[0] - 50.0).abs() < 1e-9, "{found:?}");
        assert_eq!(rates(&readings, 1_500_000_000, 2_500_000_000), None);
        assert_eq!(rates(&readings, 1_000_000_000, 1_000_000_000), None);
    }
}
