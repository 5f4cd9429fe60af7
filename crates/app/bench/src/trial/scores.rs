//! What came of the trials.

use super::TrialOptions;
use super::confusion::Confusion;
use super::control::HarmControl;
use super::draw::{Harm, Taken};
use super::harm::HARM_DEFINITION;
use super::outcome::Trial;
use super::screen::LeftOut;
use super::turns::{Played, Ratios, Throttling};
use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name and version of the JSON.
pub const TRIAL_SCHEMA: &str = "quell.trial/1";

/// All trials of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialReport {
    /// `quell.trial/1`.
    pub schema: String,
    /// The wanted class of harm.
    pub harm: Harm,
    /// What the culprit takes.
    #[serde(default)]
    pub taken: Taken,
    /// Whether the service had CPUs of its own, so that harm came by memory alone.
    #[serde(default)]
    pub apart: bool,
    /// The service, in words.
    #[serde(default)]
    pub service: String,
    /// What harm is, in words; the same in all classes.
    #[serde(default)]
    pub harm_definition: String,
    /// What was drawn.
    pub seed: u64,
    /// Polluters that were not: they hurt the service too little, as was seen before the first trial.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// For so long was waited until the host had the CPUs on cores with a common cache, in seconds.
    #[serde(default)]
    pub waited_s: f64,
    /// Trials that count.
    pub trials: u32,
    /// Those that do not.
    pub discarded: u32,
    /// Of all names, the share that was right; none if nobody was named.
    pub precision: Option<f64>,
    /// Of all culprits, the share that was named; none if there was none.
    pub recall: Option<f64>,
    /// Culprits that were at least suspected: suspected or named.
    #[serde(default)]
    pub at_least_suspected: u32,
    /// The same as a share of all culprits.
    pub suspected_frac: Option<f64>,
    /// Median time until the culprit was named, where one that was not named counts as for ever;
    /// none if that is the median.
    pub median_seconds: Option<f64>,
    /// Median time until the culprit was limited, from the same moment on, where one that was not by the trial's end
    /// counts as for ever; none if that is the median.
    #[serde(default)]
    pub median_limited_seconds: Option<f64>,
    /// Trials in which somebody innocent was named.
    pub false_blames: u32,
    /// Trials in which somebody innocent was limited.
    #[serde(default)]
    pub innocents_throttled: u32,
    /// Trials in which anybody was limited though the harm was less than 1.1, or there was none.
    #[serde(default)]
    pub throttled_for_nothing: u32,
    /// Trials with a culprit whose harm, as far as the law had it before it (`harm_left_ratio` of those that tell it),
    /// was less than 1.1.
    #[serde(default)]
    pub trials_under_1_1: u32,
    /// Those of them in which anybody was limited.
    #[serde(default)]
    pub throttled_under_1_1: u32,
    /// Trials with a culprit in which anybody was limited though the harm as measured, wherever the CPUs were
    /// meanwhile, was less than 1.1.
    #[serde(default)]
    pub throttled_under_1_1_as_measured: u32,
    /// Trials of a control, in which nobody was stopped: the harm that was measured all the same, 1
    /// but for chance; none in other runs.
    #[serde(default)]
    pub control: Option<HarmControl>,
    /// Who was put there against what was said and done.
    #[serde(default)]
    pub confusion: Confusion,
    /// Work of innocents under the law over that with the culprit stopped; none without turns. A program's
    /// work is its CPU time.
    pub innocents_work_kept: Option<f64>,
    /// The service's p95 under the law, beside everybody, over that alone, as a median over pairs of turns; none
    /// without turns.
    #[serde(default)]
    pub victim_p95_ratio: Option<f64>,
    /// The same of its p99.
    pub victim_p99_ratio: Option<f64>,
    /// Control: the p95 of one turn over that of another of the same kind; 1 but for chance.
    #[serde(default)]
    pub control_p95_ratio: Option<f64>,
    /// The same of the p99.
    #[serde(default)]
    pub control_p99_ratio: Option<f64>,
    /// These and more, with how much they vary.
    #[serde(default)]
    pub throttling: Throttling,
    /// Each of them.
    pub details: Vec<Trial>,
}

impl TrialReport {
    pub(super) fn new(options: &TrialOptions) -> Self {
        let report = Self::of(options.harm, options.taken, options.seed);
        Self {
            apart: options.apart,
            service: options.service.in_words(),
            harm_definition: HARM_DEFINITION.to_owned(),
            ..report
        }
    }

    fn of(harm: Harm, taken: Taken, seed: u64) -> Self {
        Self {
            schema: TRIAL_SCHEMA.into(),
            harm,
            taken,
            apart: false,
            service: String::new(),
            harm_definition: String::new(),
            seed,
            left_out: Vec::new(),
            waited_s: 0.0,
            trials: 0,
            discarded: 0,
            precision: None,
            recall: None,
            at_least_suspected: 0,
            suspected_frac: None,
            median_seconds: None,
            median_limited_seconds: None,
            false_blames: 0,
            innocents_throttled: 0,
            throttled_for_nothing: 0,
            trials_under_1_1: 0,
            throttled_under_1_1: 0,
            throttled_under_1_1_as_measured: 0,
            control: None,
            confusion: Confusion::default(),
            innocents_work_kept: None,
            victim_p95_ratio: None,
            victim_p99_ratio: None,
            control_p95_ratio: None,
            control_p99_ratio: None,
            throttling: Throttling::default(),
            details: Vec::new(),
        }
    }

