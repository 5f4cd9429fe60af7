//! From text to statements: lines of words, each with its place.
//!
//! A line that begins at its first column opens a statement; indented lines after it say more of
//! it. Words are separated by blanks; `"…"` holds blanks together; `#` at the begin of a word
//! opens a remark.

use super::ScenarioError;

/// A word with its place, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) words: Vec<Word>,
    /// The column after its last word.
    end: usize,
}

/// A line at the first column with the indented ones below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) head: Line,
    pub(crate) body: Vec<Line>,
}

impl Word {
    /// An error at this word.
    pub(crate) fn wrong(&self, problem: &str, expected: impl Into<String>) -> ScenarioError {
        ScenarioError::new(self.line, self.column, problem, expected)
    }

    /// An error that quotes this word.
    pub(crate) fn unfit(&self, expected: impl Into<String>) -> ScenarioError {
        self.wrong(&format!("`{}` does not fit", super::clip(&self.text)), expected)
    }
}

impl Line {
    /// The line's words one after the other.
    pub(crate) fn words(&self) -> Words<'_> {
        Words { line: self, at: 0 }
    }

    /// Its first word.
    pub(crate) fn key(&self) -> &Word {
        &self.words[0]
    }
}

impl Statement {
    /// The word that says what kind of statement it is.
    pub(crate) fn kind(&self) -> &str {
        &self.head.key().text
    }
}

/// All statements of a text, or what is wrong with their lines.
pub(crate) fn statements(text: &str) -> (Vec<Statement>, Vec<ScenarioError>) {
    let (mut all, mut errors) = (Vec::<Statement>::new(), Vec::new());
    for (index, raw) in text.lines().enumerate() {
        let line = match split(raw, index + 1) {
            Ok(Some(line)) => line,
            Ok(None) => continue,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let indented = line.words[0].column > 1;
        match all.last_mut() {
            Some(statement) if indented => statement.body.push(line),
            None if indented => errors.push(line.key().wrong(
                "an indented line says more of the one above it",
                "a statement at the first column",
            )),
            _ => all.push(Statement { head: line, body: Vec::new() }),
        }
    }
    (all, errors)
}

fn split(raw: &str, number: usize) -> Result<Option<Line>, ScenarioError> {
    let mut words = Vec::new();
    let mut rest = raw.char_indices().peekable();
    let column_of = |at: usize| raw[..at].chars().count() + 1;
    while let Some(&(at, c)) = rest.peek() {
        if c.is_whitespace() {
            rest.next();
            continue;
        }
        if c == '#' {
            break;
        }
        let column = column_of(at);
        let quoted = c == '"';
        if quoted {
            rest.next();
        }
        let ends = |c: char| if quoted { c == '"' } else { c.is_whitespace() };
        let mut text = String::new();
        while let Some((_, c)) = rest.next_if(|(_, c)| !ends(*c)) {
            text.push(c);
        }
        if quoted && rest.next().is_none() {
            let open = "a `\"` opens a name that does not end";
            return Err(ScenarioError::new(
                number,
                column,
                open,
                "a `\"` at its end, on the same line",
            ));
        }
        words.push(Word { text, line: number, column });
    }
    let end = raw.trim_end().chars().count() + 1;
    Ok((!words.is_empty()).then_some(Line { words, end }))
}

/// Reads a line word by word.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    line: &'a Line,
    at: usize,
}

impl<'a> Words<'a> {
    /// The next word, which must be there.
    pub(crate) fn next(&mut self, expected: &str) -> Result<&'a Word, ScenarioError> {
        let word = self.line.words.get(self.at).ok_or_else(|| self.ended(expected))?;
        self.at += 1;
        Ok(word)
    }

    /// The next word, if there is one.
    pub(crate) fn peek(&self) -> Option<&'a Word> {
        self.line.words.get(self.at)
    }

    /// Steps over the next word if it is this one.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let there = self.peek().is_some_and(|word| word.text == text);
        self.at += usize::from(there);
        there
    }

    /// Steps over a word that must be this one.
    pub(crate) fn expect(&mut self, text: &str) -> Result<(), ScenarioError> {
        if self.take(text) {
            return Ok(());
        }
        let expected = format!("`{text}`");
        Err(self.peek().map_or_else(|| self.ended(&expected), |word| word.unfit(expected.as_str())))
    }

    /// All words that are left.
    pub(crate) fn rest(&mut self) -> &'a [Word] {
        let rest = &self.line.words[self.at..];
        self.at = self.line.words.len();
        rest
    }

    /// Nothing may follow.
    pub(crate) fn done(&self) -> Result<(), ScenarioError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(word.unfit("the end of the line")),
        }
    }

    fn ended(&self, expected: &str) -> ScenarioError {
        let line = self.line.words.first().map_or(1, |word| word.line);
        ScenarioError::new(line, self.line.end, "the line ends too early", expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_belong_to_the_one_above() {
        let text = "# a remark\nservice \"my web\" # and more\n  load 40%\n\nrun 10s\n";
        let (found, errors) = statements(text);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(found.len(), 2);
        let words: Vec<&str> = found[0].head.words.iter().map(|w| w.text.as_str()).collect();
        assert_eq!(words, ["service", "my web"]);
        assert_eq!((found[0].body[0].key().line, found[0].body[0].key().column), (3, 3));
        assert_eq!(found[1].kind(), "run");
    }

    #[test]
    fn errors_name_line_and_column() {
        let (_, errors) = statements("  load 4\nservice \"web\n");
        let places: Vec<_> = errors.iter().map(|e| (e.line, e.column)).collect();
        assert_eq!(places, [(1, 3), (2, 9)]);
        let (found, _) = statements("run 10s after\n");
        let mut words = found[0].head.words();
        words.rest();
        let ended = words.next("a time").unwrap_err();
        assert_eq!((ended.line, ended.column), (1, 14));
        assert!(ended.to_string().contains("expected a time"), "{ended}");
    }
}
