//! Services by name: what a request is, how many are served at once, what is promised.

use crate::stage::Peak;
use quell_sim::calibrated::{SILO, XAPIAN};
use quell_sim::{SimService, program};
use quell_types::{ServiceSpec, Slo};

/// A service with what scenarios may leave out.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    program: &'static str,
    /// Mean work of a request in instructions.
    instructions: f64,
    variation: f64,
    response_bytes: u32,
    percentile_frac: f64,
    target_s: f64,
    /// The rate that counts as load 1, unless the scenario says more.
    pub(crate) peak: Peak,
}

/// All of them. The work of xapian and silo is fitted, that of `search` assumed
/// (`docs/experiments/simulator.md`).
pub(crate) const KNOWN: &[Known] = &[
    // T-24, T-25: about 5 ms at low load, above 10 ms at full load, to be kept under 15 ms.
    Known {
        name: "xapian",
        program: "xapian",
        instructions: XAPIAN.instructions,
        variation: XAPIAN.variation,
        response_bytes: 1_000,
        percentile_frac: 0.95,
        target_s: 0.015,
        peak: Peak::AtTail { percentile_frac: 0.95, latency_s: 0.0105 },
    },
    // L-5: 2,000 requests/s in the run script.
    Known {
        name: "silo",
        program: "silo",
        instructions: SILO.instructions,
        variation: SILO.variation,
        response_bytes: 1_000,
        percentile_frac: 0.95,
        target_s: 0.001,
        peak: Peak::AtTail { percentile_frac: 0.95, latency_s: 0.0005 },
    },
    Known {
        name: "search",
        program: "search",
        instructions: 1.2e6,
        variation: 0.5,
        response_bytes: 2_000,
        percentile_frac: 0.95,
        target_s: 0.004,
        peak: Peak::AtTail { percentile_frac: 0.95, latency_s: 0.003 },
    },
];

/// The service of this name.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

impl Known {
    /// The service with so many workers, not loaded yet.
    pub(crate) fn with_workers(&self, tenant: &str, workers: u32) -> Option<SimService> {
        Some(SimService {
            spec: ServiceSpec {
                name: tenant.into(),
                slo: Slo { percentile_frac: self.percentile_frac, target_s: self.target_s },
                peak_qps: None,
                links: Vec::new(),
            },
            program: program(self.program)?,
            workers,
            instructions: self.instructions,
            variation: self.variation,
            request_bytes: 100,
            response_bytes: self.response_bytes,
            load: quell_sim::Load::Constant(0.0),
        })
    }
}
