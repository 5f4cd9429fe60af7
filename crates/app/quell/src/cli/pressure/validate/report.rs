//! What a validation found, for people: tables and plots.

use quell_pressure::Resource;
use quell_profiler::Validation;
use quell_view::{Cell, Heat, Plot, Report, Section, Series, Style, Table};
use std::collections::BTreeSet;

/// All parts that were measured.
pub(super) fn report(found: &Validation) -> Report {
    let mut report = Report::new("Validation of the pressure kernels");
    if !found.kernels.is_empty() {
        report = report.with(linearity(found));
    }
    if !found.timing.is_empty() {
        report = report.with(timing(found));
    }
    if !found.impact.is_empty() {
        report = report.with(impact(found));
    }
    if !found.crosstalk.is_empty() {
        report = report.with(crosstalk(found));
    }
    report
}

fn linearity(found: &Validation) -> Section {
    let mut table = Table::new(
        "",
        &["resource", "r>", "off points>", "half effect at>", "effect/noise>", "seen by"],
    );
    let cell = |value: Option<f64>, digits| match value {
        Some(value) => Cell::number(value, digits),
        None => Cell::Missing("nothing changed, or nothing varied".to_owned()),
    };
    for kernel in &found.kernels {
        table.push([
            Cell::from(kernel.resource.name()),
            cell(kernel.r, 4),
            cell(kernel.max_deviation_points, 1),
            cell(kernel.half_effect_frac, 2),
            cell(kernel.effect_over_noise, 0),
            Cell::Text(kernel.seen_by()),
        ]);
    }
    table.notes.extend(found.absent.iter().map(|(resource, why)| format!("{resource}: {why}")));
    let mut plot =
        Plot::new("Pressure seen against intensity", "intensity (%)", "effect (% of that at 100)");
    for kernel in &found.kernels {
        let (Some(first), Some(last)) = (kernel.levels.first(), kernel.levels.last()) else {
            continue;
        };
        let share = |value: f64| 100.0 * (value - first.value) / (last.value - first.value);
        let points = kernel.levels.iter().map(|l| (l.intensity_percent, share(l.value)));
        plot.series.push(Series::new(kernel.resource.name(), Style::Line, points));
    }
    Section::new("Linearity").with(table).with(plot)
}

fn timing(found: &Validation) -> Section {
    let head = ["resource", "armed in ms>", "at work ms>", "worst>", "stopped ms>", "worst>"];
    let mut table = Table::new("", &head);
    let cell = |ms: Option<f64>| match ms {
        Some(ms) => Cell::number(ms, 2),
        None => Cell::Missing("it never worked in that time".to_owned()),
    };
    for kernel in &found.timing {
        table.push([
            Cell::from(kernel.resource.name()),
            Cell::number(kernel.arm_ms, 1),
            cell(kernel.start_ms),
            cell(kernel.start_worst_ms),
            cell(kernel.stop_ms),
            cell(kernel.stop_worst_ms),
        ]);
    }
    Section::new("How fast pressure comes and goes").with(table)
}

fn impact(found: &Validation) -> Section {
    let mut section = Section::new("Impact on applications");
    let resources: BTreeSet<Resource> = found.impact.iter().map(|i| i.resource).collect();
    for resource in resources {
        let title = format!("Speed under pressure on {resource}");
        let mut plot = Plot::new(title, "intensity (%)", "speed (% of that alone)");
        for one in found.impact.iter().filter(|impact| impact.resource == resource) {
            let rest = one.points.iter().map(|p| (p.intensity_percent, 100.0 * p.speed_frac.value));
            let points = std::iter::once((0.0, 100.0)).chain(rest);
            plot.series.push(Series::new(one.application.clone(), Style::Line, points));
        }
        section = section.with(plot);
    }
    section
}

fn crosstalk(found: &Validation) -> Section {
    let victims: BTreeSet<Resource> = found.crosstalk.iter().map(|c| c.victim).collect();
    let sources: BTreeSet<Resource> = found.crosstalk.iter().map(|c| c.source).collect();
    let loss = |victim: Resource, source: Resource| {
        let cell = found.crosstalk.iter().find(|c| c.victim == victim && c.source == source)?;
        Some(100.0 * cell.loss_frac_at_40)
    };
    let row = |victim: &Resource| sources.iter().map(|source| loss(*victim, *source)).collect();
    let words = |names: &BTreeSet<Resource>| {
        names.iter().map(|name| name.name().to_owned()).collect::<Vec<_>>()
    };
    let heat = Heat {
        title: "Work lost, in percent, both at 40 %".to_owned(),
        x_label: "beside".to_owned(),
        y_label: "who loses".to_owned(),
        columns: words(&sources),
        rows: words(&victims),
        cells: victims.iter().map(row).collect(),
        top: 20.0,
        digits: 0,
    };
    let worst = |same: bool| {
        let apart = |c: &&quell_profiler::Crosstalk| c.same_group == same && c.source != c.victim;
        found
            .crosstalk
            .iter()
            .filter(apart)
            .max_by(|a, b| a.loss_frac_at_40.total_cmp(&b.loss_frac_at_40))
    };
    let said = |words: &str, cell: Option<&quell_profiler::Crosstalk>| {
        cell.map_or(String::new(), |c| {
            format!(
                "Worst {words}: {} loses {:.1} % beside {}. ",
                c.victim,
                100.0 * c.loss_frac_at_40,
                c.source
            )
        })
    };
    let seats = found.disk_cpu.map_or_else(String::new, |cpu| {
        format!("CPU {cpu} answers the disk: whoever works on it sits there. ")
    });
    let host = found.crosstalk_host.as_ref().and_then(quell_profiler::Watched::words);
    let words = said("between groups", worst(false)) + &said("inside one", worst(true)) + &seats;
    let words = words + &host.map_or_else(String::new, |host| host + ". ");
    Section::new("Cross-talk").with(words).with(heat)
}
