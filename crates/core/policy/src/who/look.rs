//! Looks that are on their way.

use quell_model::blame::Demand;
use quell_types::{Tenant, Time};
use std::collections::BTreeMap;

/// A look that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) id: u64,
    pub(super) since: Time,
    pub(super) groups: Vec<Tenant>,
    pub(super) relief: Option<Relief>,
}

/// Rivals that are not held while others are.
#[derive(Clone, Debug)]
pub(super) struct Relief {
    pub(super) watched: Vec<Tenant>,
    /// Whether all rivals but one are held.
    pub(super) all: bool,
    /// What they asked for; none before it was seen.
    pub(super) demands: Option<BTreeMap<Tenant, Demand>>,
}
