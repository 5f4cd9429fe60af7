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

#[derive(Debug, Subcommand)]
enum Command {
    /// Guard services while batch uses the rest: the agent.
    Guard(guard::Args),
    /// Put back what an agent that died has left.
    Restore(restore::Args),
    /// Say why a tenant is limited.
    Explain(explain::Args),
    /// Find out who slows a service.
    Who(who::Args),
    /// Say what this machine lets one measure and control.
    Doctor(doctor::Args),
    /// The queue of batch tasks.
    Batch(batch::Args),
    /// Check a configuration, or show what it may hold.
    Config(config::Args),
    #[command(hide = true)]
    Schemas(schemas::Args),
    /// Put load on a service and measure its latency.
    Load(load::Args),
    /// Press on one shared resource at a chosen intensity.
    Pressure(Box<pressure::Args>),
    /// Measure what a workload tolerates and what it causes.
    Profile(Box<profile::Args>),
    /// Measure a service's tail beside each antagonist, load by load.
    Matrix(matrix::Args),
    /// Predict how much slower workloads are together.
    Predict(predict::Args),
    /// Rank what a program should change first.
    Tune(tune::Args),
    /// The main job in about three minutes.
    Demo(demo::Args),
    /// Measure what is promised.
    Bench(bench::Args),
    /// Try whether the right polluter is named.
    Trial(trial::Args),
    /// Play published experiments, or one's own, on a simulated server.
    Simulate(simulate::Args),
    /// Write manual pages.
    Man(man::Man),
    /// Print completions for a shell.
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
