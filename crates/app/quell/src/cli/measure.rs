//! What the measuring subcommands have in common: seats, kernels' settings, JSON, Ctrl-C.

use anyhow::Context as _;
use quell_pressure::{Options, Resource, Stop};
use quell_profiler::Seats;
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where, and with which kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// The workload's CPUs; all but the last if left out.
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// The pressure's CPUs; the last if left out.
    #[arg(long, value_name = "LIST")]
    pressure_cpus: Option<CpuSet>,
    /// Shares the workload's CPU by time: shows what a core has for itself, but is not SMT.
    #[arg(long, conflicts_with = "pressure_cpus")]
    same_core: bool,
    /// These resources only.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<Resource>,
    /// The size of the last-level cache, where the machine does not tell or tells its host's.
    #[arg(long, value_name = "BYTES")]
    llc_bytes: Option<u64>,
    /// Where network pressure goes, as 10.0.0.2:5201; loopback if left out.
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<SocketAddr>,
    /// A folder on the disk for storage pressure; the one for temporary files if left out.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Common {
    pub(crate) fn seats(&self) -> anyhow::Result<Seats> {
        let (cpus, pressure) = (self.cpus.as_ref(), self.pressure_cpus.as_ref());
        Ok(Seats::choose(cpus, pressure, self.same_core)?)
    }

    /// Settings of all kernels.
    pub(crate) fn pressure(&self) -> Options {
        let mut options = Options::new(Resource::Integer);
        options.llc_bytes = self.llc_bytes;
        options.network.peer = self.peer;
        options.storage.folder.clone_from(&self.folder);
        options
    }
}

/// Ctrl-C as a wish to end, and the machine.
pub(crate) fn begin() -> anyhow::Result<(Stop, Topology)> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    Ok((stop, Machine::new("/").topology()))
}

/// Whether JSON takes standard output.
pub(crate) fn to_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == "-")
}

/// Writes JSON to a file, or to standard output for `-`.
pub(crate) fn write_json(path: Option<&Path>, value: &impl Serialize) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    if to_stdout(Some(path)) {
        return super::files::print_json(value);
    }
    let text = serde_json::to_string_pretty(value)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a profile.
pub(crate) fn read_profile(path: &Path) -> anyhow::Result<quell_profiler::Profile> {
    read_json(path, quell_profiler::PROFILE_SCHEMA)
}

/// Reads what was written as JSON of a schema.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, schema: &str) -> anyhow::Result<T> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{name} is no JSON"))?;
    let told = value["schema"].as_str().unwrap_or("nothing");
    anyhow::ensure!(told == schema, "{name} holds {told}, not {schema}");
    serde_json::from_value(value).with_context(|| format!("{name} is not what {schema} says"))
}
