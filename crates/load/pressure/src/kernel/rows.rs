//! How a shared cache is taken: random rows of lines, each of which comes by twice ([`super::again`]).
//!
//! ```text
//! row ← next of the sequence                        (of 64 lines: prefetchers hardly leave a page)
//! for each line: ask for it in the row after this one; write it; read it in the row that was written
//!                a distance ago
//! ```
//! The sequence is one generator, which is run three times: ahead, now, and behind.
//!
//! *Degradation.* Where intensity changes the rows behind are others than were written, until as many have been;
//! they are the footprint's all the same.

use super::again::distance_bytes;
use super::fetch::fetch_to_write;
use super::random::{below, step};
use crate::region::{LINE, Line};
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

/// Lines of a row: a page, which is as far as prefetchers go.
pub(super) const ROW: usize = 64;

/// Where a walk through random rows is.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// Of the generator, at the row that is asked for.
    ahead: u64,
    /// At the row that is written.
    now: u64,
    /// At the row that is read again.
    behind: u64,
    /// How many more rows are to be written before one is read again; none if that is never.
    until_again: Option<u64>,
}

impl Rows {
    /// From this state of the generator on, where the cache before this one has so many bytes; 0: not known.
    pub(super) fn new(state: u64, nearer_bytes: u64) -> Self {
        let rows = |bytes: u64| (bytes / (ROW * LINE) as u64).max(1);
        let until_again = distance_bytes(nearer_bytes).map(rows);
        Rows { ahead: step(state), now: state, behind: state, until_again }
    }

    /// Writes a row of these lines, which are one at least, and reads one again if one is due. Gives the
    /// accesses.
    pub(super) fn advance(&mut self, lines: &[Line]) -> usize {
        let row = |state| &lines[below(state, (lines.len() / ROW) as u64) * ROW..][..ROW];
        let (asked, written) = (row(self.ahead), row(self.now));
        let accesses = match self.until_again {
            Some(0) => {
                black_box(write_and_read(asked, written, row(self.behind), self.now >> 1));
                self.behind = step(self.behind);
                2 * ROW
            }
            rows => {
                write(asked, written, self.now >> 1);
                self.until_again = rows.map(|rows| rows - 1);
                ROW
            }
        };
        (self.now, self.ahead) = (self.ahead, step(self.ahead));
        accesses
    }
}

fn write(asked: &[Line], written: &[Line], word: u64) {
    for (ask, write) in asked.iter().zip(written) {
        fetch_to_write(ask);
        write.word.store(word, Relaxed);
    }
}

fn write_and_read(asked: &[Line], written: &[Line], again: &[Line], word: u64) -> u64 {
    let mut read = 0;
    for ((ask, write), again) in asked.iter().zip(written).zip(again) {
        fetch_to_write(ask);
        write.word.store(word, Relaxed);
        read ^= again.word.load(Relaxed);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;

    /// Rows that were written since the last look, by their places.
    fn written(lines: &[Line]) -> Vec<usize> {
        let is_new = |row: &[Line]| row.iter().all(|line| line.word.swap(0, Relaxed) != 0);
        lines.chunks_exact(ROW).enumerate().filter(|(_, row)| is_new(row)).map(|(i, _)| i).collect()
    }

    #[test]
    fn a_row_at_a_time_and_each_comes_by_twice() {
        let region = Region::map(4 << 20).unwrap();
        let row_bytes = (ROW * LINE) as u64;
        let mut rows = Rows::new(77, 20 * row_bytes);
        let mut sequence = Vec::new();
        for place in 0..500 {
            let behind = below(rows.behind, 1024);
            let accesses = rows.advance(region.lines());
            sequence.extend(written(region.lines()));
            assert_eq!(sequence.len(), place + 1);
            assert_eq!(accesses, if place < 30 { ROW } else { 2 * ROW }, "row {place}");
            if place >= 30 {
                assert_eq!(
                    behind,
                    sequence[place - 30],
                    "what is read was written thirty rows ago"
                );
            }
        }
    }

    #[test]
    fn without_a_nearer_cache_nothing_is_read_again() {
        let region = Region::map(1 << 20).unwrap();
        let mut rows = Rows::new(5, 0);
        assert!((0..5000).all(|_| rows.advance(region.lines()) == ROW));
    }

    #[test]
    fn fewer_lines_than_before_are_no_harm() {
        let region = Region::map(4 << 20).unwrap();
        let mut rows = Rows::new(9, 64 << 10);
        (0..100).for_each(|_| assert!(rows.advance(region.lines()) > 0));
        written(region.lines());
        let few = &region.lines()[..3 * ROW + 5];
        (0..100).for_each(|_| assert!(rows.advance(few) > 0));
        assert_eq!(written(region.lines()), [0, 1, 2]);
    }
}
