//! `quell config`: checks, an example, all keys.

use super::files;
use clap::Subcommand;
use quell_agent::{check_laws, known_laws};
use quell_config::{ConfigErrors, example, key_table};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Checks a configuration, or shows what it may hold.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell config example > /etc/quell.toml
  quell config check /etc/quell.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say everything that is wrong in a file, each with line and key.
    #[command(after_help = "\
Examples:
  quell config check /etc/quell.toml
  quell config check /etc/quell.toml --json | jq .errors")]
    Check {
        /// The file.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a complete configuration with comments.
    #[command(after_help = "\
Example:
  quell config example > /etc/quell.toml")]
    Example,
    /// Print all keys with types, ranges and defaults, as Markdown.
    #[command(after_help = "\
Example:
  quell config keys | less")]
    Keys,
}

/// What is wrong in a configuration.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Errors {
    /// `quell.config-check/1`.
    schema: &'static str,
    /// Each with its place; empty if all is well.
    errors: ConfigErrors,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Check { file, json } => check(file, *json),
        What::Example => files::print_text(example()),
        What::Keys => files::print_text(&keys()),
    }
}

fn check(file: &Path, json: bool) -> anyhow::Result<()> {
    let checked = files::read_config(file)?.check(&known_laws());
    let done = checked.and_then(|config| check_laws(&config));
    if json {
        let errors = done.as_ref().err().cloned().unwrap_or(ConfigErrors(Vec::new()));
        files::print_json(&Errors { schema: "quell.config-check/1", errors })?;
    }
    done?;
    if !json {
        files::print_text(&format!("{}: all is well", file.display()))?;
    }
    Ok(())
}

/// The page of all keys.
fn keys() -> String {
    format!(
        "# Configuration\n\nAll keys of the configuration file, as `quell config keys` prints them; \
         `quell config example`\nprints a complete file with comments.\n\n{}",
        key_table(&known_laws())
    )
}
