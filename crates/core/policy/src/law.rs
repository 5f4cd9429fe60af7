//! The trait of all control laws, and how one is chosen by name.

use crate::alita::{
    BusLockLaw, BusLockParams, LlcBiasLaw, LlcBiasParams, PowerLaw, PowerParams, StaticWays,
};
use crate::culprit::{Culprit, CulpritParams};
use crate::fixed::{Static, StaticParams};
use crate::heracles::{Heracles, HeraclesParams};
use crate::none::None;
use crate::os_only::{OsOnly, OsOnlyParams};
use crate::parties::{Parties, PartiesParams};
use crate::quell::{Quell, QuellParams};
use crate::refresh::Tolerance;
use crate::thesis::{Thesis, ThesisParams};
use quell_model::blame::{Finding, Pressing};
use quell_types::{Observation, Proposal, Setup, SharedResource, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// A control law: parameters, state, and a step.
pub trait Policy: Send {
    /// Its name, the same in configuration, journal and reports.
    fn name(&self) -> &'static str;

    /// How often it wants to step. The engine steps it on the first sample at, after or hardly
    /// before each multiple of this; a policy with several loops names the shortest. Experiments
    /// and probes that ended between two steps are told at the second.
    fn period(&self) -> Duration;

    /// Decides. Called with samples in rising time; must not depend on anything else.
    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal>;

    /// Who slows each service, as far as this policy finds out.
    fn findings(&self) -> BTreeMap<Tenant, Finding> {
        BTreeMap::new()
    }

    /// What groups press on, whether or not that hurts anybody, as far as this policy finds out.
    fn pressing(&self) -> Vec<Pressing> {
        Vec::new()
    }

    /// What services tolerate of shared resources, as far as this policy finds out.
    fn tolerances(&self) -> BTreeMap<Tenant, BTreeMap<SharedResource, Tolerance>> {
        BTreeMap::new()
    }

    /// What it wants to be read beyond what every sample tells.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What it does without, on this setup: one sentence for each knob, sensor or parameter that
    /// it would use and does not have. For the journal's first lines and `quell doctor`.
    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let _ = setup;
        Vec::new()
    }
}

/// Readings that cost too much to be taken where no law looks at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bus locks of each CPU, and of groups.
    pub bus_locks: bool,
    /// Temperature and busy time of each CPU.
    pub temperatures: bool,
    /// Bursts of a reporter on idle CPUs.
    pub reporters: bool,
}

impl Needs {
    /// What either wants.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bus_locks: self.bus_locks || other.bus_locks,
            temperatures: self.temperatures || other.temperatures,
            reporters: self.reporters || other.reporters,
        }
    }
}

/// The control laws of `quell guard`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Touches nothing; tasks run. The baseline.
    None,
    /// What the kernel offers by itself: idle class and lowest weight for batch.
    OsOnly,
    /// One fixed split or quota.
    Static,
    /// The thesis' controllers (T.3 to T.6).
    Thesis,
    /// Heracles (H-2).
    Heracles,
    /// PARTIES, for several services.
    Parties,
    /// Cache ways in proportion to CPUs, set once (A-E2).
    StaticWays,
    /// Confines who takes more of the cache than its share (A.5).
    LlcBias,
    /// Slows who locks the memory bus (A.4).
    BusLock,
    /// Slows who heats a socket to its power quota (A.6).
    Power,
    /// The three above under one arbitration.
    Alita,
    /// Limits only who is shown to slow a service.
    Culprit,
    /// Our own, the default.
    #[default]
    Quell,
}

impl Law {
    /// All laws, the baselines first.
    pub const ALL: [Law; 13] = [
        Law::None,
        Law::OsOnly,
        Law::Static,
        Law::Thesis,
        Law::Heracles,
        Law::Parties,
        Law::StaticWays,
        Law::LlcBias,
        Law::BusLock,
        Law::Power,
        Law::Alita,
        Law::Culprit,
        Law::Quell,
    ];

    /// The name, the same in configuration, journal and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Law::None => "none",
            Law::OsOnly => "os-only",
            Law::Static => "static",
            Law::Thesis => "thesis",
            Law::Heracles => "heracles",
            Law::Parties => "parties",
            Law::StaticWays => "static-ways",
            Law::LlcBias => "llc-bias",
            Law::BusLock => "bus-lock",
            Law::Power => "power",
            Law::Alita => "alita",
            Law::Culprit => "culprit",
            Law::Quell => "quell",
        }
    }

    /// The laws that it is made of: itself, unless it is several under one name.
    fn parts(self) -> Vec<Law> {
        match self {
            Law::Alita => vec![Law::BusLock, Law::LlcBias, Law::Power],
            one => vec![one],
        }
    }

    /// Whether it limits polluters and nothing else, so that it can run beside another law.
    #[must_use]
    pub fn limits_polluters(self) -> bool {
        matches!(self, Law::LlcBias | Law::BusLock | Law::Power | Law::Alita | Law::Culprit)
    }

    /// Whether it divides the ways of caches.
    fn divides_caches(self) -> bool {
        use Law::{Alita, Heracles, LlcBias, Parties, Quell, StaticWays, Thesis};
        matches!(self, Thesis | Heracles | Parties | StaticWays | LlcBias | Alita | Quell)
    }

    /// Whether it holds groups to find out what they do.
    fn experiments(self) -> bool {
        matches!(self, Law::Culprit | Law::Quell)
    }

    /// Why two laws cannot run beside each other; none if they can.
    fn clash(self, other: Law) -> Option<&'static str> {
        if self.parts().iter().any(|part| other.parts().contains(part)) {
            return Some("is there twice");
        }
        if self.divides_caches() && other.divides_caches() {
            return Some("divides the caches as well");
        }
        let both = self.experiments() && other.experiments();
        both.then_some("makes experiments as well, and one would spoil the other's")
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no law.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no such law: {0:?}; laws are none, os-only, static, thesis, heracles, parties, \
     static-ways, llc-bias, bus-lock, power, alita, culprit, quell"
)]
pub struct ParseLawError(String);

