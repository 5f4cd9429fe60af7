//! House rules that no lint knows: length of files, a word on what each module is, and no words
//! that put work off.

use crate::Findings;
use crate::workspace::{self, relative};
use anyhow::Result;
use std::path::Path;

/// The longest file, tests apart: beyond it a module holds more than one thought.
const MAX_LINES: usize = 400;

/// Words that may not stand anywhere, each with its reason. Written in two halves, or this file
/// would be the first to break its rule.
const WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it now, or open an issue"),
    (concat!("FIX", "ME"), "do it now, or open an issue"),
    (concat!("XX", "X:"), "do it now, or open an issue"),
    (concat!("unimple", "mented!"), "an answer with a reason takes its place"),
    (concat!("to", "do!"), "an answer with a reason takes its place"),
    (concat!("db", "g!("), "take it out before the commit"),
    (
        concat!("#[ig", "nore"),
        "a test that does not run holds nothing; only what other tests start as a process of \
         their own may say so: = \"becomes …\"",
    ),
];

/// The reason by which a function marked as a test says that it is a process of other tests.
const PROCESS_OF_TESTS: &str = concat!("#[ig", "nore = \"becomes ");

/// Files in which words are looked for.
const TEXTS: &[&str] = &[".rs", ".toml", ".md", ".c", ".h", ".sh", "Makefile"];

pub(crate) fn run(root: &Path) -> Result<Findings> {
    let mut findings = Vec::new();
    for path in workspace::files(root, TEXTS)? {
        let name = relative(root, &path);
        let text = workspace::text(&path)?;
        findings.extend(words(&name, &text));
        if name.ends_with(".rs") {
            findings.extend(too_long(&name, &text));
            findings.extend(undocumented(&name, &text));
        }
    }
    Ok(findings)
}

fn words(name: &str, text: &str) -> Findings {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.replace(PROCESS_OF_TESTS, "");
        for (word, reason) in WORDS.iter().filter(|(word, _)| line.contains(word)) {
            findings.push(format!("{name}:{}: {word}: {reason}", index + 1));
        }
    }
    findings
}

fn too_long(name: &str, text: &str) -> Option<String> {
    let lines = text[..tests_at(text)].lines().count();
    let of_tests = name.contains("/tests/") || name.ends_with("/tests.rs");
    (lines > MAX_LINES && !of_tests)
        .then(|| format!("{name}: {lines} lines without its tests, at most {MAX_LINES}: split it"))
}

/// Where the tests at the end of a file begin.
fn tests_at(text: &str) -> usize {
    text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len())
}

fn undocumented(name: &str, text: &str) -> Option<String> {
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!["));
    let said = first.is_some_and(|line| line.starts_with("//!"));
    (!said).then(|| format!("{name}: begins without a word (//!) on what it is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_put_work_off_are_found_with_their_line() {
        for (word, _) in WORDS {
            let findings = words("a.rs", &format!("//! Fine.\nlet x = 1; // {word}\n"));
            assert_eq!(findings.len(), 1, "{word}: {findings:?}");
            assert!(findings[0].starts_with("a.rs:2: "), "{findings:?}");
        }
        assert!(words("a.rs", "//! What is to do: nothing.\n").is_empty());
        let helper = format!("{PROCESS_OF_TESTS}the server\"]\n");
        assert!(words("a.rs", &helper).is_empty());
    }

    #[test]
    fn long_files_are_found_but_tests_do_not_count() {
        let long = "//! x\n".to_owned() + &"let a = 1;\n".repeat(MAX_LINES);
        assert!(too_long("src/a.rs", &long).is_some());
        assert!(too_long("crates/a/tests/a.rs", &long).is_none());
        let tests = format!("//! x\n\n#[cfg(test)]\nmod tests {{\n{}}}\n", "f();\n".repeat(500));
        assert!(too_long("src/a.rs", &tests).is_none());
    }

    #[test]
    fn modules_without_a_word_are_found() {
        assert!(undocumented("a.rs", "use std::fs;\n").is_some());
        assert!(undocumented("a.rs", "").is_some());
        assert!(undocumented("a.rs", "//! What it is.\n").is_none());
        assert!(undocumented("a.rs", "#![no_std]\n//! What it is.\n").is_none());
    }
}
