//! The house's own checks, run by `make check`: `cargo run -p xtask -- <task>`.
//!
//! Each task is a module with a `run(root)`, and a line in [`TASKS`]. The judging parts are pure
//! functions on texts, so tests can show that a violation is found.

mod bpf;
mod fma;
mod layers;
mod pages;
mod tidy;
mod workspace;

use anyhow::{Result, bail};
use std::path::Path;
use std::process::ExitCode;

/// What a task found wrong; nothing if all is well.
type Findings = Vec<String>;
/// A task: its name, what it does, and how.
type Task = (&'static str, &'static str, fn(&Path) -> Result<Findings>);

const TASKS: &[Task] = &[
    ("layers", "only the edges between crates that the design allows", layers::run),
    ("tidy", "length of files, module documentation, words that promise work", tidy::run),
    ("pages", "write docs/schemas and docs/config.md anew, which quell prints", pages::run),
    (
        "fma",
        "journals and figures of a build with FMA instructions are those of one without",
        fma::run,
    ),
    ("bpf", "the checked-in eBPF objects are what their sources give", bpf::run),
];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the task that is asked for, prints what it found, and says whether all is well.
fn run() -> Result<bool> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, _, task)) = TASKS.iter().find(|(task, ..)| *task == name) else {
        let list = TASKS.iter().map(|(task, what, _)| format!("\n  {task:8} {what}"));
        bail!("usage: cargo run -p xtask -- TASK{}", list.collect::<String>());
    };
    let findings = task(&workspace::root()?)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => println!("{name}: all is well"),
        count => eprintln!("{name}: {count} found"),
    }
    Ok(findings.is_empty())
}
