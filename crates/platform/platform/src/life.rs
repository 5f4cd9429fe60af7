//! Whether the agent still lives, as far as what it writes to is concerned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by everything that an agent writes to. Once it is over nothing that the agent still
/// tries has any effect, as after SIGKILL: so a death can be simulated at any write without
/// unwinding the agent.
#[derive(Clone, Debug, Default)]
pub struct Life(Arc<AtomicBool>);

impl Life {
    /// The agent dies now.
    pub fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is dead.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
