//! Cross-talk: every kernel beside every other, on two CPUs, both at 40 % (B-E3). What was seen while the host had them
//! elsewhere than the machine is told is put aside. Those that press are in a [process of their own](super::sources), and
//! whoever works on a disk sits on the CPU that answers it ([`super::disk_seat`]).

use super::disk_seat::{Arrangement, arrangements, disk_cpu};
use super::sources::Sources;
use super::{Crosstalk, ValidateOptions, Validation, fit_cache};
use crate::canary::{Sieve, Watch};
use crate::desk::{pause, percent, ready};
use crate::stats::{median, quantile};
use crate::trial::{Mark, counted};
use crate::{ProfileError, Seats};
use quell_pressure::{Options, Resource, Running, Stop, bind_all};
use quell_types::{CpuSet, Topology};
use std::time::Duration;

/// The intensity of both.
const LEVEL: f64 = 40.0;
/// After a kernel was woken or put to sleep.
const SETTLE: Duration = Duration::from_millis(6);

/// There are hundreds of pairs: longer windows and more rounds would take many minutes.
const LONGEST_WINDOW: Duration = Duration::from_millis(30);
const MOST_ROUNDS: usize = 5;
/// So many rounds more are made of pairs of which it is not clear yet on which side of what is wanted they lie: a
/// disk that others use, too, does half as much in one window as in the next.
const MORE_ROUNDS: usize = 20;
/// Fewer looks do not tell how far they scatter.
const LEAST_LOOKS: usize = 3;
/// By how many standard errors, and looks, a loss has to be less than what is wanted ...
const LITTLE: (f64, usize) = (2.0, LEAST_LOOKS);
/// ... and more: four by chance are one in some ten thousand.
const TOO_MUCH: (f64, usize) = (4.0, 12);
/// What a victim may lose beside a source of another group, ...
const WANTED_BETWEEN_FRAC: f64 = 0.05;
/// ... and beside one of its own.
const WANTED_WITHIN_FRAC: f64 = 0.15;
/// Disks and links work in few large pieces: of their work a longer window is looked at.
const PIECES_WINDOW: Duration = Duration::from_millis(150);

/// A window without work is made longer up to so many times.
const PATIENCE: u32 = 100;

/// Resources that hang together by what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Last-level cache, memory, translations, prefetchers, what carries lines between cores.
    MemoryPath,
    /// Room on a disk and traffic to it, which have one disk.
    Disk,
    /// Each of the others is a group of its own.
    Own(Resource),
}

