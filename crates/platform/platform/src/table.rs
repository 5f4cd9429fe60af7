//! The smallest platform: knobs in a map, readings as the test sets them.

use crate::platform::{Platform, PlatformError, Scope};
use quell_types::{
    Action, CapabilityReport, CpuTimes, Gap, HostReading, Knob, Outcome, Sample, Setting, Setup,
    Tenant, TenantReading, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Does what it is told and reads back what it was told. Time passes only by sampling.
#[derive(Clone, Debug)]
pub struct Table {
    setup: Setup,
    time: Time,
    first: BTreeMap<Knob, Setting>,
    knobs: BTreeMap<Knob, Setting>,
    tenants: BTreeMap<Tenant, TenantReading>,
    outcomes: Vec<Outcome>,
}

impl Table {
    /// A machine with these knobs at these settings.
    #[must_use]
    pub fn new(setup: Setup, knobs: BTreeMap<Knob, Setting>) -> Self {
        Self {
            setup,
            time: Time(0),
            first: knobs.clone(),
            knobs,
            tenants: BTreeMap::new(),
            outcomes: Vec::new(),
        }
    }

    /// Sets what the next samples read of a tenant.
    pub fn set_reading(&mut self, tenant: Tenant, reading: TenantReading) {
        self.tenants.insert(tenant, reading);
    }

    /// Changes a knob behind the agent's back, as another program would.
    pub fn change_behind(&mut self, knob: Knob, setting: Setting) {
        self.knobs.insert(knob, setting);
    }

    fn host(&self) -> HostReading {
        let gap = || Gap::absent("a table has no such sensor");
        HostReading {
            cpu: Ok(CpuTimes { busy_ns: self.time.0, idle_ns: self.time.0, steal_ns: 0 }),
            ..HostReading::missing(&gap())
        }
    }
}

impl Platform for Table {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        Vec::new()
    }

    fn sample(&mut self, after: Duration, _: Scope) -> Result<Sample, PlatformError> {
        self.time = self.time + after;
        Ok(Sample {
            time: self.time,
            wall_unix_ms: self.time.0 / 1_000_000,
            host: self.host(),
            tenants: self.tenants.clone(),
            links: BTreeMap::new(),
            knobs: Arc::new(self.knobs.iter().map(|(k, s)| (k.clone(), Ok(s.clone()))).collect()),
            tasks: Vec::new(),
            experiments: Vec::new(),
            probes: Vec::new(),
            bursts: Vec::new(),
            outcomes: std::mem::take(&mut self.outcomes),
            link_capacity: BTreeMap::new(),
        })
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        let error = match action {
            Action::Set { knob, to } if self.knobs.contains_key(knob) => {
                self.knobs.insert(knob.clone(), to.clone());
                None
            }
            Action::Set { knob, .. } => Some(format!("{knob} is not here")),
            _ => Some("a table has no tasks".to_string()),
        };
        self.outcomes.push(Outcome { action: action.clone(), time: self.time, error });
        Ok(())
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.knobs = self.first.clone();
        Ok(())
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        if let Some(now) = self.knobs.get(knob) {
            self.first.insert(knob.clone(), now.clone());
        }
        Ok(())
    }
}
