//! Looks that are on their way.

use super::relief::Relief;
use quell_types::{Tenant, Time};

/// A look that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) id: u64,
    pub(super) since: Time,
    pub(super) groups: Vec<Tenant>,
    pub(super) relief: Option<Relief>,
}
