//! Tables and plots of a report.

use crate::Contender;
use crate::report::{Candidate, DemoReport, NetworkRun, Run};
use quell_view::{Axis, Cell, Plot, Report, Section, Series, Style, Table};

/// One cell as a line.
pub(crate) fn line(run: &Run) -> String {
    format!(
        "load {:.2}  {:9} {:6} p50 {:8.3}  p95 {:8.3}  p99 {:8.3} ms  in SLO {:5.1} %  batch {:5.1} %  \
         CPU {:5.1} %  EMU {:.2}",
        run.load_frac,
        run.law.name(),
        run.polluter.name(),
        run.p50_ms,
        run.p95_ms,
        run.p99_ms,
        run.slo_met_frac * 100.0,
        run.batch_work_frac * 100.0,
        run.cpu_utilisation_frac * 100.0,
        run.emu_frac
    )
}

fn percent(frac: f64) -> Cell {
    Cell::number(frac * 100.0, 1)
}

/// All cells.
#[must_use]
pub fn table(report: &DemoReport) -> Table {
    let title = format!(
        "{} on {} CPUs: peak {:.0} requests/s, p{} within {:.2} ms",
        report.service, report.machine.cpus, report.peak_qps, report.slo_percentile, report.slo_ms
    );
    let columns = [
        "load %>",
        "law",
        "batch",
        "p50 ms>",
        "p95 ms>",
        "p99 ms>",
        "in SLO %>",
        "batch work %>",
        "CPU %>",
        "EMU>",
        "windows>",
        "neighbour>",
    ];
    let mut table = Table::new(title, &columns);
    for run in &report.runs {
        let alone = run.law == Contender::Alone;
        table.push([
            Cell::number(run.load_frac * 100.0, 0),
            run.law.name().into(),
            if alone { "".into() } else { run.polluter.name().into() },
            Cell::number(run.p50_ms, 3),
            Cell::number(run.p95_ms, 3),
            Cell::number(run.p99_ms, 3),
            percent(run.slo_met_frac),
            percent(run.batch_work_frac),
            percent(run.cpu_utilisation_frac),
            Cell::number(run.emu_frac, 2),
            Cell::number(run.windows as f64, 0),
            neighbour(run, report.unlike_neighbours(run).is_some()).into(),
        ]);
    }
    table.notes = notes(report);
    table
}

/// What a cell's CPUs felt of each other: one number, or the least and the most of its rounds.
fn neighbour(run: &Run, marked: bool) -> String {
    let mark = if marked { "*" } else { "" };
    match run.neighbour_ratios() {
        None => String::new(),
        Some((least, most)) if most < 1.1 * least => format!("{most:.2}{mark}"),
        Some((least, most)) => format!("{least:.2}-{most:.2}{mark}"),
    }
}

fn neighbour_notes(report: &DemoReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.runs.iter().any(|run| run.neighbour_ratios().is_some()) {
        notes.push(
            "neighbour: access time of 4 MiB on one CPU beside a stream on another, as a multiple \
             of that alone, just before the cell; near 1 they share no cache"
                .to_owned(),
        );
    }
    if let Some(why) = &report.neighbour_unmeasured {
        notes.push(format!("neighbour not measured: {why}"));
    }
    let unlike = report.runs.iter().filter_map(|run| report.unlike_neighbours(run));
    let widest = unlike.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    if let Some((least, most)) = widest {
        notes.push(format!(
            "* the caches were not alike in this comparison (neighbour {least:.2} to {most:.2}): its \
             cells say little about each other"
        ));
    }
    notes
}

fn notes(report: &DemoReport) -> Vec<String> {
    let mut notes = neighbour_notes(report);
    if let Some(seconds) = report.flash_crowd_s {
        notes.push(format!(
            "flash crowd, 30 to 90 % of the peak: the SLO holds again after {seconds:.2} s"
        ));
    } else if !report.flash_crowd_trace.is_empty() {
        notes.push("flash crowd, 30 to 90 % of the peak: the SLO did not hold again".into());
    }
    if let Some(agent) = &report.agent {
        let bpf = agent
            .bpf_cpu_frac
            .map_or("not measured".to_owned(), |frac| format!("{:.2} % of a CPU", frac * 100.0));
        notes.push(format!(
            "agent: {:.2} % of a CPU, eBPF {bpf}, {:.1} MB",
            agent.user_cpu_frac * 100.0,
            agent.rss_bytes as f64 / 1e6
        ));
    }
    let knobs = if report.knobs_restored { "all as before" } else { "NOT as before" };
    notes.push(format!("knobs after the agents' ends: {knobs}"));
    notes.extend(report.knobs_changed.iter().cloned());
    if !report.complete {
        notes.push("ended early: these are the cells measured until then".into());
    }
    notes
}

/// The sweep of `static`.
pub(crate) fn sweep_table(sweep: &[Candidate]) -> Table {
    let load = sweep.first().map_or(0.0, |candidate| candidate.load_frac);
    let title = format!("static, candidates at load {:.0} %", load * 100.0);
    let columns = ["settings", "in SLO %>", "tail ms>", "batch work %>", "chosen"];
    let mut table = Table::new(title, &columns);
    for candidate in sweep {
        table.push([
            candidate.settings.as_str().into(),
            percent(candidate.slo_met_frac),
            Cell::number(candidate.tail_ms, 3),
            percent(candidate.batch_work_frac),
            if candidate.chosen { "yes" } else { "" }.into(),
        ]);
    }
    table
}

