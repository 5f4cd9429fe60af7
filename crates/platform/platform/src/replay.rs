//! Goes through a recording again.

use crate::platform::{Platform, PlatformError, Scope, Store};
use crate::recorder::Record;
use quell_types::{Action, CapabilityReport, Knob, Sample, Setup};
use std::collections::VecDeque;
use std::time::Duration;

/// A platform that gives recorded samples back and compares what it is asked to do with what was
/// done then. It changes nothing.
#[derive(Debug)]
pub struct Replay {
    setup: Setup,
    samples: VecDeque<Sample>,
    recorded: Vec<Action>,
    asked: Vec<Action>,
}

impl Replay {
    /// Reads a recording.
    ///
    /// # Errors
    /// If it cannot be read, or a line is no record (with its number).
    pub fn open<S: Store>(store: &mut S) -> Result<Self, PlatformError> {
        let mut replay = Self {
            setup: Setup::default(),
            samples: VecDeque::new(),
            recorded: Vec::new(),
            asked: Vec::new(),
        };
        for (number, line) in store.read()?.iter().enumerate() {
            let record = serde_json::from_str(line).map_err(|error| {
                PlatformError::Lost(format!("line {} is no record: {error}", number + 1))
            })?;
            match record {
                Record::Setup { setup } => replay.setup = *setup,
                Record::Sample { sample } => replay.samples.push_back(*sample),
                Record::Action { action } => replay.recorded.push(*action),
            }
        }
        Ok(replay)
    }

    /// What was done in the recorded run.
    #[must_use]
    pub fn recorded(&self) -> &[Action] {
        &self.recorded
    }

    /// What was asked of the replay so far.
    #[must_use]
    pub fn asked(&self) -> &[Action] {
        &self.asked
    }
}

impl Platform for Replay {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        Vec::new()
    }

    /// The next recorded sample; the end of the recording is [`PlatformError::Lost`].
    fn sample(&mut self, _: Duration, _: Scope) -> Result<Sample, PlatformError> {
        let end = || PlatformError::Lost("the recording ends here".into());
        self.samples.pop_front().ok_or_else(end)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        self.asked.push(action.clone());
        Ok(())
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        Ok(())
    }

    fn disown(&mut self, _: &Knob) -> Result<(), PlatformError> {
        Ok(())
    }
}
