//! Prints the decision journals of all laws and what came of them, to the last bit: what
//! `cargo run -p xtask -- fma` compares between two builds.

use quell_simulate::{Options, Scenario, simulate};

fn main() -> anyhow::Result<()> {
    let text = include_str!("../tests/golden/guarded.scenario");
    let scenario = Scenario::parse("guarded", text)?;
    let options = Options { jobs: 1, keep_journals: true, ..Options::default() };
    let played = simulate(&scenario, &options, &|_, _| ())?;
    for (point, digest) in &played.digests {
        println!("{point}  {digest}");
    }
    for (point, journal) in &played.journals {
        println!("== {point}\n{journal}");
    }
    for figure in &played.report.figures {
        println!("{}: {:x?}", figure.name, figure.ours.map(f64::to_bits));
    }
    Ok(())
}
