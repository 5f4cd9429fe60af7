//! The course of a trial, to be looked at.

use super::draw::Composition;
use super::harm::Latencies;
use super::scores::TrialReport;
use super::watch::{Moment, used};
use quell_view::{Plot, Report, Section, Series, Span, Style};

/// When the parts of a trial began and ended, by `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub(super) start_ns: u64,
    /// Somebody was named, or the look was over.
    pub(super) judged_ns: u64,
    pub(super) end_ns: u64,
    /// Whether turns were played under the law after that.
    pub(super) played: bool,
}

impl Spans {
    fn seconds(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}

/// What was seen in the course of one trial.
#[derive(Clone, Debug)]
pub(super) struct Course {
    number: u32,
    plots: [Plot; 2],
}

impl Course {
    pub(super) fn new(
        number: u32,
        drawn: &Composition,
        spans: &Spans,
        latencies: &Latencies,
        moments: &[Moment],
    ) -> Self {
        let mut plots = [tail(number, spans, latencies), cpus(number, drawn, spans, moments)];
        let (judged, end) = (spans.seconds(spans.judged_ns), spans.seconds(spans.end_ns));
        let last = if spans.played { "turns under the law" } else { "the law ends" };
        let parts = [(0.0, judged, "law off, then looking"), (judged, end, last)];
        let span = |(from, to, label): (f64, f64, &str)| Span { from, to, label: label.to_owned() };
        for plot in &mut plots {
            plot.spans = parts.map(span).to_vec();
        }
        Self { number, plots }
    }
}

fn tail(number: u32, spans: &Spans, latencies: &Latencies) -> Plot {
    let title = format!("Trial {number}: the service's tail");
    let mut plot = Plot::new(title, "time (s)", "sojourn p95 (ms)").log_y();
    let seen = latencies.tail();
    let points = seen.into_iter().map(|(at_ns, p95_ms)| (spans.seconds(at_ns), p95_ms));
    plot.series.push(Series::new("p95 in 0.2 s", Style::Step, points));
    plot
}

/// The culprit, all innocents together, and what the culprit may use where it is limited.
fn cpus(number: u32, drawn: &Composition, spans: &Spans, moments: &[Moment]) -> Plot {
    let mut plot = Plot::new(format!("Trial {number}: CPUs of batch"), "time (s)", "CPUs");
    let of = |group: usize| used(moments, group, spans.start_ns);
    let innocents = (0..drawn.members.len()).filter(|group| Some(*group) != drawn.culprit);
    let mut sum: Vec<(f64, f64)> = Vec::new();
    for group in innocents {
        let points = of(group);
        sum.resize(points.len(), (0.0, 0.0));
        for (all, (at, cpus)) in sum.iter_mut().zip(points) {
            *all = (at, all.1 + cpus);
        }
    }
    plot.series.push(Series::new("innocents", Style::Line, sum));
    if let Some(culprit) = drawn.culprit {
        plot.series.push(Series::new("culprit", Style::Line, of(culprit)));
        let limit = moments.iter().map(|moment| {
            let limit = moment.limit_cpus.get(culprit).copied().flatten();
            (spans.seconds(moment.at_ns), limit.unwrap_or(f64::NAN))
        });
        plot.series.push(Series::new("culprit may use", Style::Step, limit));
    }
    plot
}

/// Figures and courses of all trials that count.
pub(super) fn report(report: &TrialReport, courses: &[Course]) -> Report {
    let title = format!("Trials: harm {} by {}", report.harm, report.taken);
    let figures = Section::new("Figures").with(report.confusion.table()).with(report.in_words());
    courses.iter().fold(Report { title, sections: vec![figures] }, |all, course| {
        let section = Section::new(format!("Trial {}", course.number));
        let plots = course.plots.iter().cloned();
        all.with(plots.fold(section, |section, plot| section.with(plot)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Cast, Harm, Taken, USUAL_GROUPS};
    use super::*;

    #[test]
    fn a_course_shows_who_used_what_and_from_when_the_culprit_was_limited() {
        let cast = Cast::of_kernels(Harm::Much, Taken::Cpu);
        let drawn = Composition::draw(3, 0, &cast, 9.0);
        let culprit = drawn.culprit.unwrap();
        let moment = |at: u64| {
            let mut limit_cpus = vec![None; USUAL_GROUPS];
            limit_cpus[culprit] = (at > 1).then_some(0.1);
            Moment { at_ns: at * 1_000_000_000, cpu_ns: vec![at * 100_000_000; 5], limit_cpus }
        };
        let moments: Vec<Moment> = (0..4).map(moment).collect();
        let (judged_ns, end_ns) = (2_000_000_000, 3_000_000_000);
        let spans = Spans { start_ns: 0, judged_ns, end_ns, played: true };
        let course = Course::new(0, &drawn, &spans, &Latencies::default(), &moments);
        let [_, cpus] = &course.plots;
        let ys = |name: &str| -> Vec<Option<f64>> {
            let series = cpus.series.iter().find(|series| series.name == name).unwrap();
            series.points.iter().map(|(_, y)| y.map(|y| (100.0 * y).round() / 100.0)).collect()
        };
        assert_eq!(ys("innocents"), [Some(0.4); 3]);
        assert_eq!(ys("culprit"), [Some(0.1); 3]);
        assert_eq!(ys("culprit may use"), [None, None, Some(0.1), Some(0.1)]);
        assert_eq!((cpus.spans[1].to, cpus.spans[1].label.as_str()), (3.0, "turns under the law"));
        let spans = Spans { played: false, ..spans };
        let without = Course::new(0, &drawn, &spans, &Latencies::default(), &moments);
        assert_eq!(without.plots[1].spans[1].label, "the law ends");
    }
}
