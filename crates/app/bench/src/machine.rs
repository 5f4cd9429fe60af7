//! `quell simulate --measure-machine`: pointer chases and streams of this machine, alone and beside
//! each other, in less than a minute (T-E1; what the preset `vm2-xeon` is fitted on).
//!
//! All kernels are armed first and sleep; in a round each neighbour is woken in turn, and every
//! chase is looked at beside it. So all cells share the drift of the host, and the median over
//! rounds is taken.

use crate::ui::Interrupt;
use anyhow::Context as _;
use quell_calibrate::{MACHINE_SCHEMA, MachineCell, MachineCells, MachineFigure, Neighbour};
use quell_pressure::{Chase, Intensity, Options, Resource, Running, Stop, arm, bind_all};
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};
use std::time::{Duration, Instant};

const KIB: usize = 1 << 10;
/// Private caches, shared ones, memory.
const SIZES: [usize; 8] = [
    256 * KIB,
    1024 * KIB,
    2 * 1024 * KIB,
    4 * 1024 * KIB,
    16 * 1024 * KIB,
    64 * 1024 * KIB,
    256 * 1024 * KIB,
    1024 * 1024 * KIB,
];
/// A neighbour has filled its part of the caches by then.
const SETTLE: Duration = Duration::from_millis(500);
/// A chase has its lines where they stay.
const WARM: Duration = Duration::from_millis(60);
/// Of one number.
const LOOK: Duration = Duration::from_millis(60);
/// Of the rate of a kernel.
const RATE_LOOK: Duration = Duration::from_millis(250);
/// After so long no further round is begun, and everything ends at the latest.
const ENOUGH: Duration = Duration::from_secs(45);
const BOUND_S: f64 = 75.0;
/// Rounds, if there is time for them.
const ROUNDS: u32 = 9;

/// Two CPUs: the one that is looked at, and its neighbour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seats {
    pub(crate) first: u32,
    pub(crate) second: u32,
}

impl Seats {
    /// The first and the last CPU that this process may use.
    pub(crate) fn choose() -> anyhow::Result<Self> {
        let cpus: Vec<u32> = quell_pressure::allowed_cpus()?.iter().collect();
        match cpus.as_slice() {
            [first, .., second] => Ok(Self { first: *first, second: *second }),
            _ => anyhow::bail!("this needs two CPUs, one for the neighbour"),
        }
    }
}

/// A kernel that is armed for the whole time and sleeps in between.
pub(crate) struct Sleeper(Running);

impl Sleeper {
    /// Arms it on a CPU: its memory is mapped and touched when this answers.
    pub(crate) fn arm(
        resource: Resource,
        cpu: u32,
        topology: &Topology,
        bound_s: f64,
    ) -> anyhow::Result<Self> {
        let mut options = Options::new(resource);
        options.cpus = CpuSet::of(cpu);
        options.seconds = bound_s;
        let running = arm(&options, topology, &Stop::new()?)?.start();
        running.mute();
        Ok(Self(running))
    }

    /// Lets it press at so many percent.
    pub(crate) fn wake(&self, percent: f64) -> anyhow::Result<()> {
        self.0.turn_to(Intensity::new(percent)?);
        Ok(())
    }

    pub(crate) fn sleep(&self) {
        self.0.mute();
    }

    /// Work a second, over a span.
    fn rate(&self, span: Duration) -> f64 {
        let (begun, before) = (Instant::now(), self.0.work());
        std::thread::sleep(span);
        (self.0.work() - before) as f64 / begun.elapsed().as_secs_f64()
    }
}

/// One number of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    figure: MachineFigure,
    beside: Neighbour,
    size_bytes: Option<u64>,
    value: f64,
}

/// All that is measured with.
struct Stage {
    seats: Seats,
    chases: Vec<Chase>,
    /// On the first CPU.
    stream: Sleeper,
    scatter: Sleeper,
    /// On the second.
    beside_stream: Sleeper,
    beside_scatter: Sleeper,
}

/// Measures this machine; takes no more than a minute.
///
/// # Errors
/// One CPU only, no memory for the kernels, or the end was asked for.
pub fn measure_machine(interrupt: &Interrupt) -> anyhow::Result<MachineCells> {
    let begun = Instant::now();
    let topology = Machine::new("/").topology();
    let seats = Seats::choose()?;
    let llc_bytes = topology.llc_of(seats.first).map(|llc| llc.size_bytes);
    let llc_bytes = llc_bytes.context("this machine does not tell its last-level cache")?;
    let mut stage = Stage::arm(seats, &topology)?;
    let (mut seen, mut rounds) = (Vec::new(), 0);
    while rounds < ROUNDS && begun.elapsed() < ENOUGH {
        interrupt.check()?;
        stage.round(&mut seen)?;
        rounds += 1;
    }
    let l2 = topology.cache(seats.first, 2);
    Ok(MachineCells {
        schema: MACHINE_SCHEMA.into(),
        processor: topology.model.clone(),
        l2_bytes: l2.map_or(0, |cache| cache.size_bytes),
        llc_bytes,
        scatter_bytes: llc_bytes,
        rounds,
        seconds: begun.elapsed().as_secs_f64(),
        cells: cells(&seen),
    })
}

impl Stage {
    fn arm(seats: Seats, topology: &Topology) -> anyhow::Result<Self> {
        let sleeper = |resource, cpu| Sleeper::arm(resource, cpu, topology, BOUND_S);
        let chases = SIZES.iter().map(|bytes| Chase::new(*bytes));
        Ok(Self {
            seats,
            chases: chases.collect::<Result<_, _>>()?,
            stream: sleeper(Resource::MemoryBandwidth, seats.first)?,
            scatter: sleeper(Resource::LlcCapacity, seats.first)?,
            beside_stream: sleeper(Resource::MemoryBandwidth, seats.second)?,
            beside_scatter: sleeper(Resource::LlcCapacity, seats.second)?,
        })
    }

