//! Pressure on one shared resource at an intensity, as `quell pressure` applies it.

use super::library::{of, sweep};
use super::{Phase, Program};
use quell_types::SharedResource;

/// A slice of the duty cycle.
const SLICE_S: f64 = 1e-3;
/// Far more than any cache.
const STREAMED: f64 = (1u64 << 30) as f64;
/// What presses on the cache's bandwidth walks through so much of it: more than a private cache,
/// little enough to stay.
const WALKED: f64 = 0.25;

impl Program {
    /// Capacities: accesses at full rate over `percent` of a cache of `llc_bytes`. Bandwidths: full
    /// traffic for `percent` of each slice; in the rest it spins, so that its CPU stays busy.
    #[must_use]
    pub fn pressing(resource: SharedResource, percent: f64, llc_bytes: u64) -> Program {
        let share = (percent / 100.0).clamp(0.0, 1.0);
        let cache = llc_bytes as f64;
        let phases = match resource {
            SharedResource::LlcCapacity => vec![sweep(share * cache)],
            SharedResource::LlcBandwidth => in_turn(sweep(WALKED * cache), share),
            SharedResource::MemoryBandwidth => {
                in_turn(Phase { overlap: 8.0, ..sweep(STREAMED) }, share)
            }
        };
        let bytes = phases[0].working_set_bytes;
        Program { phases, ..of(resource.name(), bytes, Phase::default()) }
    }
}

/// Work for a share of each slice, spinning for the rest.
pub(crate) fn in_turn(work: Phase, share: f64) -> Vec<Phase> {
    let lasting = |phase: Phase, s: f64| Phase { least_s: s, most_s: s, ..phase };
    let spin = Phase { base_cpi: 0.5, ..Phase::default() };
    match share {
        s if s >= 1.0 => vec![work],
        s if s <= 0.0 => vec![spin],
        s => vec![lasting(work, s * SLICE_S), lasting(spin, (1.0 - s) * SLICE_S)],
    }
}
