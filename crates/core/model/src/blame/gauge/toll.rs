//! What one service suffers while accesses are held back, against itself while they are not.

use super::super::normal::probability_below;
use super::Window;
use super::moments::Moments;

/// Windows are not better known than this, in ln: of cost, of latency.
const FLOOR_SD: [f64; 2] = [0.1, 0.3];
/// Before a third window what scatters there is taken for as much, in ln: bursts differ.
const UNKNOWN_SD: f64 = 0.5;
/// Windows that are kept, in effect: older ones fade.
const MEMORY: f64 = 200.0;

/// By cost and by latency, in windows that were held back and in usual ones.
#[derive(Clone, Debug, Default)]
pub struct Toll {
    held_back: [Moments; 2],
    usual: [Moments; 2],
}

impl Toll {
    /// Takes in a window: CPU time for each request and latency, in seconds; none where it is not known.
    pub fn see(&mut self, window: Window, cost_s: Option<f64>, latency_s: Option<f64>) {
        let kind = match window {
            Window::HeldBack => &mut self.held_back,
            Window::Usual => &mut self.usual,
            Window::Unknown => return,
        };
        for (sums, value) in kind.iter_mut().zip([cost_s, latency_s]) {
            if let Some(value) = value.filter(|value| *value > 0.0) {
                sums.fade(1.0 - 1.0 / MEMORY, Moments::of(libm::log(value)));
            }
        }
    }

    /// What it suffers in ln, and the probability that this is more than `least_ln`: of cost or of latency,
    /// by which is surer. None before each kind of window was seen.
    #[must_use]
    pub fn suffers(&self, least_ln: f64) -> Option<(f64, f64)> {
        let kinds = self.held_back.iter().zip(&self.usual).zip(FLOOR_SD);
        let one = |((held_back, usual), floor): ((&Moments, &Moments), f64)| {
            if held_back.count < 1.0 || usual.count < 2.0 {
                return None;
            }
            let least = if held_back.count < 3.0 { UNKNOWN_SD } else { floor };
            let variance = held_back.variance().max(least * least) / held_back.count
                + usual.variance().max(floor * floor) / usual.count;
            let effect_ln = held_back.mean() - usual.mean();
            let above = (effect_ln - least_ln) / libm::sqrt(variance);
            Some((effect_ln, probability_below(above)))
        };
        kinds.filter_map(one).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
