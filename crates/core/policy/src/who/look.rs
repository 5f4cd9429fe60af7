//! Looks that are on their way.

use super::Who;
use super::relief::Relief;
use quell_types::{Input, Tenant, Time};

/// A look that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) id: u64,
    pub(super) since: Time,
    pub(super) groups: Vec<Tenant>,
    pub(super) relief: Option<Relief>,
}

impl Who {
    /// How much likelier victims' company made the guilt of those who are held, for the journal.
    pub(super) fn company(&self, groups: &[Tenant]) -> Option<Input> {
        let all = self.victims.values().map(|victim| victim.company_ln(groups));
        let ln = all.fold(0.0, f64::max);
        (ln > 0.0).then(|| Input::new("company_ratio", libm::exp(ln)))
    }
}
