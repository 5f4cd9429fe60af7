//! The one binary: every job of Quell is a subcommand.
//!
//! Exit codes: 0 done; 1 failed, with the reason on standard error; 2 the command line or the
//! configuration is wrong; 3 the agent stopped, but something could not be put back, or batch had
//! to be held on the safe side.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(cli::Cli::of_process())
}
