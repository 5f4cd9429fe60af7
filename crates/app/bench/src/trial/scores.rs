//! What came of the trials.

use super::TrialOptions;
use super::confusion::Confusion;
use super::draw::{Composition, GROUPS, Harm, Member, Taken};
use super::guarded::Verdict;
use super::harm::Slowed;
use super::turns::{Played, Ratios, Throttling, Turn};
use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name and version of the JSON.
pub const TRIAL_SCHEMA: &str = "quell.trial/1";
/// Who does less harm than this is to be let alone.
const HARMLESS: f64 = 1.1;

/// How much the culprit hurts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) cost_ratio: f64,
    pub(super) slowed: Slowed,
}

impl Measured {
    pub(super) fn ratio(self) -> f64 {
        self.cost_ratio.max(self.slowed.p95_ratio).max(self.slowed.answered_ratio)
    }
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its number, from which together with the seed all of it was drawn.
    pub number: u32,
    /// What ran, as `a: integer 20`; the culprit's with a star.
    pub groups: Vec<String>,
    /// Who hurts; none if nobody does.
    pub culprit: Option<String>,
    /// The greatest of the three below; none if there is no culprit, or it was not measured.
    pub harm_ratio: Option<f64>,
    /// The service's CPU time per answer beside the culprit over that without, with Quell off and
    /// everybody else at work in both.
    #[serde(default)]
    pub cost_ratio: Option<f64>,
    /// The same of the p95 of its latency.
    #[serde(default)]
    pub p95_ratio: Option<f64>,
    /// Its answers a second without the culprit over those beside it.
    #[serde(default)]
    pub answered_ratio: Option<f64>,
    /// Who was named, at any time until the trial's end.
    pub named: Vec<String>,
    /// Who was suspected when the first was named or the look was over, and never named.
    pub suspected: Vec<String>,
    /// Who was limited at some time, as the kernel's files told.
    #[serde(default)]
    pub throttled: Vec<String>,
    /// How long was looked, in seconds; none if it was not.
    pub seconds: Option<f64>,
    /// Turns under the law, alone and without the culprit; empty if nobody was named, or too late.
    #[serde(default)]
    pub turns: Vec<Turn>,
    /// Why it does not count; none if it does.
    pub discarded: Option<String>,
}

impl Trial {
    /// One that does not count.
    pub(super) fn discarded(
        number: u32,
        drawn: &Composition,
        harm: Option<Measured>,
        why: &str,
    ) -> Self {
        let judged = Self::judged(number, drawn, harm, Verdict::default());
        Self { seconds: None, discarded: Some(why.to_owned()), ..judged }
    }

    /// One that counts.
    pub(super) fn judged(
        number: u32,
        drawn: &Composition,
        harm: Option<Measured>,
        verdict: Verdict,
    ) -> Self {
        let words = |(index, member): (usize, &Member)| {
            let star = if Some(index) == drawn.culprit { "*" } else { "" };
            format!("{}{star}: {}", member.group, member.in_words())
        };
        let Verdict { said, turns, limited } = verdict;
        let name = |place: &usize| drawn.members[*place].group.clone();
        Self {
            number,
            groups: drawn.members.iter().enumerate().map(words).collect(),
            culprit: drawn.culprit().map(str::to_owned),
            harm_ratio: harm.map(|harm| harm.ratio()),
            cost_ratio: harm.map(|harm| harm.cost_ratio),
            p95_ratio: harm.map(|harm| harm.slowed.p95_ratio),
            answered_ratio: harm.map(|harm| harm.slowed.answered_ratio),
            named: said.named.into_iter().collect(),
            suspected: said.suspected.into_iter().collect(),
            throttled: limited.iter().map(name).collect(),
            seconds: Some(said.seconds),
            turns,
            discarded: None,
        }
    }

    /// Whether the culprit, and nobody else, was named.
    fn found(&self) -> bool {
        self.culprit.is_some() && self.named.iter().any(|name| Some(name) == self.culprit.as_ref())
    }

    /// Names of those who did nothing.
    fn wrong(&self) -> usize {
        self.named.iter().filter(|name| Some(*name) != self.culprit.as_ref()).count()
    }

    /// Names of all groups.
    pub(super) fn group_names(&self) -> impl Iterator<Item = &str> {
        let name = |words: &String| words.split(['*', ':']).next().unwrap_or_default().len();
        self.groups.iter().map(move |words| &words[..name(words)])
    }