    fn neighbour(&self, beside: Neighbour) -> Option<&Sleeper> {
        match beside {
            Neighbour::Nobody => None,
            Neighbour::Stream => Some(&self.beside_stream),
            Neighbour::Scatter => Some(&self.beside_scatter),
        }
    }

    /// Every cell once.
    fn round(&mut self, seen: &mut Vec<Seen>) -> anyhow::Result<()> {
        for beside in [Neighbour::Nobody, Neighbour::Stream, Neighbour::Scatter] {
            if let Some(neighbour) = self.neighbour(beside) {
                neighbour.wake(100.0)?;
                std::thread::sleep(SETTLE);
            }
            let looked = on_cpu(self.seats.first, || look(&mut self.chases, beside))?;
            seen.extend(looked);
            self.rates(beside, seen)?;
            if let Some(neighbour) = self.neighbour(beside) {
                neighbour.sleep();
            }
        }
        Ok(())
    }

    /// How fast the kernels themselves go: alone, and two streams at once.
    fn rates(&self, beside: Neighbour, seen: &mut Vec<Seen>) -> anyhow::Result<()> {
        let stream = (&self.stream, MachineFigure::StreamBytesPerS);
        let scatter = (&self.scatter, MachineFigure::ScatterPerS);
        let kernels: &[_] = match beside {
            Neighbour::Nobody => &[stream, scatter],
            Neighbour::Stream => &[stream],
            Neighbour::Scatter => &[scatter],
        };
        for (kernel, figure) in kernels {
            kernel.wake(100.0)?;
            std::thread::sleep(WARM);
            let value = kernel.rate(RATE_LOOK);
            kernel.sleep();
            seen.push(Seen { figure: *figure, beside, size_bytes: None, value });
        }
        Ok(())
    }
}

/// Every chase once, on the calling thread.
fn look(chases: &mut [Chase], beside: Neighbour) -> Vec<Seen> {
    let mut seen = Vec::new();
    for chase in chases {
        chase.touch();
        chase.access_ns(WARM);
        let (figure, size_bytes) = (MachineFigure::ChaseNs, Some(chase.bytes() as u64));
        seen.extend(chase.access_ns(LOOK).map(|value| Seen { figure, beside, size_bytes, value }));
    }
    seen
}

/// Does something on a thread that is bound to a CPU.
pub(crate) fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let bound = scope.spawn(move || {
            bind_all(&CpuSet::of(cpu))?;
            Ok(work())
        });
        bound.join().map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
    })
}

/// Medians and quartiles of what was seen, in the order in which it was seen first.
fn cells(seen: &[Seen]) -> Vec<MachineCell> {
    let key = |s: &Seen| (s.figure, s.beside, s.size_bytes);
    let mut keys = Vec::new();
    seen.iter().filter(|s| s.value.is_finite()).for_each(|s| {
        if !keys.contains(&key(s)) {
            keys.push(key(s));
        }
    });
    let one = |wanted: &(MachineFigure, Neighbour, Option<u64>)| {
        let values = seen.iter().filter(|s| key(s) == *wanted).map(|s| s.value).collect();
        let [low, median, high] = quartiles(values)?;
        let (figure, beside, size_bytes) = *wanted;
        Some(MachineCell { figure, beside, size_bytes, low, median, high })
    };
    keys.iter().filter_map(one).collect()
}

/// A quarter, half and three quarters of the finite values lie below, linear between neighbours: of
/// three values a quarter is no value of them. None of no value.
pub(crate) fn quartiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([0.25, 0.5, 0.75].map(|share| {
        let at = share * last as f64;
        let (below, part) = (at as usize, at.fract());
        values[below] + (values[(below + 1).min(last)] - values[below]) * part
    }))
}

/// CPUs that this process may use.
pub(crate) fn cpus() -> anyhow::Result<u32> {
    Ok(u32::try_from(std::thread::available_parallelism()?.get())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_medians_over_rounds_in_the_order_seen() {
        let seen = |beside, value| Seen {
            figure: MachineFigure::ChaseNs,
            beside,
            size_bytes: Some(64),
            value,
        };
        let (alone, stream) = (Neighbour::Nobody, Neighbour::Stream);
        let all = [(alone, 1.0), (stream, 5.0), (alone, 3.0), (stream, f64::NAN), (alone, 2.0)];
        let found = cells(&all.map(|(beside, value)| seen(beside, value)));
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].beside, found[0].median), (alone, 2.0));
        assert_eq!((found[1].beside, found[1].median), (stream, 5.0));
    }

    #[test]
    fn quartiles_lie_between_values_where_there_is_none() {
        for (values, wanted) in [
            (vec![], None),
            (vec![f64::NAN, 3.0], Some([3.0; 3])),
            (vec![4.0, 0.0], Some([1.0, 2.0, 3.0])),
            (vec![3.0, 1.0, 2.0], Some([1.5, 2.0, 2.5])),
            (vec![5.0, 1.0, f64::INFINITY, 2.0, 4.0, 3.0], Some([2.0, 3.0, 4.0])),
        ] {
            assert_eq!(quartiles(values.clone()), wanted, "{values:?}");
        }
    }

    #[test]
    fn work_on_a_cpu_runs_there() {
        let cpu = quell_pressure::allowed_cpus().unwrap().iter().last().unwrap();
        let status = on_cpu(cpu, || std::fs::read_to_string("/proc/thread-self/status")).unwrap();
        let line = format!("Cpus_allowed_list:\t{cpu}\n");
        assert!(status.unwrap().contains(&line));
    }
}
