//! Mean and scatter of values of which old ones count less.

/// How many values, their sum, and that of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

impl Moments {
    pub(super) fn of(value: f64) -> Self {
        Self { count: 1.0, sum: value, squares: value * value }
    }

    /// So much is kept of what was there, and this added.
    pub(super) fn fade(&mut self, keep: f64, more: Self) {
        self.count = keep * self.count + more.count;
        self.sum = keep * self.sum + more.sum;
        self.squares = keep * self.squares + more.squares;
    }

    pub(super) fn less(self, part: Self) -> Self {
        Self {
            count: self.count - part.count,
            sum: self.sum - part.sum,
            squares: self.squares - part.squares,
        }
    }

    pub(super) fn mean(self) -> f64 {
        self.sum / self.count
    }

    pub(super) fn variance(self) -> f64 {
        (self.squares / self.count - self.mean() * self.mean()).max(0.0)
    }

    pub(super) fn variance_of_mean(self) -> f64 {
        self.variance() / self.count
    }
}
