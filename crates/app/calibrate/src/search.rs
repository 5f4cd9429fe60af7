//! One parameter after the other, up and down, then pairs of them at once, with shrinking steps:
//! valleys of the objective often run along two parameters, as work and rate of requests.

use crate::guess::ParameterSpec;

/// How long, and how far at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) passes: u32,
    /// The first step as a share of the value.
    pub(crate) step: f64,
    /// Whether pairs are moved too.
    pub(crate) pairs: bool,
}

/// What is minimised, and along what.
pub(crate) struct Problem<'a> {
    /// For progress.
    pub(crate) name: &'a str,
    pub(crate) parameters: &'a [ParameterSpec],
    /// The parameters that may be moved.
    pub(crate) free: Vec<usize>,
    pub(crate) objective: &'a mut dyn FnMut(&[f64]) -> f64,
}

/// The mean square of errors over tolerances; what could not be simulated counts as far off.
pub(crate) fn mean_square(off: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for off in off {
        // A cell that is far off shall not hide the others.
        sum += if off.is_finite() { (off * off).min(25.0) } else { 25.0 };
        count += 1;
    }
    sum / f64::from(count.max(1))
}

/// Moves values to where the objective is least.
pub(crate) fn minimise(
    problem: &mut Problem<'_>,
    values: &mut Vec<f64>,
    search: Search,
    progress: &mut dyn FnMut(&str),
) {
    let free = problem.free.clone();
    let mut best = (problem.objective)(values);
    progress(&format!("{}: {best:.3} at the begin", problem.name));
    let mut step = search.step;
    for pass in 0..search.passes {
        for index in &free {
            best = along(problem, values, &[(*index, true)], best, step);
        }
        for (number, a) in free.iter().enumerate().filter(|_| search.pairs) {
            for b in &free[number + 1..] {
                best = along(problem, values, &[(*a, true), (*b, true)], best, step);
                best = along(problem, values, &[(*a, true), (*b, false)], best, step);
            }
        }
        progress(&format!("{}: {best:.3} after pass {}, {values:?}", problem.name, pass + 1));
        step *= 0.6;
    }
}

/// Steps along a direction, or against it, while that helps; answers the objective reached.
fn along(
    problem: &mut Problem<'_>,
    values: &mut Vec<f64>,
    direction: &[(usize, bool)],
    mut best: f64,
    step: f64,
) -> f64 {
    for forward in [true, false] {
        let mut moved = false;
        while let Some(next) = stepped(problem.parameters, values, (direction, forward), step) {
            let reached = (problem.objective)(&next);
            if reached >= best {
                break;
            }
            (best, moved) = (reached, true);
            *values = next;
        }
        if moved {
            break;
        }
    }
    best
}

/// The values one step further in a direction (parameter, whether up), if there is room.
fn stepped(
    parameters: &[ParameterSpec],
    values: &[f64],
    (direction, forward): (&[(usize, bool)], bool),
    step: f64,
) -> Option<Vec<f64>> {
    let mut next = values.to_vec();
    for (index, up) in direction {
        let (spec, old) = (&parameters[*index], values[*index]);
        let wanted = match (spec.whole, *up == forward) {
            (true, true) => old + 1.0,
            (true, false) => old - 1.0,
            (false, true) => old * (1.0 + step) + if old == 0.0 { 0.1 * step } else { 0.0 },
            (false, false) => old / (1.0 + step),
        };
        next[*index] = wanted.clamp(spec.least, spec.most);
        if next[*index] == old {
            return None;
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guess::free_parameter;

    #[test]
    fn the_bottom_of_a_slanted_valley_is_found_and_bounds_are_kept() {
        let parameters =
            [free_parameter("a", "", 1.0, 0.1, 50.0), free_parameter("b", "", 1.0, 0.1, 4.0)];
        // Least at a·b = 12 with b as large as it may be: a = 3, b = 4.
        let mut objective = |v: &[f64]| (v[0] * v[1] - 12.0).powi(2) + 0.1 * (v[0] - 3.0).powi(2);
        let mut values = vec![1.0, 1.0];
        let free = vec![0, 1];
        let mut problem =
            Problem { name: "valley", parameters: &parameters, free, objective: &mut objective };
        let search = Search { passes: 12, step: 0.3, pairs: true };
        minimise(&mut problem, &mut values, search, &mut |_| {});
        assert!((values[0] * values[1] - 12.0).abs() < 0.2, "{values:?}");
        assert!((values[0] - 3.0).abs() < 0.3 && values[1] <= 4.0, "{values:?}");
    }
}
