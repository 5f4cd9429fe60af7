//! A profile's resources one after the other, and again and again those of which least is known.
//!
//! ```text
//! first:  each resource, in an even part of what is left of FIRST of the time
//! again:  in turns of an even length, while there is time for one: of those that were disturbed by the host, or of
//!         which the interval of what is tolerated is wider than the resolution, who had the fewest turns; of these
//!         the disturbed, then the widest; not before the CPUs are where they belong, as long as there is time to
//!         wait for that
//! a turn: more pairs next to the answer (`trial.rs`); of who was disturbed, or whose search had no time, all anew
//! together; of two one of which was disturbed the other (`trial/found.rs`)
//! ```
//!
//! What a host does in one second it often does not do in the next, so further looks come after all the others, and
//! several short ones tell more than a long one.

use super::{Profile, ProfileOptions, effort, kernel};
use crate::canary::Watch;
use crate::desk::{pause, ready};
use crate::trial::{Effort, Found, Trial};
use crate::{ProfileError, Subject};
use quell_pressure::{Resource, Stop};
use quell_types::Topology;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Of the time of a full profile; of a quick one all, and only what is left of that is for a second look.
const FIRST: f64 = 0.6;

/// Nobody has more turns.
const MOST_TURNS: u32 = 20;

/// While it is waited for the host.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// Who is measured, and with what.
pub(super) struct Course<'a> {
    pub(super) subject: &'a mut dyn Subject,
    pub(super) options: &'a ProfileOptions,
    pub(super) topology: &'a Topology,
    pub(super) stop: &'a Stop,
    pub(super) watch: Watch,
    /// What each resource has of the time at first, which decides how long windows are; none: as its effort says.
    pub(super) part: Option<Duration>,
}

type Founds = BTreeMap<Resource, Found>;
type Tell<'a> = dyn FnMut(Resource, &Profile) + 'a;

