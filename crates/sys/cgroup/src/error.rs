//! What can go wrong, on which path, and what to do about it.

use quell_types::{Gap, Setting};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A cgroup operation that failed.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No hierarchy has the group.
    #[error("no cgroup {name} in any of {searched}; create it or correct the name")]
    NoSuchGroup {
        /// As it was asked for.
        name: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The process does not exist or cannot be looked at.
    #[error("no process {pid} ({source}); is it still running?")]
    NoProcess {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The unit has no group.
    #[error("systemd unit {unit} has no cgroup: {why}; start it or correct the name")]
    NoUnit {
        /// The unit.
        unit: String,
        /// What was found instead.
        why: String,
    },
    /// No virtual machine of that name runs.
    #[error("virtual machine {name} has no cgroup: {why}; start it or correct the name")]
    NoVm {
        /// libvirt's name.
        name: String,
        /// What was found instead.
        why: String,
    },
    /// The root group holds the whole machine, and has no knobs.
    #[error("{what} is the root group, which cannot be limited; name a group below it")]
    RootGroup {
        /// What was asked for.
        what: String,
    },
    /// A name outside Quell's own.
    #[error(
        "{path} is not Quell's: only groups whose name begins with \"quell\" are made or removed"
    )]
    NotOurs {
        /// The group.
        path: PathBuf,
    },
    /// The group was removed.
    #[error("{path} is gone: the cgroup was removed")]
    Gone {
        /// What was there.
        path: PathBuf,
    },
    /// The kernel, or this group, has no such file.
    #[error("no {what} here: {why}")]
    Unsupported {
        /// Which knob or sensor.
        what: String,
        /// Why, and what would bring it.
        why: String,
    },
    /// A read failed.
    #[error("cannot read {path}: {source}{hint}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// What it means, beginning with a colon; may be empty.
        hint: String,
    },
    /// A write was refused.
    #[error("cannot write {text:?} to {path}: {source}{hint}")]
    Write {
        /// The file, or the directory that was to be made or removed.
        path: PathBuf,
        /// What was written.
        text: String,
        /// What the kernel said.
        source: io::Error,
        /// What it means, beginning with a colon; may be empty.
        hint: String,
    },
    /// The file's text makes no sense.
    #[error("{path} holds {text:?}, which cannot be understood")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Its text, cut short.
        text: String,
    },
    /// The write was taken, but something else stands there now.
    #[error("{path} reads {found:?} after {wanted:?} was written; does another program set it?")]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// What was written.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// The setting cannot stand as things are.
    #[error("{path}: {why}")]
    Refused {
        /// The group's directory or file.
        path: PathBuf,
        /// Why, and what to do first.
        why: String,
    },
    /// A setting for another kind of knob.
    #[error("{setting:?} is no setting for {knob}")]
    WrongSetting {
        /// The knob.
        knob: &'static str,
        /// What was given.
        setting: Setting,
    },
    /// Something did not come about in time.
    #[error("{path}: {what} took longer than {limit_ms} ms; it may still come about")]
    Timeout {
        /// The file or group.
        path: PathBuf,
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit_ms: u64,
    },
    /// `systemctl` failed.
    #[error("{command} failed: {why}")]
    Systemctl {
        /// The command line.
        command: String,
        /// What it said.
        why: String,
    },
}

impl CgroupError {
    /// The kernel's error number, if it is one of the kernel's.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            CgroupError::Read { source, .. }
            | CgroupError::Write { source, .. }
            | CgroupError::NoProcess { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// Whether it failed because the group no longer exists.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, CgroupError::Gone { .. })
    }
}

impl From<CgroupError> for Gap {
    fn from(error: CgroupError) -> Gap {
        match error {
            CgroupError::Gone { .. }
            | CgroupError::NoSuchGroup { .. }
            | CgroupError::NoUnit { .. }
            | CgroupError::NoVm { .. }
            | CgroupError::NoProcess { .. } => Gap::Gone(error.to_string()),
            CgroupError::Unsupported { .. } | CgroupError::RootGroup { .. } => {
                Gap::Absent(error.to_string())
            }
            CgroupError::Timeout { .. } => Gap::Pending,
            other => Gap::failed(other),
        }
    }
}
