//! Errors of a configuration: all at once, each with its place, and rendered as compilers do.

use crate::spot::{Origin, Spot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much of a long line is shown around the place.
const SHOWN: usize = 100;

/// The most errors that are told: a text with more of them was not meant to be a configuration.
const MOST: usize = 100;

/// One thing that is wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigError {
    /// The file or flag.
    #[serde(flatten)]
    pub origin: Origin,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// How many characters are meant.
    pub width: usize,
    /// The line itself.
    pub text: String,
    /// Path of the key, as `service[0].p99`; empty if the text is no TOML at all.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right; none if the problem says it.
    pub help: Option<String>,
}

impl ConfigError {
    pub(crate) fn at(
        spot: &Spot,
        key: impl Into<String>,
        problem: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        let place = spot.locate();
        Self {
            origin: spot.source.origin.clone(),
            line: place.line,
            column: place.column,
            width: place.width,
            text: place.text,
            key: printable(&key.into()),
            problem: printable(&problem.into()),
            help: help.as_deref().map(printable),
        }
    }

    /// The shown part of the line and the column of the place in it, from 0.
    fn excerpt(&self) -> (String, usize) {
        let at = self.column - 1;
        let from = if at + 20 > SHOWN { at - SHOWN / 2 } else { 0 };
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let mut shown: String = self.text.chars().skip(from).take(SHOWN).map(plain).collect();
        if self.text.chars().count() > from + SHOWN {
            shown.push('…');
        }
        (shown, at - from)
    }
}

/// Control characters written out: what stands in a text must not steer the terminal on which its
/// errors are shown.
fn printable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    plain
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gutter = " ".repeat(self.line.to_string().len());
        let (shown, at) = self.excerpt();
        let carets = "^".repeat(self.width.clamp(1, shown.chars().count().max(at + 1) - at));
        writeln!(f, "error: {}", self.problem)?;
        writeln!(f, "{gutter}--> {}:{}:{}", self.origin, self.line, self.column)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{} | {shown}", self.line)?;
        writeln!(f, "{gutter} | {}{carets} {}", " ".repeat(at), self.key)?;
        match &self.help {
            Some(help) => writeln!(f, "{gutter} = help: {help}"),
            None => Ok(()),
        }
    }
}

/// All errors of a configuration, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.0 {
            writeln!(f, "{error}")?;
        }
        match self.0.len() {
            1 => write!(f, "1 error in the configuration"),
            MOST => write!(f, "{MOST} errors in the configuration, and more that are not shown"),
            count => write!(f, "{count} errors in the configuration"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects errors while a configuration is read.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<((usize, usize), ConfigError)>,
    /// Whether the text could not be read in full: then what seems missing may well be there.
    torn: bool,
}

impl Faults {
    pub(crate) fn push(
        &mut self,
        spot: &Spot,
        key: impl Into<String>,
        problem: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        if self.found.len() < MOST {
            self.found.push((spot.order(), ConfigError::at(spot, key, problem, help.into())));
        }
    }

    /// A place where the text itself cannot be read.
    pub(crate) fn tear(&mut self, spot: &Spot, problem: String, help: Option<String>) {
        self.torn = true;
        self.push(spot, "", problem, help);
    }

    /// Something that is not there; kept silent if part of the text could not be read.
    pub(crate) fn missing(&mut self, spot: &Spot, key: &str, problem: String, help: String) {
        if !self.torn {
            self.push(spot, key, problem, help);
        }
    }

    pub(crate) fn absorb(&mut self, other: Faults) {
        self.found.extend(other.found);
        self.torn |= other.torn;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them in the order of the text, each once.
    pub(crate) fn into_errors(mut self) -> ConfigErrors {
        self.found.sort_by_key(|(order, _)| *order);
        self.found.dedup();
        self.found.truncate(MOST);
        ConfigErrors(self.found.into_iter().map(|(_, error)| error).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spot::Source;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn source(text: &str) -> Arc<Source> {
        let origin = Origin::File("quell.toml".into());
        Arc::new(Source { origin, rank: 0, text: text.into() })
    }

    #[test]
    fn is_shown_as_compilers_do() {
        let source = source("[agent]\n\tlaw = \"quel\"\n");
        let spot = Spot::new(&source, 15..21);
        let help = Some("did you mean `quell`?".to_owned());
        let shown = ConfigError::at(&spot, "agent.law", "there is no law `quel`", help).to_string();
        let wanted = "\
error: there is no law `quel`
 --> quell.toml:2:8
  |
2 |  law = \"quel\"
  |        ^^^^^^ agent.law
  = help: did you mean `quell`?
";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let source = source(&format!("x = \"{}\" # {}", "a".repeat(400), "b".repeat(400)));
        let shown = ConfigError::at(&Spot::new(&source, 405..406), "x", "bad", None).to_string();
        assert!(shown.lines().all(|line| line.chars().count() < SHOWN + 12), "{shown}");
        let lines: Vec<_> = shown.lines().collect();
        let caret = lines[4].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[3].chars().nth(caret), Some('"'));
    }

    proptest! {
        #[test]
        fn any_place_in_any_text_is_shown(text in "(?s).{0,60}", a in 0usize..300, b in 0usize..300) {
            let source = source(&text);
            let error = ConfigError::at(&Spot::new(&source, a..b), "k", "p", None);
            prop_assert!(error.to_string().contains('^'));
            prop_assert!(error.line >= 1 && error.column >= 1);
        }
    }
}
