//! The kernels that press on others in cross-talk, in a process of their own.
//!
//! Tenants are processes. Two kernels in one address space would share more than the machine: its
//! locks, and each mapping that one gives back makes the kernel interrupt all CPUs that run another
//! thread of that space, to drop translations. That would be this instrument's doing and no tenant's:
//! page faults at 40 % cost any neighbour 7 to 22 % that way.
//!
//! So the program starts itself again ([`ValidateOptions::sources`]) and is told what to do in lines:
//! `turn I PERCENT` and `mute I`, each answered by `ok`, for the I-th of the resources that its first
//! line names. It ends with its input, and is killed with the thread that started it.

use super::crosstalk::{Seated, seat};
use super::{ValidateOptions, Validation};
use crate::desk::percent;
use crate::{Machine, ProfileError};
use quell_pressure::{Bound, Resource, Stop, spawn_bound};
use quell_types::{CpuSet, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

/// Starts the program that calls [`serve_sources`] with the same options, but that these CPUs are the pressure's.
pub type SourcesProgram = Box<dyn Fn(&CpuSet) -> Command + Send + Sync>;

/// The first line of a process of sources.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Hello {
    resources: Vec<Resource>,
    absent: BTreeMap<Resource, String>,
}

/// What a source is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// The kernel of this number is woken, at an intensity in percent.
    Turn(usize, f64),
    /// It sleeps.
    Mute(usize),
}

impl Order {
    fn line(self) -> String {
        match self {
            Order::Turn(index, level) => format!("turn {index} {level}\n"),
            Order::Mute(index) => format!("mute {index}\n"),
        }
    }

    fn parse(line: &str) -> Option<Order> {
        let mut words = line.split_whitespace();
        let (what, index) = (words.next()?, words.next()?.parse().ok()?);
        let order = match what {
            "turn" => Order::Turn(index, words.next()?.parse().ok()?),
            "mute" => Order::Mute(index),
            _ => return None,
        };
        words.next().is_none().then_some(order)
    }
}

/// Kernels that press, here or in a process of their own.
pub(super) enum Sources {
    /// In this address space.
    Here(Vec<Seated>),
    /// In another.
    Apart(Apart),
}

/// The other process.
pub(super) struct Apart {
    resources: Vec<Resource>,
    /// Closed to end it.
    orders: Option<PipeWriter>,
    answers: BufReader<ChildStdout>,
    /// Killed when dropped.
    child: Bound,
}

/// How long it may take to put its kernels away before it is killed.
const FAREWELL: Duration = Duration::from_secs(2);

impl Drop for Apart {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait(FAREWELL);
    }
}

impl Sources {
    /// All kernels on these CPUs, asleep.
    pub(super) fn seat(
        options: &ValidateOptions,
        cpus: &CpuSet,
        topology: &Topology,
        stop: &Stop,
        found: &mut Validation,
    ) -> Result<Sources, ProfileError> {
        match &options.sources {
            Some(program) => Ok(Sources::Apart(Apart::start(program(cpus), options, found)?)),
            None => Ok(Sources::Here(here(options, cpus, topology, stop, found)?)),
        }
    }

    /// What they press on, in their order.
    pub(super) fn resources(&self) -> Vec<Resource> {
        match self {
            Sources::Here(seated) => seated.iter().map(|one| one.resource).collect(),
            Sources::Apart(apart) => apart.resources.clone(),
        }
    }

    /// Wakes one at an intensity.
    pub(super) fn turn(&mut self, index: usize, level: f64) -> Result<(), ProfileError> {
        self.obey(Order::Turn(index, level))
    }

    /// Puts one to sleep.
    pub(super) fn mute(&mut self, index: usize) -> Result<(), ProfileError> {
        self.obey(Order::Mute(index))
    }

    fn obey(&mut self, order: Order) -> Result<(), ProfileError> {
        match self {
            Sources::Here(seated) => obey(seated, order).map_err(lost),
            Sources::Apart(apart) => apart.tell(order).map_err(lost),
        }
    }
}

