//! `quell profile`: what a workload tolerates and what it causes, one number a resource (B-6).

mod class;
mod course;
mod report;
mod scope;
mod witness;
mod yardstick;

pub use class::{Animal, Class, SHARED_BY_CPUS};
pub use report::{CurvePoint, PROFILE_SCHEMA, Profile, ToleratedAt, Workload};
pub use scope::{QUICK, scope};
pub use witness::Witness;
pub use yardstick::yardstick;

use course::Course;
use yardstick::watched;

use crate::canary::Watch;
use crate::curve::{Curve, Level};
use crate::stats::estimate;
use crate::trial::{Effort, Found};
use crate::{Machine, ProfileError, Seats, Subject};
use quell_pressure::{Options, Resource, Stop};
use quell_types::Topology;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Against which resources; empty: all that are shared here.
    pub only: Vec<Resource>,
    /// The three most shared ones alone, in a few seconds.
    pub quick: bool,
    /// The share of its speed alone that a workload has to keep.
    pub threshold: f64,
    /// How thoroughly; none: as full or quick profiles are.
    pub effort: Option<Effort>,
    /// How long after the beginning all ends: the resources share that, or as much as their efforts say together if
    /// that is less, and what is left is for those of which least is known. None: each as its effort says, once.
    pub within: Option<Duration>,
    /// Whether the kernels' own curves are measured too, which predictions need.
    pub yardsticks: bool,
    /// Whether witnesses stand beside the workload, which predictions need; for yardsticks beside the
    /// kernels too.
    pub witnesses: bool,
    /// Who sits where.
    pub seats: Seats,
    /// Settings of all kernels: geometry, folder, network peer.
    pub pressure: Options,
}

/// No kernel runs longer than this, whatever happens to the measurement.
const LONGEST: Duration = Duration::from_secs(600);
/// To clear more takes longer than a quick measurement.
const QUICK_REGION: u64 = 256 << 20;
/// Pressure on storage and network wants longer windows: their queues are long.
const SLOW_WINDOW: Duration = Duration::from_millis(150);

/// Yardsticks take time, too: then a resource has no more than this.
const BESIDE_YARDSTICKS: Duration = Duration::from_millis(5500);

/// Profiles a workload. `begun` is when the caller began, so that its own preparations count.
/// Called at the desk ([`crate::at_desk`]). `tell` hears each resource when it is done.
///
/// # Errors
/// The workload ends, fails or stands still; somebody asked to stop. A resource that cannot be
/// pressed on is absent, with the reason.
pub fn profile(
    subject: &mut dyn Subject,
    options: &ProfileOptions,
    topology: &Topology,
    stop: &Stop,
    begun: Instant,
    tell: &mut dyn FnMut(Resource, &Profile),
) -> Result<Profile, ProfileError> {
    if !(0.5..1.0).contains(&options.threshold) {
        let (option, value) = ("--threshold", options.threshold.to_string());
        return Err(ProfileError::Option { option, value, allowed: "give 0.5 to 0.999" });
    }
    let (resources, absent) = scope(options, topology);
    let mut profile = Profile::new(subject, options, Machine::of(topology), absent);
    let watch = watch(subject, options, topology);
    let mut course = Course { subject, options, topology, stop, watch, part: None };
    let founds = course.through(&resources, begun, &mut profile, tell)?;
    founds.iter().for_each(|(resource, found)| profile.tell_of(*resource, found));
    let Course { subject, mut watch, .. } = course;
    if options.witnesses {
        profile.hear(subject, options, topology, &mut watch, stop)?;
    }
    subject.wake()?;
    profile.class = Class::of(&worst(&founds), topology);
    profile.saw(&watch);
    profile.seconds = begun.elapsed().as_secs_f64();
    Ok(profile)
}

/// Looks need the workload out of the way.
fn watch(subject: &dyn Subject, options: &ProfileOptions, topology: &Topology) -> Watch {
    if subject.can_rest() { Watch::over(&options.seats, topology) } else { Watch::off() }
}

/// The kernel on a resource, on the pressure's CPUs.
fn kernel(options: &ProfileOptions, resource: Resource) -> Options {
    let mut pressure = options.pressure.clone();
    pressure.resource = resource;
    pressure.cpus = options.seats.pressure.clone();
    pressure.seconds = LONGEST.as_secs_f64();
    if options.quick && pressure.region_bytes.is_none() {
        pressure.region_bytes = Some(QUICK_REGION);
    }
    pressure
}

fn effort(options: &ProfileOptions, resource: Resource) -> Effort {
    let mut effort = if options.quick { Effort::QUICK } else { Effort::FULL };
    if resource.makes_wait() && !options.quick {
        effort.window = SLOW_WINDOW;
    }
    if options.yardsticks {
        effort.budget = effort.budget.min(BESIDE_YARDSTICKS);
    }
    effort
}

impl Profile {
    fn measure_by(
        &mut self,
        resource: Resource,
        options: &ProfileOptions,
        topology: &Topology,
        watch: &mut Watch,
        stop: &Stop,
    ) -> Result<(), ProfileError> {
        let points = watched(resource, options, topology, watch, stop)?;
        if !points.is_empty() {
            self.yardsticks.insert(resource, points);
        }
        Ok(())
    }

    /// What the looks at the host saw.
    fn saw(&mut self, watch: &Watch) {
        let seen = watch.is_on().then(|| watch.seen());
        self.notes.extend(seen.as_ref().and_then(crate::Watched::words));
        self.host = seen;
    }

    fn add(&mut self, resource: Resource, found: &Found, threshold: f64, notes: Vec<String>) {
        self.tolerated.insert(resource, found.tolerated(threshold));
        if let Some(caused) = found.causes_percent() {
            self.caused.insert(resource, caused);
        }
        let mut levels = found.levels.clone();
        levels.sort_by(|a, b| a.percent.total_cmp(&b.percent));
        self.curves.insert(resource, points(&levels));
        notes.iter().for_each(|note| self.note(resource, note));
    }

    /// What a reader should know of how it was found.
    fn tell_of(&mut self, resource: Resource, found: &Found) {
        if let Some(why) = &found.no_reporter {
            self.note(resource, why);
        }
        if found.cut_short {
            self.note(resource, "the time was up before the search ended");
        }
    }

    /// Once.
    fn note(&mut self, resource: Resource, note: &str) {
        let note = format!("{resource}: {note}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The sensitivity curve on a resource; flat where none was measured.
    #[must_use]
    pub fn curve(&self, resource: Resource) -> Curve {
        let points = self.curves.get(&resource).map_or(&[][..], Vec::as_slice);
        let pair = |point: &CurvePoint| (point.intensity_percent, point.speed_frac.value);
        Curve::through(&points.iter().map(pair).collect::<Vec<_>>())
    }
}

/// The points of a curve from what was measured.
fn points(levels: &[Level]) -> Vec<CurvePoint> {
    let point = |level: &Level| {
        let speed_frac = estimate(&level.ratios)?;
        Some(CurvePoint { intensity_percent: level.percent, speed_frac, pairs: level.ratios.len() })
    };
    levels.iter().filter_map(point).collect()
}

/// The loss at full pressure and the loss caused, in percent, by resource.
fn worst(founds: &BTreeMap<Resource, Found>) -> BTreeMap<Resource, (f64, Option<f64>)> {
    let one = |(resource, found): (&Resource, &Found)| {
        let caused = found.causes_percent().map(|caused| caused.value);
        (*resource, (found.loses_percent().value, caused))
    };
    founds.iter().map(one).collect()
}
