//! What came of the trials.

use super::TrialOptions;
use super::draw::{Composition, Harm, Taken};
use super::harm::Slowed;
use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name and version of the JSON.
pub const TRIAL_SCHEMA: &str = "quell.trial/1";

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
    /// Who was named.
    pub named: Vec<String>,
    /// Who was suspected.
    pub suspected: Vec<String>,
    /// How long was looked, in seconds; none if it was not.
    pub seconds: Option<f64>,
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
        let judged = Self::judged(number, drawn, harm, (Vec::new(), Vec::new()), 0.0);
        Self { seconds: None, discarded: Some(why.to_owned()), ..judged }
    }

    /// One that counts.
    pub(super) fn judged(
        number: u32,
        drawn: &Composition,
        harm: Option<Measured>,
        (named, suspected): (Vec<String>, Vec<String>),
        seconds: f64,
    ) -> Self {
        let words = |(index, member): (usize, &super::draw::Member)| {
            let star = if Some(index) == drawn.culprit { "*" } else { "" };
            let times = match member.threads {
                1 => String::new(),
                threads => format!(" x {threads}"),
            };
            format!("{}{star}: {} {}{times}", member.group, member.resource, member.intensity)
        };
        Self {
            number,
            groups: drawn.members.iter().enumerate().map(words).collect(),
            culprit: drawn.culprit().map(str::to_owned),
            harm_ratio: harm.map(|harm| harm.ratio()),
            cost_ratio: harm.map(|harm| harm.cost_ratio),
            p95_ratio: harm.map(|harm| harm.slowed.p95_ratio),
            answered_ratio: harm.map(|harm| harm.slowed.answered_ratio),
            named,
            suspected,
            seconds: Some(seconds),
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
                format!("named {named}, suspected {suspected} after {seconds:.1} s")
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
    /// Share of their work that innocents kept; none here, since nobody is throttled.
    pub innocents_work_kept: Option<f64>,
    /// The service's p99 under the throttle over that alone; none here, since nobody is throttled.
    pub victim_p99_ratio: Option<f64>,
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
            innocents_work_kept: None,
            victim_p99_ratio: None,
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
        let counted = || self.details.iter().filter(|trial| trial.discarded.is_none());
        let guilty = || counted().filter(|trial| trial.culprit.is_some());
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let found = guilty().filter(|trial| trial.found()).count();
        let named: usize = counted().map(|trial| trial.named.len()).sum();
        let suspected = guilty().filter(|trial| trial.suspects_culprit()).count();
        let mut times: Vec<f64> = guilty()
            .map(|t| if t.found() { t.seconds.unwrap_or(f64::INFINITY) } else { f64::INFINITY })
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().filter(|seconds| seconds.is_finite());
        let (trials, culprits) = (counted().count(), guilty().count());
        let blames = counted().filter(|trial| trial.wrong() > 0).count();
        (self.trials, self.discarded) = (trials as u32, (self.details.len() - trials) as u32);
        self.precision = share(found, named);
        self.recall = share(found, culprits);
        self.suspected_frac = share(suspected, culprits);
        self.median_seconds = median;
        self.false_blames = blames as u32;
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
             of those named, {} were the culprit; in {} trials somebody innocent was named\n",
            self.trials,
            self.harm,
            self.taken,
            self.discarded,
            percent(self.recall),
            percent(self.suspected_frac),
            percent(self.precision),
            self.false_blames,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(cost_ratio: f64, p95_ratio: f64) -> Measured {
        Measured { cost_ratio, slowed: Slowed { p95_ratio, answered_ratio: 1.0 } }
    }

    fn trial(number: u32, named: &[&str], seconds: f64) -> Trial {
        let drawn = Composition::draw(1, number, Harm::Much, Taken::Memory);
        let culprit = drawn.culprit().unwrap().to_owned();
        let name = |n: &&str| if *n == "culprit" { culprit.clone() } else { (*n).to_owned() };
        let named = named.iter().map(name).collect();
        let harm = measured(1.0, 1.4);
        Trial::judged(number, &drawn, Some(harm), (named, Vec::new()), seconds)
    }

    #[test]
    fn names_are_counted_and_never_found_is_for_ever() {
        let mut report = TrialReport::of(Harm::Much, Taken::Memory, 1);
        report.add(trial(0, &["culprit"], 4.0));
        assert_eq!((report.precision, report.recall), (Some(1.0), Some(1.0)));
        report.add(trial(1, &["culprit", "somebody"], 6.0));
        report.add(trial(2, &[], 15.0));
        report.add(trial(3, &[], 15.0));
        assert_eq!((report.trials, report.false_blames), (4, 1));
        assert_eq!(report.recall, Some(0.5));
        assert!((report.precision.unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(report.median_seconds, None, "half were never named");
    }

    #[test]
    fn what_is_discarded_counts_nowhere_and_too_much_of_it_ends_the_run() {
        let mut report = TrialReport::of(Harm::Much, Taken::Memory, 1);
        let drawn = Composition::draw(1, 0, Harm::Much, Taken::Cpu);
        let harm = measured(1.1, 0.9);
        for number in 0..6 {
            assert!(!report.gives_up(0.4));
            report.add(Trial::discarded(number, &drawn, Some(harm), "another class"));
        }
        assert!(report.gives_up(0.4));
        assert_eq!((report.trials, report.discarded, report.recall), (0, 6, None));
        assert!(report.details[0].in_words().contains("1.10 times: discarded: another class"));
    }
}