    /// The turns, if they were played and there is a culprit.
    fn played(&self) -> Option<Played<'_>> {
        let culprit = self.culprit.as_deref()?;
        let culprit = GROUPS.iter().position(|group| *group == culprit)?;
        (!self.turns.is_empty()).then_some(Played { turns: &self.turns, culprit })
    }

    /// Whether somebody was limited who did not hurt.
    fn throttles_innocents(&self) -> bool {
        self.throttled.iter().any(|name| Some(name) != self.culprit.as_ref())
    }

    /// Whether anybody was limited though nobody did harm worth it.
    fn throttles_for_nothing(&self) -> bool {
        self.harm_ratio.is_none_or(|ratio| ratio < HARMLESS) && !self.throttled.is_empty()
    }

    fn suspects_culprit(&self) -> bool {
        self.found() || self.suspected.iter().any(|name| Some(name) == self.culprit.as_ref())
    }

    /// One line about it.
    pub(super) fn in_words(&self) -> String {
        let harm = self.harm_ratio.map_or("no culprit".into(), |ratio| format!("{ratio:.2} times"));
        let outcome = match (&self.discarded, self.seconds) {
            (Some(why), _) => format!("discarded: {why}"),
            (None, seconds) => {
                let names = |list: &[String]| {
                    if list.is_empty() { "nobody".to_owned() } else { list.join(", ") }
                };
                let (named, suspected) = (names(&self.named), names(&self.suspected));
                let seconds = seconds.unwrap_or(0.0);
                let throttled = names(&self.throttled);
                format!(
                    "named {named}, suspected {suspected} after {seconds:.1} s, limited \
                     {throttled}, {} turns",
                    self.turns.len()
                )
            }
        };
        format!("trial {} ({}), {harm}: {outcome}", self.number, self.groups.join(", "))
    }
}

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
    /// What was drawn.
    pub seed: u64,
    /// Trials that count.
    pub trials: u32,
    /// Those that do not.
    pub discarded: u32,
    /// Of all names, the share that was right; none if nobody was named.
    pub precision: Option<f64>,
    /// Of all culprits, the share that was named; none if there was none.
    pub recall: Option<f64>,
    /// Of all culprits, the share that was at least suspected.
    pub suspected_frac: Option<f64>,
    /// Median time until the culprit was named, where one that was not named counts as for ever;
    /// none if that is the median.
    pub median_seconds: Option<f64>,
    /// Trials in which somebody innocent was named.
    pub false_blames: u32,
    /// Trials in which somebody innocent was limited.
    #[serde(default)]
    pub innocents_throttled: u32,
    /// Trials in which anybody was limited though the harm was less than 1.1, or there was none.
    #[serde(default)]
    pub throttled_for_nothing: u32,
    /// Who was put there against what was said and done.
    #[serde(default)]
    pub confusion: Confusion,
    /// Work of innocents under the law over that with the culprit stopped; none without turns.
    pub innocents_work_kept: Option<f64>,
    /// The service's p95 under the law, beside everybody, over that alone; none without turns.
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
        Self::of(options.harm, options.taken, options.seed)
    }

    fn of(harm: Harm, taken: Taken, seed: u64) -> Self {
        Self {
            schema: TRIAL_SCHEMA.into(),
            harm,
            taken,
            seed,
            trials: 0,
            discarded: 0,
            precision: None,
            recall: None,
            suspected_frac: None,
            median_seconds: None,
            false_blames: 0,
            innocents_throttled: 0,
            throttled_for_nothing: 0,
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

    /// Whether so many were discarded that the rest would say little.
    pub(super) fn gives_up(&self, discarded_frac: f64) -> bool {
        const FEWEST: u32 = 5;
        let all = self.trials + self.discarded;
        self.discarded > FEWEST && f64::from(self.discarded) > discarded_frac * f64::from(all)
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
        self.suspected_frac = share(count(&guilty, Trial::suspects_culprit), guilty.len());
        self.median_seconds = median_seconds(&guilty);
        self.false_blames = count(&counted, |trial| trial.wrong() > 0) as u32;
        self.innocents_throttled = count(&counted, Trial::throttles_innocents) as u32;
        self.throttled_for_nothing = count(&counted, Trial::throttles_for_nothing) as u32;
        let mut confusion = Confusion::default();
        counted.iter().for_each(|trial| confusion.count(trial));
        self.confusion = confusion;
        let played: Vec<Played<'_>> = counted.iter().filter_map(|trial| trial.played()).collect();
        self.throttling = Throttling::of(&played);
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let mean = |ratios: Option<Ratios>| ratios.map(|ratios| ratios.mean);
        let all = &self.throttling;
        self.innocents_work_kept = mean(all.innocents_work_kept);
        self.victim_p95_ratio = mean(all.p95_against_alone);
        self.victim_p99_ratio = mean(all.p99_against_alone);
        self.control_p95_ratio = mean(all.p95_control);
        self.control_p99_ratio = mean(all.p99_control);
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
        let median = self.median_seconds.map_or("never".into(), |s| format!("{s:.1} s"));
        format!(
            "{} trials, harm {} by {}, {} discarded\n\
             found {}, at least suspected {}, median time {median}\n\
             of those named, {} were the culprit; in {} trials somebody innocent was named\n\
             in {} trials somebody innocent was limited, in {} somebody without harm of 1.1\n\
             {}{}",
            self.trials,
            self.harm,
            self.taken,
            self.discarded,
            percent(self.recall),
            percent(self.suspected_frac),
            percent(self.precision),
            self.false_blames,
            self.innocents_throttled,
            self.throttled_for_nothing,
            self.throttling.in_words(),
            self.confusion.table().to_text(),
        )
    }
}

/// Median time until the culprit was named; one that was not counts as for ever.
fn median_seconds(guilty: &[&Trial]) -> Option<f64> {
    let until = |trial: &&Trial| match trial.found() {
        true => trial.seconds.unwrap_or(f64::INFINITY),
        false => f64::INFINITY,
    };
    let mut times: Vec<f64> = guilty.iter().map(until).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().filter(|seconds| seconds.is_finite())
}

#[cfg(test)]
mod tests;
