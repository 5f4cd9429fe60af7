//! The end of the search: random steps around what was found, judged at full length.
//!
//! # Problem
//! Least squares gives every cell a little of the error. Tolerances are what counts, and a sum that is
//! at its least has a cell or two outside. And the search plays short runs, of which chance moves a tail
//! by some points: what is within there need not be within in the report.
//!
//! # Idea
//! Only what is beyond [`CALM`] of a tolerance counts, over all cells at once, in runs as long as those of
//! the report. Parameters of one service after the other are moved at random, all together, by less and
//! less; what is better is kept. Cells are tried from the worst, and a candidate is given up as soon as it
//! has cost more than the best one, mostly after a cell or two.

use crate::bench::Bench;
use crate::cells::{Cell, Service, cells};
use crate::guess::{Guess, PARAMETERS};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The share of a tolerance within which a cell is left alone.
const CALM: f64 = 0.8;
/// The greatest step at first, and at last, as a share of the value.
const REACH: (f64, f64) = (0.08, 0.01);
const SEED: u64 = 11;

/// A candidate, and what each cell costs with it, by its place.
struct Best {
    guess: Guess,
    costs: Vec<f64>,
}

impl Best {
    fn cost(&self) -> f64 {
        self.costs.iter().sum()
    }

    /// Places of cells, from the worst.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.costs.len()).collect();
        order.sort_by(|a, b| self.costs[*b].total_cmp(&self.costs[*a]));
        order
    }
}

/// The best of so many steps from a guess, which it is itself where none helps.
pub(crate) fn polish(
    bench: &mut Bench,
    guess: &Guess,
    attempts: u32,
    progress: &mut dyn FnMut(&str),
) -> Guess {
    let all: Vec<Cell> = [Service::Xapian, Service::Silo].into_iter().flat_map(cells).collect();
    let costs = all.iter().map(|cell| cost(bench, guess, cell)).collect();
    let mut best = Best { guess: guess.clone(), costs };
    let mut dice = ChaCha8Rng::seed_from_u64(SEED);
    let told = |what: &str, best: &Best| format!("polish: {:.4} {what}", best.cost());
    progress(&told("at the begin", &best));
    for attempt in 0..attempts {
        if best.cost() == 0.0 {
            break;
        }
        let service = [Service::Xapian, Service::Silo][attempt as usize % 2];
        let done = f64::from(attempt) / f64::from(attempts);
        let reach = REACH.0 + done * (REACH.1 - REACH.0);
        let next = stepped(&best.guess, service, reach, &mut dice);
        if let Some(costs) = costs_below(bench, &next, &all, &best) {
            best = Best { guess: next, costs };
            progress(&told(&format!("after {} steps, {:?}", attempt + 1, best.guess.0), &best));
        }
    }
    best.guess
}

/// What a cell adds, in squares of tolerances.
fn cost(bench: &mut Bench, guess: &Guess, cell: &Cell) -> f64 {
    let off = (cell.error(bench.simulate(guess, cell)) / cell.tolerance()).abs();
    let beyond = if off.is_finite() { (off - CALM).clamp(0.0, 5.0) } else { 5.0 };
    beyond * beyond
}

/// What each cell costs, if all of them cost less than with the best.
fn costs_below(bench: &mut Bench, guess: &Guess, all: &[Cell], best: &Best) -> Option<Vec<f64>> {
    let (limit, mut sum) = (best.cost(), 0.0);
    let mut costs = vec![0.0; all.len()];
    for place in best.order() {
        costs[place] = cost(bench, guess, &all[place]);
        sum += costs[place];
        if sum >= limit {
            return None;
        }
    }
    Some(costs)
}

/// All of a service's parameters moved by up to `reach`, whole ones now and then by one.
fn stepped(guess: &Guess, service: Service, reach: f64, dice: &mut ChaCha8Rng) -> Guess {
    // -1..1, of 53 bits.
    let mut draw = || (dice.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    let mut next = guess.clone();
    for place in Guess::free(service) {
        let (spec, drawn) = (&PARAMETERS[place], draw());
        let value = match spec.whole {
            true if drawn.abs() < 0.8 => guess.0[place],
            true => guess.0[place] + drawn.signum(),
            false => guess.0[place] * (1.0 + reach * drawn),
        };
        next.0[place] = value.clamp(spec.least, spec.most);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stay_within_bounds_and_leave_the_other_service_alone() {
        let mut dice = ChaCha8Rng::seed_from_u64(1);
        let mut guess = Guess::begin();
        for _ in 0..300 {
            let next = stepped(&guess, Service::Xapian, 0.5, &mut dice);
            for (place, spec) in PARAMETERS.iter().enumerate() {
                let value = next.0[place];
                assert!(spec.least <= value && value <= spec.most, "{}: {value}", spec.name);
                assert!(!spec.whole || value.fract() == 0.0, "{}: {value}", spec.name);
                let other = spec.service == Some(Service::Silo);
                assert!(!other || value == guess.0[place], "{}: {value}", spec.name);
            }
            guess = next;
        }
        assert_ne!(guess, Guess::begin());
    }

    #[test]
    fn cells_are_no_further_off_than_before() {
        let mut bench = Bench::new(200);
        let all: Vec<Cell> = [Service::Xapian, Service::Silo].into_iter().flat_map(cells).collect();
        let mut sum = |guess: &Guess| all.iter().map(|c| cost(&mut bench, guess, c)).sum::<f64>();
        let before = sum(&Guess::begin());
        let search = || polish(&mut Bench::new(200), &Guess::begin(), 12, &mut |_| {});
        let found = search();
        let after = sum(&found);
        assert!(after < before, "{after} of {before}");
        assert_eq!(found, search());
    }
}
