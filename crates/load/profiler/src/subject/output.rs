//! Progress by what a program prints: counted as it comes, and thrown away.

use std::io::Read;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Bytes,
    /// Lines that hold this text; all if it is empty.
    Lines(String),
}

/// A line longer than this counts by its beginning.
const LONGEST_LINE: usize = 1 << 16;

/// Counts on a thread of its own until the output ends. The thread inherits the CPUs of the caller.
pub(super) fn count(mut from: ChildStdout, what: Count) -> std::io::Result<Arc<AtomicU64>> {
    let counter = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&counter);
    let body = move || {
        let (mut buffer, mut tally) = (vec![0u8; 1 << 16], Tally::new(what));
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            shared.fetch_add(tally.add(&buffer[..read]), Relaxed);
        }
    };
    std::thread::Builder::new().name("quell-output".to_owned()).spawn(body)?;
    Ok(counter)
}

/// Lines may come in pieces.
struct Tally {
    what: Count,
    line: Vec<u8>,
}

impl Tally {
    fn new(what: Count) -> Tally {
        Tally { what, line: Vec::new() }
    }

    /// How many more there are with these bytes.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let pattern = match &self.what {
            Count::Bytes => return bytes.len() as u64,
            Count::Lines(pattern) => pattern.as_bytes(),
        };
        if pattern.is_empty() {
            return bytes.iter().filter(|&&b| b == b'\n').count() as u64;
        }
        let mut found = 0;
        for &byte in bytes {
            if byte == b'\n' {
                found += u64::from(self.line.windows(pattern.len()).any(|part| part == pattern));
                self.line.clear();
            } else if self.line.len() < LONGEST_LINE {
                self.line.push(byte);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(what: Count, text: &str, piece: usize) -> u64 {
        let mut tally = Tally::new(what);
        text.as_bytes().chunks(piece).map(|bytes| tally.add(bytes)).sum()
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[ab\n]{0,60}", piece in 1usize..10) {
            let lines = text.matches('\n').count() as u64;
            let whole: Vec<&str> = text.split('\n').collect();
            let with = whole[..whole.len() - 1].iter().filter(|l| l.contains("ab")).count() as u64;
            prop_assert_eq!(tally(Count::Bytes, &text, piece), text.len() as u64);
            prop_assert_eq!(tally(Count::Lines(String::new()), &text, piece), lines);
            prop_assert_eq!(tally(Count::Lines("ab".to_owned()), &text, piece), with);
        }
    }
}
