//! `quell load` as one call, with repeats until the tail is known well enough (L-6).

use crate::LoadError;
use crate::bench::Bench;
use crate::controls::Controls;
use crate::generator::LoadPlan;
use crate::report::{LOAD_SCHEMA, LoadReport, RunReport, TailInterval};
use crate::stats::interval;
use crate::target::Target;
use crate::window::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When repeated runs are enough (L-6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RepeatRule {
    /// The judged percentile of the sojourn: 50, 90, 95, 99 or 99.9.
    pub percentile: f64,
    /// Enough once the 95 % confidence half-width is below this share of the mean.
    pub half_width_frac: f64,
    /// At least so many runs, however alike they are.
    pub min_runs: u32,
    /// At most so many, however unlike.
    pub max_runs: u32,
}

impl Default for RepeatRule {
    fn default() -> Self {
        Self { percentile: 95.0, half_width_frac: 0.01, min_runs: 3, max_runs: 20 }
    }
}

/// Everything `quell load` needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOptions {
    /// What to drive.
    pub target: Target,
    /// Network namespace of the client's sockets.
    pub client_netns: Option<String>,
    /// How.
    pub plan: LoadPlan,
    /// Whether to repeat with new seeds.
    pub repeat: Option<RepeatRule>,
}

/// Runs a load from start to end: opens the target, runs (and repeats), reports.
pub fn run(
    options: &LoadOptions,
    controls: &Controls,
    on_window: &mut dyn FnMut(&Window),
) -> Result<LoadReport, LoadError> {
    options.plan.check()?;
    let bench = Bench::open(&options.target, options.client_netns.as_deref())?;
    let once = &mut |seed| {
        let plan = LoadPlan { seed, ..options.plan.clone() };
        bench.run(&plan, controls, on_window)
    };
    let seed = options.plan.seed;
    let (runs, tail) = match &options.repeat {
        None => (vec![once(seed)?], None),
        Some(rule) => repeat(rule, seed, controls, once)?,
    };
    Ok(LoadReport {
        schema: LOAD_SCHEMA.into(),
        target: options.target.describe(),
        profile: options.plan.profile.clone(),
        seed,
        runs,
        tail,
    })
}

type Repeated = (Vec<RunReport>, Option<TailInterval>);

fn repeat(
    rule: &RepeatRule,
    seed: u64,
    controls: &Controls,
    once: &mut dyn FnMut(u64) -> Result<RunReport, LoadError>,
) -> Result<Repeated, LoadError> {
    if rule.max_runs == 0 || rule.min_runs > rule.max_runs {
        return Err(LoadError::option("runs", "at least one, and the least not above the most"));
    }
    let percentile = rule.percentile;
    let (mut runs, mut tails, mut tail) = (Vec::new(), Vec::new(), None);
    for number in 0..rule.max_runs {
        let run = once(seed.wrapping_add(u64::from(number)))?;
        let unknown = || LoadError::option("percentile", "must be 50, 90, 95, 99 or 99.9");
        tails.push(run.percentile_ms(percentile).ok_or_else(unknown)?);
        runs.push(run);
        tail = interval(&tails).map(|interval| TailInterval {
            percentile,
            narrow_enough: interval.half_width_frac < rule.half_width_frac,
            interval,
        });
        let narrow = tail.as_ref().is_some_and(|tail| tail.narrow_enough);
        if (number + 1 >= rule.min_runs && narrow) || controls.is_stopped() {
            break;
        }
    }
    Ok((runs, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(p95_ms: f64, seed: u64) -> RunReport {
        let mut run: RunReport = serde_json::from_str(crate::report::EXAMPLE).unwrap();
        run.sojourn.p95_ms = p95_ms;
        run.seed = seed;
        run
    }

    fn repeated(tails: &[f64], rule: RepeatRule) -> Repeated {
        let mut tails = tails.iter();
        let once = &mut |seed| Ok(report(*tails.next().unwrap(), seed));
        repeat(&rule, 40, &Controls::default(), once).unwrap()
    }

    #[test]
    fn repeats_until_the_interval_is_narrow() {
        let rule = RepeatRule { half_width_frac: 0.05, max_runs: 10, ..RepeatRule::default() };
        let (runs, tail) = repeated(&[10.0, 12.0, 11.0, 11.0, 11.0, 11.0, 11.0, 11.0], rule);
        let seeds: Vec<u64> = runs.iter().map(|run| run.seed).collect();
        assert_eq!(seeds, (40..40 + seeds.len() as u64).collect::<Vec<_>>());
        assert!((4..8).contains(&runs.len()), "{}", runs.len());
        assert!(tail.unwrap().narrow_enough);
    }

    #[test]
    fn gives_up_after_the_most_runs_and_says_so() {
        let rule = RepeatRule { max_runs: 4, ..RepeatRule::default() };
        let (runs, tail) = repeated(&[10.0, 20.0, 10.0, 20.0], rule);
        assert_eq!(runs.len(), 4);
        assert!(!tail.unwrap().narrow_enough);
    }

    #[test]
    fn the_least_runs_are_made_even_if_equal() {
        let (runs, _) = repeated(&[10.0; 5], RepeatRule { min_runs: 5, ..RepeatRule::default() });
        assert_eq!(runs.len(), 5);
    }

    #[test]
    fn unknown_percentiles_are_refused() {
        let rule = RepeatRule { percentile: 42.0, ..RepeatRule::default() };
        let once = &mut |seed| Ok(report(1.0, seed));
        assert!(repeat(&rule, 1, &Controls::default(), once).is_err());
    }
}
