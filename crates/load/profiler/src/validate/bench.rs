//! What a prober reads, and how.

use quell_pressure::{Chase, Footprint, InPlace, Intensity, Look, PressureError, PrimeProbe};
use std::time::Duration;

/// To fill more takes longer than others leave it alone.
const MOST_PROBED: usize = 64 << 20;
/// Between prime and probe, for a cache that fills in no time.
const SHORT_GAP: Duration = Duration::from_millis(2);
/// Reads go on for so long before the first look, until they find in the caches what they will go on finding.
const WARMING: Duration = Duration::from_millis(5);
/// The size of a cache line.
const LINE_BYTES: usize = 64;
/// Attempts at a probe without an interruption.
const ATTEMPTS: usize = 4;

/// What a prober is asked for.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// Get ready: nothing of what happened before may be seen in the next look.
    Ready,
    /// Look, beside pressure of this intensity.
    Look(Intensity),
}

/// What a prober reads.
pub(super) enum Bench {
    /// Lines of its own, which it puts into the cache, after the kernel worked elsewhere for a while.
    Beside {
        /// Its lines.
        lines: PrimeProbe,
        /// For how long.
        gap: Duration,
    },
    /// Lines of its own, past all caches, for so long.
    Memory(Chase, Duration),
    /// Lines of its own, from the caches, for so long.
    Cache(Chase, Duration),
    /// The kernel's lines.
    Footprint(Footprint),
    /// Lines of its own; the kernel works here, in turns.
    InPlace(InPlace),
}

/// How long a kernel needs until it has so many bytes of a cache.
pub(super) fn gap(bytes: usize) -> Duration {
    let lines = u32::try_from(bytes / LINE_BYTES).unwrap_or(u32::MAX);
    SHORT_GAP.max(Footprint::FILL_A_LINE * lines)
}

impl Bench {
    /// Prime and probe of so many bytes, of the most that make sense where that is too much.
    pub(super) fn beside(bytes: usize) -> Result<Bench, PressureError> {
        let lines = PrimeProbe::lines(bytes.min(MOST_PROBED))?;
        let gap = gap(lines.count() * LINE_BYTES);
        Ok(Bench::Beside { lines, gap })
    }

    /// What it is, for people.
    pub(super) fn words(&self) -> String {
        let on_the_other = |what: String| what + " on the other CPU";
        match self {
            Bench::Beside { lines, .. } => {
                on_the_other(format!("timed prime and probe of {} KiB", lines.count() / 16))
            }
            Bench::Memory(..) if Chase::FLUSHES => {
                on_the_other("time of reads past all caches".to_owned())
            }
            Bench::Memory(chase, _) | Bench::Cache(chase, _) => {
                on_the_other(format!("time of reads within {} KiB", chase.bytes() >> 10))
            }
            Bench::Footprint(print) => {
                let kib = print.bytes() >> 10;
                on_the_other(format!("share of {kib} KiB that a cache holds, by timed reads"))
            }
            Bench::InPlace(kernel) => kernel.words().to_owned(),
        }
    }

    fn get_ready(&mut self) {
        match self {
            Bench::Footprint(print) => print.clear(),
            Bench::Cache(chase, _) => {
                // While nobody looked others took what is to be there.
                chase.touch();
                chase.moment_ns(WARMING);
            }
            Bench::Memory(..) | Bench::Beside { .. } | Bench::InPlace(_) => {}
        }
    }

    /// What was seen, in ns for an access or in percent of the footprint; none if nothing was, or nothing asked for.
    pub(super) fn obey(&mut self, order: Order) -> Result<Option<f64>, PressureError> {
        let Order::Look(intensity) = order else {
            self.get_ready();
            return Ok(None);
        };
        match self {
            Bench::Beside { lines, gap } => in_some_attempts(|| {
                lines.prime();
                std::thread::sleep(*gap);
                Ok(lines.probe())
            }),
            Bench::Memory(chase, look) => Ok(chase.far_moment_ns(*look)),
            Bench::Cache(chase, look) => Ok(chase.moment_ns(*look)),
            Bench::Footprint(print) => Ok(print.held_frac().map(|held| 100.0 * held)),
            Bench::InPlace(kernel) => in_some_attempts(|| kernel.look(intensity)),
        }
    }
}

/// Nanoseconds an access. A look that lost the CPU midway is made again, and after some of them the
/// shortest stands.
fn in_some_attempts(
    mut look: impl FnMut() -> Result<Look, PressureError>,
) -> Result<Option<f64>, PressureError> {
    let mut best = f64::INFINITY;
    for _ in 0..ATTEMPTS {
        let look = look()?;
        if !look.interrupted {
            return Ok(Some(look.access_ns));
        }
        best = best.min(look.access_ns);
    }
    Ok(Some(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_lines_have_more_time_to_be_taken() {
        assert_eq!(gap(48 << 10), SHORT_GAP);
        assert!(gap(16 << 20) > 2 * SHORT_GAP);
        let Bench::Beside { gap: waits, .. } = Bench::beside(16 << 20).unwrap() else {
            panic!("another bench");
        };
        assert_eq!(waits, gap(16 << 20));
    }

    #[test]
    fn who_gets_ready_sees_nothing_yet_and_memory_is_farther_than_a_small_cache() {
        let (look, span) = (Order::Look(Intensity::FULL), Duration::from_millis(2));
        let mut near = Bench::Cache(Chase::new(16 << 10).unwrap(), span);
        let mut far = Bench::Memory(Chase::new(64 << 20).unwrap(), span);
        assert!(near.words().starts_with("time of reads within 16 KiB"), "{}", near.words());
        for bench in [&mut near, &mut far] {
            assert_eq!(bench.obey(Order::Ready).unwrap(), None);
        }
        let median = |bench: &mut Bench| {
            let mut seen: Vec<f64> = (0..9).filter_map(|_| bench.obey(look).unwrap()).collect();
            seen.sort_by(f64::total_cmp);
            seen[seen.len() / 2]
        };
        assert!(median(&mut far) > 1.5 * median(&mut near));
    }

    #[test]
    fn who_is_interrupted_all_the_time_says_the_shortest() {
        let mut times = [30.0, 20.0, 40.0, 25.0, 1.0].into_iter();
        let look = || Ok(Look { access_ns: times.next().unwrap_or(0.0), interrupted: true });
        assert_eq!(in_some_attempts(look).unwrap(), Some(20.0));
        let look = || Ok(Look { access_ns: 30.0, interrupted: false });
        assert_eq!(in_some_attempts(look).unwrap(), Some(30.0));
    }
}