impl FromStr for Law {
    type Err = ParseLawError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let short = || ParseLawError(text.chars().take(80).collect());
        Law::ALL.into_iter().find(|law| law.name() == text).ok_or_else(short)
    }
}

/// Parameters of all laws: the tables `[law.static]`, `[law.thesis]` and so on. A table or key
/// that is left out keeps its default; an unknown one is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LawParams {
    /// `[law.os-only]`
    pub os_only: OsOnlyParams,
    /// `[law.static]`
    #[serde(rename = "static")]
    pub fixed: StaticParams,
    /// `[law.thesis]`
    pub thesis: ThesisParams,
    /// `[law.heracles]`
    pub heracles: HeraclesParams,
    /// `[law.parties]`
    pub parties: PartiesParams,
    /// `[law.llc-bias]`
    pub llc_bias: LlcBiasParams,
    /// `[law.bus-lock]`
    pub bus_lock: BusLockParams,
    /// `[law.power]`
    pub power: PowerParams,
    /// `[law.culprit]`
    pub culprit: CulpritParams,
    /// `[law.quell]`
    pub quell: QuellParams,
}

/// Parameters that a law does not accept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("law {law}: {why}")]
pub struct BuildError {
    /// Which law.
    pub law: &'static str,
    /// What is wrong with its parameters.
    pub why: String,
}

/// Makes the policies of a law from its parameters.
///
/// # Errors
/// If the parameters contradict each other.
pub fn build(law: Law, params: &LawParams) -> Result<Vec<Box<dyn Policy>>, BuildError> {
    law.parts().into_iter().map(|part| build_one(part, params)).collect()
}

/// Makes the policies of a law and of those that run beside it.
///
/// All of them propose; where two want the same knob, arbitration lets the tighter wish stand, and
/// of two that cannot be compared the higher rank's.
///
/// # Errors
/// If parameters contradict each other, a law beside is none that limits polluters, or two of them
/// would work against each other.
pub fn build_all(
    law: Law,
    beside: &[Law],
    params: &LawParams,
) -> Result<Vec<Box<dyn Policy>>, BuildError> {
    let refuse = |law: Law, why: String| Err(BuildError { law: law.name(), why });
    let mut all = vec![law];
    for other in beside {
        if !other.limits_polluters() {
            return refuse(*other, "only laws that limit polluters run beside others".to_owned());
        }
        let clash = |one: &Law| Some((*one, one.clash(*other)?));
        if let Some((one, why)) = all.iter().find_map(clash) {
            return refuse(*other, format!("it cannot run beside {one}, which {why}"));
        }
        all.push(*other);
    }
    let made: Result<Vec<_>, _> = all.into_iter().map(|one| build(one, params)).collect();
    Ok(made?.into_iter().flatten().collect())
}

/// The one policy of a law that is not made of others.
fn build_one(law: Law, params: &LawParams) -> Result<Box<dyn Policy>, BuildError> {
    let refuse = |why| BuildError { law: law.name(), why };
    Ok(match law {
        Law::None => Box::new(None::new()),
        Law::OsOnly => {
            params.os_only.validate().map_err(refuse)?;
            Box::new(OsOnly::new(params.os_only.clone()))
        }
        Law::Heracles => {
            params.heracles.validate().map_err(refuse)?;
            Box::new(Heracles::new(params.heracles.clone()))
        }
        Law::Parties => {
            params.parties.validate().map_err(refuse)?;
            Box::new(Parties::new(params.parties.clone()))
        }
        Law::StaticWays => Box::new(StaticWays::new()),
        // Of law `alita` only its parts are made.
        Law::LlcBias | Law::Alita => {
            params.llc_bias.validate().map_err(refuse)?;
            Box::new(LlcBiasLaw::new(params.llc_bias))
        }
        Law::BusLock => {
            params.bus_lock.validate().map_err(refuse)?;
            Box::new(BusLockLaw::new(params.bus_lock.clone()))
        }
        Law::Power => {
            params.power.validate().map_err(refuse)?;
            Box::new(PowerLaw::new(params.power.clone()))
        }
        Law::Culprit => {
            params.culprit.validate().map_err(refuse)?;
            Box::new(Culprit::new(params.culprit.clone()))
        }
        Law::Quell => {
            params.quell.validate().map_err(refuse)?;
            Box::new(Quell::new(params.quell.clone()))
        }
        Law::Static => {
            params.fixed.validate().map_err(refuse)?;
            Box::new(Static::new(params.fixed.clone()))
        }
        Law::Thesis => {
            params.thesis.validate().map_err(refuse)?;
            Box::new(Thesis::new(params.thesis.clone()))
        }
    })
}

#[cfg(test)]
mod tests;
