//! How much polluters of any make slow pointer chases on another CPU, side by side.
//!
//! `cargo run --release -p quell-profiler --example rivals -- [--rounds N] NAME=COMMAND…`
//!
//! Each command is run on the last CPU, the chases over 2, 3, 4 and 64 MiB on the first: dependent reads
//! at random, in huge pages where the kernel gives them. A round takes
//! each size alone, then beside each command in turn, then alone again, so that all share the host's
//! drift. Printed are medians of (beside over the mean of the two alone), one row a command.
//!
//! A host may have the two CPUs on cores of one cache at one moment and of two at another. A command is only
//! started while they are on one, and what was seen of it counts only if they still are afterwards; it is
//! waited two minutes in all, and then measured as it is. What did not count is told.
//!
//! ```sh
//! rivals 'quell llc=quell pressure llc' 'quell membw=quell pressure membw' \
//!     'stress-ng stream=stress-ng --stream 1 --no-rand-seed'
//! ```

use quell_pressure::{Chase, bind_all};
use quell_profiler::Lines;
use quell_topology::Machine;
use quell_types::CpuSet;
use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// Pointer chases of all sizes, on memory that stays where it is: alone and beside somebody they find the
/// same places of the cache.
struct Chases(Vec<Chase>);

impl Chases {
    /// Bound to this CPU from now on.
    fn on(cpu: u32) -> Outcome<Self> {
        bind_all(&CpuSet::of(cpu))?;
        let chases = SIZES_MIB.iter().map(|&mib| Chase::new((mib as usize) << 20));
        Ok(Self(chases.collect::<Result<_, _>>()?))
    }

    /// Nanoseconds an access, for each size.
    fn access_ns(&mut self) -> Outcome<Vec<f64>> {
        let one = |chase: &mut Chase| chase.access_ns(LOOK).ok_or("no access was timed".into());
        self.0.iter_mut().map(one).collect()
    }
}

/// How long it is waited in all for the host to have the CPUs on cores of one cache.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at that.
const PAUSE: Duration = Duration::from_millis(200);

/// Where the host has the two CPUs; both have to be free.
struct Host {
    lines: Option<Lines>,
    patience: Duration,
    apart: usize,
}

impl Host {
    fn are_apart(&mut self) -> bool {
        self.lines.as_mut().is_some_and(Lines::are_distant)
    }

    /// Waits until they are on cores of one cache, as long as there is patience.
    fn wait(&mut self) {
        let begun = Instant::now();
        while self.patience > begun.elapsed() && self.are_apart() {
            std::thread::sleep(PAUSE);
        }
        self.patience = self.patience.saturating_sub(begun.elapsed());
    }

    /// Whether what was seen just now is to be seen again.
    fn spoilt(&mut self) -> bool {
        let spoilt = !self.patience.is_zero() && self.are_apart();
        self.apart += usize::from(spoilt);
        spoilt
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What one command makes of each size.
fn beside((name, command): &(String, String), cpu: u32, chases: &mut Chases) -> Outcome<Vec<f64>> {
    let before = chases.access_ns()?;
    let mut rival = Rival::start(command, cpu)?;
    let beside = chases.access_ns()?;
    if !rival.runs() {
        return Err(format!("{name} ended early: `{command}`").into());
    }
    drop(rival);
    let after = chases.access_ns()?;
    let alone = before.iter().zip(&after).map(|(a, b)| f64::midpoint(*a, *b));
    Ok(beside.iter().zip(alone).map(|(beside, alone)| beside / alone).collect())
}

/// The same, again as long as the host moved the CPUs meanwhile.
fn undisturbed(
    command: &(String, String),
    cpu: u32,
    chases: &mut Chases,
    host: &mut Host,
) -> Outcome<Vec<f64>> {
    loop {
        host.wait();
        let seen = beside(command, cpu, chases)?;
        if !host.spoilt() {
            return Ok(seen);
        }
    }
}

/// Ratios of one round: for each command, for each size.
fn round(
    commands: &[(String, String)],
    last: u32,
    chases: &mut Chases,
    host: &mut Host,
) -> Outcome<Vec<Vec<f64>>> {
    commands.iter().map(|command| undisturbed(command, last, chases, host)).collect()
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
    let mut chases = Chases::on(seats.0)?;
    let lines = Lines::between(seats.0, seats.1);
    let mut host = Host { lines, patience: PATIENCE, apart: 0 };
    let seen: Vec<_> = (0..rounds)
        .map(|_| round(&commands, seats.1, &mut chases, &mut host))
        .collect::<Outcome<_>>()?;
    println!("| polluter |{}", SIZES_MIB.map(|mib| format!(" {mib} MiB |")).concat());
    println!("|---|{}", "---|".repeat(SIZES_MIB.len()));
    for (place, (name, _)) in commands.iter().enumerate() {
        let of = |size: usize| median(seen.iter().map(|round| round[place][size]).collect());
        let cells: Vec<String> =
            (0..SIZES_MIB.len()).map(|size| format!(" {:.2} |", of(size))).collect();
        println!("| {name} |{}", cells.concat());
    }
    let Host { apart, patience, .. } = host;
    let left = patience.as_secs();
    println!(
        "{apart} looks did not count, since the CPUs shared no cache; {left} s of patience left"
    );
    Ok(())
}
