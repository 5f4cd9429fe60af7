//! The normal distribution, by a table-free formula that is the same on every machine.

/// P(Z <= z) of a standard normal Z, by Abramowitz and Stegun 26.2.17: within 7.5e-8.
pub(super) fn probability_below(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - probability_below(-z);
    }
    const B: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = B.iter().rev().fold(0.0, |sum, b| (sum + b) * t);
    1.0 - density(z, 1.0) * polynomial
}

/// Density of a normal distribution around 0.
pub(super) fn density(off: f64, variance: f64) -> f64 {
    libm::exp(-0.5 * off * off / variance) / libm::sqrt(core::f64::consts::TAU * variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.841_344_7), (1.959_964, 0.975), (3.090_232, 0.999)] {
            assert!((probability_below(z) - p).abs() < 1e-6, "{z}");
            assert!((probability_below(-z) - (1.0 - p)).abs() < 1e-6, "-{z}");
        }
        assert!(probability_below(40.0) <= 1.0 && probability_below(-40.0) >= 0.0);
    }
}
