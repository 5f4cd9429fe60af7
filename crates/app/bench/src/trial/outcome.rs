//! What came of one trial.

use super::draw::{Composition, Member};
use super::guarded::Verdict;
use super::harm::Measured;
use super::places::Distant;
use super::search::{Search, SearchPair};
use super::turns::{Played, Turn};
use quell_model::blame::{Culprit, Pressing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who does less harm than this is to be let alone.
const HARMLESS: f64 = 1.1;

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its number, from which together with the seed all of it was drawn.
    pub number: u32,
    /// What ran, as `a: integer 20`; the culprit's with a star.
    pub groups: Vec<String>,
    /// Who hurts; none if nobody does.
    pub culprit: Option<String>,
    /// How much it hurts, with Quell off, as `harm_definition` says: the greatest of the latency,
    /// cost and answered ratios; none if there is no culprit, or it was not measured.
    pub harm_ratio: Option<f64>,
    /// Its 95 % interval begins here.
    #[serde(default)]
    pub harm_low: Option<f64>,
    /// It ends here.
    #[serde(default)]
    pub harm_high: Option<f64>,
    /// Pairs of turns of which it is the trimmed mean; 0 if it was not measured.
    #[serde(default)]
    pub harm_pairs: u32,
    /// The service's mean latency beside the culprit over that without.
    #[serde(default)]
    pub latency_ratio: Option<f64>,
    /// The same of its CPU time per answer.
    #[serde(default)]
    pub cost_ratio: Option<f64>,
    /// Its answers in time without the culprit over those beside it.
    #[serde(default)]
    pub answered_ratio: Option<f64>,
    /// The service's p95 beside the culprit over that without; no part of the harm.
    #[serde(default)]
    pub p95_ratio: Option<f64>,
    /// Pairs from which the culprit's duty was found before the trial; they count for nothing else.
    #[serde(default)]
    pub search: Vec<SearchPair>,
    /// Who was named, at any time until the trial's end.
    pub named: Vec<String>,
    /// Who was suspected when the first was named or the look was over, and never named.
    pub suspected: Vec<String>,
    /// Who was limited at some time, as the kernel's files told.
    #[serde(default)]
    pub throttled: Vec<String>,
    /// How long was looked, in seconds; none if it was not.
    pub seconds: Option<f64>,
    /// From the same moment on, how long it took until the culprit was limited, as the kernel's files told; none if it
    /// was not by the trial's end.
    #[serde(default)]
    pub limited_seconds: Option<f64>,
    /// The share of the machine that its host took away meanwhile, 0..1, as it says or as late timers
    /// tell; none if it was not looked at.
    #[serde(default)]
    pub stolen_frac: Option<f64>,
    /// The share of the machine that others used than the trial's groups and Quell, 0..1; none if it was not
    /// looked at.
    #[serde(default)]
    pub strangers_frac: Option<f64>,
    /// Of looks while the harm was measured, the share in which the host ran the CPUs on cores that share no
    /// cache, though it tells of one, 0..1; none where it was not looked at.
    #[serde(default)]
    pub harm_distant_frac: Option<f64>,
    /// The same while the law looked.
    #[serde(default)]
    pub law_distant_frac: Option<f64>,
    /// What was left of the harm while the law looked, by these two: harm by memory is only where the CPUs share a
    /// cache. None where the service shares its CPUs, so that its harm may be another, or where it was not looked at.
    #[serde(default)]
    pub harm_left_ratio: Option<f64>,
    /// Who was accused, and of what, when the first was named or the look was over.
    #[serde(default)]
    pub accused: Vec<Culprit>,
    /// On what evidence, in words.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What groups pressed on then, as the kernel's gauge told.
    #[serde(default)]
    pub pressing: Vec<Pressing>,
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
        Self { seconds: None, stolen_frac: None, discarded: Some(why.to_owned()), ..judged }
    }

    /// The same, with where the CPUs were.
    pub(super) fn at(self, distant: Distant) -> Self {
        let Distant { harm_frac, law_frac } = distant;
        Self { harm_distant_frac: harm_frac, law_distant_frac: law_frac, ..self }
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
        let Verdict { said, turns, limited, strangers_frac, distant } = verdict;
        let name = |place: &usize| drawn.members[*place].group.clone();
        let limited_at = drawn.culprit.and_then(|place| limited.get(&place));
        let limited_ns = limited_at.map(|at_ns| at_ns.saturating_sub(said.ready_ns));
        Self {
            number,
            groups: drawn.members.iter().enumerate().map(words).collect(),
            culprit: drawn.culprit().map(str::to_owned),
            harm_ratio: harm.map(Measured::ratio),
            harm_low: harm.map(|harm| harm.interval.0),
            harm_high: harm.map(|harm| harm.interval.1),
            harm_pairs: harm.map_or(0, |harm| harm.pairs),
            latency_ratio: harm.map(|harm| harm.latency_ratio),
            cost_ratio: harm.map(|harm| harm.cost_ratio),
            answered_ratio: harm.map(|harm| harm.answered_ratio),
            p95_ratio: harm.map(|harm| harm.p95_ratio),
            search: Vec::new(),
            named: said.named.into_iter().collect(),
            suspected: said.suspected.into_iter().collect(),
            throttled: limited.keys().map(name).collect(),
            seconds: Some(said.seconds),
            limited_seconds: limited_ns.map(|ns| ns as f64 / 1e9),
            stolen_frac: Some(said.stolen_frac),
            strangers_frac,
            harm_distant_frac: distant.harm_frac,
            law_distant_frac: distant.law_frac,
            harm_left_ratio: None,
            accused: said.accused,
            evidence: said.evidence,
            pressing: said.pressing,
            turns,
            discarded: None,
        }
    }

    /// With the pairs of its search.
    pub(super) fn after(self, search: Option<&Search>) -> Self {
        let search = search.map(|search| search.pairs().to_vec()).unwrap_or_default();
        Self { search, ..self }
    }

    /// With what was left of its harm while the law looked.
    pub(super) fn with_left(self, harm_left_ratio: Option<f64>) -> Self {
        Self { harm_left_ratio, ..self }
    }

    /// It does not count if there is a reason; what was said stays.
    pub(super) fn unless(self, refused: Option<&str>) -> Self {
        Self { discarded: refused.map(str::to_owned), ..self }
    }

    /// Whether the culprit was named, whoever else was.
    pub(super) fn found(&self) -> bool {
        self.culprit.is_some() && self.named.iter().any(|name| Some(name) == self.culprit.as_ref())
    }

    /// Names of those who did nothing.
    pub(super) fn wrong(&self) -> usize {
        self.named.iter().filter(|name| Some(*name) != self.culprit.as_ref()).count()
    }

    /// Names of all groups.
    pub(super) fn group_names(&self) -> impl Iterator<Item = &str> {
        let name = |words: &String| words.split(['*', ':']).next().unwrap_or_default().len();
        self.groups.iter().map(move |words| &words[..name(words)])
    }

    /// The turns, if they were played and there is a culprit.
    pub(super) fn played(&self) -> Option<Played<'_>> {
        let culprit = self.culprit.as_deref()?;
        let culprit = self.group_names().position(|group| group == culprit)?;
        (!self.turns.is_empty()).then_some(Played { turns: &self.turns, culprit })
    }

    /// Whether somebody was limited who did not hurt.
    pub(super) fn throttles_innocents(&self) -> bool {
        self.throttled.iter().any(|name| Some(name) != self.culprit.as_ref())
    }

    /// Whether anybody was limited though nobody did harm worth it.
    pub(super) fn throttles_for_nothing(&self) -> bool {
        self.harm_seen().is_none_or(|ratio| ratio < HARMLESS) && !self.throttled.is_empty()
    }

    /// Whether its culprit hurt too little to be limited while the law looked.
    pub(super) fn is_harmless(&self) -> bool {
        self.harm_seen().is_some_and(|ratio| ratio < HARMLESS)
    }

    /// The same by the harm as it was measured, wherever the CPUs were meanwhile.
    pub(super) fn is_harmless_as_measured(&self) -> bool {
        self.harm_ratio.is_some_and(|ratio| ratio < HARMLESS)
    }

    /// The harm that the law had before it.
    fn harm_seen(&self) -> Option<f64> {
        self.harm_left_ratio.or(self.harm_ratio)
    }

    /// When the culprit was named, in seconds; for ever if it was not.
    pub(super) fn named_after_s(&self) -> f64 {
        self.seconds.filter(|_| self.found()).unwrap_or(f64::INFINITY)
    }

    /// When it was limited, likewise.
    pub(super) fn limited_after_s(&self) -> f64 {
        self.limited_seconds.unwrap_or(f64::INFINITY)
    }

    pub(super) fn suspects_culprit(&self) -> bool {
        self.found() || self.suspected.iter().any(|name| Some(name) == self.culprit.as_ref())
    }

    /// One line about it.
    pub(super) fn in_words(&self) -> String {
        let harm = match (self.harm_ratio, self.harm_low, self.harm_high) {
            (Some(ratio), Some(low), Some(high)) => {
                format!("{ratio:.2} times ({low:.2}–{high:.2}, {} pairs)", self.harm_pairs)
            }
            (Some(ratio), ..) => format!("{ratio:.2} times"),
            _ if self.culprit.is_some() => "not measured".to_owned(),
            _ => "no culprit".to_owned(),
        };
        let outcome = match (&self.discarded, self.seconds) {
            (Some(why), _) => format!("discarded: {why}"),
            (None, seconds) => {
                let names = |list: &[String]| {
                    if list.is_empty() { "nobody".to_owned() } else { list.join(", ") }
                };
                let (named, suspected) = (names(&self.named), names(&self.suspected));
                let seconds = seconds.unwrap_or(0.0);
                let throttled = names(&self.throttled);
                let after =
                    self.limited_seconds.map_or_else(String::new, |s| format!(" after {s:.1} s"));
                format!(
                    "named {named}, suspected {suspected} after {seconds:.1} s, limited \
                     {throttled}{after}, {} turns",
                    self.turns.len()
                )
            }
        };
        format!("trial {} ({}), {harm}: {outcome}", self.number, self.groups.join(", "))
    }
}
