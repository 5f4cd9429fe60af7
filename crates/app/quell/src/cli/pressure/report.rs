//! `quell pressure report`: the process that times its accesses for the agent, burst by burst.

use super::line;
use crate::cli::guard::end_with;
use anyhow::Context as _;
use quell_pressure::{Pace, Reporter, ReporterSizes};
use quell_topology::Machine;
use rustix::process::Signal;
use std::io::{BufRead, Write as _};
use std::time::Duration;

/// The longest that one line may ask for: nobody wants a reporter that is busy for long.
const LONGEST: Duration = Duration::from_millis(100);

/// Plays a burst of timed accesses for each line of its input.
///
/// A line holds a CPU, the microseconds to get warm, those of a slice, and how many slices of each
/// pattern; the answer is a line of JSON. It ends with its input.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Is killed as soon as the parent process, which must be this one, has ended.
    #[arg(long, value_name = "PID", hide = true)]
    with_parent: Option<u32>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.with_parent.map_or(Ok(()), |parent| end_with(parent, Signal::KILL))?;
    let sizes = ReporterSizes::of(&Machine::new("/").topology())?;
    let mut reporter = Reporter::new(&sizes)?;
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for asked in input.lines() {
        let (cpu, pace) = order(&asked?)?;
        writeln!(output, "{}", line(&reporter.burst(cpu, &pace)))?;
        output.flush()?;
    }
    Ok(())
}

/// What a line asks for.
fn order(text: &str) -> anyhow::Result<(u32, Pace)> {
    let numbers = text.split_ascii_whitespace().map(str::parse::<u32>);
    let numbers = numbers.collect::<Result<Vec<u32>, _>>();
    let numbers = numbers.with_context(|| format!("{text:?}: give whole numbers"))?;
    let [cpu, warm_us, slice_us, rounds] = numbers[..] else {
        anyhow::bail!("{text:?}: give CPU, microseconds to get warm, those of a slice, slices");
    };
    let micros = |us: u32| Duration::from_micros(us.into());
    let pace = Pace { warm: micros(warm_us), slice: micros(slice_us), rounds };
    let whole = (4 * pace.slice).checked_mul(rounds).and_then(|all| all.checked_add(pace.warm));
    anyhow::ensure!(whole.is_some_and(|whole| whole <= LONGEST), "{text:?}: longer than 0.1 s");
    anyhow::ensure!(rounds > 0 && slice_us > 0, "{text:?}: nothing to time");
    Ok((cpu, pace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_asks_for_a_burst_and_for_no_long_one() {
        let (cpu, pace) = order("3 2000 250 5\n").unwrap();
        assert_eq!((cpu, pace.rounds), (3, 5));
        let micros = Duration::from_micros;
        assert_eq!((pace.warm, pace.slice), (micros(2000), micros(250)));
        for wrong in ["", "1 2 3", "1 2 3 x", "1 2 3 -4", "0 0 250 1000", "0 0 0 5", "0 1 1 0"] {
            assert!(order(wrong).is_err(), "{wrong}");
        }
    }
}