impl Group {
    /// The group of a resource.
    pub(super) fn of(resource: Resource) -> Group {
        match resource {
            Resource::LlcCapacity
            | Resource::LlcBandwidth
            | Resource::MemoryBandwidth
            | Resource::MemoryCapacity
            | Resource::Tlb
            | Resource::Prefetcher
            | Resource::Interconnect => Group::MemoryPath,
            Resource::StorageCapacity | Resource::StorageBandwidth => Group::Disk,
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
    found.disk_cpu = disk_cpu(options, topology, stop)?;
    let mut watch = Watch::over(&options.seats, topology);
    for arrangement in arrangements(&options.seats, found.disk_cpu) {
        // Where it is measured from is out of the victims' way.
        bind_all(&arrangement.seats.pressure)?;
        let done = from_seats(options, &arrangement, &mut watch, topology, stop, found, tell);
        bind_all(&options.seats.pressure)?;
        found.crosstalk_host = watch.is_on().then(|| watch.seen());
        done?;
    }
    Ok(())
}

/// The victims that are looked at from these seats.
fn from_seats(
    options: &ValidateOptions,
    arrangement: &Arrangement,
    watch: &mut Watch,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    let Seats { workload, pressure, .. } = &arrangement.seats;
    let holds = |resource: Resource| arrangement.holds(resource);
    let victims = seat(options, workload, &holds, topology, stop, found)?;
    if victims.is_empty() {
        return Ok(());
    }
    let mut sources = Sources::seat(options, pressure, topology, stop, found)?;
    for victim in &victims {
        beside_all(options, victim, &mut sources, watch, stop, found)?;
        tell(&format!(
            "cross-talk: {} beside {} others",
            victim.resource,
            sources.resources().len()
        ));
    }
    Ok(())
}

/// One victim beside all sources.
fn beside_all(
    options: &ValidateOptions,
    victim: &Seated,
    sources: &mut Sources,
    watch: &mut Watch,
    stop: &Stop,
    found: &mut Validation,
) -> Result<(), ProfileError> {
    let resources = sources.resources();
    let mut kept = vec![Sieve::default(); resources.len()];
    let mut open: Vec<usize> = (0..resources.len()).collect();
    let rounds = options.rounds.min(MOST_ROUNDS);
    for round in 1..=rounds + MORE_ROUNDS {
        row(options, victim, (sources, &open), &mut kept, watch, stop)?;
        let unclear = |source: &usize| {
            wants_more(&kept[*source], wanted(resources[*source], victim.resource))
        };
        open.retain(|source| round < rounds || unclear(source));
    }
    let kept: Vec<Vec<f64>> = kept.into_iter().map(|sieve| counted(sieve, watch)).collect();
    let pairs = resources.iter().zip(&kept);
    let losses: Vec<Crosstalk> =
        pairs.filter_map(|(source, kept)| lost(*source, victim, kept)).collect();
    if losses.len() < resources.len() {
        let why = "cross-talk: it got too little of its CPU to be looked at".to_owned();
        found.absent.entry(victim.resource).or_insert(why);
    }
    found.crosstalk.extend(losses);
    Ok(())
}

/// What a victim may lose beside a source.
fn wanted(source: Resource, victim: Resource) -> f64 {
    let same = Group::of(source) == Group::of(victim);
    if same { WANTED_WITHIN_FRAC } else { WANTED_BETWEEN_FRAC }
}

/// Whether the median loss is too close to what is wanted, by its standard error, which is by the quartiles what it is of
/// a normal distribution. Of hundreds of pairs some lose too much by chance: that takes more looks and more certainty.
fn is_open(kept: &[f64], wanted_frac: f64) -> bool {
    let quartiles = (quantile(kept, 0.25), quantile(kept, 0.75));
    let (Some(median), (Some(low), Some(high))) = (median(kept), quartiles) else { return false };
    let error = 0.93 * (high - low) / (kept.len() as f64).sqrt();
    let excess = 1.0 - median - wanted_frac;
    let (errors, looks) = if excess > 0.0 { TOO_MUCH } else { LITTLE };
    kept.len() >= LEAST_LOOKS && (excess.abs() < errors * error || kept.len() < looks)
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
        looks: kept.len(),
        same_group: Group::of(source) == Group::of(victim.resource),
    })
}

