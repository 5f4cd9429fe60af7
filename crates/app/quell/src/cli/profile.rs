//! `quell profile`: what a workload tolerates and what it causes.

mod report;

use super::counted::{counters, outside};
use super::latency::{Loaded, Service, ServiceArgs};
use super::{files, kept, measure, traffic};
use anyhow::Context as _;
use quell_pressure::{Resource, Stop};
use quell_profiler::{
    Effort, Estimate, Group, LaunchOptions, Profile, ProfileOptions, ProfileStore, Progress,
    Steady, Subject, at_desk, launch, profile,
};
use quell_types::Topology;
use quell_view::{Cell, Table};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Measures what a workload tolerates and what it causes, resource by resource.
///
/// Pressure is turned up on a CPU of its own, in short windows between quiet ones. Tolerated is the
/// highest intensity at which the workload keeps --threshold of its speed; caused is what a kernel
/// at full intensity loses of its own work beside the workload. Each with a 95 % interval.
///
/// A command is started, repeated if it ends, and stopped afterwards. What runs already is never
/// stopped: its progress is the requests on its sockets, its instructions where the machine counts
/// them, or the bytes of its system calls, and what it causes is told by its own idle moments.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  quell profile --store -- ./train.sh
  quell profile --service search --rate 300 --peak 1200 --store
  quell profile --pid 1234 --quick
  quell profile --report DIR -- ./train.sh
  quell profile list")]
pub(crate) struct Args {
    #[command(subcommand)]
    kept: Option<kept::What>,
    /// The three most shared resources alone, in under 5 s.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    measure: measure::Common,
    #[command(flatten)]
    load: ServiceArgs,
    /// The share of its speed alone that the workload has to keep.
    #[arg(long, value_name = "FRAC", default_value_t = 0.95)]
    threshold: f64,
    /// What counts as progress: auto, runs, lines, bytes, or a text that printed lines hold.
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    progress: Progress,
    /// Measures also how the kernels fare beside themselves, and what witnesses (two chases and a stream)
    /// lose beside kernels and workload, which predictions need.
    #[arg(long)]
    yardsticks: bool,
    #[command(flatten)]
    who: Who,
    /// A service's rate that counts as a load of 1, for its memory traffic load by load where the
    /// machine counts it; what it sustains if left out, which a quick profile does not look for.
    #[arg(long, value_name = "QPS", requires = "service")]
    peak: Option<f64>,
    /// Keeps the profile, in this store or in profiles.sqlite of the state folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    store: Option<Option<PathBuf>>,
    /// Keeps it by this name [default: the workload's own].
    #[arg(long, value_name = "NAME", requires = "store")]
    name: Option<String>,
    /// Where the agent keeps its journals and the queue.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/quell")]
    state_dir: PathBuf,
    /// Writes the profile as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with plots.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Who is profiled.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Who {
    /// A process that runs already, with its children.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// A control group that runs already, as a folder or a path below a hierarchy.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// A systemd unit that runs already.
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
    /// A service under load: search, store or topics of Quell's own, or redis, started for it.
    #[arg(long, value_name = "SERVICE")]
    service: Option<Service>,
    /// A command, after --.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// For how long a command is watched before the measurement.
const SETTLE: Duration = Duration::from_secs(2);
const QUICK_SETTLE: Duration = Duration::from_millis(300);
/// The longest run of a command that is repeated.
const LONGEST_RUN: Duration = Duration::from_secs(10);
/// A quick profile ends within this, a full one within that: time for the last window is left.
const QUICK_WITHIN: Duration = Duration::from_millis(4200);
const WITHIN: Duration = Duration::from_secs(57);
/// The tail of a service needs windows with requests enough.
const FOR_TAILS: Effort = Effort {
    window: Duration::from_millis(600),
    settle: Duration::from_millis(50),
    grid: &[],
    pairs: 3,
    listens: 2,
    resolution: 15.0,
    budget: Duration::from_secs(8),
};
/// Where there is no time for that, with so few that they tell a tail at all.
const FOR_TAILS_QUICK: Effort = Effort {
    window: Duration::from_millis(100),
    settle: Duration::from_millis(10),
    listens: 3,
    ..FOR_TAILS
};
/// Its work shows in shorter ones: so many requests at least, within these bounds.
const FOR_WORK: Effort =
    Effort { settle: Duration::from_millis(10), listens: 6, resolution: 7.0, ..FOR_TAILS };
const REQUESTS: f64 = 60.0;
const WINDOWS_S: (f64, f64) = (0.04, 0.3);
const QUICK_WINDOWS_S: (f64, f64) = (0.04, 0.1);

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(what) = &args.kept {
        return kept::run(what);
    }
    anyhow::ensure!(args.peak.is_none_or(|peak| peak > 0.0), "--peak: give a rate");
    let usual = || quell_linux::StateDir(args.state_dir.clone()).profiles();
    let store = args.store.clone().map(|file| file.unwrap_or_else(usual));
    // A store that cannot be used is told before the work, not after it.
    store.as_deref().map(ProfileStore::open).transpose()?;
    let found = measured(args)?;
    if let Some(file) = &store {
        kept::keep(file, args.name.as_deref().unwrap_or(&found.workload.name), &found)?;
    }
    if !measure::to_stdout(args.json.as_deref()) {
        files::print_text(&words(&found))?;
    }
    write_report(args.report.as_deref(), &found)?;
    measure::write_json(args.json.as_deref(), &found)
}

