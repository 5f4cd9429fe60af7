//! How far apart the host of a virtual machine runs its CPUs: of that it tells nothing.

use quell_pressure::allowed_cpus;
use quell_profiler::{Lines, Ways};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// Looks, and the time between two.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(40);

/// What a line of cache takes each way between the first CPU and the last.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Distance {
    /// The CPUs.
    cpus: [u32; 2],
    /// What it took at each look, in ns.
    ways_ns: Vec<f64>,
    /// Looks at which it took so much longer than at others, or so nearly as long as a read from memory, that the two
    /// can have shared no cache then.
    distant: usize,
}

impl Distance {
    /// Looks, for half a second; none on a machine with one CPU, or whose CPUs were not to be had.
    pub(crate) fn look() -> Option<Self> {
        let cpus = allowed_cpus().ok()?;
        let ends = [cpus.iter().next()?, cpus.last(1).iter().next()?];
        let lines = Lines::between(ends[0], ends[1])?;
        let look = |_| {
            std::thread::sleep(PAUSE);
            lines.passes_ns()
        };
        Self::of(ends, (0..LOOKS).filter_map(look).collect(), Ways::here())
    }

    fn of(cpus: [u32; 2], ways_ns: Vec<f64>, mut ways: Ways) -> Option<Self> {
        let distant = ways.are_distant(&ways_ns).into_iter().filter(|far| *far).count();
        (!ways_ns.is_empty()).then_some(Self { cpus, ways_ns, distant })
    }

    /// One line for people.
    pub(crate) fn words(&self) -> String {
        let least = self.ways_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.ways_ns.iter().copied().fold(0.0, f64::max);
        let [first, last] = self.cpus;
        let looks = self.ways_ns.len();
        let moved = match self.distant {
            0 => String::new(),
            distant if distant == looks => {
                ": as far as memory, so whatever the machine is told they share no cache just now"
                    .to_owned()
            }
            distant => format!(
                ": in {distant} of {looks} looks as between two caches, so the host moves them about, and what \
                 neighbours do to each other comes and goes"
            ),
        };
        format!("a line takes {least:.0} to {most:.0} ns from CPU {first} to CPU {last}{moved}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_moves_its_cpus_is_told_from_one_that_does_not() {
        let seen = |memory, ways: &[f64]| {
            let told = Ways::where_memory_takes(memory);
            Distance::of([0, 1], ways.to_vec(), told).map(|d| d.words())
        };
        let words = |ways: &[f64]| seen(None, ways);
        assert_eq!(words(&[28.0, 31.0]).unwrap(), "a line takes 28 to 31 ns from CPU 0 to CPU 1");
        assert_eq!(
            words(&[150.0, 152.0]).unwrap(),
            "a line takes 150 to 152 ns from CPU 0 to CPU 1"
        );
        assert!(seen(Some(139.0), &[150.0, 152.0]).unwrap().contains("share no cache just now"));
        assert!(words(&[28.0, 155.0, 150.0]).unwrap().contains("in 2 of 3 looks"));
        assert_eq!(words(&[]), None);
    }
}
