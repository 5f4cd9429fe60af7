//! What is written down of every step: reasons are data.

use quell_types::{Action, Outcome, Proposal, Time, Verdict};
use serde::{Deserialize, Serialize};

/// A proposal with what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What was proposed, by which rule, on which inputs.
    #[serde(flatten)]
    pub proposal: Proposal,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Something that happened without a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A knob was changed by others and put right.
    Reasserted {
        /// Which, in words.
        knob: String,
        /// What the other had set.
        found: String,
    },
    /// A knob was left to others until the next reload.
    GivenUp {
        /// Which, in words.
        knob: String,
        /// What the other had set.
        found: String,
    },
    /// A law goes on without something that it would like to have.
    Degraded {
        /// Which law.
        policy: String,
        /// Without what, and what it does instead.
        how: String,
    },
    /// The agent started, stopped or reloaded.
    Agent {
        /// What it did.
        what: String,
    },
}

/// One line of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The sample's time.
    pub time: Time,
    /// The same for people: milliseconds since 1970.
    pub wall_unix_ms: u64,
    /// What the policies proposed in this step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Judged>,
    /// What was asked of the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// What came of earlier actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<Outcome>,
    /// Other things worth knowing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Entry {
    /// Whether there is nothing to write down.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty()
            && self.actions.is_empty()
            && self.outcomes.is_empty()
            && self.notes.is_empty()
    }
}
