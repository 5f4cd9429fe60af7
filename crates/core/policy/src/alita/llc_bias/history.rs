//! What was seen lately.

use super::{SocketReading, TenantShare, quota, want};
use std::collections::VecDeque;

/// Weights of the window, the newest last.
const WEIGHTS: [f64; 6] = [0.1, 0.1, 0.1, 0.2, 0.2, 0.3];

/// What is true in more than this part of the window, by weight, counts.
const MOST: f64 = 0.5;

/// The latest values, the newest last; begins as if all had always been fair and quiet.
#[derive(Clone, Debug)]
pub(super) struct Window(VecDeque<f64>);

impl Window {
    pub(super) fn of(value: f64) -> Self {
        Self(std::iter::repeat_n(value, WEIGHTS.len()).collect())
    }

    pub(super) fn push(&mut self, value: f64) {
        self.0.pop_front();
        self.0.push_back(value);
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().zip(WEIGHTS).map(|(value, weight)| value * weight).sum()
    }
}

/// One tenant lately.
#[derive(Clone, Debug)]
pub(super) struct History {
    occupied_bytes: Window,
    /// 1 where it missed so much that it could have mattered.
    moving: Window,
    /// 1 where it waited for that, too.
    wanting: Window,
    /// 1 where it lost by what it lacked of its share.
    losing: Window,
    /// 1 where it read ahead.
    sweeping: Window,
}

impl History {
    /// Begins as if it had always held what it holds, and been quiet.
    pub(super) fn new(share: &TenantShare) -> Self {
        let [moving, wanting, losing, sweeping] = [0.0; 4].map(Window::of);
        Self { occupied_bytes: Window::of(share.occupied_bytes), moving, wanting, losing, sweeping }
    }

    /// Adds a reading of a tenant at a memory rate in percent. `least_frac` is the share of CPU
    /// time from which a loss counts.
    pub(super) fn push(
        &mut self,
        seen: &SocketReading,
        share: &TenantShare,
        percent: u32,
        least_frac: f64,
    ) {
        let part_held = share.occupied_bytes / quota(seen, share).max(1.0);
        let waiting = want::waiting_frac(share, percent);
        let vote = |value: f64| f64::from(u8::from(value >= least_frac));
        self.occupied_bytes.push(share.occupied_bytes);
        self.moving.push(vote(want::under_way(share)));
        self.wanting.push(vote(waiting));
        self.losing.push(vote(want::lost_frac(waiting, part_held)));
        self.sweeping.push(f64::from(u8::from(want::sweeps(share, percent))));
    }

    /// Bytes that it holds, by the window.
    pub(super) fn occupied_bytes(&self) -> f64 {
        self.occupied_bytes.mean()
    }

    /// Whether it misses next to nothing, by most of the window.
    pub(super) fn is_quiet(&self) -> bool {
        self.moving.mean() <= MOST
    }

    /// Whether it waits for more than it holds, by most of the window.
    pub(super) fn wants(&self) -> bool {
        self.wanting.mean() > MOST
    }

    /// Whether it loses by what it lacks of its share, by most of the window.
    pub(super) fn loses(&self) -> bool {
        self.losing.mean() > MOST
    }

    /// Whether it reads ahead, by most of the window.
    pub(super) fn sweeps(&self) -> bool {
        self.sweeping.mean() > MOST
    }
}
