//! Reading the command line, and saying what may have been meant where it is wrong.

use super::Cli;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, FromArgMatches as _};
use std::ffi::OsString;

/// What these words say, the program's name first.
pub(super) fn read(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = with_negative_numbers(Cli::command());
    let read = match command.try_get_matches_from_mut(words) {
        Ok(matches) => Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command)),
        Err(error) => Err(error),
    };
    read.map_err(|error| hinted(error, &command, words))
}

/// A negative number after an option is its value: that it is too small is for the option to say.
/// Otherwise it would count as an option that nobody knows.
fn with_negative_numbers(command: Command) -> Command {
    let allowed = command.mut_args(|arg| {
        let takes = arg.get_action().takes_values() && !arg.is_positional();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    });
    allowed.mut_subcommands(with_negative_numbers)
}

/// A word where none belongs, at a command that has a configuration file: it may be that.
fn hinted(mut error: clap::Error, command: &Command, words: &[OsString]) -> clap::Error {
    let name = words.get(1).and_then(|word| word.to_str());
    let called = name.and_then(|name| command.find_subcommand(name));
    let has_config =
        called.is_some_and(|called| called.get_arguments().any(|a| a.get_long() == Some("config")));
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() == ErrorKind::UnknownArgument && has_config && !word.starts_with('-') {
        let tip = format!("did you mean '--config {word}'?");
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> String {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        read(&words).unwrap_err().to_string()
    }

    #[test]
    fn a_file_without_its_option_is_taken_for_the_configuration() {
        for command in ["guard", "who", "restore"] {
            let said = said(&format!("quell {command} /etc/quell.toml"));
            assert!(said.contains("tip: did you mean '--config /etc/quell.toml'?"), "{said}");
            assert!(said.contains("Usage: quell "), "{said}");
        }
        let other = said("quell doctor /etc/quell.toml");
        assert!(!other.contains("--config"), "{other}");
        let option = said("quell guard --confg /etc/quell.toml");
        assert!(option.contains("'--config'") && !option.contains("--config --"), "{option}");
    }

    #[test]
    fn a_negative_number_is_the_value_of_its_option() {
        let text = said("quell batch list -5");
        assert!(text.contains("unexpected argument '-5'"), "{text}");
        let text = said("quell batch add --retries -5 -- true");
        assert!(text.contains("invalid value '-5' for '--retries"), "{text}");
        assert!(!text.contains("-- -5"), "{text}");
    }
}
