//! Tables of the numbers that come with the simulator, without a search: every tick looked at.
//!
//! `cargo run --release --example shipped -p quell-calibrate [REQUESTS]`

use quell_calibrate::{Guess, report};

fn main() {
    let requests = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(40_000);
    let report = report(&Guess::shipped(), requests, Vec::new());
    println!("{}", report.markdown());
    println!("{} of {} cells within tolerance", report.cells_held, report.cells.len());
}
