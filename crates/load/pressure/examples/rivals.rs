//! How much polluters of any make slow pointer chases on another CPU, side by side.
//!
//! `cargo run --release -p quell-pressure --example rivals -- [--rounds N] NAME=COMMAND…`
//!
//! Each command is run on the last CPU, the chases over 2, 3, 4 and 64 MiB on the first. A round takes
//! each size alone, then beside each command in turn, then alone again, so that all share the host's
//! drift. Printed are medians of (beside over the mean of the two alone), one row a command.
//!
//! ```sh
//! rivals 'quell llc=quell pressure llc' 'quell membw=quell pressure membw' \
//!     'stress-ng stream=stress-ng --stream 1 --no-rand-seed'
//! ```

use quell_pressure::{Options, Resource, Stop, arm};
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};
use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIZES_MIB: [u64; 4] = [2, 3, 4, 64];
/// Of one reading.
const LOOK: Duration = Duration::from_millis(250);
/// A polluter has mapped and touched its memory by then.
const ARMED: Duration = Duration::from_millis(2500);
/// Bounds everything, whatever becomes of this process.
const BOUND_S: f64 = 20.0;

/// A command in a process group of its own; killed when dropped.
struct Rival(Child);

impl Rival {
    fn start(command: &str, cpu: u32) -> Outcome<Self> {
        let bound = format!("{BOUND_S}");
        let child = Command::new("timeout")
            .args([&bound, "taskset", "-c", &cpu.to_string(), "/bin/sh", "-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        std::thread::sleep(ARMED);
        Ok(Self(child))
    }

    fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Nanoseconds an access of a chase over so much memory.
fn chase_ns(mib: u64, cpu: u32, topology: &Topology) -> Outcome<f64> {
    let mut options = Options::new(Resource::LlcCapacity);
    options.cpus = CpuSet::of(cpu);
    options.llc_bytes = Some(mib << 20);
    options.seconds = BOUND_S;
    let chase = arm(&options, topology, &Stop::new()?)?.start();
    std::thread::sleep(LOOK);
    Ok(chase.finish()?.latency_ns.ok_or("no access was timed")?)
}

fn all_sizes(cpu: u32, topology: &Topology) -> Outcome<Vec<f64>> {
    SIZES_MIB.iter().map(|&mib| chase_ns(mib, cpu, topology)).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Ratios of one round: for each command, for each size.
fn round(
    commands: &[(String, String)],
    (first, last): (u32, u32),
    topology: &Topology,
) -> Outcome<Vec<Vec<f64>>> {
    let mut before = all_sizes(first, topology)?;
    let mut ratios = Vec::new();
    for (name, command) in commands {
        let mut rival = Rival::start(command, last)?;
        let beside = all_sizes(first, topology)?;
        if !rival.runs() {
            return Err(format!("{name} ended early: `{command}`").into());
        }
        drop(rival);
        let after = all_sizes(first, topology)?;
        let alone = before.iter().zip(&after).map(|(a, b)| f64::midpoint(*a, *b));
        ratios.push(beside.iter().zip(alone).map(|(beside, alone)| beside / alone).collect());
        before = after;
    }
    Ok(ratios)
}

fn main() -> Outcome<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut rounds = 5;
    if words.first().is_some_and(|word| word == "--rounds") && words.len() > 1 {
        rounds = words[1].parse()?;
        words.drain(..2);
    }
    let pair = |word: &String| word.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
    let commands: Vec<(String, String)> =
        words.iter().map(pair).collect::<Option<_>>().ok_or("give NAME=COMMAND")?;
    let topology = Machine::new("/").topology();
    let cpus: Vec<u32> = topology.online().iter().collect();
    let seats = (cpus[0], *cpus.last().filter(|_| cpus.len() > 1).ok_or("one CPU only")?);
    let seen: Vec<_> =
        (0..rounds).map(|_| round(&commands, seats, &topology)).collect::<Outcome<_>>()?;
    println!("| polluter |{}", SIZES_MIB.map(|mib| format!(" {mib} MiB |")).concat());
    println!("|---|{}", "---|".repeat(SIZES_MIB.len()));
    for (place, (name, _)) in commands.iter().enumerate() {
        let of = |size: usize| median(seen.iter().map(|round| round[place][size]).collect());
        let cells: Vec<String> =
            (0..SIZES_MIB.len()).map(|size| format!(" {:.2} |", of(size))).collect();
        println!("| {name} |{}", cells.concat());
    }
    Ok(())
}
