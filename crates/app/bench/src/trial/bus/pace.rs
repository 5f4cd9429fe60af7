//! Until when the trial goes on.

use std::time::{Duration, Instant};

/// It goes on until a while after the locker has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    afterwards: Duration,
    ended: Option<Instant>,
}

impl Pace {
    /// So long after its end.
    pub(super) fn new(afterwards: Duration) -> Self {
        Self { afterwards, ended: None }
    }

    /// Whether to go on, now that the locker has ended or not.
    pub(super) fn goes_on(&mut self, now: Instant, ended: bool) -> bool {
        if ended {
            self.ended.get_or_insert(now);
        }
        self.ended.is_none_or(|ended| now.saturating_duration_since(ended) < self.afterwards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_on_for_a_while_after_the_end() {
        let mut pace = Pace::new(Duration::from_secs(1));
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(pace.goes_on(at(0), false) && pace.goes_on(at(9000), false));
        assert!(pace.goes_on(at(9100), true) && pace.goes_on(at(10_000), true));
        assert!(!pace.goes_on(at(10_100), true));
    }
}
