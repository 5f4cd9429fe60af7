//! The profiles that are kept: where, and `quell profile list`, `show` and `remove`.

use super::files::{self, State};
use super::{measure, moment, profile};
use anyhow::{Context as _, bail};
use quell_profiler::{Animal, Kept, Machine, Profile, ProfileStore};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What is done with kept profiles.
#[derive(Debug, clap::Subcommand)]
pub(super) enum What {
    /// Show what is kept.
    #[command(after_help = "\
Examples:
  quell profile list
  quell profile list --store profiles.sqlite --json")]
    List {
        #[command(flatten)]
        place: Place,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one profile.
    #[command(after_help = "\
Examples:
  quell profile show search
  quell profile show search --json | jq .tolerated
  quell profile show ./search.json --report DIR")]
    Show {
        /// Its name, or a file that quell profile --json wrote.
        name: String,
        /// The machine's fingerprint, for one that was measured elsewhere [default: this machine's].
        #[arg(long, value_name = "FINGERPRINT")]
        machine: Option<String>,
        #[command(flatten)]
        place: Place,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Writes a report with plots.
        #[arg(long, value_name = "DIR")]
        report: Option<PathBuf>,
    },
    /// Remove one profile.
    #[command(after_help = "\
Example:
  quell profile remove search")]
    Remove {
        /// Its name.
        name: String,
        /// The machine's fingerprint [default: this machine's].
        #[arg(long, value_name = "FINGERPRINT")]
        machine: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// Where profiles are kept.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The store [default: profiles.sqlite in the state folder].
    #[arg(long = "store", value_name = "FILE")]
    store: Option<PathBuf>,
    #[command(flatten)]
    state: State,
}

/// What is kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Profiles {
    /// `quell.profiles/1`.
    schema: String,
    /// By name and machine.
    profiles: Vec<Row>,
}

/// One kept profile.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// The workload's name.
    name: String,
    /// The machine that it was measured on.
    machine: Machine,
    /// Whether that is this machine.
    here: bool,
    /// When it was measured, in milliseconds since 1970.
    measured_unix_ms: u64,
    /// When an intensity was found anew while the service was guarded; null if none was.
    refreshed_unix_ms: Option<u64>,
    /// Which kind of neighbour; null where the signals did not tell.
    animal: Option<Animal>,
    /// How many resources it has a tolerated intensity of.
    tolerated: usize,
    /// How many resources it has a loss caused of.
    caused: usize,
    /// Whether it has yardsticks, which predictions need.
    yardsticks: bool,
    /// Whether it has a model of its memory traffic.
    bandwidth: bool,
}

impl Place {
    /// The file.
    pub(super) fn file(&self) -> PathBuf {
        self.store.clone().unwrap_or_else(|| self.state.folder().profiles())
    }

    /// The store, which has to be there.
    pub(super) fn open(&self) -> anyhow::Result<ProfileStore> {
        let path = self.file();
        files::permitted(&path)?;
        let store = ProfileStore::find(&path)?;
        store.with_context(|| {
            format!("no profiles are kept in {}: quell profile --store keeps one", path.display())
        })
    }

    /// The profile of this name on this machine.
    pub(super) fn profile(&self, name: &str, machine: Option<&str>) -> anyhow::Result<Kept> {
        let (store, path) = (self.open()?, self.file());
        let here = this_machine();
        let machine = machine.unwrap_or(&here.fingerprint);
        if let Some(kept) = store.get(name, machine)? {
            return Ok(kept);
        }
        let others = store.list()?.0.into_iter().filter(|kept| kept.name == name);
        let others: Vec<String> = others.map(|kept| kept.profile.machine.fingerprint).collect();
        match others.as_slice() {
            [] => bail!("{} keeps no profile of {name}", path.display()),
            others => bail!(
                "{} keeps {name} of other machines only ({}): figures of one say little of another",
                path.display(),
                others.join(", ")
            ),
        }
    }
}

/// This machine, as profiles name it.
pub(super) fn this_machine() -> Machine {
    Machine::of(&quell_topology::Machine::new("/").topology())
}

