//! How much more the harm of a trial is than what a search sees of it.

/// Harm that is assumed to have been seen at first, in ln: about the middle of the class, twice.
const ASSUMED_LN: f64 = 0.2;
/// It grows by no more than so much: where hardly anybody hurts, the greatest of three factors is chance.
const MOST: f64 = 2.0;

/// How much more the harm of a trial is than what a search sees of it, as a factor in ln.
///
/// It is the sum of all harms over that of what was seen, so that trials that saw hardly any say little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Growth {
    harm_ln: f64,
    seen_ln: f64,
}

impl Default for Growth {
    /// Before anything was seen: none, as if two trials of little harm had said so.
    fn default() -> Self {
        Self { harm_ln: ASSUMED_LN, seen_ln: ASSUMED_LN }
    }
}

impl Growth {
    /// Learns from a trial that is over: its harm, and what a search would have seen of it, in ln.
    pub(in super::super) fn learn(&mut self, harm_ln: f64, seen_ln: f64) {
        self.harm_ln += harm_ln;
        self.seen_ln += seen_ln;
    }

    /// From 1: harm is the greatest of several factors, of which what is seen is one.
    pub(in super::super) fn factor(self) -> f64 {
        (self.harm_ln / self.seen_ln.max(ASSUMED_LN)).clamp(1.0, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_none_and_comes_to_what_trials_show() {
        let mut growth = Growth::default();
        assert!((growth.factor() - 1.0).abs() < 1e-12);
        growth.learn(0.13, 0.1);
        let once = growth.factor();
        (0..50).for_each(|_| growth.learn(0.13, 0.1));
        assert!(1.0 < once && once < 1.15 && (growth.factor() - 1.3).abs() < 0.02, "{growth:?}");
    }

    #[test]
    fn chance_alone_leads_it_neither_below_one_nor_beyond_bounds() {
        let mut growth = Growth::default();
        (0..50).for_each(|_| growth.learn(0.04, -0.01));
        assert!((growth.factor() - MOST).abs() < 1e-12, "{growth:?}");
        let mut less = Growth::default();
        less.learn(-0.1, 0.1);
        assert!((less.factor() - 1.0).abs() < 1e-12, "{less:?}");
    }
}
