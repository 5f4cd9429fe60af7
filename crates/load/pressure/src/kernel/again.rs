//! Lines that come by twice: what a shared cache needs to let them stay.
//!
//! *Problem.* Caches that many share protect themselves against streams. They watch, in some of their sets,
//! which way of letting lines in misses less, and let in lines that come by once as the first to go again
//! (set dueling; Qureshi et al., "Adaptive insertion policies for high performance caching", ISCA 2007). A
//! kernel none of whose lines is asked for while it is there is taken for such a stream, and whoever was in the
//! cache before stays: on an AMD EPYC of family 26 a chase over 2 MiB that took 11 ns an access alone took 14
//! beside a stream of 30 GB/s, as if nobody were there.
//!
//! *Idea.* What was brought in is read again as soon as the nearer cache must have let go of it, when the shared
//! one alone has it. Lines that were let in to stay are found then, others are not; the cache learns to let the
//! kernel's lines in to stay, and others' go. The same chase took 171 ns. It costs little: what is read again
//! comes from the cache, not from memory. And it is the cache's own choice for all of its sets, so a part of
//! what is brought in is enough for most: a sixteenth of a stream slowed chases over 3 and 4 MiB as much as all of it.
//!
//! ```text
//! distance = HALVES / 2 * (bytes of the nearer cache)
//! bring in at x; read at x - distance
//! ```
//!
//! *Degradation.* Where the nearer cache is not known nothing is read again. Caches that do not choose lose
//! nothing by it but the time.

use crate::region::Line;
use std::sync::atomic::Ordering::Relaxed;

/// Halves of the nearer cache after which it surely has let go.
const HALVES: u64 = 3;

/// How many bytes later something is read again, behind a nearer cache of so many bytes; 0: it is not known.
pub(super) fn distance_bytes(nearer_bytes: u64) -> Option<u64> {
    (nearer_bytes > 0).then_some(nearer_bytes.saturating_mul(HALVES) / 2)
}

/// Reads a word of each line. What they make together, so that nobody leaves it out.
pub(super) fn read(lines: &[Line]) -> u64 {
    lines.iter().fold(0, |read, line| read ^ line.word.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_cache_that_is_known() {
        assert_eq!(distance_bytes(0), None);
        assert_eq!(distance_bytes(1 << 20), Some(3 << 19));
        assert!(distance_bytes(u64::MAX).is_some());
    }
}
