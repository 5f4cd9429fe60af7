//! The numbers with which the simulator comes are those of the calibration.

use quell_calibrate::{Effort, Guess, calibrate, report};

#[test]
fn shipped_numbers_keep_the_cells_that_the_document_says() {
    let report = report(&Guess::shipped(), 20_000, Vec::new());
    let missed: Vec<String> = report
        .cells
        .iter()
        .filter(|cell| !cell.held)
        .map(|c| format!("{} {} at {} %: {:?}", c.table, c.row, c.load_percent, c.simulated))
        .collect();
    assert!(missed.len() <= 4, "{missed:#?}");
}

#[test]
fn a_search_repeats_to_the_bit_and_never_makes_things_worse() {
    let effort = Effort {
        search_requests: 300,
        final_requests: 300,
        passes: 1,
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
