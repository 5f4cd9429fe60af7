//! Plays a scenario: all points that are asked for, on several threads.

use crate::alone::{Alone, batch_alone, paces, peak_of, services_alone};
use crate::figure::Results;
use crate::play::play;
use crate::stage::{ChosenLaw, Stage, stage};
use crate::text::{Point, Scenario, ScenarioErrors};
use crate::{Options, metric};
use anyhow::Context;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Told of each run that ends: how many of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Plays what the scenario asks for.
///
/// # Errors
/// A point cannot be played.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    progress: Progress<'_>,
) -> anyhow::Result<Results> {
    let points = scenario.wanted();
    let seed = options.seed.unwrap_or(scenario.seed);
    let mut stages = Vec::new();
    for point in &points {
        let mut stage = stage(scenario, point, seed)
            .map_err(|errors| ScenarioErrors::new(&scenario.name, errors))?;
        if let Some(law) = options.law.filter(|law| *law != stage.law.law) {
            stage.law = ChosenLaw::of(law);
        }
        stages.push(stage);
    }
    let mut work = Work::new(options.jobs, progress, stages.len());
    work.find_peaks(&mut stages)?;
    let alone = if needs_alone(scenario) { work.alone(&stages)? } else { Vec::new() };
    let numbered: Vec<usize> = (0..stages.len()).collect();
    let played = work.map(&numbered, |&n| {
        let alone = alone.get(n);
        let played = play(&stages[n], alone, options.keep_journals);
        played.with_context(|| format!("{} at {}", scenario.id, shown(&points[n])))
    })?;
    Ok(Results { points: points.into_iter().zip(played).collect() })
}

/// A point for people: `load=40% policy=thesis`.
pub(crate) fn shown(point: &Point) -> String {
    let all: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if all.is_empty() { "its only point".into() } else { all.join(" ") }
}

fn needs_alone(scenario: &Scenario) -> bool {
    let needs = |name: &String| metric::needs_batch_alone(name) || metric::needs_lean(name);
    scenario.expects.iter().any(|e| needs(&e.quantity.metric))
        || scenario.prints.iter().any(|p| p.metrics.iter().any(|(name, _)| needs(name)))
}

/// Work on several threads, with progress.
pub(crate) struct Work<'a> {
    jobs: usize,
    progress: Progress<'a>,
    done: AtomicUsize,
    all: usize,
}

impl<'a> Work<'a> {
    pub(crate) fn new(jobs: usize, progress: Progress<'a>, all: usize) -> Self {
        Self { jobs: jobs.max(1), progress, done: AtomicUsize::new(0), all }
    }

    /// Each item once, in any order; answers in order.
    pub(crate) fn map<T: Sync, R: Send>(
        &self,
        items: &[T],
        each: impl Fn(&T) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        let (next, answers) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(items.len()) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(number) else { return };
                        let answer = each(item);
                        let mut all = answers.lock().unwrap_or_else(|e| e.into_inner());
                        all.insert(number, answer);
                        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                        (self.progress)(done, self.all.max(done));
                    }
                });
            }
        });
        let answers = answers.into_inner().unwrap_or_else(|e| e.into_inner());
        answers.into_values().collect()
    }

    /// Finds the peaks that are named by a tail, each once, and loads all services.
    fn find_peaks(&mut self, stages: &mut [Stage]) -> anyhow::Result<()> {
        let key = |stage: &Stage, number: usize| {
            let quiet = services_alone(stage);
            let service = &quiet.scene.services[number];
            format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {} {}",
                quiet.scene.machine,
                quiet.pins,
                quiet.loads[number].1,
                service.program,
                service.spec.name,
                service.workers,
                service.instructions,
                service.variation,
            )
        };
        let mut wanted = BTreeMap::new();
        for (at, stage) in stages.iter().enumerate() {
            for number in 0..stage.loads.len() {
                wanted.entry(key(stage, number)).or_insert((at, number));
            }
        }
        let jobs: Vec<(String, (usize, usize))> = wanted.into_iter().collect();
        let staged: &[Stage] = stages;
        let found = self.map(&jobs, |(_, (at, number))| peak_of(&staged[*at], *number))?;
        let peaks: BTreeMap<&String, f64> = jobs.iter().map(|(key, _)| key).zip(found).collect();
        for stage in stages.iter_mut() {
            let rates: Vec<f64> =
                (0..stage.loads.len()).map(|number| peaks[&key(stage, number)]).collect();
            for (number, rate) in rates.into_iter().enumerate() {
                stage.scene.services[number].load = stage.loads[number].0.offered(rate);
                stage.scene.services[number].spec.peak_qps = Some(rate);
            }
        }
        Ok(())
    }

    /// What the tenants of each stage do alone; equal ones are played once.
    fn alone(&mut self, stages: &[Stage]) -> anyhow::Result<Vec<Alone>> {
        let key = |stage: &Stage| format!("{:?} {:?}", stage.scene, stage.pins);
        let pairs: Vec<[Stage; 2]> =
            stages.iter().map(|s| [services_alone(s), batch_alone(s)]).collect();
        let distinct: BTreeMap<String, &Stage> =
            pairs.iter().flatten().map(|stage| (key(stage), stage)).collect();
        let distinct: Vec<(String, &Stage)> = distinct.into_iter().collect();
        let found = self.map(&distinct, |(_, stage)| paces(stage))?;
        let known: BTreeMap<&String, Alone> =
            distinct.iter().map(|(key, _)| key).zip(found).collect();
        Ok(pairs
            .iter()
            .map(|[services, batch]| {
                merged(services, &known[&key(services)], batch, &known[&key(batch)])
            })
            .collect())
    }
}

/// Services from one, batch from the other.
fn merged(services: &Stage, of_services: &Alone, batch: &Stage, of_batch: &Alone) -> Alone {
    let services = services.scene.services.iter().map(|s| (&s.spec.name, of_services));
    let batch = batch.scene.batch.iter().map(|b| (&b.spec.name, of_batch));
    let pace =
        |(name, from): (&quell_types::Tenant, &Alone)| Some((name.clone(), *from.0.get(name)?));
    Alone(services.chain(batch).filter_map(pace).collect())
}
