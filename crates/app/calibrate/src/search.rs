//! A coordinate search: one parameter after the other, up and down, with shrinking steps.

use crate::bench::Bench;
use crate::cells::{Cell, Service};
use crate::guess::{Guess, PARAMETERS};

/// How long, and how far at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) passes: u32,
    /// The first step as a share of the value.
    pub(crate) step: f64,
}

/// The mean square of errors over tolerances; what could not be simulated counts as far off.
pub(crate) fn objective(bench: &mut Bench, guess: &Guess, cells: &[Cell]) -> f64 {
    let mut sum = 0.0;
    for cell in cells {
        let off = cell.error(bench.simulate(guess, cell)) / cell.tolerance();
        // A cell that is far off shall not hide the others.
        sum += if off.is_finite() { (off * off).min(25.0) } else { 25.0 };
    }
    sum / cells.len().max(1) as f64
}

/// Moves a guess to where the objective is least, on the parameters of one service.
pub(crate) fn minimise(
    bench: &mut Bench,
    guess: &mut Guess,
    service: Service,
    cells: &[Cell],
    search: Search,
    progress: &mut dyn FnMut(&str),
) {
    let mut best = objective(bench, guess, cells);
    progress(&format!("{service:?}: {best:.3} at the begin"));
    let mut step = search.step;
    for pass in 0..search.passes {
        for index in (0..PARAMETERS.len()).filter(|i| PARAMETERS[*i].service == service) {
            best = along(bench, guess, index, cells, best, step);
        }
        progress(&format!("{service:?}: {best:.3} after pass {}, {:?}", pass + 1, guess.0));
        step *= 0.6;
    }
}

/// Steps along one parameter while that helps; answers the objective reached.
fn along(
    bench: &mut Bench,
    guess: &mut Guess,
    index: usize,
    cells: &[Cell],
    mut best: f64,
    step: f64,
) -> f64 {
    for up in [true, false] {
        let mut moved = false;
        while let Some(next) = stepped(guess, index, up, step) {
            let reached = objective(bench, &next, cells);
            if reached >= best {
                break;
            }
            (best, moved) = (reached, true);
            *guess = next;
        }
        if moved {
            break;
        }
    }
    best
}

/// The guess one step further along a parameter, if there is room.
fn stepped(guess: &Guess, index: usize, up: bool, step: f64) -> Option<Guess> {
    let (spec, old) = (&PARAMETERS[index], guess.0[index]);
    let wanted = match (spec.whole, up) {
        (true, true) => old + 1.0,
        (true, false) => old - 1.0,
        (false, true) => old * (1.0 + step) + if old == 0.0 { 0.1 * step } else { 0.0 },
        (false, false) => old / (1.0 + step),
    };
    let new = wanted.clamp(spec.least, spec.most);
    let mut next = guess.clone();
    next.0[index] = new;
    (new != old).then_some(next)
}
