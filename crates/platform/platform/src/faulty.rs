//! Any platform with faults thrown at it.

use crate::platform::{Platform, PlatformError, Scope};
use quell_types::{
    Action, CapabilityReport, Gap, Knob, Outcome, Sample, Setup, Tenant, TenantReading, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What goes wrong at one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The next write is lost without a word.
    LoseWrite,
    /// The next write is refused.
    RefuseWrite(String),
    /// The next write arrives this many samples late.
    DelayWrite(u32),
    /// A tenant's sensors give nothing in this sample.
    Blind(Tenant),
    /// A tenant is gone in this sample.
    Gone(Tenant),
    /// The sample is the one before, at a new time: a sensor that stalls.
    Stall,
}

/// Throws faults by the number of the sample (from 1), so that a run can be repeated exactly.
#[derive(Debug)]
pub struct Faulty<P> {
    inner: P,
    faults: BTreeMap<u64, Vec<Fault>>,
    samples: u64,
    armed: VecDeque<Fault>,
    late: Vec<(u64, Action)>,
    refused: Vec<Outcome>,
    last: Option<Sample>,
    time: Time,
}

impl<P: Platform> Faulty<P> {
    /// Wraps a platform.
    #[must_use]
    pub fn new(inner: P, faults: BTreeMap<u64, Vec<Fault>>) -> Self {
        Self {
            inner,
            faults,
            samples: 0,
            armed: VecDeque::new(),
            late: Vec::new(),
            refused: Vec::new(),
            last: None,
            time: Time(0),
        }
    }

    fn apply_late(&mut self) -> Result<(), PlatformError> {
        let due = self.samples;
        let (now, later) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= due);
        self.late = later;
        let now: Vec<(u64, Action)> = now;
        now.iter().try_for_each(|(_, action)| self.inner.apply(action))
    }

    fn spoil(&mut self, sample: &mut Sample) {
        for fault in self.faults.remove(&self.samples).unwrap_or_default() {
            match fault {
                Fault::Blind(tenant) => {
                    let gap = Gap::Failed("the sensor gave nothing".into());
                    sample.tenants.insert(tenant, TenantReading::missing(&gap));
                }
                Fault::Gone(tenant) => {
                    let gap = Gap::Gone(tenant.to_string());
                    sample.tenants.insert(tenant, TenantReading::missing(&gap));
                }
                Fault::Stall => {
                    if let Some(last) = &self.last {
                        *sample = Sample { time: sample.time, ..last.clone() };
                    }
                }
                write => self.armed.push_back(write),
            }
        }
    }
}

impl<P: Platform> Platform for Faulty<P> {
    fn setup(&self) -> &Setup {
        self.inner.setup()
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        self.inner.capabilities()
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        self.samples += 1;
        self.apply_late()?;
        let mut sample = self.inner.sample(after, scope)?;
        self.spoil(&mut sample);
        sample.outcomes.append(&mut self.refused);
        self.time = sample.time;
        self.last = Some(sample.clone());
        Ok(sample)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        match self.armed.pop_front() {
            None | Some(Fault::Blind(_) | Fault::Gone(_) | Fault::Stall) => {
                self.inner.apply(action)
            }
            Some(Fault::LoseWrite) => Ok(()),
            Some(Fault::DelayWrite(samples)) => {
                self.late.push((self.samples + u64::from(samples), action.clone()));
                Ok(())
            }
            Some(Fault::RefuseWrite(why)) => {
                let time = self.time;
                self.refused.push(Outcome { action: action.clone(), time, error: Some(why) });
                Ok(())
            }
        }
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.inner.restore()
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        self.inner.disown(knob)
    }
}
