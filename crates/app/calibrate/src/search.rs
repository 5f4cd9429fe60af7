//! One parameter after the other, up and down, then pairs of them at once, with shrinking steps:
//! valleys of the objective often run along two parameters, as work and rate of requests.

use crate::bench::Bench;
use crate::cells::{Cell, Service};
use crate::guess::{Guess, PARAMETERS};

/// How long, and how far at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) passes: u32,
    /// The first step as a share of the value.
    pub(crate) step: f64,
    /// Whether pairs are moved too.
    pub(crate) pairs: bool,
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
    let of_service = |i: &usize| PARAMETERS[*i].service == service;
    let free: Vec<usize> = (0..PARAMETERS.len()).filter(of_service).collect();
    let mut best = objective(bench, guess, cells);
    progress(&format!("{service:?}: {best:.3} at the begin"));
    let mut step = search.step;
    for pass in 0..search.passes {
        for index in &free {
            best = along(bench, guess, &[(*index, true)], cells, best, step);
        }
        for (number, a) in free.iter().enumerate().filter(|_| search.pairs) {
            for b in &free[number + 1..] {
                best = along(bench, guess, &[(*a, true), (*b, true)], cells, best, step);
                best = along(bench, guess, &[(*a, true), (*b, false)], cells, best, step);
            }
        }
        progress(&format!("{service:?}: {best:.3} after pass {}, {:?}", pass + 1, guess.0));
        step *= 0.6;
    }
}

/// Steps along a direction, or against it, while that helps; answers the objective reached.
fn along(
    bench: &mut Bench,
    guess: &mut Guess,
    direction: &[(usize, bool)],
    cells: &[Cell],
    mut best: f64,
    step: f64,
) -> f64 {
    for forward in [true, false] {
        let mut moved = false;
        while let Some(next) = stepped(guess, direction, forward, step) {
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

/// The guess one step further in a direction (parameter, whether up), if there is room.
fn stepped(guess: &Guess, direction: &[(usize, bool)], forward: bool, step: f64) -> Option<Guess> {
    let mut next = guess.clone();
    for (index, up) in direction {
        let (spec, old) = (&PARAMETERS[*index], guess.0[*index]);
        let wanted = match (spec.whole, *up == forward) {
            (true, true) => old + 1.0,
            (true, false) => old - 1.0,
            (false, true) => old * (1.0 + step) + if old == 0.0 { 0.1 * step } else { 0.0 },
            (false, false) => old / (1.0 + step),
        };
        next.0[*index] = wanted.clamp(spec.least, spec.most);
        if next.0[*index] == old {
            return None;
        }
    }
    Some(next)
}
