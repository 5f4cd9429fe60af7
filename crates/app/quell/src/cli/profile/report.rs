//! A profile as a report with plots.

use quell_pressure::Resource;
use quell_profiler::{CurvePoint, Estimate, Profile};
use quell_view::{Plot, Report, Section, Series, Style};
use std::collections::BTreeMap;

/// What is printed, and the same to be seen.
pub(super) fn report(profile: &Profile, words: &str) -> Report {
    let name = &profile.workload.name;
    Report::new(format!("Profile of {name}"))
        .with(Section::new("Tolerated and caused").with(words.to_owned()).with(numbers(profile)))
        .with(Section::new("Sensitivity").with(curves(profile)))
}

/// Side by side, resource by resource.
fn numbers(profile: &Profile) -> Plot {
    let resources: Vec<Resource> = profile.tolerated.keys().copied().collect();
    let bars = |name: &str, numbers: &BTreeMap<Resource, Estimate>| {
        let of = |resource: &Resource| numbers.get(resource).map(|estimate| estimate.value);
        Series::bars(name, resources.iter().map(of))
    };
    let mut plot = Plot::new("What it tolerates and what it causes", "", "percent");
    plot.categories = resources.iter().map(|resource| resource.name().to_owned()).collect();
    plot.series.push(bars("tolerated intensity", &profile.tolerated));
    plot.series.push(bars("loss caused at full intensity", &profile.caused));
    plot
}

/// Speed by intensity, as it was measured.
fn curves(profile: &Profile) -> Plot {
    let kept = 100.0 * profile.threshold_frac;
    let mut plot = Plot::new("Speed under pressure", "intensity (%)", "speed (% of that alone)")
        .h_line(kept, format!("{kept:.0} % is tolerated"));
    for (resource, points) in &profile.curves {
        let at = |point: &CurvePoint| (point.intensity_percent, 100.0 * point.speed_frac.value);
        let points = std::iter::once((0.0, 100.0)).chain(points.iter().map(at));
        plot.series.push(Series::new(resource.name(), Style::Line, points));
    }
    plot
}
