//! Small things that several subcommands need: state folders, paths, JSON, configuration files.

use anyhow::Context;
use quell_config::Raw;
use quell_linux::StateDir;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where state is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct State {
    /// Where the agent keeps its journals and the queue.
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/lib/quell")]
    state_dir: PathBuf,
}

impl State {
    pub(crate) fn folder(&self) -> StateDir {
        StateDir(self.state_dir.clone())
    }
}

/// A path that does not depend on the working directory.
pub(crate) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("the path {}", path.display()))
}

/// Reads a configuration file; what is wrong in it shows in its check.
pub(crate) fn read_config(path: &Path) -> anyhow::Result<Raw> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Ok(Raw::from_toml(&name, &text))
}

/// Refuses where it may not even be seen whether a file is there: that is not the same as none.
pub(crate) fn permitted(path: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            anyhow::bail!("{} is closed to this user: run it as root", path.display())
        }
        _ => Ok(()),
    }
}

/// Prints JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_text(&serde_json::to_string_pretty(value)?)
}

/// Prints lines; a reader that went away (`| head`) is no error.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{}", text.trim_end()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
