//! How much two CPUs feel each other through the caches just now.
//!
//! A hypervisor moves virtual CPUs between last-level caches as it likes. Where a cell's batch and
//! service did not share one, a law had less to do than in a cell in which they did, and the two
//! cannot be compared. So this is measured before each cell, a third of a second long: the access
//! time of a reporter of 4 MiB on one CPU, alone and beside a stream through memory on another.

use anyhow::Context as _;
use quell_pressure::{Options, Resource, Stop, arm};
use quell_types::{CpuSet, Topology};
use std::time::Duration;

/// More than a core's own caches hold, less than a last-level cache.
const REPORTER_BYTES: u64 = 4 << 20;
/// More than a last-level cache holds for one CPU's stream.
const STREAM_BYTES: u64 = 64 << 20;
/// Of one reading.
const LOOK: Duration = Duration::from_millis(40);
/// Readings of each kind, in turns.
const TURNS: usize = 3;
/// Bounds the load whatever becomes of this process's threads.
const BOUND_S: f64 = 2.0;

/// Two CPUs that are measured with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Neighbours {
    reporter: u32,
    stream: u32,
    topology: Topology,
}

impl Neighbours {
    /// Chooses two of the CPUs that this process may use: best two cores behind one cache.
    ///
    /// # Errors
    /// Why it cannot be measured here, in words.
    pub(crate) fn choose(topology: &Topology) -> Result<Self, String> {
        let mask = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
        let usable = |cpu: &u32| mask.is_set(*cpu as usize);
        Self::among(topology, topology.online().iter().filter(usable).collect())
    }

    fn among(topology: &Topology, usable: CpuSet) -> Result<Self, String> {
        let none = "one CPU has no neighbour to share a cache with";
        let reporter = usable.iter().next().ok_or(none)?;
        let domain = topology.llc.iter().find(|llc| llc.cpus.contains(reporter));
        let siblings = topology.siblings(reporter);
        let others = usable.difference(&CpuSet::of(reporter));
        let worth = |cpu: &u32| {
            let shares = domain.is_some_and(|llc| llc.cpus.contains(*cpu));
            (shares, !siblings.contains(*cpu), std::cmp::Reverse(*cpu))
        };
        let stream = others.iter().max_by_key(worth).ok_or(none)?;
        Ok(Self { reporter, stream, topology: topology.clone() })
    }

    /// The reporter's access time beside the stream, as a multiple of that alone.
    pub(crate) fn slowdown_ratio(&self) -> anyhow::Result<f64> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            alone.push(self.access_ns()?);
            let stream = arm(&self.streaming(), &self.topology, &Stop::new()?)?.start();
            beside.push(self.access_ns()?);
            stream.finish()?;
        }
        let ratio = median(beside) / median(alone);
        anyhow::ensure!(ratio.is_finite() && ratio > 0.0, "accesses took no time");
        Ok(ratio)
    }

    fn access_ns(&self) -> anyhow::Result<f64> {
        let mut options = Options::new(Resource::LlcCapacity);
        options.cpus = CpuSet::of(self.reporter);
        options.llc_bytes = Some(REPORTER_BYTES);
        options.seconds = BOUND_S;
        let stop = Stop::new()?;
        let reporter = arm(&options, &self.topology, &stop)?.start();
        std::thread::sleep(LOOK);
        reporter.finish()?.latency_ns.context("no access was timed")
    }

    fn streaming(&self) -> Options {
        let mut options = Options::new(Resource::MemoryBandwidth);
        options.cpus = CpuSet::of(self.stream);
        options.region_bytes = Some(STREAM_BYTES);
        options.seconds = BOUND_S;
        options
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::{Cpu, LlcDomain};

    fn cpus(list: &[u32]) -> CpuSet {
        list.iter().copied().collect()
    }

    /// Two cores of two threads behind the first cache, one core behind the second.
    fn machine() -> Topology {
        let cpu = |(id, core)| Cpu { id, socket: 0, core, node: 0 };
        let llc = |id, list: &[u32]| LlcDomain { id, cpus: cpus(list), size_bytes: 1, ways: None };
        Topology {
            cpus: [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)].map(cpu).to_vec(),
            llc: vec![llc(0, &[0, 1, 2, 3]), llc(1, &[4])],
            ..Topology::default()
        }
    }

    fn stream(usable: &[u32]) -> u32 {
        Neighbours::among(&machine(), cpus(usable)).unwrap().stream
    }

    #[test]
    fn the_neighbour_is_another_core_behind_the_same_cache_if_there_is_one() {
        assert_eq!(stream(&[0, 1, 2, 3, 4]), 2);
        assert_eq!(stream(&[0, 1, 4]), 1);
        assert_eq!(stream(&[0, 4]), 4);
    }

    #[test]
    fn one_cpu_is_refused_with_a_reason() {
        let why = Neighbours::among(&machine(), cpus(&[2])).unwrap_err();
        assert!(why.contains("one CPU"), "{why}");
    }

    #[test]
    fn what_is_measured_here_is_a_plausible_ratio() {
        let topology = quell_topology::Machine::new("/").topology();
        let Ok(neighbours) = Neighbours::choose(&topology) else {
            assert!(topology.online().len() < 2, "{topology:?}");
            return;
        };
        // A stream beside never makes accesses many times faster.
        let ratio = neighbours.slowdown_ratio().unwrap();
        assert!(ratio > 0.2, "{ratio}");
    }
}