/// The network part; none if it was left out.
#[must_use]
pub fn network_table(network: &[NetworkRun]) -> Option<Table> {
    let alone = network.iter().find(|run| run.law == Contender::Alone)?;
    let title = "service and bulk sender behind 100 Mbit/s";
    let columns = ["law", "p50 ms>", "p95 ms>", "p95 / alone>", "link use %>"];
    let mut table = Table::new(title, &columns);
    for run in network {
        table.push([
            run.law.name().into(),
            Cell::number(run.p50_ms, 3),
            Cell::number(run.p95_ms, 3),
            Cell::number(run.p95_ms / alone.p95_ms, 2),
            percent(run.link_use_frac),
        ]);
    }
    Some(table)
}

/// Everything as a report.
#[must_use]
pub fn html_report(report: &DemoReport) -> Report {
    let mut summary = Section::new("What was found").with(table(report));
    for (title, label, value) in BARS {
        summary = summary.with(bars(report, title, label, *value));
    }
    let mut page = Report::new("Quell: a service and batch on one machine").with(summary);
    if !report.sweep.is_empty() {
        page = page.with(Section::new("The sweep of static").with(sweep_table(&report.sweep)));
    }
    page = page.with(timelines(report));
    if let Some(table) = network_table(&report.network) {
        page = page.with(Section::new("Network").with(table));
    }
    page
}

type Value = fn(&Run) -> f64;

const BARS: &[(&str, &str, Value)] = &[
    ("Windows within the SLO", "share of windows (%)", |run| run.slo_met_frac * 100.0),
    ("Batch work", "share of batch alone (%)", |run| run.batch_work_frac * 100.0),
    ("CPU utilisation", "share of all CPUs (%)", |run| run.cpu_utilisation_frac * 100.0),
    ("Effective machine utilisation", "EMU", |run| run.emu_frac),
];

/// Bars for each load, a series for each law, beside the first batch.
fn bars(report: &DemoReport, title: &str, label: &str, value: Value) -> Plot {
    let mut plot = Plot::new(title, "load", label);
    let Some(mix) = report.runs.first().map(|run| run.polluter) else { return plot };
    let runs = || report.runs.iter().filter(|run| run.polluter == mix);
    let mut loads: Vec<f64> = runs().map(|run| run.load_frac).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    plot.categories = loads.iter().map(|load| format!("{:.0} %", load * 100.0)).collect();
    for (colour, law) in (0..).zip(Contender::ALL) {
        let at = |load: &f64| {
            let mut found = runs().filter(|r| r.law == law && (r.load_frac - load).abs() < 1e-9);
            found.next().map(value)
        };
        let values: Vec<Option<f64>> = loads.iter().map(at).collect();
        if values.iter().any(Option::is_some) {
            plot.series.push(Series::bars(law.name(), values).coloured(colour));
        }
    }
    plot
}

fn timelines(report: &DemoReport) -> Section {
    let mut section = Section::new("Over time");
    let quell = report.runs.iter().filter(|run| run.law == Contender::Quell);
    for run in quell {
        let name = format!("load {:.0} %, {}", run.load_frac * 100.0, run.polluter);
        let (_, budget) = timeline(&name, &run.trace, report);
        section = section.with(all_tails(&name, run, report)).with(budget);
    }
    if !report.flash_crowd_trace.is_empty() {
        let (tail, budget) = timeline("flash crowd", &report.flash_crowd_trace, report);
        section = section.with(tail).with(budget);
    }
    section
}

/// The tails of all laws at the load and polluters of `like`: what a reader wants to compare.
fn all_tails(name: &str, like: &Run, report: &DemoReport) -> Plot {
    let title = format!("Tail under each law: {name}");
    let mut plot =
        Plot::new(title, "time (s)", "sojourn (ms)").log_y().h_line(report.slo_ms, "SLO");
    let alike = |run: &&Run| {
        let same_batch = run.polluter == like.polluter || run.law == Contender::Alone;
        run.load_frac == like.load_frac && same_batch
    };
    for (colour, run) in (0u8..).zip(report.runs.iter().filter(alike)) {
        let points = run.trace.iter().filter_map(|p| Some((p.t_s, p.tail_ms?)));
        plot.series.push(Series::new(run.law.name(), Style::Step, points).coloured(colour));
    }
    plot
}

fn timeline(name: &str, trace: &[crate::TracePoint], report: &DemoReport) -> (Plot, Plot) {
    let mut tail =
        Plot::new(format!("Tail: {name}"), "time (s)", "sojourn (ms)").h_line(report.slo_ms, "SLO");
    let label = format!("p{}", report.slo_percentile);
    let points = trace.iter().filter_map(|p| Some((p.t_s, p.tail_ms?)));
    tail.series.push(Series::new(label, Style::Step, points));
    let mut cpus = Plot::new(format!("CPUs: {name}"), "time (s)", "CPUs");
    cpus.y = Axis { label: "CPUs".into(), ..Axis::default() };
    type Get = fn(&crate::TracePoint) -> f64;
    let lines: [(&str, Get); 3] = [
        ("batch may use", |p| p.budget_cpus),
        ("batch uses", |p| p.batch_cpus),
        ("service uses", |p| p.service_cpus),
    ];
    for (name, value) in lines {
        let points = trace.iter().map(|p| (p.t_s, value(p)));
        cpus.series.push(Series::new(name, Style::Line, points));
    }
    (tail, cpus)
}
