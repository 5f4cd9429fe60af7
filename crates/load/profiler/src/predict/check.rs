//! All pairs of a list of programs: profiled, predicted, measured.
//!
//! A pair is predicted by a model that saw no pair with either of its programs; the form of the
//! model, too, is chosen without them. What the host disturbed is measured again at the end
//! (`canary`), and told if it stays disturbed.

use super::PredictReport;
use super::compare::{Together, compare};
use super::measure::{Desk, LIMITS, Loss, Pairs, Programs};
use crate::canary::{Try, Watch, until_clean};
use crate::desk::ready;
use crate::profile::ProfileOptions;
use crate::{Machine, Profile, ProfileError, words};
use quell_pressure::{Resource, Stop};
use quell_types::Topology;
use std::time::{Duration, Instant};

/// A program of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the report.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// A check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How programs are profiled.
    pub profile: ProfileOptions,
    /// Windows beside each neighbour.
    pub rounds: usize,
    /// The length of a window.
    pub window: Duration,
}

/// The programs of a list: one a line, `name: program arguments…` as [`words`] has them, with `#` before
/// remarks.
///
/// # Errors
/// A line without a name or a program, or with an open quote; a name that was there before; fewer
/// than two programs.
pub fn programs(list: &str) -> Result<Vec<Program>, ProfileError> {
    let bad = |value: &str, allowed| ProfileError::Option {
        option: "the list of programs",
        value: value.chars().take(60).collect(),
        allowed,
    };
    let mut found: Vec<Program> = Vec::new();
    for line in list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (name, rest) =
            line.split_once(": ").ok_or_else(|| bad(line, "give name: program arguments"))?;
        let command = words(rest)?;
        if command.is_empty() || found.iter().any(|p| p.name == name) {
            return Err(bad(line, "give each name once, and a program after it"));
        }
        found.push(Program { name: name.to_owned(), command });
    }
    if found.len() < 2 {
        return Err(bad("too short", "name two programs at least"));
    }
    Ok(found)
}

/// Profiles all programs, measures all ordered pairs, and compares. Called at the desk.
///
/// # Errors
/// A program fails; somebody asked to stop.
pub fn check(
    programs: &[Program],
    options: &CheckOptions,
    topology: &Topology,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<PredictReport, ProfileError> {
    let begun = Instant::now();
    let watch = Watch::over(&options.profile.seats, topology);
    let mut desk = Desk { programs, options, topology, stop, watch, tell };
    let profiles = profiles(&mut desk)?;
    let mut awake = options.profile.pressure.clone();
    (awake.resource, awake.seconds) = (Resource::Integer, 3600.0);
    awake.cpus = options.profile.seats.pressure.clone();
    let awake = ready(&awake, topology, stop)?;
    let pairs: Vec<(usize, usize)> = (0..programs.len())
        .flat_map(|a| (0..programs.len()).filter(move |b| *b != a).map(move |b| (a, b)))
        .collect();
    let mut course = Pairs { desk: &mut desk, awake: &awake, pairs: &pairs };
    let tries = until_clean(&mut course, pairs.len(), LIMITS)?;
    let names: Vec<&str> = programs.iter().map(|p| p.name.as_str()).collect();
    let mut report = judged(&names, &profiles, &pairs, &tries, Machine::of(topology));
    report.host = desk.watch.is_on().then(|| desk.watch.seen());
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// All profiles, with the yardsticks of the first: they are the machine's, not the program's.
fn profiles(desk: &mut Desk<'_>) -> Result<Vec<Profile>, ProfileError> {
    let count = desk.programs.len();
    let tries = until_clean(&mut Programs { desk }, count, LIMITS)?;
    let mut found: Vec<Profile> = tries.into_iter().map(|one| one.found).collect();
    if let Some((first, others)) = found.split_first_mut() {
        others.iter_mut().for_each(|one| one.yardsticks.clone_from(&first.yardsticks));
    }
    Ok(found)
}

/// The report on the last tries, and what the first ones alone would have said.
pub(super) fn judged(
    names: &[&str],
    profiles: &[Profile],
    pairs: &[(usize, usize)],
    tries: &[Try<Loss>],
    machine: Machine,
) -> PredictReport {
    let one = |(&(a, b), one): (&(usize, usize), &Try<Loss>)| Together {
        a,
        b,
        lost: one.found.lost,
        disturbed: one.disturbed,
        tries: one.tries,
        steal_percent: one.found.steal_percent,
    };
    let last: Vec<Together> = pairs.iter().zip(tries).map(one).collect();
    let mut report = compare(names, profiles, &last, machine.clone());
    if tries.iter().any(|one| one.tries > 1) {
        // As if nobody had looked: all pairs count as clean.
        let first = last.into_iter().zip(tries).map(|(pair, one)| Together {
            lost: one.first.lost,
            disturbed: false,
            ..pair
        });
        let first = compare(names, profiles, &first.collect::<Vec<_>>(), machine);
        report.mean_abs_error_points_first_tries = Some(first.mean_abs_error_points);
    }
    report
}
