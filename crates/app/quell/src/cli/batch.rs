//! `quell batch`: the queue of batch tasks.

use super::files::{self, State};
use super::moment;
use anyhow::{Context, bail};
use clap::Subcommand;
use quell_agent::AgentState;
use quell_linux::{Queue, TaskRow};
use quell_types::{TaskEnd, TaskId, TaskRecord, TaskSpec, TaskState, Tenant};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Adds tasks to the queue and shows what became of them.
///
/// The agent starts them while there is room.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell batch add --retries 2 -- make -C /src all
  quell batch list
  quell batch output 1")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    state: State,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Add a task.
    #[command(after_help = "\
Examples:
  quell batch add -- gzip -k /data/log
  quell batch add --tenant jobs --retries 2 --dir /src -- make all")]
    Add {
        /// The batch group it shall run in [default: any that takes tasks].
        #[arg(long)]
        tenant: Option<String>,
        /// How often a failed run is tried again.
        #[arg(long, default_value_t = 0)]
        retries: u32,
        /// Working directory [default: the present one].
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Program and arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Show all tasks.
    #[command(after_help = "\
Examples:
  quell batch list
  quell batch list --json | jq '.tasks[] | select(.state == \"failed\")'")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one task.
    #[command(after_help = "\
Example:
  quell batch show 1")]
    Show {
        /// Its number.
        id: i64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what a task wrote.
    #[command(after_help = "\
Example:
  quell batch output 1")]
    Output {
        /// Its number.
        id: i64,
    },
    /// Remove a task that does not run.
    #[command(after_help = "\
Example:
  quell batch remove 1")]
    Remove {
        /// Its number.
        id: i64,
    },
    /// Remove all that finished or failed.
    #[command(after_help = "\
Example:
  quell batch clean")]
    Clean,
    /// Make a failed or finished task ready again.
    #[command(after_help = "\
Example:
  quell batch retry 1")]
    Retry {
        /// Its number.
        id: i64,
    },
}

/// Who starts a task when no agent does.
const NO_AGENT: &str =
    "; no agent runs yet: `quell guard` with a batch group of tasks = true starts it";

/// A task.
#[derive(Debug, Serialize, JsonSchema)]
struct Task {
    #[serde(flatten)]
    record: TaskRecord,
    /// When it was added, in milliseconds since 1970.
    added_unix_ms: u64,
    /// When its last run began, in milliseconds since 1970.
    started_unix_ms: Option<u64>,
    /// When its last run ended, in milliseconds since 1970.
    ended_unix_ms: Option<u64>,
}

/// The queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tasks {
    /// `quell.batch/1`.
    schema: &'static str,
    /// Oldest first.
    tasks: Vec<Task>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let state = args.state.folder();
    if let Some(answer) = without_queue(&args.what, &state.queue()) {
        return answer;
    }
    let queue = Queue::open(&state.queue()).with_context(|| {
        let root = rustix::process::geteuid().is_root();
        if root { "cannot use the queue" } else { "the queue belongs to root: run it as root" }
    })?;
    match &args.what {
        What::Add { tenant, retries, dir, command } => {
            let dir = dir.clone().map_or_else(std::env::current_dir, Ok).context("--dir")?;
            anyhow::ensure!(dir.is_dir(), "--dir {}: there is no such folder", dir.display());
            let spec = TaskSpec {
                command: command.clone(),
                tenant: tenant.as_deref().map(Tenant::from),
                directory: Some(files::absolute(&dir)?.display().to_string()),
                retries: *retries,
            };
            let id = queue.add(&spec, moment::now_ms())?;
            let runs = matches!(AgentState::of(&state), AgentState::Running { .. });
            let note = if runs { "" } else { NO_AGENT };
            files::print_text(&format!("task {id} is ready{note}"))
        }
        What::List { json } => show(queue.list()?, *json, list),
        What::Show { id, json } => show(vec![queue.get(TaskId(*id))?], *json, one),
        What::Output { id } => {
            queue.get(TaskId(*id))?;
            output(&state.task_output().join(format!("{id}.out")), *id)
        }
        What::Remove { id } => {
            queue.remove(TaskId(*id))?;
            files::print_text(&format!("task {id} is removed"))
        }
        What::Clean => files::print_text(&format!("{} tasks are removed", queue.clean()?)),
        What::Retry { id } => {
            queue.retry(TaskId(*id))?;
            files::print_text(&format!("task {id} is ready"))
        }
    }
}

