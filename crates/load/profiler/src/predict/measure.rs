//! Programs and pairs of them under measurement, with an eye on the host.

use super::{CheckOptions, Program, rounds_in_a_pass};
use crate::canary::{Course, Limits, Placement, Sieve, Watch};
use crate::desk::{pause, percent};
use crate::profile::profile;
use crate::stats::median;
use crate::{Profile, ProfileError, Repeated, Subject, Watched, looped};
use quell_pressure::{Bound, Running, Stop};
use quell_types::Topology;
use std::time::{Duration, Instant};

/// The longest run of a program.
const LONGEST_RUN: Duration = Duration::from_secs(20);
/// After a neighbour was woken or stopped.
const SETTLE: Duration = Duration::from_millis(10);
/// Windows of a pair, those included that are made again, over those that it has to have.
const AGAIN: usize = 3;
/// Of what the host disturbs. Stretches of a minute are usual.
pub(super) const LIMITS: Limits =
    Limits { tries: 3, pause: Duration::from_secs(1), patience: Duration::from_secs(60) };

/// What all measurements of a check have in common.
pub(super) struct Desk<'a> {
    pub(super) programs: &'a [Program],
    pub(super) options: &'a CheckOptions,
    pub(super) topology: &'a Topology,
    pub(super) stop: &'a Stop,
    pub(super) watch: Watch,
    pub(super) tell: &'a mut dyn FnMut(&str),
}

/// Each program by itself.
pub(super) struct Programs<'a, 'b> {
    pub(super) desk: &'a mut Desk<'b>,
}

/// Each pair, in this order.
pub(super) struct Pairs<'a, 'b> {
    pub(super) desk: &'a mut Desk<'b>,
    pub(super) awake: &'a Running,
    pub(super) pairs: &'a [(usize, usize)],
}

/// What A loses beside B.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loss {
    /// Loss of speed as a share, window by window.
    pub(super) shares: Vec<f64>,
    /// Steal meanwhile, in percent of the CPUs' time.
    pub(super) steal_percent: Option<f64>,
}

/// How a measurement is told whose CPUs the host ran where the machine is told they are not.
fn remark(disturbed: bool) -> &'static str {
    if disturbed { "; the host moved the CPUs" } else { "" }
}

impl Course for Programs<'_, '_> {
    type Found = Profile;
    type Error = ProfileError;

    fn look(&mut self) -> Placement {
        self.desk.watch.look()
    }

    /// The first with yardsticks.
    fn measure(&mut self, index: usize) -> Result<(Profile, bool), ProfileError> {
        let Desk { programs, options, topology, stop, tell, .. } = &mut *self.desk;
        let mut how = options.profile.clone();
        how.yardsticks = index == 0;
        let (program, cpus) = (&programs[index], how.seats.workload.clone());
        let mut subject = Repeated::new(&program.command, &cpus, stop, LONGEST_RUN);
        let found = profile(&mut subject, &how, topology, stop, Instant::now(), &mut |_, _| ())?;
        let disturbed = found.host.as_ref().is_some_and(Watched::is_disturbed);
        tell(&format!("profiled {} in {:.1} s{}", program.name, found.seconds, remark(disturbed)));
        Ok((found, disturbed))
    }

    fn pause(&mut self, length: Duration) -> Result<(), ProfileError> {
        pause(length, self.desk.stop)
    }
}

impl Course for Pairs<'_, '_> {
    type Found = Loss;
    type Error = ProfileError;

    fn look(&mut self) -> Placement {
        self.desk.watch.look()
    }

    fn measure(&mut self, index: usize) -> Result<(Loss, bool), ProfileError> {
        let (a, b) = self.pairs[index];
        let (a, b) = (&self.desk.programs[a], &self.desk.programs[b]);
        let steal = self.desk.watch.steal();
        let (shares, disturbed) = self.pair(a, b)?;
        let steal_percent = self.desk.watch.percent_since(steal);
        let loss = median(&shares).ok_or_else(|| ProfileError::Stalled(a.name.clone()))?;
        let (x, y, loss) = (&a.name, &b.name, 100.0 * loss);
        (self.desk.tell)(&format!("{x} beside {y}: loses {loss:.1} %{}", remark(disturbed)));
        Ok((Loss { shares, steal_percent }, disturbed))
    }

    fn pause(&mut self, length: Duration) -> Result<(), ProfileError> {
        pause(length, self.desk.stop)
    }
}

