//! What came of the trial.

use super::super::draw::{Composition, Member};
use super::super::watch::used;
use super::BusTrialOptions;
use super::seen::{Seen, Stretch};
use anyhow::Context as _;
use quell_pressure::BusBurst;
use quell_view::{Cell, Plot, Report, Section, Series, Span, Style, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name and version of the JSON.
pub const BUS_TRIAL_SCHEMA: &str = "quell.bus/1";

/// What one burst did to the service, against the quiet before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstHarm {
    /// From 1.
    pub number: u32,
    /// Its begin, in seconds from the start.
    pub from_s: f64,
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// Bus locks in it.
    pub locks: u64,
    /// CPUs that the culprit might use at its begin; null where nothing limited it.
    pub limit_cpus: Option<f64>,
    /// The service's mean sojourn in it over that in the quiet before; null if nothing was answered.
    pub mean_ratio: Option<f64>,
    /// The same of the 95th percentile.
    pub p95_ratio: Option<f64>,
    /// The same of its CPU time for each answer.
    pub cost_ratio: Option<f64>,
    /// Mean sojourn in the quiet before it, in milliseconds.
    pub quiet_mean_ms: Option<f64>,
    /// The 95th percentile there.
    pub quiet_p95_ms: Option<f64>,
    /// CPU time for each answer there, in milliseconds.
    pub quiet_cost_ms: Option<f64>,
}

/// Medians over bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Medians {
    /// How many bursts.
    pub bursts: u32,
    /// Of the ratios of mean sojourns; null without bursts.
    pub mean_ratio: Option<f64>,
    /// Of those of the 95th percentile.
    pub p95_ratio: Option<f64>,
    /// Of those of CPU time for each answer.
    pub cost_ratio: Option<f64>,
}

/// The trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusTrialReport {
    /// `quell.bus/1`.
    pub schema: String,
    /// What was drawn.
    pub seed: u64,
    /// The service, in words.
    pub service: String,
    /// What was offered to it, in requests a second.
    pub rate_qps: f64,
    /// How many bursts were asked for.
    pub wanted_bursts: u32,
    /// How long each, in seconds.
    pub burst_s: f64,
    /// Before each, in seconds.
    pub pause_s: f64,
    /// What the culprit used of a CPU in pauses, in percent.
    pub rest_percent: u32,
    /// What ran, as `a: integer 20`; the culprit's with a star.
    pub groups: Vec<String>,
    /// Who locked the bus.
    pub culprit: String,
    /// How many bursts had begun when it was named; null if it never was.
    pub named_in_burst: Option<u32>,
    /// The same of its limit, by the kernel's files.
    pub limited_in_burst: Option<u32>,
    /// Innocents that were named at any time.
    pub innocents_named: Vec<String>,
    /// Innocents that were suspected at any time.
    pub innocents_suspected: Vec<String>,
    /// Innocents that were limited at any time, by the kernel's files.
    pub innocents_limited: Vec<String>,
    /// Bursts that began while the culprit was free.
    pub free: Medians,
    /// Bursts that began while it was limited.
    pub limited: Medians,
    /// Each of them.
    pub bursts: Vec<BurstHarm>,
}

impl BurstHarm {
    fn of(burst: &BusBurst, seen: &Seen, culprit: usize) -> Self {
        let within = seen.stretch(burst.from_ns, burst.to_ns);
        let quiet = seen.quiet(burst);
        let before = |value: fn(&Stretch) -> f64| quiet.as_ref().map(value);
        let ratio = |value: fn(&Stretch) -> f64| {
            let ratio = value(within.as_ref()?) / before(value)?;
            ratio.is_finite().then_some(ratio)
        };
        Self {
            number: burst.number,
            from_s: burst.from_ns.saturating_sub(seen.start_ns) as f64 / 1e9,
            seconds: burst.to_ns.saturating_sub(burst.from_ns) as f64 / 1e9,
            locks: burst.locks,
            limit_cpus: seen.limit_at(culprit, burst.from_ns),
            mean_ratio: ratio(|s| s.mean_ms),
            p95_ratio: ratio(|s| s.p95_ms),
            cost_ratio: ratio(|s| s.cost_ms),
            quiet_mean_ms: before(|s| s.mean_ms),
            quiet_p95_ms: before(|s| s.p95_ms),
            quiet_cost_ms: before(|s| s.cost_ms),
        }
    }