    /// Reckons what a control tells.
    pub(super) fn reckon_control(&mut self) {
        self.control = HarmControl::of(&self.details);
    }

    /// Whether there are as many trials as are wanted, or never will be.
    pub(super) fn is_done(&self, options: &TrialOptions, discarded_frac: f64) -> bool {
        let wanted = options.trials;
        match options.control {
            true => self.details.len() >= wanted as usize,
            false => self.trials >= wanted || self.gives_up(wanted, discarded_frac),
        }
    }

    /// Whether so many were discarded that they will be more than this share of all, even if all
    /// others count that are wanted.
    fn gives_up(&self, wanted: u32, discarded_frac: f64) -> bool {
        const FEWEST: u32 = 5;
        let all = f64::from(self.discarded + wanted);
        self.discarded > FEWEST && f64::from(self.discarded) > discarded_frac * all
    }

    /// Adds one and reckons anew.
    pub(super) fn add(&mut self, trial: Trial) {
        self.details.push(trial);
        let counted: Vec<&Trial> = self.details.iter().filter(|t| t.discarded.is_none()).collect();
        let guilty: Vec<&Trial> =
            counted.iter().copied().filter(|trial| trial.culprit.is_some()).collect();
        let count = |of: &[&Trial], fits: fn(&Trial) -> bool| of.iter().filter(|t| fits(t)).count();
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let found = count(&guilty, Trial::found);
        let named: usize = counted.iter().map(|trial| trial.named.len()).sum();
        self.trials = counted.len() as u32;
        self.discarded = (self.details.len() - counted.len()) as u32;
        self.precision = share(found, named);
        self.recall = share(found, guilty.len());
        let suspected = count(&guilty, Trial::suspects_culprit);
        self.at_least_suspected = suspected as u32;
        self.suspected_frac = share(suspected, guilty.len());
        self.median_seconds = median_seconds(&guilty, Trial::named_after_s);
        self.median_limited_seconds = median_seconds(&guilty, Trial::limited_after_s);
        self.false_blames = count(&counted, |trial| trial.wrong() > 0) as u32;
        self.innocents_throttled = count(&counted, Trial::throttles_innocents) as u32;
        self.throttled_for_nothing = count(&counted, Trial::throttles_for_nothing) as u32;
        self.trials_under_1_1 = count(&guilty, Trial::is_harmless) as u32;
        let limited: Vec<&Trial> =
            guilty.iter().copied().filter(|trial| !trial.throttled.is_empty()).collect();
        self.throttled_under_1_1 = count(&limited, Trial::is_harmless) as u32;
        self.throttled_under_1_1_as_measured =
            count(&limited, Trial::is_harmless_as_measured) as u32;
        let mut confusion = Confusion::default();
        counted.iter().for_each(|trial| confusion.count(trial));
        self.confusion = confusion;
        let played: Vec<Played<'_>> = counted.iter().filter_map(|trial| trial.played()).collect();
        self.throttling = Throttling::of(&played);
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let median = |ratios: Option<Ratios>| ratios.map(|ratios| ratios.median);
        let all = &self.throttling;
        self.innocents_work_kept = median(all.innocents_work_kept);
        self.victim_p95_ratio = median(all.p95_against_alone);
        self.victim_p99_ratio = median(all.p99_against_alone);
        self.control_p95_ratio = median(all.p95_control);
        self.control_p99_ratio = median(all.p99_control);
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The whole in a few lines.
    #[must_use]
    pub fn in_words(&self) -> String {
        let percent =
            |frac: Option<f64>| frac.map_or("-".into(), |f| format!("{:.0} %", 100.0 * f));
        let seconds = |median: Option<f64>| median.map_or("never".into(), |s| format!("{s:.1} s"));
        let (named, limited) = (seconds(self.median_seconds), seconds(self.median_limited_seconds));
        format!(
            "{} trials, harm {} by {}, {} discarded{}\n\
             found {}, at least suspected {} ({}), median time {named}, until it was limited {limited}\n\
             of those named, {} were the culprit; in {} trials somebody innocent was named\n\
             in {} trials somebody innocent was limited, in {} somebody without harm of 1.1\n\
             harm was less than 1.1 in {} trials; somebody was limited in {} of them ({} as it was measured)\n\
             {}{}{}",
            self.trials,
            self.harm,
            self.taken,
            self.discarded,
            self.waited_in_words(),
            percent(self.recall),
            percent(self.suspected_frac),
            self.at_least_suspected,
            percent(self.precision),
            self.false_blames,
            self.innocents_throttled,
            self.throttled_for_nothing,
            self.trials_under_1_1,
            self.throttled_under_1_1,
            self.throttled_under_1_1_as_measured,
            self.control.map(HarmControl::in_words).unwrap_or_default(),
            self.throttling.in_words(),
            self.confusion.table().to_text(),
        )
    }

    fn waited_in_words(&self) -> String {
        match self.waited_s {
            waited_s if waited_s < 1.0 => String::new(),
            waited_s => format!("; waited {waited_s:.0} s until the CPUs shared a cache"),
        }
    }
}

/// Median time until something befell the culprit; if it did not, that counts as for ever.
fn median_seconds(guilty: &[&Trial], until: fn(&Trial) -> f64) -> Option<f64> {
    let mut times: Vec<f64> = guilty.iter().map(|trial| until(trial)).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().filter(|seconds| seconds.is_finite())
}

#[cfg(test)]
mod tests;
