//! The trait of all control laws, and how one is chosen by name.

use crate::alita::{LlcBiasLaw, LlcBiasParams, StaticWays};
use crate::culprit::{Culprit, CulpritParams};
use crate::fixed::{Static, StaticParams};
use crate::heracles::{Heracles, HeraclesParams};
use crate::none::None;
use crate::os_only::{OsOnly, OsOnlyParams};
use crate::parties::{Parties, PartiesParams};
use crate::quell::{Quell, QuellParams};
use crate::refresh::Tolerance;
use crate::thesis::{Thesis, ThesisParams};
use quell_model::blame::Finding;
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

    /// How often it wants to step. The engine steps it on the first sample at or after each
    /// period; a policy with several loops names the shortest.
    fn period(&self) -> Duration;

    /// Decides. Called with samples in rising time; must not depend on anything else.
    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal>;

    /// Who slows each service, as far as this policy finds out.
    fn findings(&self) -> BTreeMap<Tenant, Finding> {
        BTreeMap::new()
    }

    /// What services tolerate of shared resources, as far as this policy finds out.
    fn tolerances(&self) -> BTreeMap<Tenant, BTreeMap<SharedResource, Tolerance>> {
        BTreeMap::new()
    }

    /// What it does without, on this setup: one sentence for each knob, sensor or parameter that
    /// it would use and does not have. For the journal's first lines and `quell doctor`.
    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let _ = setup;
        Vec::new()
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
    /// PARTIES, for several services (R-4).
    Parties,
    /// Cache ways in proportion to CPUs, set once (A-E2).
    StaticWays,
    /// Confines who takes more of the cache than its share (A.5).
    LlcBias,
    /// Limits only who is shown to slow a service.
    Culprit,
    /// Our own, the default.
    #[default]
    Quell,
}

impl Law {
    /// All laws, the baselines first.
    pub const ALL: [Law; 10] = [
        Law::None,
        Law::OsOnly,
        Law::Static,
        Law::Thesis,
        Law::Heracles,
        Law::Parties,
        Law::StaticWays,
        Law::LlcBias,
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
            Law::Culprit => "culprit",
            Law::Quell => "quell",
        }
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
     static-ways, llc-bias, culprit, quell"
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
    let refuse = |why| BuildError { law: law.name(), why };
    let policy: Box<dyn Policy> = match law {
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
        Law::LlcBias => {
            params.llc_bias.validate().map_err(refuse)?;
            Box::new(LlcBiasLaw::new(params.llc_bias))
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
    };
    Ok(vec![policy])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        for law in Law::ALL {
            assert_eq!(law.to_string().parse(), Ok(law));
            assert_eq!(serde_json::to_value(law).unwrap(), law.name());
        }
        let error = "Quell".parse::<Law>().unwrap_err().to_string();
        assert!(error.contains("\"Quell\"") && error.contains("heracles"), "{error}");
    }

    #[test]
    fn every_law_is_built_by_default_under_its_own_name() {
        for law in Law::ALL {
            let policies = build(law, &LawParams::default()).unwrap();
            assert!(!policies.is_empty(), "{law}");
            assert!(policies.iter().all(|p| p.name() == law.name() && !p.period().is_zero()));
        }
    }

    #[test]
    fn a_table_that_is_left_out_keeps_its_defaults_and_an_unknown_key_is_refused() {
        let read = |text: &str| serde_json::from_str::<LawParams>(text);
        let params = read(r#"{"thesis":{"profile":"author"},"static":{"batch_cpu_set":"0-1"}}"#);
        let params = params.unwrap();
        assert_eq!(params.thesis, ThesisParams::of(crate::Profile::Author));
        assert_eq!(params.fixed.batch_cpu_set.unwrap().len(), 2);
        assert_eq!(params.heracles, HeraclesParams::default());
        for bad in [r#"{"thesis":{"top_period":1}}"#, r#"{"theses":{}}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_that_contradict_each_other_are_refused_with_the_laws_name() {
        let mut params = LawParams::default();
        params.thesis.top_period_s = 0.0;
        let error = build(Law::Thesis, &params).err().unwrap().to_string();
        assert!(error.starts_with("law thesis: top_period_s = 0"), "{error}");
        assert!(build(Law::Heracles, &params).is_ok(), "other laws do not mind");
    }
}
