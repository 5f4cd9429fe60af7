//! A memory controller under load (S-5).
//!
//! # Problem
//! Latency rises with utilisation, and demand falls with latency: a thread that waits longer asks
//! less often. Both must hold at once.
//!
//! # Idea
//! With utilisation u the latency of an access is `L = L0 * (1 + q(u))`, and the holder i asks for
//! `a_i / (b_i + c_i * (1 + q(u)))` bytes/s. Demand falls and supply rises with u, so there is
//! exactly one u in 0..1 where they meet. q grows without bound towards 1, so what is moved never
//! exceeds the controller's bandwidth. It is found by Newton's steps kept inside a bracket.

/// Weight of queueing, assumed: the latency of an access at 80 % utilisation is 1.3 times the
/// idle one, at 95 % 2.8 times.
const QUEUEING: f64 = 0.1;
/// Utilisation beyond which no solution is looked for; q there is about 10,000.
const MOST: f64 = 1.0 - 1e-5;

/// What latency grows by, as a multiple of the idle latency.
pub(crate) fn queueing(utilisation: f64) -> f64 {
    let u = utilisation.clamp(0.0, MOST);
    QUEUEING * u * u / (1.0 - u)
}

/// The derivative of [`queueing`].
fn slope(u: f64) -> f64 {
    QUEUEING * u * (2.0 - u) / ((1.0 - u) * (1.0 - u))
}

/// One who asks for memory: bytes/s are `scale / (fixed + waiting * (1 + q))`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    /// Bytes asked for per pass, times passes at once.
    pub(crate) scale: f64,
    /// Seconds of a pass that do not depend on this controller.
    pub(crate) fixed: f64,
    /// Seconds of a pass spent waiting for this controller when it is idle.
    pub(crate) waiting: f64,
}

impl Demand {
    /// Seconds of a pass, waits being stretched so much.
    fn pass(&self, stretch: f64) -> f64 {
        self.fixed + self.waiting * stretch
    }
}

/// Bytes/s asked for by all, waits being stretched so much.
fn rate(demands: &[Demand], stretch: f64) -> f64 {
    demands.iter().fold(0.0, |sum, d| sum + d.scale / d.pass(stretch))
}

/// The derivative of [`rate`] by the stretch.
fn change(demands: &[Demand], stretch: f64) -> f64 {
    let falls = |d: &Demand| d.scale * d.waiting / (d.pass(stretch) * d.pass(stretch));
    demands.iter().fold(0.0, |sum, d| sum - falls(d))
}

/// The utilisation at which demand and supply meet; `guess` is where to begin.
pub(crate) fn utilisation(demands: &[Demand], bytes_per_s: f64, guess: f64) -> f64 {
    if demands.is_empty() {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, MOST);
    let mut u = guess.clamp(0.0, MOST);
    for _ in 0..60 {
        let stretch = 1.0 + queueing(u);
        let over = rate(demands, stretch) / bytes_per_s - u;
        if over.abs() < 1e-7 {
            break;
        }
        if over > 0.0 {
            low = u
        } else {
            high = u
        }
        let newton = u - over / (change(demands, stretch) * slope(u) / bytes_per_s - 1.0);
        u = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
    }
    u
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes/s asked for at a utilisation.
    fn asked(demands: &[Demand], utilisation: f64) -> f64 {
        let stretch = 1.0 + queueing(utilisation);
        demands.iter().map(|d| d.scale / (d.fixed + d.waiting * stretch)).sum()
    }

    #[test]
    fn latency_rises_sharply_above_four_fifths() {
        assert!(queueing(0.5) < 0.06 && queueing(0.8) < 0.4);
        assert!(queueing(0.95) > 1.5 && queueing(0.99) > 9.0);
    }

    proptest! {
        #[test]
        fn demand_and_supply_meet_below_the_bandwidth(
            list in proptest::collection::vec((1.0f64..4e4, 1e-10f64..1e-6, 0.0f64..1e-6), 1..12),
            guess in 0.0f64..1.0,
        ) {
            let demands: Vec<Demand> = list
                .iter()
                .map(|(scale, fixed, waiting)| Demand { scale: *scale, fixed: *fixed, waiting: waiting + 1e-10 })
                .collect();
            let bandwidth = 5e10;
            let u = utilisation(&demands, bandwidth, guess);
            prop_assert!(u < 1.0);
            let met = asked(&demands, u) / bandwidth;
            prop_assert!((met - u).abs() < 1e-4 || u >= MOST - 1e-4, "{met} against {u}");
            let again = utilisation(&demands, bandwidth, 0.0);
            prop_assert!((again - u).abs() < 1e-5, "one solution whatever the guess");
        }
    }
}
