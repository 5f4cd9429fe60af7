//! Scenarios on the simulated server: `quell simulate`.
//!
//! * [`Scenario`] is what a text says: machine, workloads, load, faults, policy, run, and what is
//!   expected. `docs/scenarios.md` explains the language.
//! * [`simulate`] plays all points that it asks for and lays them beside the expectations.
//! * [`lc_be`] and [`speed`] are fixed experiments for machines to read.
//! * [`LIBRARY`] holds the published experiments.
//!
//! Invariant: wiring only. The server is `quell-sim`'s, which knows no policy; laws and engine are
//! those of `quell guard`; a scenario that is played twice gives the same journals to the byte.

mod accused;
mod alone;
mod drive;
mod figure;
mod fleet;
mod journal;
mod lc_be;
mod library;
mod metric;
mod over_time;
mod play;
mod report;
mod run;
mod services;
mod speed;
mod stage;
mod text;
mod windows;

pub use figure::Figure;
pub use lc_be::{Batch, LC_BE_SCHEMA, LcBe, LcBeOptions, LcBeRow, lc_be};
pub use library::{LIBRARY, find};
pub use report::{
    SCENARIOS_SCHEMA, ScenarioReport, ScenariosReport, Status, figures_table, markdown,
};
pub use run::Progress;
pub use speed::{SPEED_SCHEMA, Speed, speed};
pub use text::{Scenario, ScenarioError, ScenarioErrors};

use quell_policy::Law;
use quell_view::Section;
use std::time::Instant;

/// How scenarios are played.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// In place of the scenarios' laws.
    pub law: Option<Law>,
    /// In place of their seeds.
    pub seed: Option<u64>,
    /// Threads.
    pub jobs: usize,
    /// Whether journals are kept as text.
    pub keep_journals: bool,
}

/// A scenario that was played.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// What came of it.
    pub report: ScenarioReport,
    /// The same with tables and plots.
    pub section: Section,
    /// Digest of the decision journal by point.
    pub digests: Vec<(String, String)>,
    /// Journals by point, if they were kept.
    pub journals: Vec<(String, String)>,
}

/// Plays a scenario, unless it is pending.
///
/// # Errors
/// A point cannot be played.
pub fn simulate(
    scenario: &Scenario,
    options: &Options,
    progress: Progress<'_>,
) -> anyhow::Result<Simulated> {
    let begun = Instant::now();
    if scenario.pending.is_some() {
        return Ok(pending(scenario));
    }
    let scenario = &scenario.with_law(options.law);
    let mut results = run::run(scenario, options, progress)?;
    if let Some(fleet) = &scenario.fleet {
        let seed = options.seed.unwrap_or(scenario.seed);
        fleet::add(fleet, scenario, (options.jobs, seed), &mut results, progress)?;
    }
    let figures: Vec<Figure> = scenario.expects.iter().filter_map(|e| results.figure(e)).collect();
    let held = figures.iter().all(|figure| figure.held);
    let mut degraded: Vec<String> =
        results.points.iter().flat_map(|(_, played)| played.degraded.clone()).collect();
    degraded.sort();
    degraded.dedup();
    let digests: Vec<&str> = results.points.iter().map(|(_, p)| p.digest.as_str()).collect();
    let report = ScenarioReport {
        status: if held { Status::Passed } else { Status::Failed },
        figures,
        seconds: begun.elapsed().as_secs_f64(),
        simulated_s: results.points.iter().map(|(_, p)| p.simulated_s).sum(),
        runs: results.points.len() as u32,
        digest: journal::digest_of(&digests),
        degraded,
        ..empty(scenario)
    };
    let section = report::section(scenario, &results, &report);
    let digests =
        results.points.iter().map(|(p, played)| (run::shown(p), played.digest.clone())).collect();
    let journals = results.points.into_iter();
    let journals = journals.filter_map(|(p, played)| Some((run::shown(&p), played.journal?)));
    Ok(Simulated { section, digests, journals: journals.collect(), report })
}

fn pending(scenario: &Scenario) -> Simulated {
    let figures = scenario.expects.iter().map(figure::unmeasured).collect();
    let report = ScenarioReport { figures, ..empty(scenario) };
    let section = report::section(scenario, &figure::Results::default(), &report);
    Simulated { report, section, digests: Vec::new(), journals: Vec::new() }
}

fn empty(scenario: &Scenario) -> ScenarioReport {
    ScenarioReport {
        id: scenario.id.clone(),
        title: scenario.title.clone(),
        status: Status::Pending,
        pending: scenario.pending.clone(),
        figures: Vec::new(),
        seconds: 0.0,
        simulated_s: 0.0,
        runs: 0,
        digest: String::new(),
        degraded: Vec::new(),
    }
}

/// The schemas of what is printed as JSON, by name.
#[must_use]
pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("quell.lc-be", schemars::schema_for!(LcBe)),
        ("quell.scenarios", schemars::schema_for!(ScenariosReport)),
        ("quell.speed", schemars::schema_for!(Speed)),
    ]
}