/// A report where one is wanted.
pub(super) fn write_report(folder: Option<&Path>, profile: &Profile) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    report::report(profile, &words(profile)).write(folder)?;
    Ok(())
}

impl Args {
    fn effort_for(&self, service: &Loaded) -> Effort {
        let Some(rate) = service.rate_of_work() else {
            return if self.quick { FOR_TAILS_QUICK } else { FOR_TAILS };
        };
        let (least, most) = if self.quick { QUICK_WINDOWS_S } else { WINDOWS_S };
        let window = Duration::from_secs_f64((REQUESTS / rate.max(1.0)).clamp(least, most));
        // Few turns of long windows, or more of short ones.
        let listens =
            if window > FOR_WORK.settle * 10 || self.quick { 3 } else { FOR_WORK.listens };
        Effort { window, listens, ..FOR_WORK }
    }

    /// What predictions need takes as long as it takes.
    fn within(&self) -> Option<Duration> {
        let whole = if self.quick { QUICK_WITHIN } else { WITHIN };
        (!self.yardsticks).then_some(whole)
    }
}

fn measured(args: &Args) -> anyhow::Result<Profile> {
    let begun = Instant::now();
    let (stop, topology) = measure::begin()?;
    let seats = args.measure.seats()?;
    let cpus = seats.pressure.clone();
    let options = ProfileOptions {
        only: args.measure.only.clone(),
        quick: args.quick,
        threshold: args.threshold,
        effort: None,
        within: args.within(),
        yardsticks: args.yardsticks,
        witnesses: args.yardsticks,
        seats,
        pressure: args.measure.pressure(),
    };
    at_desk(&cpus, || Ok(at_the_desk(args, &options, &topology, &stop, begun)))?
}

fn at_the_desk(
    args: &Args,
    options: &ProfileOptions,
    topology: &Topology,
    stop: &Stop,
    begun: Instant,
) -> anyhow::Result<Profile> {
    let mut tell = |resource: Resource, so_far: &Profile| progress(resource, so_far);
    let Some(service) = args.who.service else {
        let mut subject = subject(args, options, topology, stop)?;
        return Ok(profile(subject.as_mut(), options, topology, stop, begun, &mut tell)?);
    };
    let mut loaded = args.load.open_by_work(service, &options.seats, args.quick, stop)?;
    let options = &ProfileOptions { effort: Some(args.effort_for(&loaded)), ..options.clone() };
    let mut found = profile(&mut loaded, options, topology, stop, begun, &mut tell)?;
    let model = if args.quick && args.peak.is_none() {
        Err("a quick profile leaves it out, unless --peak is given".to_owned())
    } else {
        traffic::model(&mut loaded, args.peak, &options.seats.workload, topology)
    };
    match model {
        Ok(model) => found.bandwidth = Some(model),
        Err(why) => found.bandwidth_absent = Some(why),
    }
    found.seconds = begun.elapsed().as_secs_f64();
    Ok(found)
}