impl Course<'_> {
    /// All of these, into the profile.
    pub(super) fn through(
        &mut self,
        resources: &[Resource],
        begun: Instant,
        profile: &mut Profile,
        tell: &mut Tell<'_>,
    ) -> Result<Founds, ProfileError> {
        let mut founds = Founds::new();
        let first = if self.options.quick { 1.0 } else { FIRST };
        let within = self.options.within.map(|within| within.min(self.longest(resources, begun)));
        let end = within.map(|within| begun + within.mul_f64(first));
        self.part =
            end.map(|end| end.saturating_duration_since(Instant::now()) / count(resources.len()));
        for (at, &resource) in resources.iter().enumerate() {
            let until = end.map(|end| even_part(Instant::now(), end, resources.len() - at));
            match self.one(resource, until, None) {
                Ok((found, notes)) => {
                    profile.add(resource, &found, self.options.threshold, notes);
                    founds.insert(resource, found);
                    self.yardstick(resource, profile)?;
                }
                Err(ProfileError::Resource { source, .. }) => {
                    profile.absent.insert(resource, source.to_string());
                }
                Err(e) => return Err(e),
            }
            tell(resource, profile);
        }
        if let Some(within) = within {
            let turn = within.mul_f64(first) / count(2 * resources.len());
            self.again(&mut founds, begun + within, turn, profile, tell)?;
        }
        Ok(founds)
    }

    /// Who asks for a few does not wait for all.
    fn longest(&self, resources: &[Resource], begun: Instant) -> Duration {
        let budget = |resource: &Resource| self.effort(*resource).budget;
        begun.elapsed() + resources.iter().map(budget).sum::<Duration>()
    }

    fn effort(&self, resource: Resource) -> Effort {
        self.options.effort.unwrap_or_else(|| effort(self.options, resource))
    }

    /// Further turns of such a length, while there is time for one.
    fn again(
        &mut self,
        founds: &mut Founds,
        end: Instant,
        turn: Duration,
        profile: &mut Profile,
        tell: &mut Tell<'_>,
    ) -> Result<(), ProfileError> {
        let mut turns = BTreeMap::new();
        while let Some(resource) = self.least_known(founds, &turns) {
            self.wait_until_apart(end.checked_sub(turn).unwrap_or(end))?;
            if Instant::now() + turn > end {
                break;
            }
            *turns.entry(resource).or_insert(0) += 1;
            let known = founds.remove(&resource).unwrap_or_default();
            match self.one(resource, Some(Instant::now() + turn), Some(&known)) {
                Ok((found, notes)) => {
                    let both = known.and(found);
                    profile.add(resource, &both, self.options.threshold, notes);
                    founds.insert(resource, both);
                }
                // What was found before stands, and is all.
                Err(ProfileError::Resource { source, .. }) => {
                    profile.note(resource, &format!("not measured once more: {source}"));
                    founds.insert(resource, known);
                    turns.insert(resource, MOST_TURNS);
                }
                Err(e) => return Err(e),
            }
            tell(resource, profile);
        }
        Ok(())
    }

    /// While the host has the CPUs elsewhere than the machine is told, until then at most.
    fn wait_until_apart(&mut self, until: Instant) -> Result<(), ProfileError> {
        if !self.watch.is_on() || !self.watch.has_been_disturbed() {
            return Ok(());
        }
        self.subject.rest()?;
        while self.watch.look().disturbs() && Instant::now() < until {
            pause(BETWEEN_LOOKS, self.stop)?;
        }
        self.subject.wake()
    }

    /// Who is to have the next turn; none: of all enough is known.
    fn least_known(&self, founds: &Founds, turns: &BTreeMap<Resource, u32>) -> Option<Resource> {
        let known = founds.iter().map(|(&resource, found)| Wanting {
            resource,
            turns: turns.get(&resource).copied().unwrap_or(0),
            disturbed: found.disturbed,
            excess: found.tolerated(self.options.threshold).width()
                - self.effort(resource).resolution,
        });
        next(known)
    }

    fn one(
        &mut self,
        resource: Resource,
        until: Option<Instant>,
        known: Option<&Found>,
    ) -> Result<(Found, Vec<String>), ProfileError> {
        let running = ready(&kernel(self.options, resource), self.topology, self.stop)?;
        let mut effort = self.effort(resource);
        if let Some(until) = until {
            let time = until.saturating_duration_since(Instant::now());
            effort = effort.within(self.part.unwrap_or(time), self.subject.least_window());
            effort.budget = effort.budget.min(time);
        }
        let (subject, threshold) = (&mut *self.subject, self.options.threshold);
        let mut trial = Trial::new(subject, &running, effort, threshold, self.stop);
        let found = match known.filter(|known| !known.disturbed && !known.cut_short) {
            Some(known) => trial.more(known, &mut self.watch)?,
            None => trial.run(&mut self.watch)?,
        };
        let ended =
            running.finish().map_err(|source| ProfileError::Resource { resource, source })?;
        Ok((found, ended.notes))
    }

    fn yardstick(&mut self, resource: Resource, profile: &mut Profile) -> Result<(), ProfileError> {
        if !self.options.yardsticks || !self.subject.can_rest() {
            return Ok(());
        }
        self.subject.rest()?;
        profile.measure_by(resource, self.options, self.topology, &mut self.watch, self.stop)
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n.max(1)).unwrap_or(u32::MAX)
}

/// When the first of so many has to end so that each has as long until `end`.
fn even_part(now: Instant, end: Instant, left: usize) -> Instant {
    now + end.saturating_duration_since(now) / count(left)
}

/// Somebody of whom more may be wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wanting {
    resource: Resource,
    /// So many it has had.
    turns: u32,
    disturbed: bool,
    /// By how much its interval is wider than the resolution, in points.
    excess: f64,
}

