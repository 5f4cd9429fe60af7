//! A value that may be missing, and why it is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why there is no value. A gap is never written as 0 or -1.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "gap", content = "why", rename_all = "snake_case")]
pub enum Gap {
    /// This machine has no such sensor or knob.
    #[error("absent: {0}")]
    Absent(String),
    /// A rate needs two samples, a window enough events: not there yet.
    #[error("not yet: {0}")]
    NotYet(String),
    /// Reading it failed this time.
    #[error("failed: {0}")]
    Failed(String),
    /// What it belonged to is gone (a group removed, a process ended).
    #[error("gone: {0}")]
    Gone(String),
    /// A value exists but cannot be told apart, so giving it would mislead (pipelined requests).
    #[error("ambiguous: {0}")]
    Ambiguous(String),
    /// A write to this knob is still on its way.
    #[error("pending")]
    Pending,
}

impl Gap {
    /// A gap for something that this machine lacks.
    pub fn absent(why: impl Into<String>) -> Self {
        Gap::Absent(why.into())
    }

    /// A gap for something that is not there yet.
    pub fn not_yet(why: impl Into<String>) -> Self {
        Gap::NotYet(why.into())
    }

    /// A gap for a read that failed.
    pub fn failed(why: impl std::fmt::Display) -> Self {
        Gap::Failed(why.to_string())
    }
}

/// A value or the reason why there is none.
pub type Reading<T> = Result<T, Gap>;
