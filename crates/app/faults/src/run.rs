//! Episode after episode.

use crate::drawing::seed_at;
use crate::episode::play;
use crate::plan::Plan;
use crate::report::{BrokenSeed, FaultReport};
use crate::{Cell, Coverage, Played};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Episodes between two looks at what is still missing. The same on every machine, so that a run
/// is the same whatever the number of threads.
const BATCH: u64 = 64;
/// Replays that shrinking may take.
const SHRINKS: usize = 200;

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Simulated hours, at least.
    pub hours: f64,
    /// Faults, at least.
    pub faults: u64,
    /// Threads that play.
    pub threads: usize,
    /// The run's own number: other numbers play other episodes.
    pub run: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Simulated hours so far.
    pub hours: f64,
    /// Faults so far.
    pub faults: u64,
    /// Cells that met so far.
    pub covered: usize,
    /// Broken invariants so far.
    pub broken: usize,
    /// Those among them that are new since the last call, so that a run that is stopped has named
    /// what it found.
    pub new: &'a [BrokenSeed],
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// For machines to read.
    pub report: FaultReport,
    /// For people: printed, it is a table.
    pub coverage: Coverage,
}

#[derive(Default)]
struct Sum {
    seconds: f64,
    faults: u64,
    episodes: u64,
    barred: usize,
    coverage: Coverage,
    broken: Vec<BrokenSeed>,
}

impl Sum {
    fn add(&mut self, played: &Played) {
        self.seconds += played.seconds;
        self.faults += played.faults;
        self.episodes += 1;
        self.barred += usize::from(played.barred);
        self.coverage.merge(&played.coverage);
        if let Some(broken) = &played.broken {
            self.broken.push(BrokenSeed {
                seed: played.seed,
                law: played.law.to_owned(),
                at_s: broken.at_s,
                what: broken.what.clone(),
            });
        }
    }

    /// `named` of the broken ones were told before.
    fn progress(&self, named: usize) -> Progress<'_> {
        Progress {
            hours: self.seconds / 3600.0,
            faults: self.faults,
            covered: self.coverage.covered(),
            broken: self.broken.len(),
            new: &self.broken[named..],
        }
    }
}

/// Plays until the limits are reached. `progress` is called every few episodes; false ends the run.
///
/// # Errors
/// An episode cannot be drawn, which would be a mistake of this crate.
pub fn run(
    limits: &Limits,
    mut progress: impl FnMut(&Progress<'_>) -> bool,
) -> Result<Run, String> {
    let mut sum = Sum::default();
    let mut number = limits.run << 24;
    while sum.seconds / 3600.0 < limits.hours || sum.faults < limits.faults {
        let seeds = next_seeds(number, &sum.coverage);
        number += BATCH;
        let named = sum.broken.len();
        for played in play_all(&seeds, limits.threads)? {
            sum.add(&played);
        }
        if !progress(&sum.progress(named)) {
            break;
        }
    }
    let counts = (sum.episodes, sum.faults);
    let mut report = FaultReport::new(sum.seconds, counts, &sum.coverage, sum.broken);
    report.barred = sum.barred;
    Ok(Run { report, coverage: sum.coverage })
}

/// Seeds that aim at what did not meet yet; at everything in turn once all has met.
fn next_seeds(number: u64, coverage: &Coverage) -> Vec<u64> {
    let all = Cell::all();
    let missing = coverage.missing();
    let index = |cell: &Cell| all.iter().position(|c| c == cell).unwrap_or(0);
    let aims: Vec<usize> = match missing.is_empty() {
        true => (0..all.len()).collect(),
        false => missing.iter().map(index).collect(),
    };
    // A stride that shares no factor with the number of cells, so that sites and kinds mix.
    let aim = |n: u64| aims[(n as usize).wrapping_mul(97) % aims.len()];
    (number..number + BATCH).map(|n| seed_at(n, aim(n))).collect()
}

fn play_all(seeds: &[u64], threads: usize) -> Result<Vec<Played>, String> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(seeds.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let played = replay(*seed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(played);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut played = done.into_iter().collect::<Result<Vec<Played>, String>>()?;
    played.sort_by_key(|played| played.seed);
    Ok(played)
}

/// Plays one episode again.
///
/// # Errors
/// It cannot be drawn.
pub fn replay(seed: u64) -> Result<Played, String> {
    Ok(play(&Plan::new(seed)?))
}

/// The episode of a seed with as few of its faults as break the same invariant; none if it does
/// not break.
///
/// # Errors
/// It cannot be drawn.
pub fn shrink(seed: u64) -> Result<Option<Played>, String> {
    let mut plan = Plan::new(seed)?;
    let mut least = play(&plan);
    let name = |played: &Played| {
        let broken = played.broken.as_ref()?;
        broken.what.split(':').next().map(str::to_owned)
    };
    let Some(wanted) = name(&least) else { return Ok(None) };
    let mut replays = 0;
    let mut index = 0;
    while index < plan.triggers.len() && replays < SHRINKS {
        let mut fewer = plan.clone();
        fewer.triggers.remove(index);
        let played = play(&fewer);
        replays += 1;
        if name(&played).as_ref() == Some(&wanted) {
            (plan, least) = (fewer, played);
        } else {
            index += 1;
        }
    }
    Ok(Some(least))
}
