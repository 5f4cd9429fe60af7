//! The numbers with which the simulator comes are those of the calibration.

use quell_calibrate::{Effort, Guess, calibrate, calibrate_others, report};

/// Cells of other sources that are outside their tolerance.
const MISSED: &[(&str, usize)] = &[
    ("mcf", 1),
    ("memcached", 15),
    ("states", 0),
    ("websearch", 0),
    ("ml_cluster", 1),
    ("memkeyval", 0),
    ("vm2-xeon", 5),
];

#[test]
fn shipped_numbers_keep_the_cells_that_the_document_says() {
    let report = report(&Guess::shipped(), 40_000, Vec::new());
    let missed: Vec<String> = report
        .cells
        .iter()
        .filter(|cell| !cell.held)
        .map(|c| format!("{} {} at {} %: {:?}", c.table, c.row, c.load_percent, c.simulated))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
    let missed = |name: &str| {
        let fit = report.fits.iter().find(|fit| fit.name.contains(name)).unwrap();
        fit.cells.len() - fit.cells_held
    };
    // As many as the document says, fit by fit.
    let found: Vec<_> = MISSED.iter().map(|(name, said)| (name, missed(name), *said)).collect();
    assert!(found.iter().all(|(_, now, said)| now <= said), "{found:?}");
}

#[test]
fn the_shape_of_websearch_is_what_the_document_says() {
    let report = report(&Guess::shipped(), 300, Vec::new());
    let shape: Vec<_> = report.predictions.iter().filter(|p| p.source == "H-7").collect();
    assert_eq!(shape.len(), 5);
    // The load grows with cores, and never falls with cache; it does not saturate early.
    let missed: Vec<_> = shape.iter().filter(|p| !p.held).collect();
    assert!(missed.len() <= 1 && missed.iter().all(|p| p.what.contains("75 %")), "{missed:#?}");
}

#[test]
fn a_search_repeats_to_the_bit_and_never_makes_things_worse() {
    let effort = Effort {
        search_requests: 300,
        final_requests: 300,
        passes: 1,
        polish_steps: 0,
        left_out_passes: 0,
        others: false,
    };
    let begin = report(&Guess::begin(), 300, Vec::new());
    let (first, again) = (calibrate(effort, &mut |_| {}), calibrate(effort, &mut |_| {}));
    assert_eq!(first, again);
    let off = |r: &quell_calibrate::Report| {
        let capped = |c: &quell_calibrate::CellReport| {
            c.error.map_or(25.0, |e| (e / c.tolerance * (e / c.tolerance)).min(25.0))
        };
        r.cells.iter().map(capped).sum::<f64>()
    };
    assert!(off(&first) <= off(&begin), "{} against {}", off(&first), off(&begin));
}

#[test]
fn a_fit_on_another_sources_cells_repeats_to_the_bit_and_comes_from_its_begins() {
    let effort = Effort { passes: 1, left_out_passes: 0, ..Effort::default() };
    let fit = || calibrate_others(effort, "mcf", &mut |_| {}).remove(0);
    let (first, again) = (fit(), fit());
    assert_eq!(first, again);
    assert!(first.parameters.iter().any(|p| p.fitted != p.begin));
    let shipped = report(&Guess::shipped(), 300, Vec::new());
    let shipped = shipped.fits.iter().find(|fit| fit.name.contains("mcf")).unwrap();
    assert!(shipped.rms_error_of_tolerance <= first.rms_error_of_tolerance);
}
