//! What a restore did, and what it could not do.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Changes that were taken back.
    pub restored: usize,
    /// What could not be taken back, and why. These stay in the journal.
    pub failed: Vec<String>,
    /// What was left as it is because others count on it by now, and why. Once nothing fails, it is
    /// no longer in the journal.
    #[serde(default)]
    pub left: Vec<String>,
    /// Records that nobody can read: how many, and where the whole journal with them is kept. What
    /// they would have taken back is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<Unreadable>,
}

/// Records of the journal that are none (a medium that rots, a hand that edited them).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// How many.
    pub records: usize,
    /// The copy of the journal that they were found in.
    pub kept_in: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, kept_in } = self;
        write!(
            f,
            "{records} records of the knob journal cannot be read, and what they would have put back \
             was not; the journal is kept as {kept_in}: look there, then remove it"
        )
    }
}

impl RestoreReport {
    /// All that is not as it was and should be: what failed, and what could not be read.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let unreadable = self.unreadable.iter().map(ToString::to_string);
        self.failed.iter().cloned().chain(unreadable).collect()
    }
}
