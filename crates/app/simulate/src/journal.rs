//! The decision journal of a run: its digest, and its lines if they are wanted.

use quell_control::Entry;

/// FNV-1a, 64 bits: small, and the same everywhere.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A journal as it grows.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    hash: u64,
    lines: u64,
    kept: Option<Vec<u8>>,
    /// The last line, in a buffer that lives from line to line.
    line: Vec<u8>,
}

impl Journal {
    /// An empty one; `keep` its lines, or only their digest.
    pub(crate) fn new(keep: bool) -> Self {
        Self { hash: OFFSET, lines: 0, kept: keep.then(Vec::new), line: Vec::new() }
    }

    /// Writes an entry down, unless it says nothing.
    pub(crate) fn append(&mut self, entry: &Entry) {
        if entry.is_empty() {
            return;
        }
        self.line.clear();
        // An entry is plain data with text keys: it can always be written.
        let _ = serde_json::to_writer(&mut self.line, entry);
        self.line.push(b'\n');
        self.hash = self.line.iter().copied().fold(self.hash, step);
        self.lines += 1;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&self.line);
        }
    }

    /// Lines and hash, as `412:9f86d081884c7d65`.
    pub(crate) fn digest(&self) -> String {
        format!("{}:{:016x}", self.lines, self.hash)
    }

    /// Its text, if it was kept.
    pub(crate) fn text(self) -> Option<String> {
        // Lines of JSON are text.
        self.kept.map(|kept| String::from_utf8(kept).unwrap_or_default())
    }
}

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(PRIME)
}

/// One digest of several.
pub(crate) fn digest_of(digests: &[&str]) -> String {
    let hash = digests.join("\n").bytes().fold(OFFSET, step);
    format!("{:016x}", hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_control::Note;

    fn entry(what: &str) -> Entry {
        Entry { notes: vec![Note::Agent { what: what.into() }], ..Entry::default() }
    }

    #[test]
    fn digests_differ_by_content_and_order_and_silence_is_not_written() {
        let of = |words: &[&str]| {
            let mut journal = Journal::new(true);
            journal.append(&Entry::default());
            words.iter().for_each(|w| journal.append(&entry(w)));
            (journal.digest(), journal.text().unwrap_or_default())
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]).0, of(&["b", "a"]).0);
        assert!(of(&["a", "b"]).0.starts_with("2:") && of(&["a"]).1.lines().count() == 1);
        assert_eq!(of(&[]).0, "0:cbf29ce484222325");
    }
}
