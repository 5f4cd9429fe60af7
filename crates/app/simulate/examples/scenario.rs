//! Plays scenarios by id or file without the rest of Quell, and writes their report:
//! `cargo run --release -p quell-simulate --example scenario -- FOLDER T-E2`

use quell_simulate::{Options, Scenario, find, markdown, simulate};
use quell_view::Report;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let mut names = std::env::args().skip(1);
    let folder = PathBuf::from(names.next().unwrap_or_else(|| ".".into()));
    for name in names {
        let scenario = match find(&name) {
            Some(found) => found?,
            None => Scenario::parse(&name, &std::fs::read_to_string(&name)?)?,
        };
        let options = Options { jobs: 1, ..Options::default() };
        let simulated = simulate(&scenario, &options, &|_, _| ())?;
        let report = Report::new("").with(simulated.section);
        report.write(&folder.join(&scenario.id))?;
        std::fs::write(folder.join(&scenario.id).join("report.md"), markdown(&report))?;
        let held = simulated.report.figures.iter().filter(|f| f.held).count();
        println!(
            "{} {:?}: {held} of {} figures in {:.1} s, {:.0} s simulated, digest {}",
            simulated.report.id,
            simulated.report.status,
            simulated.report.figures.len(),
            simulated.report.seconds,
            simulated.report.simulated_s,
            simulated.report.digest
        );
    }
    Ok(())
}
