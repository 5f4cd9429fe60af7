//! What is compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The service alone, or a control law beside batch.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// No batch at all.
    Alone,
    /// Batch without any control.
    None,
    /// Weights and the idle class.
    OsOnly,
    /// The best fixed split or quota of the sweep.
    Static,
    /// The thesis' laws.
    Thesis,
    /// Heracles.
    Heracles,
    /// Quell's own law.
    Quell,
}

impl Contender {
    /// All of them, the service alone first.
    pub const ALL: [Contender; 7] = [
        Contender::Alone,
        Contender::None,
        Contender::OsOnly,
        Contender::Static,
        Contender::Thesis,
        Contender::Heracles,
        Contender::Quell,
    ];

    /// Those of the demo.
    pub const DEMO: [Contender; 5] =
        [Contender::Alone, Contender::None, Contender::OsOnly, Contender::Static, Contender::Quell];

    /// Its name, as in configurations and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Contender::Alone => "alone",
            Contender::None => "none",
            Contender::OsOnly => "os-only",
            Contender::Static => "static",
            Contender::Thesis => "thesis",
            Contender::Heracles => "heracles",
            Contender::Quell => "quell",
        }
    }

    /// Whether it changes its settings while it runs, and so needs longer to settle.
    #[must_use]
    pub fn adapts(self) -> bool {
        matches!(self, Contender::Thesis | Contender::Heracles | Contender::Quell)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Contender::name).join(", ");
        let found = Self::ALL.into_iter().find(|law| law.name() == text);
        found.ok_or_else(|| format!("`{text}` is no law; there are {}", known()))
    }
}