/// Keeps a profile under a name.
pub(super) fn keep(file: &Path, name: &str, profile: &Profile) -> anyhow::Result<()> {
    ProfileStore::open(file)?.put(name, profile, moment::now_ms())?;
    eprintln!("kept as {name} in {}", file.display());
    Ok(())
}

pub(super) fn run(what: &What) -> anyhow::Result<()> {
    match what {
        What::List { place, json } => list(place, *json),
        What::Show { name, machine, place, json, report } => {
            let (found, when) = shown(place, name, machine.as_deref())?;
            profile::write_report(report.as_deref(), &found)?;
            if *json {
                return files::print_json(&found);
            }
            files::print_text(&format!("{name}{when}\n{}", profile::words(&found)))
        }
        What::Remove { name, machine, place } => {
            let here = this_machine();
            let machine = machine.as_deref().unwrap_or(&here.fingerprint);
            // One that cannot be read can be removed all the same.
            if place.open()?.remove(name, Some(machine))? == 0 {
                place.profile(name, Some(machine))?;
            }
            files::print_text(&format!("{name} is removed"))
        }
    }
}

/// A kept profile and when it was measured, or one in a file.
fn shown(place: &Place, name: &str, machine: Option<&str>) -> anyhow::Result<(Profile, String)> {
    let file = Path::new(name);
    let kept = match place.profile(name, machine) {
        // A kept profile goes before a file that happens to be called like it.
        Err(_) if name.contains('/') || file.is_file() => {
            return Ok((measure::read_profile(file)?, String::new()));
        }
        kept => kept?,
    };
    Ok((kept.profile, format!(", {}", moment::local(kept.measured_unix_ms))))
}

fn list(place: &Place, json: bool) -> anyhow::Result<()> {
    let (here, path) = (this_machine().fingerprint, place.file());
    files::permitted(&path)?;
    let (kept, lost) = match ProfileStore::find(&path)? {
        Some(store) => store.list()?,
        None => (Vec::new(), Vec::new()),
    };
    lost.iter().for_each(|why| eprintln!("quell: {why}"));
    let rows: Vec<Row> = kept.into_iter().map(|kept| row(kept, &here)).collect();
    if json {
        return files::print_json(&Profiles { schema: "quell.profiles/1".into(), profiles: rows });
    }
    if rows.is_empty() {
        return files::print_text(&format!("no profiles are kept in {}", path.display()));
    }
    let head =
        format!("{:<24} {:<16} {:<8} {:<20} of\n", "profile", "machine", "class", "measured");
    files::print_text(&rows.iter().fold(head, |text, row| text + &line(row)))
}

fn row(kept: Kept, here: &str) -> Row {
    let Kept { name, measured_unix_ms, profile } = kept;
    Row {
        name,
        measured_unix_ms,
        here: profile.machine.fingerprint == here,
        refreshed_unix_ms: profile.refreshed_unix_ms.values().copied().max(),
        animal: profile.class.animal,
        tolerated: profile.tolerated.len(),
        caused: profile.caused.len(),
        yardsticks: !profile.yardsticks.is_empty(),
        bandwidth: profile.bandwidth.is_some(),
        machine: profile.machine,
    }
}

fn line(row: &Row) -> String {
    let animal = row.animal.map_or("–".to_owned(), |animal| format!("{animal:?}").to_lowercase());
    let machine = if row.here { "this one" } else { &row.machine.fingerprint };
    let mut of = format!("{} tolerated, {} caused", row.tolerated, row.caused);
    for (has, what) in [(row.yardsticks, ", yardsticks"), (row.bandwidth, ", memory traffic")] {
        of.push_str(if has { what } else { "" });
    }
    let when = moment::local(row.measured_unix_ms);
    format!("{:<24} {machine:<16} {animal:<8} {when:<20} {of}\n", row.name)
}

/// Reads profiles given as files or, where there is no such file, by the name that they are kept by.
pub(super) fn named(place: &Place, given: &str) -> anyhow::Result<Profile> {
    if is_file(given) {
        return measure::read_profile(Path::new(given));
    }
    let kept = place.profile(given, None);
    Ok(kept.with_context(|| format!("{given} is neither a file nor a kept profile"))?.profile)
}

/// Whether this is meant as a file, and not as a name in the store.
fn is_file(given: &str) -> bool {
    given.contains('/') || Path::new(given).exists()
}
