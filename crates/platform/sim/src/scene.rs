//! What a simulated server begins with: machine, tenants, links, sensors, seed.

use crate::load::Load;
use crate::machine::{Machine, MachineError};
use crate::workload::{Program, ProgramError};
use quell_types::{BatchSpec, LinkSpec, ServiceSpec, Tenant};
use std::time::Duration;
use thiserror::Error;

/// A scene that cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SceneError {
    /// The machine cannot be.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A program cannot be.
    #[error("{tenant}: {error}")]
    Program {
        /// Whose.
        tenant: Tenant,
        /// What is wrong with it.
        error: ProgramError,
    },
    /// Two tenants of one name.
    #[error("{0} is there twice")]
    Twice(Tenant),
    /// A tenant sends on a link that is not there.
    #[error("{tenant} sends on {link}, which is not among the links")]
    NoLink {
        /// Who.
        tenant: Tenant,
        /// Where.
        link: String,
    },
    /// A number that cannot be.
    #[error("{tenant}: {why}")]
    Tenant {
        /// Whose.
        tenant: Tenant,
        /// What is wrong.
        why: String,
    },
    /// Pages that would never move.
    #[error("pages move at a finite rate above 0 bytes/s")]
    Pages,
    /// A period that cannot be.
    #[error("the tick must lie between 0.1 and 10 ms, not {0:?}")]
    Tick(Duration),
}

/// A latency-critical service and its clients (S-9).
#[derive(Clone, Debug, PartialEq)]
pub struct SimService {
    /// As policies know it.
    pub spec: ServiceSpec,
    /// How its workers behave; its phases are those of the whole service.
    pub program: Program,
    /// Worker threads: requests served at once.
    pub workers: u32,
    /// Mean work of a request in instructions.
    pub instructions: f64,
    /// Coefficient of variation of a request's work.
    pub variation: f64,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// What clients offer.
    pub load: Load,
}

/// A batch group and what runs in it from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct SimBatch {
    /// As policies know it.
    pub spec: BatchSpec,
    /// Programs that run from the start.
    pub programs: Vec<Program>,
}

/// Hardware sensors: noise, period and delay (S-1). The kernel's own counters are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensing {
    /// Standard deviation of a reading as a share of it.
    pub noise_frac: f64,
    /// How often a sensor takes a new value.
    pub period: Duration,
    /// How old a value is when it can be read.
    pub delay: Duration,
}

impl Default for Sensing {
    fn default() -> Self {
        Self { noise_frac: 0.02, period: Duration::from_millis(10), delay: Duration::ZERO }
    }
}

/// What a greedy flow may have below its socket before its thread sleeps (TCP small queues).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Bytes, whatever the link.
    pub bytes: f64,
    /// Seconds' worth at the link's rate, besides.
    pub seconds: f64,
}

impl Default for Flow {
    fn default() -> Self {
        Self { bytes: crate::calibrated::FLOW_BYTES, seconds: crate::calibrated::FLOW_S }
    }
}

/// How long a knob takes to work (S-1). Meanwhile it reads *pending*.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Actuation {
    /// CPU sets.
    pub cpus: Duration,
    /// Cache masks and bandwidth throttles.
    pub cache: Duration,
    /// Frequencies and duty cycles.
    pub frequency: Duration,
    /// Egress ceilings.
    pub egress: Duration,
    /// Weights, quotas, the freezer.
    pub group: Duration,
    /// Pages moved between nodes, in bytes/s; their memory serves nobody else with it.
    pub pages_bytes_per_s: f64,
}

impl Default for Actuation {
    fn default() -> Self {
        Self {
            cpus: Duration::from_millis(30),
            cache: Duration::from_millis(1),
            frequency: Duration::from_millis(1),
            egress: Duration::from_millis(300),
            group: Duration::ZERO,
            pages_bytes_per_s: 1e9,
        }
    }
}

