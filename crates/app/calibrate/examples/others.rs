//! Refits other sources' cells from scratch and prints tables: those of iBench, of Virtual
//! Platforms, and those measured on the 2-vCPU machine.
//!
//! `cargo run --example others -p quell-calibrate [PASSES [LEFT_OUT_PASSES [PART_OF_A_NAME]]]`

use quell_calibrate::{Effort, calibrate_others};

fn main() {
    let mut effort = Effort::default();
    let word = |n| std::env::args().nth(n);
    let number = |n| word(n).and_then(|text| text.parse().ok());
    effort.passes = number(1).unwrap_or(effort.passes);
    effort.left_out_passes = number(2).unwrap_or(effort.left_out_passes);
    let name = word(3).unwrap_or_default();
    for fit in calibrate_others(effort, &name, &mut |line| eprintln!("{line}")) {
        println!("{}", fit.markdown());
    }
}
