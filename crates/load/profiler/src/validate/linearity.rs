//! Linearity: levels take turns, there and back again, and each gets its median.

use super::observer::{Observer, Reference};
use super::{KernelLinearity, LevelValue, Unseen, ValidateOptions, fit_cache};
use crate::ProfileError;
use crate::canary::{Sieve, Watch};
use crate::desk::{pause, percent, ready};
use crate::stats::{half_effect, largest_deviation, median, pearson, quantile};
use crate::trial::counted;
use quell_pressure::{Resource, Running, Stop};
use quell_types::Topology;
use std::time::{Duration, Instant};

/// Intensities in percent.
const LEVELS: [f64; 11] = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
/// After the dial was turned.
const SETTLE: Duration = Duration::from_millis(15);
/// What waits before a link, at its end or on the way, has left it by then.
const LINK_DRAINS: Duration = Duration::from_millis(60);
/// Filling memory takes longer, but no longer than this.
const LONGEST_SETTLE: Duration = Duration::from_secs(3);

/// By the best observer there is; by the kernel's own work where that one sees nothing of it.
pub(super) fn measure(
    resource: Resource,
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
) -> Result<KernelLinearity, ProfileError> {
    let mut pressure = options.options(resource, &options.seats.pressure);
    let cache_room = fit_cache(&mut pressure, topology, stop)?;
    let kernel = ready(&pressure, topology, stop)?;
    let observer = Observer::of(resource, &kernel, options, topology, stop)?;
    let mut found = through(kernel, observer, options, topology, stop)?;
    if is_unseen(&found) {
        let own =
            through(ready(&pressure, topology, stop)?, Observer::OwnWork, options, topology, stop)?;
        let observer = format!("{}, since nothing of it shows in {}", own.observer, found.observer);
        let host = found.host.take();
        found = KernelLinearity { observer, host, unseen: Some(unseen(found)), ..own };
    }
    Ok(KernelLinearity { cache_room, ..found })
}

/// An observer whose view differs from level to level by no more than so many times its noise sees nothing.
const LEAST_EFFECT: f64 = 3.0;

/// Whether somebody else looked and saw nothing: a cache may have more bandwidth than two cores can ask for.
fn is_unseen(found: &KernelLinearity) -> bool {
    let little = found.effect_over_noise.is_some_and(|effect| effect < LEAST_EFFECT);
    found.independent && (found.r.is_none() || little)
}

/// What is told of such an observer.
fn unseen(found: KernelLinearity) -> Unseen {
    let KernelLinearity { observer, r, effect_over_noise, levels, .. } = found;
    Unseen { observer, r, effect_over_noise, levels }
}

/// All levels, there and back again.
fn through(
    kernel: Running,
    observer: Observer,
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
) -> Result<KernelLinearity, ProfileError> {
    let resource = kernel.resource();
    let beside = observer.depends_on_the_host();
    let watch = if beside { Watch::over(&options.seats, topology) } else { Watch::off() };
    let window = options.window.max(shortest_window(resource));
    let patience = options.patience;
    let mut looking = Looking { kernel, observer, watch, window, patience, stop };
    let mut seen = vec![Sieve::default(); LEVELS.len()];
    for round in 0..options.rounds.max(2) {
        let there = 0..LEVELS.len();
        let turns: Vec<usize> =
            if round % 2 == 0 { there.collect() } else { there.rev().collect() };
        for i in turns {
            looking.at(LEVELS[i], &mut seen[i])?;
        }
    }
    Ok(looking.end(resource, seen))
}

/// A kernel and who looks at it.
struct Looking<'a> {
    kernel: Running,
    observer: Observer,
    watch: Watch,
    window: Duration,
    /// How long it may still be waited for the host.
    patience: Duration,
    stop: &'a Stop,
}

/// A kernel that is muted has ended its slice by then.
const FALLS_ASLEEP: Duration = Duration::from_millis(3);
/// Between two looks whether the host has the CPUs where they belong again.
const PAUSE: Duration = Duration::from_millis(100);

