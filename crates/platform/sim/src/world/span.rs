//! Spans of time as whole nanoseconds and as numbers to reckon with. Processors convert signed
//! numbers in one step, which is done for every event.

use super::NEVER;

/// Longer than any span that is looked at, and below where signed numbers end.
const ENDLESS: f64 = 9e18;

/// Whole nanoseconds that cover a span of at least 0; [`NEVER`] for one without end.
pub(super) fn whole_ns(span: f64) -> u64 {
    if span >= ENDLESS {
        return NEVER;
    }
    let whole = span as i64;
    (whole + i64::from((whole as f64) < span)) as u64
}

/// A span of nanoseconds, below [`ENDLESS`].
pub(super) fn span_of(ns: u64) -> f64 {
    ns as i64 as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_nanoseconds_cover_a_span() {
        assert_eq!([0.0, 0.25, 1.0, 1.5].map(whole_ns), [0, 1, 1, 2]);
        assert_eq!([9e18, 1e300, f64::INFINITY].map(whole_ns), [NEVER; 3]);
        assert_eq!([0, 1_500].map(span_of), [0.0, 1_500.0]);
    }
}
