//! What one step looks at.

use super::Worst;
use quell_types::{Observation, Setup, Time};

/// Setup, observation and what they say of the worst service.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) seen: &'a Observation,
    pub(crate) worst: Worst,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(setup: &'a Setup, seen: &'a Observation) -> Self {
        Self { setup, seen, worst: Worst::of(seen) }
    }

    pub(crate) fn now(&self) -> Time {
        self.seen.time
    }
}
