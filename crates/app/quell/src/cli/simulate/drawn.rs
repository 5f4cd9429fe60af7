//! What `--calibrate`, `--calibrated` and `--faults` have to show, as pictures.

use quell_calibrate::{CellReport, FitReport};
use quell_faults::FaultReport;
use quell_view::{Heat, Item, Plot, Report, Section, Series, Style};

/// Errors further beyond their tolerance than this are drawn as this.
const MOST: f64 = 5.0;

/// Published cells beside simulated ones, and how far each source's cells are off.
pub(super) fn calibration(report: &quell_calibrate::Report) -> Report {
    let text = Item::Text(report.markdown());
    let tables = in_order(report.cells.iter().map(|cell| cell.table.as_str()));
    let mut section = Section::new("Published and simulated");
    for table in tables {
        let cells: Vec<&CellReport> = report.cells.iter().filter(|c| is_tail(c, table)).collect();
        if !cells.is_empty() {
            section = section.with(Item::Plot(tails(table, &cells)));
        }
    }
    let errors = Item::Plot(errors(report));
    let all = Section::new("Parameters and cells").with(text);
    Report::new("Calibration of the simulator").with(section.with(errors)).with(all)
}

/// Whether a cell is a tail in percent of that alone; what is alone is told in microseconds.
fn is_tail(cell: &CellReport, table: &str) -> bool {
    cell.table == table && !cell.row.starts_with("alone")
}

/// A table's rows over load: points as published, lines as simulated.
fn tails(table: &str, cells: &[&CellReport]) -> Plot {
    let title = format!("{table}: p95 beside an antagonist, published (points) and simulated");
    let mut plot = Plot::new(title, "load (%)", "p95 (% of that alone)").log_y();
    let rows = in_order(cells.iter().map(|cell| cell.row.as_str()));
    for (colour, row) in (0..).zip(rows) {
        let of_row = || cells.iter().filter(|cell| cell.row == row);
        let at = |cell: &CellReport| f64::from(cell.load_percent);
        let published = of_row().map(|cell| (at(cell), cell.published));
        let simulated = of_row().map(|cell| (at(cell), cell.simulated.unwrap_or(f64::NAN)));
        plot.series.push(Series::new(row, Style::Line, simulated).coloured(colour));
        let name = format!("{row}, published");
        plot.series.push(Series::new(name, Style::Points, published).coloured(colour));
    }
    plot
}

/// Each source's cells from the best to the worst.
fn errors(report: &quell_calibrate::Report) -> Plot {
    let title = "Errors of all cells, from the best to the worst of each source";
    let mut plot = Plot::new(title, "cells (%)", "error over its tolerance").h_line(1.0, "right");
    let own = report.cells.iter().map(|cell| (cell.error, cell.tolerance)).collect();
    plot.series.push(sorted("T-5 and T-6", own));
    for FitReport { name, cells, .. } in &report.fits {
        let cells = cells.iter().map(|cell| (cell.error, cell.tolerance)).collect();
        plot.series.push(sorted(name, cells));
    }
    plot
}

fn sorted(name: &str, cells: Vec<(Option<f64>, f64)>) -> Series {
    let off = |(error, tolerance): (Option<f64>, f64)| match error {
        Some(error) => (error.abs() / tolerance).min(MOST),
        None => MOST,
    };
    let mut values: Vec<f64> = cells.into_iter().map(off).collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1).max(1) as f64;
    let points = values.into_iter().enumerate().map(|(rank, y)| (100.0 * rank as f64 / last, y));
    Series::new(name, Style::Line, points.collect::<Vec<_>>())
}

/// How often each kind of fault met each write site.
pub(super) fn faults(report: &FaultReport) -> Report {
    let columns = in_order(report.cells.iter().map(|cell| cell.site.as_str()));
    let rows = in_order(report.cells.iter().map(|cell| cell.fault.as_str()));
    let times = |fault: &str, site: &str| {
        let cell = report.cells.iter().find(|cell| cell.fault == fault && cell.site == site)?;
        (cell.times > 0).then(|| (cell.times as f64).log10())
    };
    let cells: Vec<Vec<Option<f64>>> =
        rows.iter().map(|fault| columns.iter().map(|site| times(fault, site)).collect()).collect();
    let top = cells.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect();
    let heat = Heat {
        title: "Faults by kind and write site, as log10 of how often".into(),
        x_label: "write site".into(),
        y_label: "fault".into(),
        columns: owned(columns),
        rows: owned(rows),
        cells,
        top,
        digits: 1,
    };
    let FaultReport { hours, faults, sites, sites_covered, broken, .. } = report;
    let words = format!(
        "{faults} faults in {hours:.1} simulated hours; {sites_covered} of {sites} kinds × write \
         sites met; {broken} episodes broke a promise"
    );
    let section = Section::new("Coverage").with(Item::Text(words)).with(Item::Heat(heat));
    Report::new("Faults").with(section)
}

/// Each name once, in the order of its first.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_calibrate::Guess;

    #[test]
    fn a_calibration_has_a_plot_for_each_table_and_one_of_all_errors() {
        let report = quell_calibrate::report(&Guess::shipped(), 100, Vec::new());
        let drawn = calibration(&report);
        let names: Vec<String> = drawn.to_svgs().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names[0].contains("t-5") && names[1].contains("t-6"), "{names:?}");
        let Item::Plot(tails) = &drawn.sections[0].items[0] else { panic!("a plot") };
        assert_eq!(tails.series.len(), 2 * 8, "a line and points for each row");
        let Item::Plot(errors) = &drawn.sections[0].items[2] else { panic!("a plot") };
        assert_eq!(errors.series.len(), 1 + report.fits.len());
        let values = |s: &Series| s.points.iter().filter_map(|p| p.1).collect::<Vec<_>>();
        for series in &errors.series {
            assert!(values(series).is_sorted() && values(series).iter().all(|y| *y <= MOST));
        }
    }

    #[test]
    fn faults_are_a_map_with_a_gap_where_none_was_thrown() {
        let limits = quell_faults::Limits { hours: 0.01, faults: 0, threads: 1, run: 1 };
        let report = quell_faults::run(&limits, |_| true).unwrap().report;
        let drawn = faults(&report);
        let Item::Heat(heat) = &drawn.sections[0].items[1] else { panic!("a map") };
        assert_eq!(heat.rows.len() * heat.columns.len(), report.sites);
        let met = heat.cells.iter().flatten().filter(|cell| cell.is_some()).count();
        assert_eq!(met, report.sites_covered);
        assert!(met > 0 && met < report.sites, "{met}");
    }
}