impl Pairs<'_, '_> {
    /// Windows of A, alone and beside B in turn, and whether the host disturbed what counts of them. Those that
    /// it disturbed are made again, [`AGAIN`] times as many at most. While B rests its CPU is kept awake.
    fn pair(&mut self, a: &Program, b: &Program) -> Result<(Vec<f64>, bool), ProfileError> {
        let Desk { options, stop, watch, .. } = &mut *self.desk;
        let (seats, awake) = (&options.profile.seats, self.awake);
        let mut subject = Repeated::new(&a.command, &seats.workload, stop, LONGEST_RUN);
        let neighbour = Neighbour { bound: looped(&b.command, &seats.pressure)?, name: &b.name };
        let quiet = |subject: &mut Repeated| {
            neighbour.rest()?;
            awake.turn_to(percent(0.0));
            pause(SETTLE, stop)?;
            Ok::<f64, ProfileError>(subject.speed(options.window)?.by_wall)
        };
        neighbour.rest()?;
        watch.look();
        let (mut before, mut losses) = (quiet(&mut subject)?, Sieve::default());
        let rounds = rounds_in_a_pass(options.rounds, options.passes);
        while losses.values().len() < rounds && losses.measured() < AGAIN * rounds {
            awake.mute();
            neighbour.wake()?;
            pause(SETTLE, stop)?;
            let beside = subject.speed(options.window)?.by_wall;
            neighbour.has_to_live()?;
            let after = quiet(&mut subject)?;
            losses.push(1.0 - beside / f64::midpoint(before, after));
            before = after;
            if watch.is_on() && (watch.is_due() || losses.values().len() >= rounds) {
                awake.mute();
                let said = watch.since();
                watch.note(losses.settle(said), 0);
            }
        }
        awake.mute();
        let (losses, disturbed) = losses.end();
        watch.note(0, disturbed);
        Ok((losses, disturbed > 0))
    }
}

/// B, over and over.
struct Neighbour<'a> {
    bound: Bound,
    name: &'a str,
}

impl Neighbour<'_> {
    fn rest(&self) -> Result<(), ProfileError> {
        self.bound.pause().map_err(|e| ProfileError::subject(self.name, e))
    }

    fn wake(&self) -> Result<(), ProfileError> {
        self.bound.resume().map_err(|e| ProfileError::subject(self.name, e))
    }

    fn has_to_live(&self) -> Result<(), ProfileError> {
        let ended = self.bound.wait(Duration::ZERO);
        match ended.map_err(|e| ProfileError::subject(self.name, e))? {
            Some(_) => Err(ProfileError::Stalled(self.name.to_owned())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seats;
    use crate::profile::ProfileOptions;
    use quell_pressure::{Intensity, Options, Plan, Resource, allowed_cpus, arm};

    /// Two programs that end at once, on whatever CPUs there are.
    fn options() -> CheckOptions {
        let cpus = allowed_cpus().unwrap();
        let seats = Seats { workload: cpus.first(1), pressure: cpus.last(1), same_core: true };
        let mut pressure = Options::new(Resource::Integer);
        pressure.plan = Plan::Hold(Intensity::ZERO);
        let profile = ProfileOptions {
            only: vec![Resource::Integer],
            quick: true,
            threshold: 0.95,
            within: None,
            effort: None,
            yardsticks: false,
            witnesses: false,
            seats,
            pressure,
        };
        CheckOptions { profile, passes: 1, rounds: 3, window: Duration::from_millis(1) }
    }

    fn measured(watch: Watch) -> (Loss, bool, Watched, String) {
        let (options, stop) = (options(), Stop::new().unwrap());
        let topology = Topology::default();
        let programs = ["a", "b"]
            .map(|name| Program { name: name.to_owned(), command: vec!["true".to_owned()] });
        let awake = arm(&options.profile.pressure, &topology, &stop).unwrap().start();
        let mut told = String::new();
        let mut tell = |line: &str| told.push_str(line);
        let mut desk = Desk {
            programs: &programs,
            options: &options,
            topology: &topology,
            stop: &stop,
            watch,
            tell: &mut tell,
        };
        let mut pairs = Pairs { desk: &mut desk, awake: &awake, pairs: &[(0, 1)] };
        let (loss, disturbed) = pairs.measure(0).unwrap();
        let seen = desk.watch.seen();
        (loss, disturbed, seen, told)
    }

    #[test]
    fn windows_that_were_disturbed_are_made_again_and_a_pair_without_others_is_told() {
        let once = |n: u32| match n {
            // What says so is looked at again at once.
            1 | 2 => Placement::Together,
            _ => Placement::Apart,
        };
        let (loss, said, seen, _) = measured(Watch::scripted(once));
        assert_eq!((loss.shares.len(), said), (3, false), "{loss:?}");
        assert!(seen.disturbed_windows > 0 && seen.kept_windows == 0, "{seen:?}");
        for (script, disturbed) in [
            (Box::new(|_| Placement::Together) as Box<dyn FnMut(u32) -> Placement>, true),
            (Box::new(|_| Placement::Apart), false),
        ] {
            let (loss, said, seen, told) = measured(Watch::scripted(script));
            assert_eq!(said, disturbed);
            assert!(
                loss.shares.iter().all(|share| share.is_finite()) && seen.looks >= 2,
                "{loss:?} {seen:?}"
            );
            assert_eq!(told.contains("moved the CPUs"), disturbed, "{told}");
            assert_eq!(seen.together > 0, disturbed);
        }
        assert!(!measured(Watch::off()).1, "without looks nothing is said to be disturbed");
    }
}
