//! Writes down every sample and action of a platform.

use crate::platform::{Platform, PlatformError, Scope, Store};
use quell_types::{Action, CapabilityReport, Knob, Sample, Setup};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Line", into = "Line")]
pub(crate) enum Record {
    Setup { setup: Box<Setup> },
    Sample { sample: Box<Sample> },
    Action { action: Box<Action> },
}

/// A record as JSON: its kind, and the one thing of that kind. serde's tagged enums would look the
/// same, but they are read through a buffer that takes no numbers for keys, and so could not read
/// back what was written (power by socket, frequency by CPU).
#[derive(Serialize, Deserialize)]
struct Line {
    record: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setup: Option<Box<Setup>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample: Option<Box<Sample>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<Box<Action>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Setup,
    Sample,
    Action,
}

impl From<Record> for Line {
    fn from(record: Record) -> Self {
        let empty = |record| Line { record, setup: None, sample: None, action: None };
        match record {
            Record::Setup { setup } => Line { setup: Some(setup), ..empty(Kind::Setup) },
            Record::Sample { sample } => Line { sample: Some(sample), ..empty(Kind::Sample) },
            Record::Action { action } => Line { action: Some(action), ..empty(Kind::Action) },
        }
    }
}

impl TryFrom<Line> for Record {
    type Error = &'static str;

    fn try_from(line: Line) -> Result<Self, Self::Error> {
        match line {
            Line { record: Kind::Setup, setup: Some(setup), .. } => Ok(Record::Setup { setup }),
            Line { record: Kind::Sample, sample: Some(sample), .. } => {
                Ok(Record::Sample { sample })
            }
            Line { record: Kind::Action, action: Some(action), .. } => {
                Ok(Record::Action { action })
            }
            _ => Err("it does not hold what it says it is"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;
    use quell_types::{Celsius, Gap, Watts};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn readings_by_number_come_back() {
        let mut table = Table::new(Setup::default(), BTreeMap::new());
        let mut sample = table.sample(Duration::from_secs(1), Scope::Full).unwrap();
        sample.host.power = Ok(BTreeMap::from([(0, Watts(12.5)), (1, Watts(0.1))]));
        sample.host.frequency_khz = Ok(BTreeMap::from([(7, 2_400_000)]));
        sample.host.bus_locks = Ok(Arc::new(BTreeMap::from([(0, 12), (3, 0)])));
        sample.host.temperature = Ok(BTreeMap::from([(1, Celsius(61.5))]));
        sample.host.cpu_busy_ns = Ok(BTreeMap::from([(2, 7)]));
        let line = serde_json::to_string(&Record::Sample { sample: Box::new(sample.clone()) });
        let line = line.unwrap();
        assert!(line.starts_with("{\"record\":\"sample\",\"sample\":{"), "{line}");
        match serde_json::from_str(&line).unwrap() {
            Record::Sample { sample: read } => assert_eq!(*read, sample),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_recording_that_is_older_than_a_reading_has_a_gap_in_its_place() {
        let mut table = Table::new(Setup::default(), BTreeMap::new());
        let sample = table.sample(Duration::from_secs(1), Scope::Full).unwrap();
        let line = serde_json::to_string(&Record::Sample { sample: Box::new(sample) }).unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let host = value["sample"]["host"].as_object_mut().unwrap();
        for new in ["bus_locks", "temperature", "cpu_busy_ns"] {
            assert!(host.remove(new).is_some(), "{new}");
        }
        match serde_json::from_str(&value.to_string()).unwrap() {
            Record::Sample { sample } => {
                assert!(matches!(sample.host.bus_locks, Err(Gap::Absent(_))));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_must_hold_what_it_says() {
        for line in ["{\"record\":\"sample\"}", "{\"record\":\"tea\"}", "{}"] {
            assert!(serde_json::from_str::<Record>(line).is_err(), "{line}");
        }
    }
}