    fn row(&self) -> [Cell; 7] {
        let ratio = |ratio: Option<f64>| {
            ratio.map_or(Cell::Missing("nothing was answered".into()), |r| Cell::number(r, 2))
        };
        let limit = self.limit_cpus.map_or(Cell::from("none"), |cpus| Cell::number(cpus, 2));
        [
            Cell::number(f64::from(self.number), 0),
            Cell::number(self.seconds, 2),
            Cell::number(self.locks as f64, 0),
            limit,
            ratio(self.mean_ratio),
            ratio(self.p95_ratio),
            ratio(self.cost_ratio),
        ]
    }
}

impl Medians {
    fn of(bursts: &[&BurstHarm]) -> Self {
        let median = |value: fn(&BurstHarm) -> Option<f64>| {
            let mut all: Vec<f64> = bursts.iter().filter_map(|burst| value(burst)).collect();
            all.sort_by(f64::total_cmp);
            let (below, above) =
                (all.get(all.len().saturating_sub(1) / 2)?, all.get(all.len() / 2)?);
            Some((below + above) / 2.0)
        };
        Self {
            bursts: bursts.len() as u32,
            mean_ratio: median(|b| b.mean_ratio),
            p95_ratio: median(|b| b.p95_ratio),
            cost_ratio: median(|b| b.cost_ratio),
        }
    }

    fn in_words(&self) -> String {
        let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |r| format!("{r:.2}"));
        let (mean, p95, cost) =
            (ratio(self.mean_ratio), ratio(self.p95_ratio), ratio(self.cost_ratio));
        format!("{} bursts, mean {mean}, p95 {p95}, CPU time {cost}", self.bursts)
    }
}