/// Where no queue was ever made, root makes none by asking. Others are told that it is root's.
fn without_queue(what: &What, queue: &Path) -> Option<anyhow::Result<()>> {
    if std::fs::exists(queue).unwrap_or(true) || !rustix::process::geteuid().is_root() {
        return None;
    }
    match what {
        What::Add { .. } => None,
        What::List { json } => Some(show(Vec::new(), *json, list)),
        What::Clean => Some(files::print_text("0 tasks are removed")),
        What::Show { id, .. } | What::Output { id } | What::Remove { id } | What::Retry { id } => {
            Some(Err(anyhow::anyhow!("there is no task {id}: {} is not there", queue.display())))
        }
    }
}

fn show(rows: Vec<TaskRow>, json: bool, text: fn(&[TaskRow]) -> String) -> anyhow::Result<()> {
    if !json {
        return files::print_text(&text(&rows));
    }
    let task = |row: TaskRow| Task {
        record: row.record,
        added_unix_ms: row.added_unix_ms,
        started_unix_ms: row.started_unix_ms,
        ended_unix_ms: row.ended_unix_ms,
    };
    let tasks = rows.into_iter().map(task).collect();
    files::print_json(&Tasks { schema: "quell.batch/1", tasks })
}

fn list(rows: &[TaskRow]) -> String {
    if rows.is_empty() {
        return "the queue is empty".into();
    }
    let mut text = format!("{:>5}  {:<9} {:<12} {:<22} command\n", "task", "state", "group", "end");
    for row in rows {
        let record = &row.record;
        let _ = writeln!(
            text,
            "{:>5}  {:<9} {:<12} {:<22} {}",
            record.id,
            word(record.state),
            record.spec.tenant.as_ref().map_or("any", Tenant::as_str),
            record.last_end.as_ref().map_or(String::new(), end),
            record.spec.command.join(" "),
        );
    }
    text
}

fn one(rows: &[TaskRow]) -> String {
    let Some(row) = rows.first() else { return String::new() };
    let record = &row.record;
    let when = |ms: Option<u64>| ms.map_or("–".to_owned(), moment::local);
    format!(
        "task {}: {}\ncommand: {}\ndirectory: {}\ngroup: {}\nruns: {} (retries: {})\nadded: {}\n\
         last run began: {}\nlast run ended: {} {}",
        record.id,
        word(record.state),
        record.spec.command.join(" "),
        record.spec.directory.as_deref().unwrap_or("the agent's"),
        record.spec.tenant.as_ref().map_or("any", Tenant::as_str),
        record.attempts,
        record.spec.retries,
        moment::local(row.added_unix_ms),
        when(row.started_unix_ms),
        when(row.ended_unix_ms),
        record.last_end.as_ref().map_or(String::new(), end),
    )
}

fn output(path: &Path, id: i64) -> anyhow::Result<()> {
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("task {id} never ran"),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    match io::copy(&mut file, &mut io::stdout().lock()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Ready => "ready",
        TaskState::Running => "running",
        TaskState::Finished => "finished",
        TaskState::Failed => "failed",
    }
}

fn end(end: &TaskEnd) -> String {
    match end {
        TaskEnd::Exited { status } => format!("status {status}"),
        TaskEnd::Killed { signal } => format!("signal {signal}"),
        TaskEnd::Stopped => "stopped by Quell".into(),
        TaskEnd::NotStarted { why } => format!("not started: {why}"),
    }
}
