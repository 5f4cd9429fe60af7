//! Whether the host runs two of this machine's CPUs on one core, or on cores of different caches, now.
//!
//! **Problem.** A virtual CPU is a thread of the host, which puts it where it likes: for minutes at a
//! time two of them may run on the two hardware threads of one core, of which it tells the guest
//! nothing. All that is measured meanwhile loses a fifth beside anybody, and looks like interference.
//!
//! **Idea.** A loop on registers alone shares nothing with a neighbour on another core, whatever that
//! one does, and nearly half of a core's units with one on its other thread. So in a *look* of a few
//! milliseconds two such loops, one on a CPU of the workload's and one on one of the pressure's, run
//! alone and together by turns:
//!
//! ```text
//! round:  first alone · both · second alone        (who does not work spins on PAUSE: same clock)
//! per CPU:   lost  = 1 - median over rounds of (time alone / time beside)
//!            noise = spread of the times alone / their median
//! look:      lost  = the smaller of both: on one core both lose
//!            threshold = max(LEAST, TIMES · the larger noise)
//!            Together if lost > threshold; Unknown if threshold > MOST or a CPU was not to be had
//! ```
//!
//! Times are medians of runs of a microsecond, so neither interruptions nor time that the host takes
//! away (steal) count, but for the CPU being taken so often that a slice tells nothing. What says
//! Together is looked at again at once, and counts only if it says so twice.
//!
//! The other way round, it may run them on cores that share no cache, though the machine is told that they
//! do. Then neighbours hardly hurt each other: on an EPYC host a stream lost 25 to 45 % beside another, and
//! for a second or three, one in five, 0 to 7. How long a line takes from one CPU to the other and back tells
//! that: 25 to 32 ns each way within a cache, 148 to 165 between two. So in one more slice they pass a line to
//! and fro, and
//!
//! ```text
//! passes:  the least over bursts of (time / passes)
//! Distant if passes > FAR, and passes > FAR_TIMES · the least of all looks before
//!                           or passes > FAR_OF_MEMORY · what a read from memory takes
//! ```
//!
//! What was measured between two looks one of which said Together or Distant is *disturbed*: it is measured again
//! (`sieve.rs` for windows, `again.rs` for whole measurements), within bounds, and what stays disturbed
//! is told as such.
//!
//! The second is for a run all of which has them on two caches: a read from memory took 139 ns there.
//!
//! **Units.** Shares, 0..1; nanoseconds. **Degradation.** Where the machine is told that the CPUs share no
//! cache, none is missed. Where lines cannot be flushed it is not known what memory takes, and a run that is
//! apart from its begin to its end is not told. A workload that must not be stopped leaves no
//! CPU to look with; CPUs that the machine itself tells to be threads of one core have nothing to
//! hide: no looks. Between two looks a short change of place is not seen. **Sources.** Own; what two
//! threads of a core share is that of Bubble-Up's and Intel's manuals (B-2: 12, 15).

mod again;
mod line;
mod lines;
mod look;
mod sieve;
mod threads;
mod watch;

pub use lines::{Lines, Ways};
pub use look::Placement;
pub use watch::Watched;

pub(crate) use again::{Course, Limits, Try, until_clean};
pub(crate) use sieve::Sieve;
pub(crate) use watch::Watch;
