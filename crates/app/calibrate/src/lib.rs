//! The simulator fitted to published figures, in the open (S-11).
//!
//! # Problem
//! The thesis' tables T-5 and T-6 say by how much the 95th percentile of two services grows beside
//! antagonists. The simulated services have rates, sizes and link numbers that nobody published.
//!
//! # Idea
//! A few physical numbers, at most a third as many as there are cells, are searched for until the
//! simulated tables look like the published ones. Latencies are never set: the numbers say how much
//! work a request is, how it varies, how much cache it likes; tails come out of the queue.
//!
//! # How
//! Each cell is a run of some thousand requests beside its antagonist, over one alone with the same
//! arrivals. The objective is the mean square of errors, each over its tolerance (10 points; 15 %
//! above 200 %). A search along parameters and pairs of them, with shrinking steps, minimises it, one service
//! after the other, from begins that are written in [`Guess`]; random steps at full length then bring in
//! what that left outside its tolerance (module `polish`). Everything is seeded and repeats to the bit.
//! A row is left out and the others are fitted again, to see how the row is then predicted.
//!
//! Other sources' cells have fits of their own (module `fit`), searched for in the same way: what iBench
//! saw of mcf and memcached, the intensity classes of Virtual Platforms, what Heracles tells of its
//! three services, and one 2-vCPU machine's own pointer chases and streams (module `machine`).

mod bench;
mod cells;
mod fit;
mod guess;
mod machine;
mod polish;
mod predictions;
mod published;
mod report;
mod search;

pub use cells::Cell;
pub use fit::{FitCell, FitReport, LeftOutRow};
pub use guess::{Guess, PARAMETERS, ParameterSpec};
pub use machine::{
    MACHINE_SCHEMA, MachineCell, MachineCells, MachineFigure, Neighbour, Twin, pair_rate,
};
pub use predictions::Prediction;
pub use report::{CellReport, LeftOut, ParameterReport, Report};

use bench::Bench;
use cells::{Service, cells};
use fit::Fit;
use quell_sim::{Machine, Scene};
use search::{Problem, Search, mean_square, minimise};

/// A scene in which every tick is looked at. Where a queue hardly drains its tail hangs on the path that
/// a run takes, and stretches that are stepped over make it another.
fn exact(machine: Machine, seed: u64) -> Scene {
    Scene { stretch: false, ..Scene::new(machine, seed) }
}

/// How long to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Requests of a run while searching.
    pub search_requests: u32,
    /// Requests of a run in the report.
    pub final_requests: u32,
    /// Passes over all parameters of a service.
    pub passes: u32,
    /// Random steps at full length after that.
    pub polish_steps: u32,
    /// Passes after a row was left out; 0 = rows are not left out.
    pub left_out_passes: u32,
    /// Whether the other sources' cells are fitted on too.
    pub others: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            search_requests: 4_000,
            final_requests: 20_000,
            passes: 4,
            polish_steps: 200,
            left_out_passes: 1,
            others: true,
        }
    }
}

/// Fits all parameters from their begins; `progress` is told what was reached, now and then.
#[must_use]
pub fn calibrate(effort: Effort, progress: &mut dyn FnMut(&str)) -> Report {
    let mut bench = Bench::new(effort.search_requests);
    let mut guess = Guess::begin();
    for service in [Service::Xapian, Service::Silo] {
        let search = Search { passes: effort.passes, step: 0.15, pairs: true };
        guess = fitted(&mut bench, &guess, (service, &cells(service)), search, progress);
    }
    let mut long = Bench::new(effort.final_requests);
    let guess = polish::polish(&mut long, &guess, effort.polish_steps, progress);
    let left_out = leave_out(&mut bench, &guess, effort.left_out_passes, progress);
    let fits = if effort.others { calibrate_others(effort, "", progress) } else { Vec::new() };
    tables(&guess, effort.final_requests, left_out, fits)
}

/// The fits of other sources, in the order of the report.
fn fits() -> Vec<Fit> {
    let mut fits = vec![published::mcf(), published::memcached(), published::states()];
    fits.extend((0..3).map(published::heracles));
    fits.push(machine::fit());
    fits
}

/// The fits on other sources' cells whose names contain `name`, from their begins.
#[must_use]
pub fn calibrate_others(
    effort: Effort,
    name: &str,
    progress: &mut dyn FnMut(&str),
) -> Vec<FitReport> {
    let named = fits().into_iter().filter(|fit| fit.name.contains(name));
    named.map(|fit| refit(&fit, effort, progress)).collect()
}

fn refit(fit: &Fit, effort: Effort, progress: &mut dyn FnMut(&str)) -> FitReport {
    let search = Search { passes: effort.passes, step: 0.3, pairs: true };
    let values = fit.search(fit.begin(), search, None, progress);
    let left_out = fit.leave_out(&values, effort.left_out_passes, progress);
    fit.report(&values, left_out)
}

/// The report on a guess as it stands, and on the other fits as they are shipped, without any
/// search.
#[must_use]
pub fn report(guess: &Guess, requests: u32, left_out: Vec<LeftOut>) -> Report {
    let fits = fits().iter().map(|fit| fit.report(&fit.shipped, Vec::new())).collect();
    tables(guess, requests, left_out, fits)
}

fn tables(guess: &Guess, requests: u32, left_out: Vec<LeftOut>, fits: Vec<FitReport>) -> Report {
    let mut bench = Bench::new(requests);
    let all = [Service::Xapian, Service::Silo].into_iter().flat_map(cells);
    let cells: Vec<CellReport> =
        all.map(|cell| CellReport::of(&cell, bench.simulate(guess, &cell))).collect();
    let predictions = predictions::predictions(guess, requests);
    Report::new(guess, cells, left_out, predictions, fits)
}

/// A service's parameters fitted on these cells.
fn fitted(
    bench: &mut Bench,
    guess: &Guess,
    (service, cells): (Service, &[Cell]),
    search: Search,
    progress: &mut dyn FnMut(&str),
) -> Guess {
    let mut objective = |values: &[f64]| {
        let guess = Guess::of(values);
        mean_square(cells.iter().map(|c| c.error(bench.simulate(&guess, c)) / c.tolerance()))
    };
    let name = format!("{service:?}");
    let mut problem = Problem {
        name: &name,
        parameters: &PARAMETERS,
        free: Guess::free(service),
        objective: &mut objective,
    };
    let mut values = guess.0.to_vec();
    minimise(&mut problem, &mut values, search, progress);
    Guess::of(&values)
}

/// Fits again without each row, from what all rows gave, and predicts it.
fn leave_out(
    bench: &mut Bench,
    guess: &Guess,
    passes: u32,
    progress: &mut dyn FnMut(&str),
) -> Vec<LeftOut> {
    let mut all = Vec::new();
    if passes == 0 {
        return all;
    }
    for service in [Service::Xapian, Service::Silo] {
        let cells = cells(service);
        let mut rows: Vec<&str> = cells.iter().map(|cell| cell.row).collect();
        rows.dedup();
        for row in rows {
            let (held, kept): (Vec<Cell>, Vec<Cell>) =
                cells.iter().copied().partition(|cell| cell.row == row);
            let search = Search { passes, step: 0.1, pairs: false };
            let without = fitted(bench, guess, (service, &kept), search, &mut |_| {});
            let predicted = held.iter().map(|c| CellReport::of(c, bench.simulate(&without, c)));
            let left = LeftOut { row: row.into(), cells: predicted.collect() };
            progress(&format!("without {row}: worst error {:.0}", left.worst()));
            all.push(left);
        }
    }
    all
}
