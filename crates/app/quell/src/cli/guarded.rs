//! What is guarded: the flags that `quell guard` and `quell who` share.

use super::files;
use quell_agent::known_laws;
use quell_config::{Checked, Flags, Raw};
use std::path::PathBuf;

/// A configuration file, flags, or both.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Guarded {
    /// Configuration file (`quell config example` prints one); flags win over it.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// A service: name, one of cgroup, unit, pid, vm, and an objective as p99=3ms. May be repeated.
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) service: Vec<String>,
    /// A batch group: one of cgroup, unit, pid, vm. May be repeated.
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) batch: Vec<String>,
    /// A link: name and capacity as name=eth0,capacity=1Gbit. May be repeated.
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) link: Vec<String>,
    /// Any key of `agent` or `law`, as agent.interval_s=0.5. May be repeated.
    #[arg(long, value_name = "PATH=VALUE")]
    pub(super) set: Vec<String>,
    /// Where journals and the queue are kept [default: the configuration's, /var/lib/quell].
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<PathBuf>,
}

impl Guarded {
    /// Whether it is left open what is guarded.
    pub(super) fn names_nothing(&self) -> bool {
        self.config.is_none() && self.service.is_empty() && self.batch.is_empty()
    }

    /// Whether it is said how to look, or where: of no use where nothing is named.
    pub(super) fn says_how(&self) -> bool {
        !self.link.is_empty() || !self.set.is_empty() || self.state_dir.is_some()
    }

    /// File and flags, checked.
    pub(super) fn checked(&self, law: Option<&str>) -> anyhow::Result<Checked> {
        let mut flags = Flags {
            services: self.service.clone(),
            batch: self.batch.clone(),
            links: self.link.clone(),
            law: law.map(str::to_owned),
            set: self.set.clone(),
        };
        if let Some(folder) = &self.state_dir {
            let folder = files::absolute(folder)?;
            flags.set.push(format!("agent.state_dir={}", folder.display()));
        }
        let flags = Raw::from_flags(&flags);
        let raw = match &self.config {
            Some(path) => files::read_config(path)?.merged(flags),
            None => flags,
        };
        Ok(raw.check(&known_laws())?)
    }
}