/// All kernels that are wanted on the first of these CPUs, asleep; messages go between the first two, if there are.
pub(super) fn seat(
    options: &ValidateOptions,
    cpus: &CpuSet,
    wanted: &dyn Fn(Resource) -> bool,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
) -> Result<Vec<Seated>, ProfileError> {
    let mut seated = Vec::new();
    for resource in options.resources(topology).into_iter().filter(|one| wanted(*one)) {
        let own = cpus.first(if resource == Resource::Interconnect { 2 } else { 1 });
        if resource == Resource::Interconnect && own.len() < 2 {
            let why = "cross-talk: its messages need two CPUs beside the other's".to_owned();
            found.absent.entry(resource).or_insert(why);
            continue;
        }
        let mut pressure = Options { cpus: own.clone(), ..options.options(resource, &own) };
        fit_cache(&mut pressure, topology, stop)?;
        match ready(&pressure, topology, stop) {
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

/// One victim beside each of these sources in turn, with quiet windows between them. In a quiet window the
/// source is awake and does nothing. Shares of the victim's work that it keeps go to `kept`.
fn row(
    options: &ValidateOptions,
    victim: &Seated,
    (sources, which): (&mut Sources, &[usize]),
    kept: &mut [Sieve],
    watch: &mut Watch,
    stop: &Stop,
) -> Result<(), ProfileError> {
    let window = window(options, victim.resource);
    let rate_at = |sources: &mut Sources, source: usize, level: f64| {
        sources.turn(source, level)?;
        pause(SETTLE, stop)?;
        rate(&victim.running, window, stop)
    };
    let mut last = None;
    for source in which {
        victim.running.turn_to(percent(LEVEL));
        let before = match last.take() {
            Some(before) => before,
            None => rate_at(sources, *source, 0.0)?,
        };
        let beside = rate_at(sources, *source, LEVEL)?;
        let after = rate_at(sources, *source, 0.0)?;
        sources.mute(*source)?;
        if before + after > 0.0 {
            kept[*source].push(beside / f64::midpoint(before, after));
        }
        if watch.is_due() {
            settle_by_look(victim, kept, watch, stop)?;
        } else {
            last = Some(after);
        }
    }
    settle_by_look(victim, kept, watch, stop)
}

/// Looks where the host has the CPUs, with everybody out of the way, and puts aside what was seen elsewhere.
fn settle_by_look(
    victim: &Seated,
    kept: &mut [Sieve],
    watch: &mut Watch,
    stop: &Stop,
) -> Result<(), ProfileError> {
    victim.running.mute();
    if watch.is_on() {
        pause(SETTLE, stop)?;
        let said = watch.since();
        kept.iter_mut().for_each(|sieve| watch.note(sieve.settle(said), 0));
    }
    Ok(())
}

/// Whether a pair is to be looked at once more: its loss is not clear, or too little of it counts.
fn wants_more(sieve: &Sieve, wanted_frac: f64) -> bool {
    let kept = sieve.values();
    is_open(&kept, wanted_frac) || sieve.measured() >= LEAST_LOOKS && kept.len() < LEAST_LOOKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_looked_at_again_while_its_loss_may_lie_on_either_side() {
        let around =
            |loss: f64, scatter: f64| [-1.0, -0.5, 0.0, 0.5, 1.0].map(|x| 1.0 - loss + scatter * x);
        assert!(!is_open(&around(0.0, 0.01), 0.05), "surely less");
        assert!(is_open(&around(0.4, 0.1), 0.05), "more, by few looks");
        assert!(!is_open(&around(0.4, 0.1).repeat(3), 0.05), "surely more");
        assert!(is_open(&around(0.1, 0.1).repeat(3), 0.05), "more, by three errors");
        assert!(is_open(&around(0.2, 0.4), 0.05), "it scatters by more than it loses");
        let often: Vec<f64> = around(0.2, 0.4).repeat(20);
        assert!(!is_open(&often, 0.05), "looked at often enough");
        assert!(!is_open(&[1.0, 0.2], 0.05) && !is_open(&[], 0.05), "nothing to tell by");
    }

    #[test]
    fn what_was_put_aside_is_looked_at_again() {
        let mut sieve = Sieve::default();
        (0..5).for_each(|_| sieve.push(1.0));
        assert!(!wants_more(&sieve, 0.05));
        sieve.settle(crate::Placement::Distant);
        assert!(wants_more(&sieve, 0.05), "nothing of it counts");
        assert!(!wants_more(&Sieve::default(), 0.05), "it has no rate at all");
    }

    #[test]
    fn more_may_be_lost_within_a_group() {
        assert_eq!(wanted(Resource::Tlb, Resource::MemoryBandwidth), WANTED_WITHIN_FRAC);
        assert_eq!(wanted(Resource::Tlb, Resource::StorageBandwidth), WANTED_BETWEEN_FRAC);
        assert_eq!(wanted(Resource::Integer, Resource::Integer), WANTED_WITHIN_FRAC);
        assert_eq!(
            wanted(Resource::StorageCapacity, Resource::StorageBandwidth),
            WANTED_WITHIN_FRAC
        );
    }
}
