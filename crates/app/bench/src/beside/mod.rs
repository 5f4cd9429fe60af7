//! `quell simulate --beside-real`: what a 2-CPU machine can do, done on the machine at hand and in
//! its preset, side by side (T-E1, S-11).
//!
//! | part | on the machine | in the preset |
//! |---|---|---|
//! | chase | a pointer chase on one CPU, pressure on the other | the chase and the kernels of the fit |
//! | search | the `search` service on one CPU under open-loop load, pressure on the other | a service of the program `search` |
//! | cpu.max | an integer loop in a control group under steps of `cpu.max` | the program `integer` under the same quotas |
//! | HTB | bulk senders between two network namespaces under ceilings | the program `iperf` under the same |
//! | guard | `search` beside a mix of batch under control laws, as `quell bench guard` runs it | service, batch and generator under the same laws, the loop of `quell guard` |
//!
//! The preset knows of this machine what it was fitted on: chases and streams at full pressure. Of
//! the service it is told how long a request takes alone and how much that varies, and under guard
//! how much CPU time its clients take; how much slower it becomes, what a law makes of it and what
//! batch gets done are the preset's own word. All parts are run in interleaved rounds; printed are
//! medians and quartiles.

mod chase;
mod egress;
mod guard;
mod guarded;
mod pressure;
mod quota;
mod report;
mod search;
mod shown;

pub use report::{BESIDE_SCHEMA, BesideReport, BesideRow, GuardLoad, GuardTold, Part, SearchAlone};

use crate::machine::Seats;
use crate::ui::Interrupt;
use pressure::Neighbour;
use quell_calibrate::Twin;
use quell_sim::calibrated::VM2_XEON;
use quell_topology::Machine;
use quell_types::Topology;
use report::Rows;
use std::path::PathBuf;

/// The machine at hand, simulated.
const PRESET: &str = "vm2-xeon";

/// What is compared.
#[derive(Clone, Debug)]
pub struct BesideOptions {
    /// Parts, in this order.
    pub parts: Vec<Part>,
    /// Interleaved rounds of each.
    pub rounds: u32,
    /// The program that becomes a loop in a control group: `quell` itself.
    pub program: PathBuf,
}

/// What all parts need.
struct Ground<'a> {
    options: &'a BesideOptions,
    interrupt: &'a Interrupt,
    topology: Topology,
    seats: Seats,
}

/// Runs all parts on this machine and in its preset; `say` is told of each.
///
/// # Errors
/// One CPU only, no root, no memory, or the end was asked for.
pub fn beside_real(
    options: &BesideOptions,
    interrupt: &Interrupt,
    say: &dyn Fn(&str),
) -> anyhow::Result<BesideReport> {
    anyhow::ensure!(options.rounds > 0, "--rounds: give at least one");
    anyhow::ensure!(!options.parts.is_empty(), "--parts: give at least one");
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "this makes control groups and network namespaces: run it as root"
    );
    crate::run::after_the_dead();
    let topology = Machine::new("/").topology();
    let seats = Seats::choose()?;
    let ground = Ground { options, interrupt, topology, seats };
    let mut report = ground.empty_report();
    for part in &options.parts {
        say(&format!("{part}: {} rounds", options.rounds));
        let rows = match part {
            Part::Chase => chase::run(&ground)?,
            Part::Quota => quota::run(&ground)?,
            Part::Egress => egress::run(&ground)?,
            Part::Search => {
                let (alone, rows) = search::run(&ground)?;
                report.search_alone = Some(alone);
                rows
            }
            Part::Guard => {
                let (told, rows) = guard::run(&ground)?;
                report.guard_told = Some(told);
                rows
            }
        };
        report.rows.extend(rows);
    }
    Ok(beside_again(report))
}

/// What was measured before, beside the preset as it is now.
#[must_use]
pub fn beside_again(mut report: BesideReport) -> BesideReport {
    report.preset = PRESET.into();
    let twin = Twin::new(VM2_XEON, report.l2_bytes as f64, report.llc_bytes as f64);
    let alone = report.search_alone;
    let told = report.guard_told.as_ref();
    let guarded = told.map(|told| guard::simulated(&twin, told)).unwrap_or_default();
    report.with(&mut |row| match row.part {
        Part::Chase => chase::simulated(&twin, &row.what),
        Part::Search => search::simulated(&twin, alone?, &row.what),
        Part::Quota => quota::simulated(&row.what),
        Part::Egress => egress::simulated(&row.what),
        Part::Guard => guarded.get(&row.what).copied(),
    })
}

impl Ground<'_> {
    fn empty_report(&self) -> BesideReport {
        let l2 = self.topology.cache(self.seats.first, 2);
        let llc = self.topology.llc_of(self.seats.first);
        BesideReport {
            schema: BESIDE_SCHEMA.into(),
            processor: self.topology.model.clone(),
            preset: PRESET.into(),
            l2_bytes: l2.map_or(0, |cache| cache.size_bytes),
            llc_bytes: llc.map_or(0, |cache| cache.size_bytes),
            rounds: self.options.rounds,
            search_alone: None,
            guard_told: None,
            rows: Vec::new(),
            held: 0,
            judged: 0,
        }
    }

    /// Rounds of a part, each ended early if the end is asked for.
    fn rounds(
        &self,
        rows: &mut Rows,
        mut round: impl FnMut(&mut Rows) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for _ in 0..self.options.rounds {
            self.interrupt.check()?;
            round(rows)?;
        }
        Ok(())
    }
}
