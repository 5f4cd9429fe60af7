//! An objective that is missed even alone.

use super::{Scene, seconds};
use quell_types::Time;

/// Notices that a service has missed its objective for long although batch is off: then batch is
/// not to blame, and the operator should know. Says so once, and again only after the objective
/// was met in between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unreachable {
    since: Option<Time>,
    said: bool,
}

impl Unreachable {
    /// Whether to say it now.
    pub(crate) fn now(&mut self, scene: &Scene<'_>, batch_off: bool, after_s: f64) -> bool {
        if !batch_off || !scene.worst.slack_below(0.0) {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(scene.now());
        let now = !self.said && scene.now() >= since + seconds(after_s);
        self.said |= now;
        now
    }
}
