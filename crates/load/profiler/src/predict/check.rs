//! All pairs of a list of programs: profiled, predicted, measured.
//!
//! A pair is predicted by a model that saw no pair with either of its programs; the form of the
//! model, too, is chosen without them. What the host disturbed is measured again at the end
//! (`canary`), and told if it stays disturbed.
//!
//! A host changes within minutes, and a profile is as old as its minute. So all of it is measured in
//! several *passes*, each with profiles of its own, and profiles and pairs are means over the same
//! stretches of time.

use super::PredictReport;
use super::compare::{Together, compare};
use super::measure::{Desk, LIMITS, Loss, Pairs, Programs};
use crate::canary::{Try, Watch, until_clean};
use crate::desk::ready;
use crate::profile::ProfileOptions;
use crate::stats::mean_of_medians;
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
    /// How programs are profiled, in each pass.
    pub profile: ProfileOptions,
    /// How often all of it is measured.
    pub passes: usize,
    /// Windows beside each neighbour, in all passes together.
    pub rounds: usize,
    /// The length of a window.
    pub window: Duration,
}

/// Windows beside each neighbour in one of so many passes, where all have so many together: three at least.
#[must_use]
pub fn rounds_in_a_pass(rounds: usize, passes: usize) -> usize {
    rounds.div_ceil(passes.max(1)).max(3)
}

/// What was measured in one pass.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    /// Of each program.
    pub(super) profiles: Vec<Profile>,
    /// Of each pair.
    pub(super) pairs: Vec<Try<Loss>>,
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
    let pairs: Vec<(usize, usize)> = (0..programs.len())
        .flat_map(|a| (0..programs.len()).filter(move |b| *b != a).map(move |b| (a, b)))
        .collect();
    let mut passes = Vec::new();
    for number in 1..=options.passes.max(1) {
        if options.passes > 1 {
            (desk.tell)(&format!("pass {number} of {}", options.passes));
        }
        passes.push(pass(&mut desk, &pairs)?);
    }
    let names: Vec<&str> = programs.iter().map(|p| p.name.as_str()).collect();
    let mut report = judged(&names, &pairs, &passes, Machine::of(topology))?;
    report.host = desk.watch.is_on().then(|| desk.watch.seen());
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// All programs, then all pairs.
fn pass(desk: &mut Desk<'_>, pairs: &[(usize, usize)]) -> Result<Pass, ProfileError> {
    let profiles = profiles(desk)?;
    let mut awake = desk.options.profile.pressure.clone();
    (awake.resource, awake.seconds) = (Resource::Integer, 3600.0);
    awake.cpus = desk.options.profile.seats.pressure.clone();
    let awake = ready(&awake, desk.topology, desk.stop)?;
    let tries = until_clean(&mut Pairs { desk, awake: &awake, pairs }, pairs.len(), LIMITS)?;
    Ok(Pass { profiles, pairs: tries })
}

/// All profiles, with the yardsticks of the first: they are the machine's, not the program's.
fn profiles(desk: &mut Desk<'_>) -> Result<Vec<Profile>, ProfileError> {
    let count = desk.programs.len();
    let tries = until_clean(&mut Programs { desk }, count, LIMITS)?;
    let mut found: Vec<Profile> = tries.into_iter().map(|one| one.found).collect();
    if let Some((first, others)) = found.split_first_mut() {
        for one in others {
            one.yardsticks.clone_from(&first.yardsticks);
            one.bubbles.clone_from(&first.bubbles);
        }
    }
    Ok(found)
}

/// The report on the last tries, and what the first ones alone would have said.
///
/// # Errors
/// Nothing was measured of a pair.
pub(super) fn judged(
    names: &[&str],
    pairs: &[(usize, usize)],
    passes: &[Pass],
    machine: Machine,
) -> Result<PredictReport, ProfileError> {
    let profiles: Vec<&[Profile]> = passes.iter().map(|pass| &pass.profiles[..]).collect();
    let together = |first: bool| {
        let one = |(place, &(a, b)): (usize, &(usize, usize))| {
            let tries: Vec<&Try<Loss>> = passes.iter().map(|pass| &pass.pairs[place]).collect();
            let pair = over_passes((a, b), &tries, first);
            pair.ok_or_else(|| ProfileError::Stalled(names[a].to_owned()))
        };
        pairs.iter().enumerate().map(one).collect::<Result<Vec<Together>, _>>()
    };
    let mut report = compare(names, &profiles, &together(false)?, machine.clone());
    if passes.iter().flat_map(|pass| &pass.pairs).any(|one| one.tries > 1) {
        let first = compare(names, &profiles, &together(true)?, machine);
        report.mean_abs_error_points_first_tries = Some(first.mean_abs_error_points);
    }
    Ok(report)
}

/// One pair, of whose passes each counts once: by the last tries, or by the first ones as if nobody had
/// looked. Disturbed is what was in any pass.
fn over_passes((a, b): (usize, usize), tries: &[&Try<Loss>], first: bool) -> Option<Together> {
    let found = |one: &&Try<Loss>| if first { one.first.clone() } else { one.found.clone() };
    let found: Vec<Loss> = tries.iter().map(found).collect();
    let shares: Vec<Vec<f64>> = found.iter().map(|loss| loss.shares.clone()).collect();
    let steal: Vec<f64> = found.iter().filter_map(|loss| loss.steal_percent).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some(Together {
        a,
        b,
        lost: mean_of_medians(&shares)?,
        disturbed: !first && tries.iter().any(|one| one.disturbed),
        tries: tries.iter().map(|one| one.tries).max()?,
        steal_percent: (!steal.is_empty()).then(|| mean(&steal)),
    })
}