impl Looking<'_> {
    /// Looks at one level; again, as long as there is patience, where the host had the CPUs elsewhere.
    fn at(&mut self, level: f64, seen: &mut Sieve) -> Result<(), ProfileError> {
        loop {
            let begun = Instant::now();
            seen.push(look(&mut self.kernel, &mut self.observer, level, self.window, self.stop)?);
            if !self.watch.is_on() {
                return Ok(());
            }
            self.kernel.mute();
            pause(FALLS_ASLEEP, self.stop)?;
            let said = self.watch.since();
            self.watch.note(seen.settle(said), 0);
            let again = said.disturbs() && self.waits_for_the_host()?;
            if !said.disturbs() {
                return Ok(());
            }
            self.patience = self.patience.saturating_sub(begun.elapsed());
            if !again {
                return Ok(());
            }
        }
    }

    /// Waits until the CPUs are where they belong; not, if that is not to be had in time.
    fn waits_for_the_host(&mut self) -> Result<bool, ProfileError> {
        let end = Instant::now() + self.patience;
        while Instant::now() < end {
            if !self.watch.look().disturbs() {
                return Ok(true);
            }
            pause(PAUSE, self.stop)?;
        }
        Ok(false)
    }

    /// What was seen.
    fn end(mut self, resource: Resource, seen: Vec<Sieve>) -> KernelLinearity {
        self.kernel.mute();
        let watch = &mut self.watch;
        let seen: Vec<Vec<f64>> = seen.into_iter().map(|sieve| counted(sieve, watch)).collect();
        let (observer, independent) = self.observer.words();
        let host = self.watch.is_on().then(|| self.watch.seen());
        KernelLinearity { host, ..judged(resource, observer, independent, &seen) }
    }
}

/// A disk's kernel works in slices of 20 ms, and a link's queue is as long: a window holds many.
fn shortest_window(resource: Resource) -> Duration {
    match resource {
        Resource::StorageBandwidth => Duration::from_millis(300),
        Resource::NetworkBandwidth => Duration::from_millis(200),
        _ => Duration::ZERO,
    }
}

/// What the observer sees at one level, in percent of its reference where it has one: the level, the
/// reference and the level again, so that a drift in one direction falls out.
fn look(
    kernel: &mut Running,
    observer: &mut Observer,
    level: f64,
    window: Duration,
    stop: &Stop,
) -> Result<f64, ProfileError> {
    let mut at = |observer: &mut Observer, level: f64| {
        if !observer.turns_the_kernel() {
            kernel.turn_to(percent(level));
            settle(kernel, stop)?;
        }
        observer.see(kernel, percent(level), window, stop)
    };
    let seen = at(observer, level)?;
    let Some(reference) = observer.reference() else { return Ok(seen) };
    let beside = match reference {
        Reference::Quiet => (at(observer, 0.0)?, None),
        Reference::Full => (at(observer, 100.0)?, None),
        Reference::Both => (at(observer, 0.0)?, Some(at(observer, 100.0)?)),
    };
    let seen = f64::midpoint(seen, at(observer, level)?);
    let share = match beside {
        (quiet, Some(full)) => (seen - quiet) / (full - quiet),
        (beside, None) => observer.share(seen / beside),
    };
    Ok(100.0 * share)
}

/// Waits until caches are full, and until what is occupied has grown or shrunk to its place.
fn settle(kernel: &mut Running, stop: &Stop) -> Result<(), ProfileError> {
    let end = Instant::now() + LONGEST_SETTLE;
    if kernel.resource() == Resource::NetworkBandwidth {
        pause(LINK_DRAINS, stop)?;
    }
    let mut before = kernel.progress().footprint_bytes;
    loop {
        pause(SETTLE, stop)?;
        let now = kernel.progress().footprint_bytes;
        if now == before || Instant::now() >= end {
            return Ok(());
        }
        before = now;
    }
}

