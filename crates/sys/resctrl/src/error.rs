//! What can go wrong, with what the kernel says of it.

use crate::mask::MaskError;
use quell_types::Gap;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What was tried when a group could not be made.
pub(crate) const MAKE_GROUP: &str = "make group";

/// A read or write of the resctrl tree that failed.
#[derive(Debug, Error)]
pub enum ResctrlError {
    /// A group that Quell may not make or change.
    #[error(
        "group {0:?} is not Quell's: only the default group and names of letters, digits, '-', '_', '.' that begin with \"quell\" are made or changed"
    )]
    Name(String),
    /// A file could not be read or written, or a group made or removed.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a value; `status` is its own reason (info/last_cmd_status).
    #[error("the kernel refused to {doing} {path}: {status} ({source})")]
    Refused {
        /// What was tried, with the text that was written.
        doing: String,
        /// On what.
        path: PathBuf,
        /// The kernel's last_cmd_status, its lines joined by "; ".
        status: String,
        /// The errno.
        #[source]
        source: io::Error,
    },
    /// A file says what this crate does not understand; nothing was changed.
    #[error("{path}: {why}; nothing was changed")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A mask that this cache does not take.
    #[error(transparent)]
    Mask(#[from] MaskError),
    /// The resource or domain is not there.
    #[error("{path} has no domain {domain} of {resource}; run `quell doctor` for what it has")]
    NoDomain {
        /// The group's schemata.
        path: PathBuf,
        /// The resource's name.
        resource: String,
        /// The wanted domain.
        domain: u32,
    },
    /// The knob is not there, or the setting is not one of its kind.
    #[error("{0}")]
    Unsupported(String),
}

impl ResctrlError {
    /// Whether all classes of service, or all RMIDs, are taken (ENOSPC when a group is made), or
    /// [`ResctrlError::is_passing`].
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.errno() == Some(libc::ENOSPC) || self.is_passing()
    }

    /// Whether no RMID is free only because lines of removed groups are still in a cache (EBUSY
    /// when a group is made): the kernel looks each second whether they have gone.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, ResctrlError::Refused { doing, source, .. }
            if doing == MAKE_GROUP && source.raw_os_error() == Some(libc::EBUSY))
    }

    /// The kernel's own words (last_cmd_status), its lines joined by "; ", if it had any.
    #[must_use]
    pub fn status(&self) -> Option<&str> {
        match self {
            ResctrlError::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The errno behind it.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            ResctrlError::Io { source, .. } | ResctrlError::Refused { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        }
    }

    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        ResctrlError::Io { doing, path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, why: impl ToString) -> Self {
        ResctrlError::Malformed { path: path.to_owned(), why: why.to_string() }
    }
}

impl From<&ResctrlError> for Gap {
    /// A file or group that vanished is `Gone`, a knob that is not there `Absent`, an RMID that is
    /// free soon `NotYet`, the rest `Failed`.
    fn from(error: &ResctrlError) -> Gap {
        match error {
            ResctrlError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Gap::Gone(error.to_string())
            }
            ResctrlError::Unsupported(why) => Gap::absent(why.clone()),
            ResctrlError::NoDomain { .. } => Gap::absent(error.to_string()),
            error if error.is_passing() => Gap::not_yet(error.to_string()),
            _ => Gap::failed(error),
        }
    }
}
