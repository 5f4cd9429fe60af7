//! Refits from scratch and prints tables.
//!
//! `cargo run --release --example calibrate -p quell-calibrate [PASSES [LEFT_OUT_PASSES]]`

use quell_calibrate::{Effort, calibrate};

fn main() {
    let mut effort = Effort::default();
    let number = |n| std::env::args().nth(n).and_then(|text| text.parse().ok());
    effort.passes = number(1).unwrap_or(effort.passes);
    effort.left_out_passes = number(2).unwrap_or(effort.left_out_passes);
    let report = calibrate(effort, &mut |line| eprintln!("{line}"));
    println!("{}", report.markdown());
    println!("{} of {} cells within tolerance", report.cells_held, report.cells.len());
}
