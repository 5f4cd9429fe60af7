//! How far apart two CPUs are, for who measures while others work.

use super::look::Nearest;
use super::threads::Canary;

/// Passes a line between two CPUs now and then.
#[derive(Debug)]
pub struct Lines {
    canary: Canary,
    first: u32,
    second: u32,
}

impl Lines {
    /// Between these two, which differ; none if no threads are to be had.
    #[must_use]
    pub fn between(first: u32, second: u32) -> Option<Lines> {
        (first != second).then(Canary::before_others)?.map(|canary| Lines { canary, first, second })
    }

    /// What it takes each way now, in ns: some hundred microseconds of both CPUs, of which whoever has them is
    /// made to wait; none where they were not to be had so soon.
    #[must_use]
    pub fn passes_ns(&self) -> Option<f64> {
        self.canary.passes_ns(self.first, self.second)
    }

    /// Whether it takes so much longer now than the shortest way that these lines ever took, or so nearly as long as
    /// a read from memory, that the CPUs can share no cache; false where that is not to be seen.
    pub fn are_distant(&mut self) -> bool {
        self.canary.are_distant(self.first, self.second)
    }
}

/// Which of these ways, in ns, are so much longer than the shortest that the CPUs can have shared no cache then.
/// Where all are alike none is.
#[must_use]
pub fn are_distant(ways_ns: &[f64]) -> Vec<bool> {
    let mut nearest = Nearest::default();
    ways_ns.iter().for_each(|ns| _ = nearest.is_farther(Some(*ns)));
    ways_ns.iter().map(|ns| nearest.is_farther(Some(*ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_pressure::allowed_cpus;

    #[test]
    fn a_line_is_passed_beside_whoever_works() {
        let cpus: Vec<u32> = allowed_cpus().unwrap().iter().collect();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        assert!(Lines::between(first, first).is_none());
        let Some(lines) = Lines::between(first, last) else { return assert_eq!(first, last) };
        let told: Vec<f64> = (0..20).filter_map(|_| lines.passes_ns()).collect();
        assert!(!told.is_empty() && told.iter().all(|ns| *ns > 1.0), "{told:?}");
        assert_eq!(Lines::between(first, 60_000).and_then(|lines| lines.passes_ns()), None);
    }

    #[test]
    fn far_is_what_is_farther_than_any_other_whenever_that_was() {
        assert_eq!(are_distant(&[150.0, 160.0, 28.0, 155.0]), [true, true, false, true]);
        assert_eq!(are_distant(&[150.0, 160.0]), [false, false]);
        assert_eq!(are_distant(&[]), Vec::<bool>::new());
    }
}
