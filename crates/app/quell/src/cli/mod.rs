//! The command line: one module a subcommand, each with its `Args` and `run`.

mod batch;
mod bench;
mod config;
mod counted;
mod demo;
mod doctor;
mod embedded;
mod explain;
mod files;
mod guard;
mod guarded;
mod kept;
mod latency;
mod load;
mod man;
mod matrix;
mod measure;
mod moment;
mod predict;
mod pressure;
mod profile;
mod read;
mod restore;
mod schemas;
mod simulate;
mod traffic;
mod trial;
mod tune;
mod who;
mod wire;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Keeps the tenants of one Linux server from hurting each other.
#[derive(Debug, Parser)]
#[command(name = "quell", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

// Each says in the docs of its `Args` what it does: docs here would replace them in its help.
#[derive(Debug, Subcommand)]
enum Command {
    Guard(guard::Args),
    Restore(restore::Args),
    Explain(explain::Args),
    Who(who::Args),
    Doctor(doctor::Args),
    Batch(batch::Args),
    Config(config::Args),
    #[command(hide = true)]
    Schemas(schemas::Args),
    Load(load::Args),
    Pressure(Box<pressure::Args>),
    Profile(Box<profile::Args>),
    Matrix(matrix::Args),
    Predict(predict::Args),
    Tune(tune::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Trial(trial::Args),
    Simulate(simulate::Args),
    Man(man::Man),
    Completions(man::Completions),
}

impl Cli {
    /// What the process was called with; ends it where that is wrong, or where help was asked for.
    pub(crate) fn of_process() -> Self {
        let words: Vec<_> = std::env::args_os().collect();
        read::read(&words).unwrap_or_else(|error| error.exit())
    }
}

/// Does what the command line says; errors go to standard error with all their causes.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let done = match &cli.command {
        Command::Guard(args) => guard::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Who(args) => who::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Batch(args) => batch::run(args),
        Command::Config(args) => config::run(args),
        Command::Schemas(args) => schemas::run(args),
        Command::Load(args) => load::run(args),
        Command::Pressure(args) => pressure::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Matrix(args) => matrix::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Trial(args) => trial::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Man(args) => man::write_pages(args),
        Command::Completions(args) => man::print_completions(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quell: {}", in_words(&error));
            exit_code(&error)
        }
    }
}

/// With all its causes, each once: many errors name their cause already.
fn in_words(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        if said.contains(&cause) { said } else { format!("{said}: {cause}") }
    })
}

/// A configuration or a scenario that is wrong counts as a command line that is wrong.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<quell_config::ConfigErrors>().is_some()
        || error.downcast_ref::<quell_simulate::ScenarioErrors>().is_some()
    {
        return ExitCode::from(2);
    }
    guard::exit_code(error).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// Each command that people see and that does something by itself, with its path and its examples.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, Vec<String>)>) {
        let visible: Vec<&clap::Command> =
            command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
        if visible.is_empty() || !command.is_subcommand_required_set() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let help = help.replace("\\\n", " ");
            let examples = help.lines().filter(|line| line.starts_with("  quell "));
            found.push((path.to_owned(), examples.map(|l| l.trim().to_owned()).collect()));
        }
        for below in visible {
            leaves(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::from_raw_os_error(2);
        let twice = anyhow::Error::new(cause()).context(format!("cannot start x: {}", cause()));
        assert_eq!(in_words(&twice), format!("cannot start x: {}", cause()));
        let once = anyhow::Error::new(cause()).context("cannot read x");
        assert_eq!(in_words(&once), format!("cannot read x: {}", cause()));
        assert_eq!(in_words(&anyhow::anyhow!("alone")), "alone");
    }

    /// The words of an example up to where it is the shell's.
    fn words(example: &str) -> Vec<String> {
        let all = shlex::split(example).unwrap_or_else(|| panic!("an open quote: {example}"));
        let shell = |word: &String| !["|", ">", "&&", "&"].contains(&word.as_str());
        all.into_iter().take_while(shell).collect()
    }

    #[test]
    fn every_command_has_examples_of_itself_and_understands_them() {
        let mut found = Vec::new();
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            leaves(command, &format!("quell {}", command.get_name()), &mut found);
        }
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        for path in ["quell batch add", "quell load redis", "quell profile", "quell profile list"] {
            assert!(paths.contains(&path), "{paths:?}");
        }
        for (path, examples) in &found {
            let own = examples.iter().filter(|example| example.starts_with(path.as_str())).count();
            assert!(own > 0, "{path} --help has no example of it");
            for example in examples {
                let read = Cli::try_parse_from(words(example));
                assert!(read.is_ok(), "{path} --help: {example}: {}", read.unwrap_err());
            }
        }
    }
}
