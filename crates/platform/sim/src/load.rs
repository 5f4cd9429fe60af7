//! What clients offer to a service: open-loop, Poisson, at a rate that may change (S-9).

/// Requests per second over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Always the same rate.
    Constant(f64),
    /// From each moment (seconds since the start, rising) on this rate; before the first, none.
    Steps(Vec<(f64, f64)>),
    /// Linear between points (seconds, rate), repeated after the last: a diurnal trace.
    Cycle(Vec<(f64, f64)>),
}

impl Load {
    /// The rate at a moment, in requests per second.
    #[must_use]
    pub fn rate(&self, at_s: f64) -> f64 {
        match self {
            Load::Constant(rate) => *rate,
            Load::Steps(steps) => {
                steps.iter().take_while(|(from, _)| *from <= at_s).last().map_or(0.0, |s| s.1)
            }
            Load::Cycle(points) => cycle(points, at_s),
        }
    }

    /// Whether rates are finite and not negative, and moments rise.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sane = |rate: f64| rate.is_finite() && rate >= 0.0;
        match self {
            Load::Constant(rate) => sane(*rate),
            Load::Steps(points) => {
                points.windows(2).all(|w| w[0].0 < w[1].0) && points.iter().all(|p| sane(p.1))
            }
            Load::Cycle(points) => {
                points.windows(2).all(|w| w[0].0 < w[1].0)
                    && points.len() > 1
                    && points.iter().all(|p| sane(p.1))
            }
        }
    }
}

fn cycle(points: &[(f64, f64)], at_s: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let span = last.0 - first.0;
    let turns = libm::floor((at_s - first.0) / span);
    let at = at_s - turns * span;
    let after = points.iter().position(|p| p.0 > at).unwrap_or(points.len() - 1).max(1);
    let (a, b) = (points[after - 1], points[after]);
    a.1 + (at - a.0) / (b.0 - a.0) * (b.1 - a.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_steps_and_cycles() {
        let steps = Load::Steps(vec![(1.0, 10.0), (2.0, 20.0)]);
        let rates = [0.5, 1.0, 1.9, 5.0].map(|s| steps.rate(s));
        assert_eq!(rates, [0.0, 10.0, 10.0, 20.0]);
        let day = Load::Cycle(vec![(0.0, 0.0), (10.0, 100.0), (20.0, 0.0)]);
        let rates = [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 45.0].map(|s| day.rate(s));
        assert_eq!(rates, [0.0, 50.0, 100.0, 50.0, 0.0, 50.0, 50.0]);
        assert!(!Load::Constant(f64::NAN).is_sound() && !Load::Cycle(vec![]).is_sound());
    }
}
