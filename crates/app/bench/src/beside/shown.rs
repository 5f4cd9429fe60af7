//! The loop of `quell guard` on the preset.

use crate::agent_config::SERVICE;
use anyhow::anyhow;
use quell_agent::{Decisions, Introduction, Session};
use quell_config::Checked;
use quell_control::Entry;
use quell_platform::{Platform, PlatformError, Scope, StoreError};
use quell_sim::SimServer;
use quell_types::{
    Action, CapabilityReport, Knob, LogHistogram, Sample, Setup, Tenant, TenantReading,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The load generator among the groups of a scene.
pub(super) const GENERATOR: &str = "generator";
/// Counts come a whole second apart, but for rounding.
const ROUNDING_S: f64 = 1e-3;

/// Counters at a full sample.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Seconds since the begin.
    pub(super) at_s: f64,
    /// Of the service's requests, in nanoseconds.
    pub(super) latency: LogHistogram,
    /// Done by each tenant.
    pub(super) instructions: BTreeMap<Tenant, f64>,
}

/// A simulated server as an agent is shown it. The load generator is in no group that the
/// configuration names, as on the machine: no law sees it or has a knob of it.
struct Shown {
    server: SimServer,
    setup: Setup,
    generator: Tenant,
    counted: Option<Counts>,
}

impl Shown {
    fn new(server: SimServer) -> Self {
        let generator = Tenant::new(GENERATOR);
        let mut setup = server.setup().clone();
        setup.batch.retain(|batch| batch.name != generator);
        setup.knobs.retain(|knob, _| knob.tenant() != Some(&generator));
        Self { server, setup, generator, counted: None }
    }

    fn count(&mut self, sample: &Sample) -> Option<Counts> {
        let service = sample.tenants.get(&Tenant::new(SERVICE))?;
        let latency = service.requests.as_ref().ok()?.latency_ns.clone().ok()?;
        let at_s = sample.time.as_secs_f64();
        Some(Counts { at_s, latency, instructions: self.server.truth().instructions })
    }

    fn hide(&self, sample: &mut Sample) {
        sample.tenants.remove(&self.generator);
        sample.tenants.values_mut().for_each(|reading| self.hide_behind(reading));
        let knobs = Arc::make_mut(&mut sample.knobs);
        knobs.retain(|knob, _| knob.tenant() != Some(&self.generator));
    }

    /// A service that stood behind the generator, or ran beside it, did so with a group that nobody named.
    fn hide_behind(&self, reading: &mut TenantReading) {
        if let Ok(waits) = &mut reading.waits {
            waits.others_ns += waits.behind_ns.remove(&self.generator).unwrap_or(0);
        }
        if let Ok(company) = &mut reading.company {
            let beside = company.tenants.remove(&self.generator).unwrap_or_default();
            company.others.cpu_ns += beside.cpu_ns;
            company.others.sends += beside.sends;
        }
    }
}

impl Platform for Shown {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        self.server.capabilities()
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        let mut sample = self.server.sample(after, scope)?;
        if scope == Scope::Full {
            self.counted = self.count(&sample);
        }
        self.hide(&mut sample);
        Ok(sample)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        self.server.apply(action)
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.server.restore()
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        self.server.disown(knob)
    }
}

/// Nobody asks why.
struct Unwritten;

impl Decisions for Unwritten {
    fn append(&mut self, _: &Entry) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Lets an agent guard a server; counters of each full sample from `settle_s` on, for `seconds`.
///
/// # Errors
/// The law cannot begin, or batch is held because something failed.
pub(super) fn play(
    server: SimServer,
    config: &Checked,
    settle_s: f64,
    seconds: f64,
) -> anyhow::Result<Vec<Counts>> {
    let introduction = Introduction { word: "started", pid: 1, say: |_| () };
    let begun = Session::begin(Shown::new(server), config, Unwritten, introduction);
    let mut session = begun.map_err(|(error, _)| anyhow!("{error}"))?;
    let mut all: Vec<Counts> = Vec::new();
    loop {
        let _ = session.step();
        if let Some(why) = session.held() {
            anyhow::bail!("batch is held: {why}");
        }
        let counts = session.platform().counted.take();
        all.extend(counts.filter(|counts| counts.at_s >= settle_s));
        let ends = all.first().zip(all.last());
        if ends.is_some_and(|(a, b)| b.at_s - a.at_s >= seconds - ROUNDING_S) {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_sim::{Scene, SimBatch, preset, program};
    use quell_types::BatchSpec;

    #[test]
    fn an_agent_neither_sees_nor_steers_the_generator() {
        let mut scene = Scene::new(preset("vm2-xeon").unwrap(), 1);
        scene.batch = [GENERATOR, "other"]
            .map(|name| SimBatch {
                spec: BatchSpec {
                    name: name.into(),
                    links: vec![],
                    takes_tasks: false,
                    max_tasks: 0,
                },
                programs: vec![program("integer").unwrap()],
            })
            .into();
        let server = SimServer::new(&scene).unwrap();
        let named = |setup: &Setup| setup.knobs.keys().filter_map(Knob::tenant).cloned().collect();
        let before: Vec<Tenant> = named(server.setup());
        assert!(before.contains(&GENERATOR.into()));
        let mut shown = Shown::new(server);
        let after: Vec<Tenant> = named(shown.setup());
        assert!(!after.contains(&GENERATOR.into()) && after.contains(&"other".into()));
        let sample = shown.sample(Duration::from_secs(1), Scope::Full).unwrap();
        assert_eq!(sample.tenants.keys().collect::<Vec<_>>(), [&Tenant::new("other")]);
        assert!(sample.knobs.keys().all(|knob| knob.tenant() != Some(&GENERATOR.into())));
        assert!(sample.knobs.keys().any(|knob| knob.tenant() == Some(&"other".into())));
    }
}
