//! Writes down every sample and action of a platform.

use crate::platform::{Platform, PlatformError, Scope, Store};
use quell_types::{Action, CapabilityReport, Knob, Sample, Setup};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One line of a recording.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum Record {
    Setup { setup: Box<Setup> },
    Sample { sample: Box<Sample> },
    Action { action: Box<Action> },
}

/// A platform whose run is written down, to be gone through again by [`crate::Replay`].
#[derive(Debug)]
pub struct Recorder<P, S> {
    inner: P,
    store: S,
}

impl<P: Platform, S: Store> Recorder<P, S> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If the store takes no record.
    pub fn new(inner: P, store: S) -> Result<Self, PlatformError> {
        let setup = Box::new(inner.setup().clone());
        let mut recorder = Self { inner, store };
        recorder.write(&Record::Setup { setup })?;
        Ok(recorder)
    }

    fn write(&mut self, record: &Record) -> Result<(), PlatformError> {
        let line = serde_json::to_string(record)
            .map_err(|error| PlatformError::Lost(format!("cannot record: {error}")))?;
        Ok(self.store.append(&line)?)
    }
}

impl<P: Platform, S: Store> Platform for Recorder<P, S> {
    fn setup(&self) -> &Setup {
        self.inner.setup()
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        self.inner.capabilities()
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        let sample = self.inner.sample(after, scope)?;
        self.write(&Record::Sample { sample: Box::new(sample.clone()) })?;
        Ok(sample)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        self.write(&Record::Action { action: Box::new(action.clone()) })?;
        self.inner.apply(action)
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.inner.restore()
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        self.inner.disown(knob)
    }
}
