//! How thoroughly a workload is tried beside one kind of pressure.

use std::time::Duration;

/// How long and how well.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The length of a window.
    pub window: Duration,
    /// After the dial was turned: caches fill.
    pub settle: Duration,
    /// Levels that are always measured besides 100, for the curve.
    pub grid: &'static [f64],
    /// Pairs at each of those.
    pub pairs: usize,
    /// Pairs of windows of the reporter, beside the workload and beside nothing.
    pub listens: usize,
    /// The search ends at this resolution, and what is measured besides when the interval is as narrow.
    pub resolution: f64,
    /// Time for one resource, the reporter's included.
    pub budget: Duration,
}

impl Effort {
    /// A full profile: up to eight seconds a resource.
    pub const FULL: Effort = Effort {
        window: Duration::from_millis(60),
        settle: Duration::from_millis(15),
        grid: &[25.0, 50.0, 75.0],
        pairs: 4,
        listens: 4,
        resolution: 7.0,
        budget: Duration::from_secs(8),
    };

    /// A quick one: up to a second and a half a resource.
    pub const QUICK: Effort = Effort {
        window: Duration::from_millis(30),
        settle: Duration::from_millis(8),
        grid: &[],
        pairs: 4,
        listens: 3,
        resolution: 15.0,
        budget: Duration::from_millis(1400),
    };

    /// In no more time than this: where it is too short for enough windows they are shorter, but not than `least`, in
    /// which the workload's progress means something.
    #[must_use]
    pub(crate) fn within(self, time: Duration, least: Duration) -> Effort {
        let window = self.window.min((time / WINDOWS).max(LEAST_WINDOW).max(least));
        Effort { window, budget: self.budget.min(time), ..self }
    }
}

/// A trial wants time for so many.
const WINDOWS: u32 = 24;
/// They are not made shorter than this for anybody.
pub(super) const LEAST_WINDOW: Duration = Duration::from_millis(40);
