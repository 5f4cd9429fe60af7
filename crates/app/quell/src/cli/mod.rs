//! The command line: one module a subcommand, each with its `Args` and `run`.

mod batch;
mod bench;
mod config;
mod counted;
mod demo;
mod doctor;
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
            eprintln!("quell: {error:#}");
            exit_code(&error)
        }
    }
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
