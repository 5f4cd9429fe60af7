//! Parameters of `who`.

use quell_model::blame::FindingParams;

/// Parameters of `who`.
#[derive(Clone, Debug, PartialEq)]
pub struct WhoParams {
    /// Time between two steps, in seconds.
    pub period_s: f64,
    /// A suspect is held for at most this share of its time.
    pub held_share_frac: f64,
    /// Length of a chip in milliseconds, where requests are frequent.
    pub chip_ms: u64,
    /// Longest chip, where they are not.
    pub longest_chip_ms: u64,
    /// Requests that a side of a look should have at least.
    pub look_requests: f64,
    /// A group that uses less CPU than this hurts nobody, and is not held.
    pub least_cpus: f64,
    /// When somebody is named, and when the harm is serious: until it is known whether it is, who is named
    /// is looked at again.
    pub finding: FindingParams,
    /// Whether it makes looks; else it learns from those that another law makes, and by chance.
    pub looks: bool,
    /// Whether a reporter runs on a CPU that is idle, to tell what is fought over.
    pub reporters: bool,
    /// Whether the law that it is a part of lets those come before all others of whom it is watched what they
    /// want.
    pub feeds: bool,
    /// Whether it weighs beside whom a service runs.
    pub company: bool,
}

impl Default for WhoParams {
    fn default() -> Self {
        Self {
            period_s: 0.25,
            held_share_frac: 0.01,
            chip_ms: 25,
            longest_chip_ms: 100,
            look_requests: 60.0,
            least_cpus: 0.02,
            finding: FindingParams::default(),
            looks: true,
            reporters: true,
            feeds: false,
            company: true,
        }
    }
}