impl BusTrialReport {
    pub(super) fn new(
        options: &BusTrialOptions,
        drawn: &Composition,
        rate_qps: f64,
        seen: &Seen,
    ) -> Self {
        let culprit = drawn.culprit.unwrap_or_default();
        let group = |index: usize| drawn.members[index].group.clone();
        let name = group(culprit);
        let innocents = |list: Vec<String>| list.into_iter().filter(|n| *n != name).collect();
        let limited = |group: &usize| seen.limited_ns(*group).is_some();
        let limited: Vec<String> = (0..drawn.members.len()).filter(limited).map(group).collect();
        let bursts: Vec<BurstHarm> =
            seen.bursts.iter().map(|burst| BurstHarm::of(burst, seen, culprit)).collect();
        let (held, free): (Vec<_>, Vec<_>) = bursts.iter().partition(|b| b.limit_cpus.is_some());
        Self {
            schema: BUS_TRIAL_SCHEMA.into(),
            seed: options.seed,
            service: options.service.name().to_owned(),
            rate_qps,
            wanted_bursts: options.bursts.bursts,
            burst_s: options.bursts.length.as_secs_f64(),
            pause_s: options.bursts.pause.as_secs_f64(),
            rest_percent: options.bursts.rest_percent,
            groups: drawn.members.iter().enumerate().map(|m| in_words(m, culprit)).collect(),
            culprit: name.clone(),
            named_in_burst: seen.names.named.get(&name).map(|at_ns| seen.burst_at(*at_ns)),
            limited_in_burst: seen.limited_ns(culprit).map(|at_ns| seen.burst_at(at_ns)),
            innocents_named: innocents(seen.names.named.keys().cloned().collect()),
            innocents_suspected: innocents(seen.names.suspected.keys().cloned().collect()),
            innocents_limited: innocents(limited),
            free: Medians::of(&free),
            limited: Medians::of(&held),
            bursts,
        }
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Each burst.
    #[must_use]
    pub fn table(&self) -> Table {
        let columns = ["burst>", "s>", "locks>", "limit CPUs>", "mean>", "p95>", "CPU time>"];
        let mut table = Table::new("The service in each burst, over the quiet before it", &columns);
        self.bursts.iter().for_each(|burst| table.push(burst.row()));
        table.notes.push("CPU time: of the service, for each answer".to_owned());
        table
    }

    /// The whole in a few lines.
    #[must_use]
    pub fn in_words(&self) -> String {
        let burst =
            |number: Option<u32>| number.map_or("never".into(), |n| format!("in burst {n}"));
        let names = |list: &[String]| {
            if list.is_empty() { "nobody".to_owned() } else { list.join(", ") }
        };
        format!(
            "{}\n{} of {} bursts of {:.2} s, {:.1} s between them; {} did it\n\
             named {}, limited {}\n\
             innocents named: {}; suspected: {}; limited: {}\n\
             while free: {}\nwhile limited: {}\n",
            self.table().to_text(),
            self.bursts.len(),
            self.wanted_bursts,
            self.burst_s,
            self.pause_s,
            self.culprit,
            burst(self.named_in_burst),
            burst(self.limited_in_burst),
            names(&self.innocents_named),
            names(&self.innocents_suspected),
            names(&self.innocents_limited),
            self.free.in_words(),
            self.limited.in_words(),
        )
    }
}

fn in_words((index, member): (usize, &Member), culprit: usize) -> String {
    let star = if index == culprit { "*" } else { "" };
    format!("{}{star}: {}", member.group, member.in_words())
}

/// Figures and course.
pub(super) fn page(report: &BusTrialReport, seen: &Seen) -> Report {
    let figures = Section::new("Figures").with(report.table()).with(report.in_words());
    let course = Section::new("Course").with(tail(seen)).with(cpus(report, seen));
    Report { title: "Bus locks in bursts".to_owned(), sections: vec![figures, course] }
}

fn seconds(seen: &Seen, at_ns: u64) -> f64 {
    at_ns.saturating_sub(seen.start_ns) as f64 / 1e9
}

fn spans(seen: &Seen) -> Vec<Span> {
    let span = |burst: &BusBurst| Span {
        from: seconds(seen, burst.from_ns),
        to: seconds(seen, burst.to_ns),
        label: burst.number.to_string(),
    };
    seen.bursts.iter().map(span).collect()
}

fn tail(seen: &Seen) -> Plot {
    let mut plot = Plot::new("The service's tail", "time (s)", "sojourn p95 (ms)").log_y();
    let point = |w: &quell_service::Window| {
        let end_ns = w.start_monotonic_ns + (w.length_s * 1e9) as u64;
        Some((seconds(seen, end_ns), w.p95_ms?))
    };
    plot.series.push(Series::new(
        "p95 in 0.1 s",
        Style::Step,
        seen.windows.iter().filter_map(point),
    ));
    plot.spans = spans(seen);
    plot
}

fn cpus(report: &BusTrialReport, seen: &Seen) -> Plot {
    let mut plot = Plot::new("CPUs of him who locks the bus", "time (s)", "CPUs");
    let starred = |words: &String| words.contains("*:");
    let culprit = report.groups.iter().position(starred).unwrap_or_default();
    let uses = used(&seen.moments, culprit, seen.start_ns);
    plot.series.push(Series::new("uses", Style::Line, uses));
    let limit = seen.moments.iter().map(|moment| {
        let limit = moment.limit_cpus.get(culprit).copied().flatten();
        (seconds(seen, moment.at_ns), limit.unwrap_or(f64::NAN))
    });
    plot.series.push(Series::new("may use", Style::Step, limit));
    plot.spans = spans(seen);
    plot
}
