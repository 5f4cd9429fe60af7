//! What a run does window by window: metrics that `print trace` shows.

use crate::alone::Alone;
use crate::metric;
use crate::play::Played;
use crate::stage::Stage;
use crate::text::{Point, Print};
use crate::windows::Window;
use quell_types::ServiceSpec;
use quell_view::{Plot, Series, Style};

/// From here on time is shown in hours.
const LONG_S: f64 = 2.0 * 3600.0;

/// A metric of each window, by name, with the window's end in seconds since the measured part
/// began; not a number where it is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverTime(Vec<(&'static str, Vec<(f64, f64)>)>);

/// What windows are laid beside.
struct Beside<'a> {
    services: &'a [ServiceSpec],
    cpus: f64,
    /// Names of batch groups.
    batch: Vec<&'a str>,
    /// Instructions per second of all of them alone; 0 if that was not played.
    alone_per_s: f64,
}

impl OverTime {
    /// All metrics over all windows.
    pub(crate) fn of(
        stage: &Stage,
        services: &[ServiceSpec],
        (begin_s, windows): (f64, &[Window]),
        alone: Option<&Alone>,
    ) -> Self {
        let batch = || stage.scene.batch.iter().map(|b| &b.spec.name);
        let pace = |name| Some(alone?.0.get(name)?.instructions_per_s);
        let beside = Beside {
            services,
            cpus: stage.scene.machine.cpus() as f64,
            batch: batch().map(|name| name.as_str()).collect(),
            alone_per_s: batch().filter_map(pace).sum(),
        };
        let over = |name: &'static str| {
            let points = windows.iter().map(|w| (w.end_s - begin_s, beside.value(name, w)));
            (name, points.collect())
        };
        Self(metric::OVER_TIME.iter().copied().map(over).collect())
    }

    fn points(&self, metric: &str) -> impl Iterator<Item = (f64, f64)> + '_ {
        let found = self.0.iter().find(|(name, _)| *name == metric);
        found.into_iter().flat_map(|(_, points)| points.iter().copied())
    }

    fn lasts_s(&self) -> f64 {
        self.0.iter().filter_map(|(_, points)| points.last()).map(|p| p.0).fold(0.0, f64::max)
    }
}

impl Beside<'_> {
    fn value(&self, metric: &str, window: &Window) -> f64 {
        match metric {
            "load_frac" => self.load(window),
            "slack_frac" => self.slack(window),
            "batch_work_frac" => self.work(window),
            "emu_frac" => self.load(window) + self.work(window),
            "utilisation_frac" => (window.service_cpus + window.batch_cpus) / self.cpus,
            "service_cpus" => window.service_cpus,
            "batch_cpus" => window.batch_cpus,
            "memory_mb_per_s" => window.memory_bytes_per_s / 1e6,
            "egress_mbit_per_s" => window.egress_bytes_per_s * 8e-6,
            "power_w" => window.watts,
            _ => f64::NAN,
        }
    }

    fn load(&self, window: &Window) -> f64 {
        let share = |(s, qps): (&ServiceSpec, &f64)| qps / s.peak_qps.unwrap_or(f64::INFINITY);
        self.services.iter().zip(&window.qps).map(share).sum()
    }

    /// Of the service that is worst off.
    fn slack(&self, window: &Window) -> f64 {
        let pairs = self.services.iter().zip(&window.latency_s);
        let slacks = pairs.filter_map(|(spec, latency)| Some(spec.slo.slack((*latency)?)));
        slacks.fold(f64::NAN, f64::min)
    }

    /// Work of batch over that of batch alone on the machine.
    fn work(&self, window: &Window) -> f64 {
        let of_batch = |(name, done): (&quell_types::Tenant, &f64)| {
            self.batch.contains(&name.as_str()).then_some(*done)
        };
        let done: f64 = window.instructions_per_s.iter().filter_map(of_batch).sum();
        if self.alone_per_s > 0.0 { done / self.alone_per_s } else { f64::NAN }
    }
}

/// One plot a metric, with a line for each point, named after its values on the axes of `by`.
pub(crate) fn plots(print: &Print, points: &[&(Point, Played)]) -> Vec<Plot> {
    let longest = points.iter().map(|(_, played)| played.over_time.lasts_s()).fold(0.0, f64::max);
    let (unit, seconds) = if longest >= LONG_S { ("hours", 3600.0) } else { ("seconds", 1.0) };
    let name = |point: &Point| {
        let of_axis = |axis: &String| point.get(axis).cloned();
        print.by.iter().filter_map(of_axis).collect::<Vec<_>>().join(" ")
    };
    let plot = |(metric, _): &(String, Option<String>)| {
        let mut plot = Plot::new(format!("{metric} over time"), unit, metric);
        for (point, played) in points {
            let line = played.over_time.points(metric).map(|(s, value)| (s / seconds, value));
            plot.series.push(Series::new(name(point), Style::Line, line));
        }
        if metric == "slack_frac" { plot.h_line(0.0, "objective") } else { plot }
    };
    print.metrics.iter().map(plot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Slo;

    fn window(tail_s: f64) -> Window {
        Window {
            latency_s: vec![None, Some(tail_s)],
            qps: vec![0.0, 40.0],
            service_cpus: 1.0,
            batch_cpus: 2.0,
            instructions_per_s: [("jobs".into(), 6e9), ("b".into(), 1e9)].into(),
            ..Window::default()
        }
    }

    fn service(name: &str) -> ServiceSpec {
        ServiceSpec {
            name: name.into(),
            slo: Slo { percentile_frac: 0.99, target_s: 0.1 },
            peak_qps: Some(100.0),
            links: vec![],
        }
    }

    #[test]
    fn a_window_tells_load_slack_of_the_worst_and_work_beside_that_alone() {
        let services = [service("a"), service("b")];
        let beside =
            Beside { services: &services, cpus: 4.0, batch: vec!["jobs"], alone_per_s: 8e9 };
        let value = |name| beside.value(name, &window(0.08));
        assert!((value("slack_frac") - 0.2).abs() < 1e-9, "a without requests does not count");
        assert_eq!([value("load_frac"), value("emu_frac")], [0.4, 1.15]);
        assert_eq!([value("utilisation_frac"), value("batch_cpus")], [0.75, 2.0]);
        let without = Beside { alone_per_s: 0.0, ..beside };
        assert!(without.value("emu_frac", &window(0.08)).is_nan(), "batch alone was not played");
    }
}