/// Finds or starts whom to measure.
fn subject(
    args: &Args,
    options: &ProfileOptions,
    topology: &Topology,
    stop: &Stop,
) -> anyhow::Result<Box<dyn Subject>> {
    let (who, online) = (&args.who, topology.online());
    let attach = |name: String, group: Group| {
        let counters = counters(&group, &online);
        anyhow::Ok(Box::new(Steady::attach(name, group, counters, stop)?))
    };
    if let Some(pid) = who.pid {
        anyhow::ensure!(Path::new(&format!("/proc/{pid}")).exists(), "no process {pid} runs");
        return Ok(attach(format!("process {pid}"), Group::Process(pid))?);
    }
    if let Some(path) = who.cgroup.clone().or(unit_path(who.unit.as_deref())?) {
        let group = Group::cgroup(&path).with_context(|| {
            format!(
                "no control group {path}: give a folder, or a path below a hierarchy, as /batch"
            )
        })?;
        return Ok(attach(path, group)?);
    }
    let start = LaunchOptions {
        command: who.command.clone(),
        cpus: options.seats.workload.clone(),
        progress: args.progress.clone(),
        counters: outside(&online),
        settle: if args.quick { QUICK_SETTLE } else { SETTLE },
        longest_run: LONGEST_RUN,
    };
    Ok(launch(&start, stop)?)
}

/// The control group of a systemd unit.
fn unit_path(unit: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(unit) = unit else { return Ok(None) };
    let shown = std::process::Command::new("systemctl")
        .args(["show", "--property=ControlGroup", "--value", "--", unit])
        .output()
        .context("cannot ask systemctl for the unit's control group")?;
    let path = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
    anyhow::ensure!(shown.status.success() && !path.is_empty(), "unit {unit} does not run");
    Ok(Some(path))
}

fn progress(resource: Resource, so_far: &Profile) {
    let number = |e: Option<&Estimate>| e.map_or("-".to_owned(), |e| format!("{:.0}", e.value));
    let (tolerated, caused) = (so_far.tolerated.get(&resource), so_far.caused.get(&resource));
    eprintln!("{resource}: tolerates {}, causes {}", number(tolerated), number(caused));
}

/// For a terminal.
pub(crate) fn words(profile: &Profile) -> String {
    let mut table = Table::new(
        "",
        &["resource", "tolerates %>", "95 %>", "causes %>", "95 %>", "speed at 100>"],
    );
    let shown = |e: Option<&Estimate>, why: &str| match e {
        Some(e) => (Cell::number(e.value, 0), Cell::Text(format!("{:.0}–{:.0}", e.low, e.high))),
        None => (Cell::Missing(why.to_owned()), Cell::from("")),
    };
    for (resource, tolerated) in &profile.tolerated {
        let (tolerates, between) = shown(Some(tolerated), "");
        let (causes, around) = shown(profile.caused.get(resource), "see the notes");
        let speed = Cell::number(profile.curve(*resource).at(100.0), 2);
        table.push([Cell::from(resource.name()), tolerates, between, causes, around, speed]);
    }
    let class = profile
        .class
        .animal
        .map_or("unknown".to_owned(), |animal| format!("{animal:?}").to_lowercase());
    let same = if profile.same_core { ", one CPU shared by time (not SMT)" } else { "" };
    let load = profile.workload.requests_per_s;
    let load = load.map_or(String::new(), |qps| format!(" at {qps} requests/s"));
    let mut text = format!(
        "{}{load} on CPU {}, pressure on CPU {}{same}; {:.1} s\n{}class: {class}, by {}\n",
        profile.workload.name,
        profile.workload.cpus,
        profile.pressure_cpus,
        profile.seconds,
        table.to_text(),
        if profile.class.signals.is_empty() {
            "no signal".to_owned()
        } else {
            profile.class.signals.join("; ")
        },
    );
    for (resource, why) in &profile.absent {
        text.push_str(&format!("not measured: {resource}: {why}\n"));
    }
    if let Some(model) = &profile.bandwidth {
        text.push_str(&format!("memory traffic by {}:\n", model.counted_by));
        for p in &model.points {
            let (load, gb) = (100.0 * p.load_frac, p.bytes_per_s.map(|b| b / 1e9));
            let line = format!("{:.2} GB/s ({:.2}–{:.2})", gb.value, gb.low, gb.high);
            text.push_str(&format!("  at {load:.0} % of {} requests/s: {line}\n", model.peak_qps));
        }
    }
    if let Some(why) = &profile.bandwidth_absent {
        text.push_str(&format!("no model of its memory traffic: {why}\n"));
    }
    for note in &profile.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}
