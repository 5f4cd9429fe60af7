//! Why a platform cannot be opened: everything at once.

use thiserror::Error;

/// One thing that is wrong with the options on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// A tenant's group is not there.
    #[error("{tenant}: {why}")]
    NoGroup {
        /// Whose.
        tenant: String,
        /// Why.
        why: String,
    },
    /// A batch group has nothing by which it could be held back.
    #[error(
        "{tenant}: its group is in no hierarchy by which it could be held back ({why}); \
         give it one, or allow Quell to move its processes with adopt = true"
    )]
    Uncontrollable {
        /// Whose.
        tenant: String,
        /// What is missing.
        why: String,
    },
    /// A link cannot be shaped.
    #[error("link {link}: {why}")]
    Link {
        /// Which.
        link: String,
        /// Why.
        why: String,
    },
    /// The state folder cannot be used.
    #[error("{0}")]
    State(String),
    /// Quell needs root.
    #[error("this changes cgroups and loads eBPF programs: run it as root")]
    NotRoot,
    /// An agent that died has left knobs changed, and they could not be put back.
    #[error("what an earlier agent left could not be put back: {0}")]
    Leftovers(String),
}
