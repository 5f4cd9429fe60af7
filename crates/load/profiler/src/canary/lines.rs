//! How far apart two CPUs are, for who measures while others work.

use super::look::Nearest;
use super::threads::{Canary, memory_ns};

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

/// What lines take between two CPUs of this machine: which ways are so long that the two can have shared no cache.
#[derive(Clone, Copy, Debug)]
pub struct Ways(Nearest);

impl Ways {
    /// Of this machine; what a read from memory takes is measured, for some milliseconds.
    #[must_use]
    pub fn here() -> Self {
        Self::where_memory_takes(memory_ns())
    }

    /// Of a machine on which a read from memory takes so many ns, if that is known.
    #[must_use]
    pub fn where_memory_takes(memory_ns: Option<f64>) -> Self {
        Self(Nearest::where_memory_takes(memory_ns))
    }

    /// Which of these, in ns, are so much longer than the shortest that was ever told, these included, or so nearly
    /// as long as a read from memory.
    #[must_use]
    pub fn are_distant(&mut self, ways_ns: &[f64]) -> Vec<bool> {
        let Self(nearest) = self;
        ways_ns.iter().for_each(|ns| _ = nearest.is_farther(Some(*ns)));
        ways_ns.iter().map(|ns| nearest.is_farther(Some(*ns))).collect()
    }
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
        let told = |memory_ns, ways: &[f64]| Ways::where_memory_takes(memory_ns).are_distant(ways);
        assert_eq!(told(None, &[150.0, 160.0, 28.0, 155.0]), [true, true, false, true]);
        assert_eq!(told(None, &[150.0, 160.0]), [false, false]);
        assert_eq!(told(None, &[]), Vec::<bool>::new());
        assert_eq!(told(Some(139.0), &[150.0, 110.0]), [true, false], "as far as memory");
        let mut ways = Ways::where_memory_takes(None);
        assert_eq!(ways.are_distant(&[28.0]), [false]);
        assert_eq!(ways.are_distant(&[150.0, 30.0]), [true, false], "what was told before counts");
    }
}
