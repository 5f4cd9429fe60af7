//! Cross-talk: every kernel beside every other, on two CPUs, both at 40 % (B-E3). Those that press
//! are in a [process of their own](super::sources).

use super::sources::Sources;
use super::{Crosstalk, ValidateOptions, Validation};
use crate::ProfileError;
use crate::desk::{pause, percent, ready};
use crate::stats::{median, quantile};
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
const MOST_ROUNDS: usize = 5;
/// Disks and links work in few large pieces: of their work a longer window is looked at.
const PIECES_WINDOW: Duration = Duration::from_millis(150);

/// A window without work is made longer up to so many times.
const PATIENCE: u32 = 100;

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
pub(super) struct Seated {
    pub(super) resource: Resource,
    pub(super) running: Running,
}

pub(super) fn measure(
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    let victims = seat(options, &options.seats.workload.first(1), topology, stop, found)?;
    let mut sources = Sources::seat(options, topology, stop, found)?;
    let resources = sources.resources();
    for victim in &victims {
        let mut kept = vec![Vec::new(); resources.len()];
        for _ in 0..options.rounds.min(MOST_ROUNDS) {
            row(options, victim, &mut sources, &mut kept, stop)?;
        }
        let pairs = resources.iter().zip(&kept);
        let losses: Vec<Crosstalk> =
            pairs.filter_map(|(source, kept)| lost(*source, victim, kept)).collect();
        if losses.len() < resources.len() {
            let why = "cross-talk: it got too little of its CPU to be looked at".to_owned();
            found.absent.entry(victim.resource).or_insert(why);
        }
        found.crosstalk.extend(losses);
        tell(&format!("cross-talk: {} beside {} others", victim.resource, resources.len()));
    }
    Ok(())
}

/// What a victim lost beside a source, by the shares of its work that it kept.
fn lost(source: Resource, victim: &Seated, kept: &[f64]) -> Option<Crosstalk> {
    let loss = |share| Some(1.0 - quantile(kept, share)?);
    Some(Crosstalk {
        source,
        victim: victim.resource,
        loss_frac_at_40: 1.0 - median(kept)?,
        loss_low: loss(0.75)?,
        loss_high: loss(0.25)?,
        same_group: Group::of(source) == Group::of(victim.resource),
    })
}

/// All kernels on one CPU, asleep. Messages need both CPUs for themselves.
pub(super) fn seat(
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

/// How long a victim is looked at.
fn window(options: &ValidateOptions, victim: Resource) -> Duration {
    match victim {
        Resource::StorageCapacity | Resource::StorageBandwidth | Resource::NetworkBandwidth => {
            options.window.max(PIECES_WINDOW)
        }
        _ => options.window.min(LONGEST_WINDOW),
    }
}

/// A victim's rate over a window, which is longer where it did nothing at all in it: others have its CPU.
fn rate(victim: &Running, window: Duration, stop: &Stop) -> Result<f64, ProfileError> {
    let mark = Mark::of(victim);
    for _ in 0..PATIENCE {
        pause(window, stop)?;
        let rate = mark.rate(victim);
        if rate > 0.0 {
            return Ok(rate);
        }
    }
    Ok(0.0)
}

/// One victim beside each source in turn, with quiet windows between them. In a quiet window the
/// source is awake and does nothing. Shares of the victim's work that it keeps go to `kept`.
fn row(
    options: &ValidateOptions,
    victim: &Seated,
    sources: &mut Sources,
    kept: &mut [Vec<f64>],
    stop: &Stop,
) -> Result<(), ProfileError> {
    if kept.is_empty() {
        return Ok(());
    }
    victim.running.turn_to(percent(LEVEL));
    let window = window(options, victim.resource);
    let rate_at = |sources: &mut Sources, source: usize, level: f64| {
        sources.turn(source, level)?;
        pause(SETTLE, stop)?;
        rate(&victim.running, window, stop)
    };
    let mut before = rate_at(sources, 0, 0.0)?;
    sources.mute(0)?;
    for (source, kept) in kept.iter_mut().enumerate() {
        let beside = rate_at(sources, source, LEVEL)?;
        let after = rate_at(sources, source, 0.0)?;
        sources.mute(source)?;
        if before + after > 0.0 {
            kept.push(beside / f64::midpoint(before, after));
        }
        before = after;
    }
    victim.running.mute();
    Ok(())
}
