//! What a reporter does: one pattern of accesses after the other, as the kernels of `quell pressure`
//! do it on a real machine.

use super::library::of;
use super::{MissCurve, Phase, Program};
use crate::machine::LastLevelCache;

/// Every instruction is an access.
const EACH: f64 = 1000.0;
/// Issue of an access whose address the one before brought.
const ISSUE_CYCLES: f64 = 1.0;
/// A hit in the first level, assumed: four cycles and the address that hangs on it.
const HIT_CYCLES: f64 = 4.0;
/// What is walked through to find it in the shared cache, of private caches and of the shared one.
const OVER_PRIVATE: u64 = 3;
const OF_SHARED: u64 = 4;

/// A phase of the reporter's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Registers.
    Arithmetic,
    /// Hits in the private cache, each waiting for the one before.
    Private,
    /// The same in the shared cache.
    Shared,
    /// The same in memory: its lines are flushed before, so none stays in a cache.
    Memory,
    /// Walks through what `Shared` is about, several lines at a time: to get it warm.
    Touch,
}

impl Pattern {
    /// Those that are timed, in turns.
    pub(crate) const TIMED: [Pattern; 4] =
        [Pattern::Arithmetic, Pattern::Private, Pattern::Shared, Pattern::Memory];

    /// The number of its phase.
    pub(crate) fn phase(self) -> usize {
        self as usize
    }
}

/// The program: its phases are entered by hand.
pub(crate) fn reporter(cache: &LastLevelCache) -> Program {
    let set = (OVER_PRIVATE * cache.l2_bytes).min(cache.bytes / OF_SHARED) as f64;
    let dependent = Phase { base_cpi: ISSUE_CYCLES, llc_apki: EACH, ..Phase::default() };
    // Accesses at random: each misses with the chance that its line is not held.
    let shared = Phase {
        llc_misses: MissCurve::linear(set, EACH, 0.0),
        working_set_bytes: set,
        ..dependent.clone()
    };
    let phases = vec![
        Phase { base_cpi: 0.5, ..Phase::default() },
        Phase { base_cpi: ISSUE_CYCLES, private_cycles: HIT_CYCLES, ..Phase::default() },
        shared.clone(),
        Phase { llc_misses: MissCurve::flat(EACH), ..dependent },
        Phase { overlap: 8.0, ..shared },
    ];
    Program { phases, ..of("reporter", set, Phase::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::PRESETS;

    #[test]
    fn every_pattern_has_its_phase_on_every_machine() {
        for (name, machine) in PRESETS {
            let machine = machine();
            let program = reporter(&machine.cache);
            assert_eq!(program.validate(machine.nodes()), Ok(()), "{name}");
            let phase = |pattern: Pattern| &program.phases[pattern.phase()];
            assert_eq!(phase(Pattern::Arithmetic).llc_apki, 0.0);
            assert!(phase(Pattern::Private).private_cycles > 0.0);
            assert_eq!(phase(Pattern::Shared).llc_misses.mpki(1e12), 0.0);
            assert_eq!(phase(Pattern::Memory).llc_misses.mpki(1e12), EACH);
            assert_eq!(program.phases.len(), phase_count());
        }
    }

    fn phase_count() -> usize {
        Pattern::Touch.phase() + 1
    }
}