/// Whose turn it is.
fn next(known: impl Iterator<Item = Wanting>) -> Option<Resource> {
    let wants = |one: &Wanting| (one.disturbed || one.excess > 0.0) && one.turns < MOST_TURNS;
    let first = known.filter(wants).min_by(|a, b| {
        let by_turns = a.turns.cmp(&b.turns);
        by_turns.then(b.disturbed.cmp(&a.disturbed)).then(b.excess.total_cmp(&a.excess))
    });
    first.map(|one| one.resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::testing::{Made, NO_TIME};
    use crate::{Machine, Seats};
    use quell_pressure::{Options, allowed_cpus};

    /// A course past two real kernels on a host that waits so long until it moves the CPUs apart, and what it notes.
    fn passed(waits: u32, within: Duration) -> (Profile, Founds) {
        let only = [Resource::Integer, Resource::FloatingPoint];
        passed_by(&only, Options::new(Resource::Integer), waits, within, &mut |_, _| ())
    }

    /// The same past these kernels, with such settings; it is told of each.
    fn passed_by(
        only: &[Resource],
        pressure: Options,
        waits: u32,
        within: Duration,
        tell: &mut Tell<'_>,
    ) -> (Profile, Founds) {
        let (mut subject, watch) = Made::on_a_host_that_moves(u32::MAX, waits);
        let (stop, topology) = (Stop::new().unwrap(), Topology::default());
        let cpus = allowed_cpus().unwrap().first(1);
        let options = ProfileOptions {
            only: only.to_vec(),
            quick: false,
            threshold: 0.95,
            effort: Some(NO_TIME),
            within: Some(within),
            yardsticks: false,
            witnesses: false,
            seats: Seats { workload: cpus.clone(), pressure: cpus, same_core: true },
            pressure,
        };
        let mut profile =
            Profile::new(&subject, &options, Machine::of(&topology), BTreeMap::default());
        let subject: &mut dyn Subject = &mut subject;
        let mut course = Course {
            subject,
            options: &options,
            topology: &topology,
            stop: &stop,
            watch,
            part: None,
        };
        let founds = course.through(only, Instant::now(), &mut profile, tell).unwrap();
        (profile, founds)
    }

    #[test]
    fn a_second_look_that_fails_leaves_what_the_first_one_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(Resource::StorageCapacity);
        options.storage.folder = Some(folder.path().to_owned());
        let mut told = Vec::new();
        // Between both looks the disk's folder goes away.
        let mut tell = |resource: Resource, profile: &Profile| {
            told.push(profile.tolerated[&resource]);
            let _ = std::fs::remove_dir_all(folder.path());
        };
        let only = [Resource::StorageCapacity];
        let (profile, founds) = passed_by(&only, options, 5, Duration::from_secs(40), &mut tell);
        let found = &founds[&Resource::StorageCapacity];
        assert!(found.disturbed, "the first look: {found:?}");
        assert_eq!(told, [told[0]; 2]);
        assert!(profile.absent.is_empty(), "{:?}", profile.absent);
        let notes = profile.notes.join("\n");
        assert!(notes.contains("storage-capacity: not measured once more"), "{notes}");
    }

    #[test]
    fn a_second_look_waits_for_the_host_and_counts_alone() {
        // A look that sees something is made twice: so many are more than one.
        let (profile, founds) = passed(5, Duration::from_secs(40));
        for (resource, found) in &founds {
            assert!(!found.disturbed, "{resource}: {found:?}");
            assert_eq!(profile.tolerated[resource].value, 100.0, "{resource}");
        }
        assert_eq!(founds.len(), 2);
    }

    #[test]
    fn a_host_that_never_moves_is_waited_for_within_the_time() {
        let (begun, within) = (Instant::now(), Duration::from_secs(2));
        let (profile, founds) = passed(0, within);
        assert!(begun.elapsed() > within / 2, "it was waited");
        for (resource, found) in &founds {
            let tolerated = profile.tolerated[resource];
            assert!(found.disturbed && tolerated.value < 100.0, "{resource}: {found:?}");
            assert_eq!(tolerated.high, 100.0, "elsewhere it may be all");
        }
    }

    #[test]
    fn each_has_an_even_part_of_what_is_left() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (left, part) in [(6, 10), (1, 60), (0, 60)] {
            assert_eq!(even_part(now, now + 60 * second, left), now + part * second, "{left}");
        }
        assert_eq!(even_part(now + second, now, 3), now + second, "who is late has no time");
    }

    #[test]
    fn turns_go_round_among_the_least_known() {
        use Resource::{LlcCapacity, MemoryBandwidth, PageFaults, PowerVirus};
        let one =
            |resource, turns, disturbed, excess| Wanting { resource, turns, disturbed, excess };
        let (narrow, wide) = (one(LlcCapacity, 0, false, -5.0), one(PowerVirus, 0, false, 50.0));
        let (less_wide, rough) =
            (one(MemoryBandwidth, 0, false, 12.0), one(PageFaults, 0, true, -5.0));
        for (known, first) in [
            (vec![less_wide, wide, rough, narrow], Some(PageFaults)),
            (vec![less_wide, wide, narrow], Some(PowerVirus)),
            (vec![less_wide, Wanting { turns: 1, ..wide }], Some(MemoryBandwidth)),
            (
                vec![Wanting { turns: 1, ..less_wide }, Wanting { turns: 1, ..wide }],
                Some(PowerVirus),
            ),
            (vec![Wanting { turns: MOST_TURNS, ..wide }, narrow], None),
            (vec![], None),
        ] {
            assert_eq!(next(known.clone().into_iter()), first, "{known:?}");
        }
    }
}
