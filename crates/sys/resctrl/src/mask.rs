//! Way masks: what a cache takes, and how services, batch and the rest share it.

use thiserror::Error;

/// What masks one cache takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskRules {
    /// All ways.
    pub full: u64,
    /// Fewest bits; 0 where an empty mask is taken (AMD).
    pub min_bits: u32,
    /// Whether holes are taken.
    pub sparse: bool,
    /// Ways that others (I/O) fill too.
    pub shareable: u64,
}

/// A mask that the cache would refuse, in the same cases as the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MaskError {
    /// Zero, or bits beyond the cache's ways.
    #[error("mask {mask:#x} is out of range: this cache has the ways {full:#x}")]
    OutOfRange {
        /// What was asked.
        mask: u64,
        /// All ways.
        full: u64,
    },
    /// Holes where none are taken.
    #[error("mask {0:#x} has holes, and this cache takes only adjacent ways")]
    Holes(u64),
    /// Too few ways.
    #[error("mask {mask:#x} has fewer than {min} ways")]
    TooFew {
        /// What was asked.
        mask: u64,
        /// Fewest.
        min: u32,
    },
    /// The ways cannot be divided so.
    #[error(
        "{ways} ways cannot be split into {batch} for batch, 1 or more for services and {system} for the system"
    )]
    Split {
        /// Ways in all.
        ways: u32,
        /// For batch.
        batch: u32,
        /// For the system.
        system: u32,
    },
}

/// `count` adjacent ways from way `lowest` up; bits beyond the 64th are lost.
#[must_use]
pub fn ways(lowest: u32, count: u32) -> u64 {
    let ones = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    ones.checked_shl(lowest).unwrap_or(0)
}

/// Whether the ones are adjacent; the empty mask is.
#[must_use]
pub fn is_contiguous(mask: u64) -> bool {
    let low = mask >> mask.trailing_zeros().min(63);
    low & low.wrapping_add(1) == 0
}

impl MaskRules {
    /// Ways in all.
    #[must_use]
    pub fn max_ways(&self) -> u32 {
        self.full.count_ones()
    }

    /// Ways that nobody else fills (without the shareable ones).
    #[must_use]
    pub fn unshared(&self) -> u64 {
        self.full & !self.shareable
    }

    /// Refuses what the kernel would refuse.
    ///
    /// # Errors
    /// Says which rule the mask breaks.
    pub fn check(&self, mask: u64) -> Result<(), MaskError> {
        if mask & !self.full != 0 || (mask == 0 && self.min_bits > 0) {
            return Err(MaskError::OutOfRange { mask, full: self.full });
        }
        if !self.sparse && !is_contiguous(mask) {
            return Err(MaskError::Holes(mask));
        }
        // The kernel counts only the lowest run of ones.
        let run = (mask >> mask.trailing_zeros().min(63)).trailing_ones();
        if run < self.min_bits {
            return Err(MaskError::TooFew { mask, min: self.min_bits });
        }
        Ok(())
    }

    /// The nearest mask that is taken: bits beyond the cache are dropped, of several runs the
    /// longest is kept (where holes are refused), and too short a run grows upwards, then down.
    #[must_use]
    pub fn round(&self, mask: u64) -> u64 {
        let mask = mask & self.full;
        if self.check(mask).is_ok() {
            return mask;
        }
        let mut run = if self.sparse { lowest_run(mask) } else { longest_run(mask) };
        if run == 0 {
            run = self.full & self.full.wrapping_neg();
        }
        while run.count_ones() < self.min_bits && run != self.full {
            let up = (run | (run << 1)) & self.full;
            run = if up == run { (run | (run >> 1)) & self.full } else { up };
        }
        if self.sparse { run | mask } else { run }
    }
}

fn lowest_run(mask: u64) -> u64 {
    match mask {
        0 => 0,
        _ => {
            let low = mask.trailing_zeros();
            ways(low, (mask >> low).trailing_ones())
        }
    }
}

fn longest_run(mask: u64) -> u64 {
    let (mut rest, mut best) = (mask, 0u64);
    while rest != 0 {
        let run = lowest_run(rest);
        rest &= !run;
        if run.count_ones() > best.count_ones() {
            best = run;
        }
    }
    best
}

/// Three classes that never overlap, from high to low bits: batch | services | system (T-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Batch (BE); none while it has no way of its own.
    pub batch: Option<u64>,
    /// Services (LC).
    pub services: u64,
    /// All else: the default group.
    pub system: u64,
}

/// Splits all ways: `batch` from the top, one for the system (more only if the cache demands
/// more of each mask) at the bottom, the rest for services, which keep at least one (T-15).
///
/// # Errors
/// If batch asks for more than that leaves, or for fewer than the cache's minimum.
pub fn split(rules: &MaskRules, batch: u32) -> Result<Split, MaskError> {
    let (ways_in_all, min) = (rules.max_ways(), rules.min_bits.max(1));
    let error = MaskError::Split { ways: ways_in_all, batch, system: min };
    let services =
        ways_in_all.checked_sub(batch).and_then(|rest| rest.checked_sub(min)).ok_or(error)?;
    if services < min || (batch > 0 && batch < min) {
        return Err(error);
    }
    Ok(Split {
        batch: (batch > 0).then(|| ways(min + services, batch)),
        services: ways(min, services),
        system: ways(0, min),
    })
}

/// The most ways that [`split`] leaves to batch.
#[must_use]
pub fn max_batch_ways(rules: &MaskRules) -> u32 {
    rules.max_ways().saturating_sub(2 * rules.min_bits.max(1))
}