/// The figures of a line from what was seen at each level.
fn judged(
    resource: Resource,
    observer: String,
    independent: bool,
    seen: &[Vec<f64>],
) -> KernelLinearity {
    let level = |(percent, values): (&f64, &Vec<f64>)| Some((*percent, median(values)?));
    let line: Vec<(f64, f64)> = LEVELS.iter().zip(seen).filter_map(level).collect();
    let spread = |values: &Vec<f64>| Some(quantile(values, 0.75)? - quantile(values, 0.25)?);
    let noise = median(&seen.iter().filter_map(spread).collect::<Vec<_>>()).unwrap_or(0.0);
    let effect = line.first().zip(line.last()).map(|(first, last)| (last.1 - first.1).abs());
    KernelLinearity {
        resource,
        observer,
        independent,
        r: pearson(&line),
        max_deviation_points: largest_deviation(&line),
        half_effect_frac: half_effect(&line),
        host: None,
        cache_room: None,
        unseen: None,
        effect_over_noise: effect.filter(|_| noise > 0.0).map(|effect| effect / noise),
        levels: line
            .into_iter()
            .map(|(intensity_percent, value)| LevelValue { intensity_percent, value })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::Placement;

    #[test]
    fn a_straight_kernel_is_judged_straight() {
        let seen: Vec<Vec<f64>> =
            LEVELS.iter().map(|x| vec![2.0 * x - 1.0, 2.0 * x, 2.0 * x + 1.0]).collect();
        let found = judged(Resource::Integer, "a ruler".to_owned(), true, &seen);
        assert!(found.r.unwrap() > 0.9999 && found.max_deviation_points.unwrap() < 1e-9);
        assert!((found.half_effect_frac.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(found.effect_over_noise, Some(200.0));
        assert_eq!(found.levels.len(), LEVELS.len());
    }

    #[test]
    fn what_was_seen_while_the_host_had_the_cpus_elsewhere_is_looked_at_again() {
        let (stop, topology) = (Stop::new().unwrap(), Topology::default());
        let cpus = quell_pressure::allowed_cpus().unwrap().first(1);
        for (patience_s, clean, aside) in [(60, 2, 1), (0, 0, 2)] {
            let mut options = quell_pressure::Options::new(Resource::Integer);
            options.cpus = cpus.clone();
            let script = |n| if n < 4 { Placement::Distant } else { Placement::Apart };
            let mut looking = Looking {
                kernel: ready(&options, &topology, &stop).unwrap(),
                observer: Observer::OwnWork,
                watch: Watch::scripted(script),
                window: Duration::from_millis(1),
                patience: Duration::from_secs(patience_s),
                stop: &stop,
            };
            let mut seen = Sieve::default();
            looking.at(50.0, &mut seen).unwrap();
            looking.at(50.0, &mut seen).unwrap();
            // Each look that says so is taken twice: the first look at the level is put aside with numbers 0 and
            // 1, and the wait for the host takes 2 and 3.
            let put_aside = seen.measured() - seen.values().len();
            assert_eq!(put_aside, aside, "{seen:?}");
            assert_eq!(seen.values().len(), clean, "{seen:?}");
            let told = looking.end(Resource::Integer, vec![seen]).host.unwrap();
            assert_eq!(told.kept_windows, if clean == 0 { 2 } else { 0 });
        }
    }

    #[test]
    fn who_sees_less_than_its_noise_sees_nothing() {
        let seen = |effect: f64, independent| {
            let at = |x: &f64| [-1.0, 0.0, 1.0].map(|off| effect * x / 100.0 + off).to_vec();
            let values: Vec<Vec<f64>> = LEVELS.iter().map(at).collect();
            judged(Resource::LlcBandwidth, String::new(), independent, &values)
        };
        assert!(is_unseen(&seen(0.5, true)) && is_unseen(&seen(0.0, true)));
        assert!(!is_unseen(&seen(50.0, true)));
        let exact: Vec<Vec<f64>> = LEVELS.iter().map(|x| vec![*x; 3]).collect();
        assert!(
            !is_unseen(&judged(Resource::MemoryCapacity, String::new(), true, &exact)),
            "no noise"
        );
        assert!(!is_unseen(&seen(0.5, false)), "there is nobody else to ask");
        let told = unseen(seen(0.5, true));
        assert!(told.effect_over_noise.is_some_and(|effect| effect < LEAST_EFFECT), "{told:?}");
        assert_eq!(told.levels.len(), LEVELS.len());
    }

    #[test]
    fn no_effect_has_no_figures() {
        let found = judged(Resource::Integer, String::new(), true, &vec![vec![3.0; 4]; 11]);
        assert_eq!((found.r, found.half_effect_frac), (None, None));
        assert!(found.words().contains('-'));
    }
}
