//! A check of predictions as a report with plots.

use quell_profiler::predict::{Pair, PredictReport};
use quell_view::{Heat, Plot, Report, Section, Series, Style};

/// Losses up to this are told apart by their colour.
const TOP_PERCENT: f64 = 40.0;

/// What is printed, and the same to be seen.
pub(super) fn report(found: &PredictReport, words: &str) -> Report {
    let by = |title: &str, loss: fn(&Pair) -> f64| heat(found, title, loss);
    Report::new("Predicted and measured")
        .with(Section::new("All pairs").with(words.to_owned()).with(scatter(found)))
        .with(
            Section::new("Who loses beside whom")
                .with(by("Loss measured, in percent", |pair| pair.measured))
                .with(by("Loss predicted, in percent", |pair| pair.predicted)),
        )
}

/// On the diagonal a prediction is right.
fn scatter(found: &PredictReport) -> Plot {
    let mut pairs: Vec<(f64, f64)> =
        found.pairs.iter().map(|pair| (pair.measured, pair.predicted)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = pairs.iter().flat_map(|(measured, predicted)| [*measured, *predicted]);
    let most = all.fold(1.0, f64::max);
    let mut plot =
        Plot::new("Predicted against measured", "measured loss (%)", "predicted loss (%)");
    plot.series.push(Series::new("right", Style::Line, [(0.0, 0.0), (most, most)]));
    plot.series.push(Series::new("a pair", Style::Points, pairs));
    plot
}

/// One loss for each pair.
fn heat(found: &PredictReport, title: &str, loss: fn(&Pair) -> f64) -> Heat {
    let mut names: Vec<String> = Vec::new();
    for pair in &found.pairs {
        for name in [&pair.a, &pair.b] {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    let cell = |a: &String, b: &String| {
        found.pairs.iter().find(|pair| pair.a == *a && pair.b == *b).map(loss)
    };
    Heat {
        title: title.to_owned(),
        x_label: "beside".to_owned(),
        y_label: "who loses".to_owned(),
        cells: names.iter().map(|a| names.iter().map(|b| cell(a, b)).collect()).collect(),
        columns: names.clone(),
        rows: names,
        top: TOP_PERCENT,
        digits: 0,
    }
}
