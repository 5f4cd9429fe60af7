//! What can go wrong, with what to do about it.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A failure of this crate. Each says what failed, where, and what to do.
#[derive(Debug, Error)]
pub enum EgressError {
    /// The kernel refused a request; `text` is its own explanation (extended ack), if it gave one.
    #[error("{doing}: {source}{}", explain(text))]
    Kernel {
        /// What was asked.
        doing: String,
        /// The refusal.
        source: io::Error,
        /// The kernel's explanation, empty if none.
        text: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel's answer made no sense or did not come.
    #[error("{doing}: {why}")]
    Protocol {
        /// What was asked.
        doing: String,
        /// What was wrong with the answer.
        why: String,
    },
    /// No such link.
    #[error("no link {link:?} in {namespace}; `ip link` lists what there is")]
    NoLink {
        /// The name that was looked for.
        link: String,
        /// Where.
        namespace: String,
    },
    /// Someone else shapes this link.
    #[error(
        "{link} already has a {kind} qdisc (handle {handle}) that is neither the kernel's default \
         nor Quell's; remove it with `tc qdisc del dev {link} root`, or allow its replacement"
    )]
    ForeignQdisc {
        /// The link.
        link: String,
        /// The foreign root qdisc's kind.
        kind: String,
        /// Its handle, as `1:`.
        handle: String,
    },
    /// Someone else shapes this link by classes, which could not be put back.
    #[error(
        "{link} has a {kind} qdisc with classes; they could not be restored, so Quell never \
         replaces it: remove it by hand first"
    )]
    ClassfulQdisc {
        /// The link.
        link: String,
        /// The foreign root qdisc's kind.
        kind: String,
    },
    /// A tenant that has no class on this link.
    #[error("{tenant} has no class on {link}; name the link in its configuration")]
    NoTenant {
        /// The tenant.
        tenant: String,
        /// The link.
        link: String,
    },
    /// A rate that no link can have.
    #[error("{what} must be a positive number of bytes per second, not {rate}")]
    BadRate {
        /// Whose rate.
        what: String,
        /// What was given.
        rate: f64,
    },
    /// More tenants than class ids.
    #[error("{count} tenants on one link; at most {max} fit in its class ids")]
    TooManyTenants {
        /// How many were given.
        count: usize,
        /// How many fit.
        max: usize,
    },
    /// A network namespace could not be entered or opened.
    #[error("network namespace {}: {source}", path.display())]
    Namespace {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// After the restore the link is not as it was.
    #[error("{link} was not restored: {what} is {found}, was {wanted}")]
    NotRestored {
        /// The link.
        link: String,
        /// What differs.
        what: &'static str,
        /// What it was before Quell came.
        wanted: String,
        /// What it is now.
        found: String,
    },
}

impl EgressError {
    /// The error number of a refused request.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            EgressError::Kernel { source, .. } | EgressError::System { source, .. } => {
                source.raw_os_error()
            }
            EgressError::Namespace { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> EgressError {
        let doing = doing.into();
        move |source| EgressError::System { doing, source }
    }
}

fn explain(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" (kernel: {text})") }
}

/// This crate's results.
pub type Result<T> = std::result::Result<T, EgressError>;
