//! How much polluters of any make slow pointer chases on another CPU, side by side.
//!
//! `cargo run --release -p quell-profiler --example rivals -- [--rounds N] [--patience S] NAME=COMMAND…`
//!
//! Each command is run on the last CPU, the chases over 2, 3, 4 and 64 MiB on the first: dependent reads
//! at random, in huge pages where the kernel gives them. In a round each command is started in turn, and
//! stopped and let go (SIGSTOP, SIGCONT) by turns of half a second, so that alone and beside share the host's
//! drift. Printed are medians of (beside over the mean of the two alone), one row a command, and quartiles.
//!
//! A host may have the two CPUs on cores of one cache at one moment and of two at another. Turns count
//! only if they are on one before, at its end and after it; until a command has had its turns it is waited, S
//! seconds in all (120), and then measured as it is. What did not count is told.
//!
//! ```sh
//! rivals 'quell llc=quell pressure llc' 'quell membw=quell pressure membw' \
//!     'stress-ng stream=stress-ng --stream 1 --no-rand-seed'
//! ```

use quell_pressure::{Chase, Stop, bind_all};
use quell_profiler::Lines;
use quell_profiler::stats::quantile;
use quell_topology::Machine;
use quell_types::CpuSet;
use rustix::process::{Pid, Signal, kill_process_group};
use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIZES_MIB: [u64; 4] = [2, 3, 4, 64];
/// Of one reading, and what goes before it until caches hold what they will go on holding.
const LOOK: Duration = Duration::from_millis(100);
const WARMING: Duration = Duration::from_millis(20);
/// Turns that count, of each start.
const TURNS: usize = 5;
/// Who is stopped or let go is by then.
const HEARS: Duration = Duration::from_millis(20);
/// A polluter has mapped and touched its memory by then.
const ARMED: Duration = Duration::from_millis(2500);
/// Bounds everything, whatever becomes of this process.
const BOUND_S: f64 = 600.0;

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

    fn hear(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.0), signal);
    }

    /// Stops it, or lets it go.
    fn rest(&self, rests: bool) {
        self.hear(if rests { Signal::STOP } else { Signal::CONT });
        std::thread::sleep(HEARS);
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.hear(Signal::KILL);
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
        let one = |chase: &mut Chase| {
            chase.access_ns(WARMING);
            chase.access_ns(LOOK).ok_or("no access was timed".into())
        };
        self.0.iter_mut().map(one).collect()
    }
}

/// Between two looks where the host has the CPUs.
const PAUSE: Duration = Duration::from_millis(200);

/// Where the host has the two CPUs; to look makes whoever works there wait for half a millisecond.
struct Host {
    lines: Option<Lines>,
    patience: Duration,
    apart: usize,
    /// Asked for by a signal: then commands are ended before this process is.
    stop: Stop,
}

impl Host {
    fn are_apart(&mut self) -> bool {
        self.lines.as_mut().is_some_and(Lines::are_distant)
    }

    /// Waits until they are on cores of one cache, as long as there is patience.
    fn wait(&mut self) {
        let begun = Instant::now();
        while self.patience > begun.elapsed() && self.are_apart() {
            if self.stop.wait(PAUSE) {
                break;
            }
        }
        self.patience = self.patience.saturating_sub(begun.elapsed());
    }
}

/// What one command makes of each size, turn by turn.
fn beside(
    (name, command): &(String, String),
    cpu: u32,
    chases: &mut Chases,
    host: &mut Host,
) -> Outcome<Vec<Vec<f64>>> {
    let mut rival = Rival::start(command, cpu)?;
    let mut turns = Vec::new();
    rival.rest(true);
    host.wait();
    let mut before = chases.access_ns()?;
    while turns.len() < TURNS {
        if host.stop.requested() {
            return Err("stopped".into());
        }
        rival.rest(false);
        let beside = chases.access_ns()?;
        if !rival.runs() {
            return Err(format!("{name} ended early: `{command}`").into());
        }
        // While it works, too: a host may put CPUs elsewhere when they are busy.
        let moved = host.are_apart();
        rival.rest(true);
        let spoilt = (moved || host.are_apart()) && !host.patience.is_zero();
        if spoilt {
            host.apart += 1;
            host.wait();
        }
        let after = chases.access_ns()?;
        let alone = before.iter().zip(&after).map(|(a, b)| f64::midpoint(*a, *b));
        if !spoilt {
            turns.push(beside.iter().zip(alone).map(|(beside, alone)| beside / alone).collect());
        }
        before = after;
    }
    Ok(turns)
}

/// A row for each command, of medians and quartiles.
fn print(commands: &[(String, String)], seen: &[Vec<Vec<f64>>]) {
    println!("| polluter |{}", SIZES_MIB.map(|mib| format!(" {mib} MiB |")).concat());
    println!("|---|{}", "---|".repeat(SIZES_MIB.len()));
    for ((name, _), turns) in commands.iter().zip(seen) {
        let cell = |size: usize| {
            let ratios: Vec<f64> = turns.iter().map(|turn| turn[size]).collect();
            let part = |share| quantile(&ratios, share).unwrap_or(f64::NAN);
            format!(" {:.2} ({:.2}–{:.2}) |", part(0.5), part(0.25), part(0.75))
        };
        println!("| {name} |{}", (0..SIZES_MIB.len()).map(cell).collect::<String>());
    }
}

fn main() -> Outcome<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str, usual: u32| -> Outcome<u32> {
        let Some(at) = words.iter().position(|word| word == name) else { return Ok(usual) };
        let value = words.get(at + 1).ok_or_else(|| format!("{name} wants a number"))?.parse()?;
        words.drain(at..at + 2);
        Ok(value)
    };
    let (rounds, patience_s) = (option("--rounds", 5)?, option("--patience", 120)?);
    let pair = |word: &String| word.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
    let commands: Vec<(String, String)> =
        words.iter().map(pair).collect::<Option<_>>().ok_or("give NAME=COMMAND")?;
    let topology = Machine::new("/").topology();
    let cpus: Vec<u32> = topology.online().iter().collect();
    let seats = (cpus[0], *cpus.last().filter(|_| cpus.len() > 1).ok_or("one CPU only")?);
    let mut chases = Chases::on(seats.0)?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let lines = Lines::between(seats.0, seats.1);
    let mut host = Host { lines, patience: Duration::from_secs(patience_s.into()), apart: 0, stop };
    let mut seen = vec![Vec::new(); commands.len()];
    for _ in 0..rounds {
        for (command, turns) in commands.iter().zip(&mut seen) {
            turns.extend(beside(command, seats.1, &mut chases, &mut host)?);
        }
    }
    print(&commands, &seen);
    let Host { apart, patience, .. } = host;
    let left = patience.as_secs();
    println!(
        "{apart} turns did not count, since the CPUs shared no cache; {left} s of patience left"
    );
    Ok(())
}
