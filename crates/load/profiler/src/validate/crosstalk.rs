//! Cross-talk: every kernel beside every other, on two CPUs, both at 40 % (B-E3).

use super::{Crosstalk, ValidateOptions, Validation};
use crate::ProfileError;
use crate::desk::{pause, percent, ready};
use crate::stats::median;
use crate::trial::Mark;
use quell_pressure::{Resource, Running, Stop};
use quell_types::{CpuSet, Topology};
use std::time::Duration;

/// The intensity of both.
const LEVEL: f64 = 40.0;
/// After a kernel was woken or put to sleep.
const SETTLE: Duration = Duration::from_millis(6);

/// There are hundreds of pairs: longer windows and more rounds would take many minutes.
const LONGEST_WINDOW: Duration = Duration::from_millis(30);
const MOST_ROUNDS: usize = 3;

/// Resources that hang together by what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Last-level cache, memory, translations, prefetchers, what carries lines between cores.
    MemoryPath,
    /// Each of the others is a group of its own.
    Own(Resource),
}

impl Group {
    /// The group of a resource.
    fn of(resource: Resource) -> Group {
        match resource {
            Resource::LlcCapacity
            | Resource::LlcBandwidth
            | Resource::MemoryBandwidth
            | Resource::MemoryCapacity
            | Resource::Tlb
            | Resource::Prefetcher
            | Resource::Interconnect => Group::MemoryPath,
            other => Group::Own(other),
        }
    }
}

/// A kernel that lies ready on one side.
struct Seated {
    resource: Resource,
    running: Running,
}

pub(super) fn measure(
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    let victims = seat(options, &options.seats.workload.first(1), topology, stop, found)?;
    let sources = seat(options, &options.seats.pressure.first(1), topology, stop, found)?;
    for victim in &victims {
        let mut losses = vec![Vec::new(); sources.len()];
        for _ in 0..options.rounds.min(MOST_ROUNDS) {
            row(options, victim, &sources, &mut losses, stop)?;
        }
        let lost = |(source, ratios): (&Seated, &Vec<f64>)| {
            let kept = median(ratios)?;
            Some(Crosstalk {
                source: source.resource,
                victim: victim.resource,
                loss_frac_at_40: 1.0 - kept,
                same_group: Group::of(source.resource) == Group::of(victim.resource),
            })
        };
        found.crosstalk.extend(sources.iter().zip(&losses).filter_map(lost));
        tell(&format!("cross-talk: {} beside {} others", victim.resource, sources.len()));
    }
    Ok(())
}

/// All kernels on one CPU, asleep. Messages need both CPUs for themselves.
fn seat(
    options: &ValidateOptions,
    cpu: &CpuSet,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
) -> Result<Vec<Seated>, ProfileError> {
    let mut seated = Vec::new();
    for resource in options.resources(topology) {
        if resource == Resource::Interconnect {
            let why = "cross-talk: its messages need both CPUs".to_owned();
            found.absent.entry(resource).or_insert(why);
            continue;
        }
        match ready(&options.options(resource, cpu), topology, stop) {
            Ok(running) => seated.push(Seated { resource, running }),
            Err(ProfileError::Resource { source, .. }) => {
                found.absent.entry(resource).or_insert(source.to_string());
            }
            Err(e) => return Err(e),
        }
    }
    Ok(seated)
}

/// One victim beside each source in turn, with quiet windows between them. In a quiet window the
/// source is awake and does nothing.
fn row(
    options: &ValidateOptions,
    victim: &Seated,
    sources: &[Seated],
    losses: &mut [Vec<f64>],
    stop: &Stop,
) -> Result<(), ProfileError> {
    victim.running.turn_to(percent(LEVEL));
    let window = options.window.min(LONGEST_WINDOW);
    let rate_at = |source: &Seated, level: f64| {
        source.running.turn_to(percent(level));
        pause(SETTLE, stop)?;
        let mark = Mark::of(&victim.running);
        pause(window, stop)?;
        Ok::<f64, ProfileError>(mark.rate(&victim.running))
    };
    let Some(first) = sources.first() else { return Ok(()) };
    let mut before = rate_at(first, 0.0)?;
    first.running.mute();
    for (source, ratios) in sources.iter().zip(losses) {
        let beside = rate_at(source, LEVEL)?;
        let after = rate_at(source, 0.0)?;
        source.running.mute();
        if before + after > 0.0 {
            ratios.push(beside / f64::midpoint(before, after));
        }
        before = after;
    }
    victim.running.mute();
    Ok(())
}
