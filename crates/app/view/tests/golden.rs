//! What readers see, compared with the files in `golden`. After a wanted change run with
//! `QUELL_BLESS=1`, look at the pictures, and commit them.

// Clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

use quell_types::Gap;
use quell_view::{Cell, Mark, Plot, Report, Section, Series, Span, Style, Table};
use std::path::PathBuf;

fn compare(name: &str, seen: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("QUELL_BLESS").is_some() {
        std::fs::write(&path, seen).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = golden.lines().zip(seen.lines()).position(|(a, b)| a != b);
    assert!(
        golden == seen,
        "{name} differs from line {:?} on; see QUELL_BLESS",
        differs.map(|n| n + 1)
    );
}

fn table() -> Table {
    let mut table = Table::new(
        "Windows within the SLO, by load",
        &["law", "load>", "p95 ms>", "within SLO>", "batch work>"],
    );
    for (law, load, p95, met, batch) in [
        ("alone", 0.3, 1.42, 1.0, None),
        ("none", 0.3, 16.93, 0.31, Some(0.98)),
        ("static", 0.3, 2.61, 0.97, Some(0.42)),
        ("quell", 0.3, 2.12, 0.99, Some(0.71)),
    ] {
        let batch = batch.ok_or(Gap::absent("no batch ran"));
        table.push([
            law.into(),
            Cell::number(load, 1),
            Cell::number(p95, 2),
            Cell::number(met, 2),
            Cell::reading(&batch, 2),
        ]);
    }
    table.notes.push("SLO: p95 of 3 ms".to_owned());
    table
}

/// A timeline with a gap, phases, events and an SLO.
fn timeline() -> Plot {
    let wave =
        |t: f64| 1.6 + 0.4 * (t / 3.0).sin() + if (20.0..40.0).contains(&t) { 7.5 } else { 0.0 };
    let seconds = || (0..=80).map(f64::from);
    let p95 = |t: f64| if (50.0..54.0).contains(&t) { f64::NAN } else { wave(t) };
    let mut plot =
        Plot::new("Tail latency of search beside batch work", "time (s)", "p95 sojourn (ms)")
            .h_line(3.0, "SLO 3 ms");
    plot.series = vec![
        Series::new("p95", Style::Line, seconds().map(|t| (t, p95(t)))),
        Series::new("p50", Style::Line, seconds().map(|t| (t, wave(t) / 3.0))),
        Series::new("batch CPUs", Style::Step, [(0.0, 0.0), (20.0, 2.0), (42.0, 0.6), (80.0, 0.6)]),
    ];
    for (from, to, label) in [(0.0, 20.0, "alone"), (20.0, 40.0, "none"), (40.0, 80.0, "quell")] {
        plot.spans.push(Span { from, to, label: label.to_owned() });
    }
    plot.v_lines.push(Mark { at: 42.0, label: "batch cut to 0.6 CPUs".to_owned() });
    plot
}

fn bars() -> Plot {
    let mut plot = Plot::new("Work kept by each law", "law", "EMU (share of the machine)");
    plot.categories = ["alone", "none", "os-only", "static", "thesis", "heracles", "quell"]
        .map(str::to_owned)
        .to_vec();
    let some = |values: [f64; 7]| values.map(Some);
    plot.series = vec![
        Series::bars("load 0.3", some([0.3, 0.52, 0.8, 0.72, 0.81, 0.84, 0.95])),
        Series::bars("load 0.6", some([0.6, 0.55, 0.9, 0.82, 0.88, 0.9, 1.04])),
        Series::bars(
            "load 0.9",
            [Some(0.9), None, Some(0.7), Some(0.91), Some(0.9), Some(0.93), Some(0.99)],
        ),
    ];
    plot.h_line(1.0, "one machine")
}

/// A logarithmic axis and points.
fn tails() -> Plot {
    let mut plot = Plot::new("Tail against load", "load (share of peak)", "p99 (ms)")
        .log_y()
        .h_line(5.0, "SLO 5 ms");
    for (name, style, factor) in [("none", Style::Points, 40.0), ("quell", Style::Line, 1.0)] {
        let points =
            (1..=9).map(|i| f64::from(i) / 10.0).map(|load| (load, factor / (1.05 - load)));
        plot.series.push(Series::new(name, style, points));
    }
    plot
}

fn report() -> Report {
    Report::new("Guarding search on 2 CPUs")
        .with(
            Section::new("Result")
                .with("The service keeps its SLO beside batch work & loses nothing <when alone>.")
                .with(table())
                .with(timeline()),
        )
        .with(Section::new("Comparison").with(bars()).with(tails()))
}

#[test]
fn text_is_as_agreed() {
    compare("report.txt", &report().to_text(80));
}

#[test]
fn pictures_are_as_agreed() {
    for (name, picture) in report().to_svgs() {
        compare(&name, &picture);
    }
}

#[test]
fn the_page_is_as_agreed() {
    compare("report.html", &report().to_html());
}

#[test]
fn markdown_is_as_agreed() {
    compare("table.md", &table().to_markdown());
}

#[test]
fn json_leads_back_to_the_same_report() {
    let report = Report::new("r").with(Section::new("s").with("words").with(table()).with(bars()));
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn a_report_is_written_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("new/report");
    let files = report().write(&inner).unwrap();
    let names: Vec<_> =
        files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names[..2], ["report.html", "report.txt"]);
    assert_eq!(names.len(), 5);
    assert!(files.iter().all(|path| std::fs::metadata(path).unwrap().len() > 500));
    std::fs::write(folder.path().join("file"), "").unwrap();
    let refused = report().write(&folder.path().join("file/x")).unwrap_err();
    assert!(refused.to_string().contains("file/x"), "{refused}");
}
