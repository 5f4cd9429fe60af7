//! Waits before a trial until the host runs this machine's CPUs on cores that share a cache.
//!
//! Where they share none nobody hurts the service by a cache, and hardly anybody by memory, whoever is put beside it:
//! its trial would be discarded for want of harm. A host that moves its guest's CPUs about leaves them apart for a
//! second or for minutes, so it is looked at before a culprit is put there, and waited for as long as there is
//! patience.

use super::Ground;
use super::draw::{Harm, Taken};
use super::places::{Places, looks_apart};
use std::time::{Duration, Instant};

/// Between two looks, and how many tell.
const PERIOD: Duration = Duration::from_millis(100);
const LOOKS: usize = 10;
/// In no more of them may the CPUs share no cache.
const MOST_FRAC: f64 = 0.2;

/// Whether trials want a common cache: those of a culprit that takes memory.
pub(super) fn wants_cache(harm: Harm, taken: Taken, control: bool) -> bool {
    harm != Harm::None && taken == Taken::Memory && !control
}

impl Ground<'_> {
    /// Waits, and tells for how long, in seconds; until the patience is at its end, where the CPUs stay apart.
    pub(super) fn await_common_cache(&self) -> anyhow::Result<f64> {
        let options = self.options;
        if !wants_cache(options.harm, options.taken, options.control) || options.patience.is_zero()
        {
            return Ok(0.0);
        }
        let Some(lines) = Places::lines()? else { return Ok(0.0) };
        let begun = Instant::now();
        loop {
            let mut ways = Vec::with_capacity(LOOKS);
            for _ in 0..LOOKS {
                self.interrupt.sleep(PERIOD)?;
                ways.extend(lines.passes_ns());
            }
            let apart = looks_apart(&ways, &self.ways);
            let waited = begun.elapsed();
            if apart.is_none_or(|frac| frac <= MOST_FRAC) {
                // The first looks are no waiting.
                return Ok(waited.saturating_sub(PERIOD * 2 * LOOKS as u32).as_secs_f64());
            }
            if waited >= options.patience {
                return Ok(waited.as_secs_f64());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_for_who_takes_memory_it_is_waited() {
        assert!(wants_cache(Harm::Much, Taken::Memory, false));
        assert!(wants_cache(Harm::Little, Taken::Memory, false));
        assert!(!wants_cache(Harm::None, Taken::Memory, false));
        assert!(!wants_cache(Harm::Much, Taken::Cpu, false));
        assert!(!wants_cache(Harm::Much, Taken::Memory, true));
    }
}