/// Everything that a simulated server begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// The machine.
    pub machine: Machine,
    /// Services.
    pub services: Vec<SimService>,
    /// Batch groups.
    pub batch: Vec<SimBatch>,
    /// Links whose egress is shaped.
    pub links: Vec<LinkSpec>,
    /// Programs that tasks of the queue may name, by the first word of their command.
    pub programs: Vec<Program>,
    /// Sensors.
    pub sensing: Sensing,
    /// Knobs.
    pub actuation: Actuation,
    /// Greedy flows.
    pub flow: Flow,
    /// How often the hardware is looked at anew (S-1: 0.1 to 10 ms).
    pub tick: Duration,
    /// Whether ticks grow, up to 32 times, while little changes.
    pub stretch: bool,
    /// Whether CPU sets of groups must not overlap (`cpu_exclusive`). Then each begins with an
    /// equal part of the CPUs.
    pub exclusive_cpus: bool,
    /// Of all randomness.
    pub seed: u64,
}

impl Scene {
    /// An empty machine with the usual sensors and knobs.
    #[must_use]
    pub fn new(machine: Machine, seed: u64) -> Self {
        Self {
            machine,
            services: Vec::new(),
            batch: Vec::new(),
            links: Vec::new(),
            programs: Vec::new(),
            sensing: Sensing::default(),
            actuation: Actuation::default(),
            flow: Flow::default(),
            tick: Duration::from_millis(1),
            stretch: true,
            exclusive_cpus: false,
            seed,
        }
    }

    /// Looks for what cannot be played.
    ///
    /// # Errors
    /// The first thing found.
    pub fn validate(&self) -> Result<(), SceneError> {
        self.machine.validate()?;
        if !(self.actuation.pages_bytes_per_s.is_finite() && self.actuation.pages_bytes_per_s > 0.0)
        {
            return Err(SceneError::Pages);
        }
        if self.tick < Duration::from_micros(100) || self.tick > Duration::from_millis(10) {
            return Err(SceneError::Tick(self.tick));
        }
        let mut names: Vec<&Tenant> = self.tenants().map(|(name, _)| name).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(SceneError::Twice(twice[0].clone()));
        }
        for (tenant, links) in self.tenants() {
            let known = |link: &&quell_types::Link| self.links.iter().any(|l| &l.name == *link);
            if let Some(link) = links.iter().find(|link| !known(link)) {
                let (tenant, link) = (tenant.clone(), link.to_string());
                return Err(SceneError::NoLink { tenant, link });
            }
        }
        for (tenant, program) in self.all_programs() {
            let error = |error| SceneError::Program { tenant: tenant.clone(), error };
            program.validate(self.machine.nodes()).map_err(error)?;
        }
        self.services.iter().try_for_each(SimService::validate)
    }

    fn tenants(&self) -> impl Iterator<Item = (&Tenant, &Vec<quell_types::Link>)> {
        let services = self.services.iter().map(|s| (&s.spec.name, &s.spec.links));
        services.chain(self.batch.iter().map(|b| (&b.spec.name, &b.spec.links)))
    }

    fn all_programs(&self) -> impl Iterator<Item = (Tenant, &Program)> {
        let services = self.services.iter().map(|s| (s.spec.name.clone(), &s.program));
        let batch = self.batch.iter();
        let batch = batch.flat_map(|b| b.programs.iter().map(|p| (b.spec.name.clone(), p)));
        let queue = self.programs.iter().map(|p| (Tenant::from("the queue"), p));
        services.chain(batch).chain(queue)
    }
}

impl SimService {
    fn validate(&self) -> Result<(), SceneError> {
        let checks = [
            (self.workers > 0, "it has no worker"),
            (self.instructions > 0.0, "its requests are no work"),
            ((0.0..10.0).contains(&self.variation), "variation is not in 0..10"),
            (self.load.is_sound(), "its load is not finite, negative, or goes back in time"),
        ];
        let failed = checks.iter().find(|(well, _)| !well);
        failed.map_or(Ok(()), |(_, why)| {
            let (tenant, why) = (self.spec.name.clone(), (*why).to_owned());
            Err(SceneError::Tenant { tenant, why })
        })
    }
}
