//! `quell man` and `quell completions`: made of the one definition of the command line.

use super::{Cli, files};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::PathBuf;

/// Writes manual pages: quell.1, and one for each subcommand.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quell man --dir /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Where to; it is made if need be.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Prints what a shell needs to complete Quell's command lines.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell completions bash > /etc/bash_completion.d/quell
  quell completions zsh > /usr/local/share/zsh/site-functions/_quell
  quell completions fish > ~/.config/fish/completions/quell.fish")]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
}

pub(crate) fn write_pages(args: &Man) -> anyhow::Result<()> {
    let folder = args.dir.display();
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {folder}"))?;
    clap_mangen::generate_to(Cli::command(), &args.dir)
        .with_context(|| format!("cannot write manual pages to {folder}"))?;
    files::print_text(&format!("manual pages in {folder}"))
}

pub(crate) fn print_completions(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "quell", &mut script);
    files::print_text(&String::from_utf8_lossy(&script))
}
