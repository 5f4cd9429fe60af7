//! What is judged over how long.

use crate::{InflationParams, WindowParams};

/// Lengths of windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObserverParams {
    /// The window on which the objective is judged.
    pub full: WindowParams,
    /// The window of the fast path.
    pub fast: WindowParams,
    /// What makes a comparison of CPU time per request good enough.
    pub inflation: InflationParams,
}

impl Default for ObserverParams {
    fn default() -> Self {
        Self {
            full: WindowParams { min_s: 0.95, min_requests: 300, max_s: 10.0 },
            fast: WindowParams { min_s: 0.2, min_requests: 60, max_s: 1.0 },
            inflation: InflationParams::default(),
        }
    }
}