/// The sources in this process.
fn here(
    options: &ValidateOptions,
    cpus: &CpuSet,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
) -> Result<Vec<Seated>, ProfileError> {
    seat(options, cpus, &|_| true, topology, stop, found)
}

impl Apart {
    fn start(
        mut command: Command,
        options: &ValidateOptions,
        found: &mut Validation,
    ) -> Result<Apart, ProfileError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |source| ProfileError::Start { program: program.clone(), source };
        let (input, orders) = io::pipe().map_err(failed)?;
        command.stdin(input).stdout(Stdio::piped());
        // Where this process may be: from that it chooses the same seats.
        let cpus = options.seats.workload.union(&options.seats.pressure);
        let mut child = spawn_bound(&mut command, &cpus).map_err(failed)?;
        // It holds the reading end of the pipe, which has to go away with the child.
        drop(command);
        let output = child.take_stdout().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let mut answers = BufReader::new(output);
        let hello: Hello =
            serde_json::from_str(&next(&mut answers).map_err(lost)?).map_err(|e| lost(e.into()))?;
        for (resource, why) in hello.absent {
            found.absent.entry(resource).or_insert(why);
        }
        Ok(Apart { resources: hello.resources, orders: Some(orders), answers, child })
    }

    fn tell(&mut self, order: Order) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        orders.write_all(order.line().as_bytes())?;
        match next(&mut self.answers)?.trim_end() {
            "ok" => Ok(()),
            other => Err(io::Error::other(other.to_owned())),
        }
    }
}

/// The next line; that there is none is an error.
fn next(answers: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match answers.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

fn lost(source: io::Error) -> ProfileError {
    ProfileError::Subject { what: "the process of the pressing side".to_owned(), source }
}

fn obey(seated: &[Seated], order: Order) -> io::Result<()> {
    let unknown = |index| io::Error::other(format!("there is no source {index}"));
    match order {
        Order::Turn(index, level) => {
            seated.get(index).ok_or_else(|| unknown(index))?.running.turn_to(percent(level));
        }
        Order::Mute(index) => seated.get(index).ok_or_else(|| unknown(index))?.running.mute(),
    }
    Ok(())
}

/// The pressing side of cross-talk, for a program that was started by [`ValidateOptions::sources`]: seats
/// the kernels that the options name on the pressure's CPUs and does what `input` says until that
/// ends. Called at the desk ([`crate::at_desk`]).
///
/// # Errors
/// No kernel may be seated; an order that is none; whoever gave orders is gone.
pub fn serve_sources(
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), ProfileError> {
    let mut found = Validation::new(Machine::of(topology));
    let seated = here(options, &options.seats.pressure, topology, stop, &mut found)?;
    let resources = seated.iter().map(|one| one.resource).collect();
    let hello = Hello { resources, absent: found.absent };
    let hello = serde_json::to_string(&hello).map_err(|e| lost(e.into()))?;
    let mut say = |line: &str| writeln!(output, "{line}").and_then(|()| output.flush());
    say(&hello).map_err(lost)?;
    for line in input.lines() {
        let line = line.map_err(lost)?;
        let order = Order::parse(&line);
        let done = order.map_or_else(|| Err(io::Error::other("no order")), |o| obey(&seated, o));
        say(&done.map_or_else(|e| e.to_string(), |()| "ok".to_owned())).map_err(lost)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        for order in [Order::Turn(0, 40.0), Order::Turn(17, 0.0), Order::Mute(3)] {
            assert_eq!(Order::parse(&order.line()), Some(order));
        }
        for line in ["", "turn", "turn 1", "turn one 40", "mute", "mute 1 2", "wake 1", "turn -1 4"]
        {
            assert_eq!(Order::parse(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_not_seated_is_refused() {
        let told = obey(&[], Order::Mute(0)).unwrap_err().to_string();
        assert!(told.contains("no source 0"), "{told}");
    }
}
