//! Programs of other sources: iBench's mcf and memcached (B-E2), those of Virtual Platforms (V-E3),
//! the services of Heracles (H-4, H-6).

use crate::workload::{MissCurve, Phase, Program, of};

/// Misses of mcf that overlap, assumed: only its product with the accesses counts.
const MCF_OVERLAP: f64 = 2.0;
const MCF_CPI: f64 = 0.9;
/// Cycles and accesses of the kernel that presses, assumed as for sweeps.
const PRESSURE_CPI: f64 = 0.6;
const PRESSURE_APKI: f64 = 120.0;

/// mcf beside pressure on its last-level cache, on a machine whose memory nobody describes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McfNumbers {
    /// Accesses to the last-level cache for 1000 instructions.
    pub apki: f64,
    /// Bytes that it likes to find there.
    pub hot_bytes: f64,
    /// Of its accesses, those that miss when all of that is there.
    pub least_frac: f64,
    /// Bytes/s of the machine's memory.
    pub bytes_per_s: f64,
    /// Misses of the kernel that presses that overlap.
    pub pressure_overlap: f64,
}

/// mcf as fitted on B-E2.
pub const MCF: McfNumbers = McfNumbers {
    apki: 5.0,
    hot_bytes: 5_732_780.0,
    least_frac: 0.0,
    bytes_per_s: 1.614_409e9,
    pressure_overlap: 40.0,
};

impl McfNumbers {
    /// The program.
    #[must_use]
    pub fn program(&self) -> Program {
        let least = self.least_frac * self.apki;
        let phase = Phase {
            base_cpi: MCF_CPI,
            llc_apki: self.apki,
            llc_misses: MissCurve::linear(self.hot_bytes, self.apki, least),
            working_set_bytes: self.hot_bytes,
            overlap: MCF_OVERLAP,
            ..Phase::default()
        };
        of("mcf", self.hot_bytes, phase)
    }

    /// The kernel that holds so many bytes of the cache by accesses at random.
    #[must_use]
    pub fn pressure(&self, bytes: u64) -> Program {
        let size = bytes as f64;
        let phase = Phase {
            base_cpi: PRESSURE_CPI,
            llc_apki: PRESSURE_APKI,
            llc_misses: MissCurve::linear(size, PRESSURE_APKI, 0.0),
            working_set_bytes: size,
            overlap: self.pressure_overlap.max(1.0),
            ..Phase::default()
        };
        of("pressure", size, phase)
    }
}

/// memcached behind a link that others fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemcachedNumbers {
    /// Mean work of a request in instructions.
    pub instructions: f64,
    /// Coefficient of variation of that work.
    pub variation: f64,
    /// Bytes of a response.
    pub response_bytes: f64,
}

/// memcached as fitted on B-E2.
pub const MEMCACHED: MemcachedNumbers =
    MemcachedNumbers { instructions: 196_868.8, variation: 2.5424, response_bytes: 887.574 };

/// Programs whose states are published (V-7, V-E3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateNumbers {
    /// Mcf: accesses to the last-level cache for 1000 instructions.
    pub mcf_apki: f64,
    /// Mcf: bytes that it likes to find there.
    pub mcf_hot_bytes: f64,
    /// Voldemort: accesses to the last-level cache for 1000 instructions.
    pub voldemort_apki: f64,
    /// Voldemort: bytes that it likes to find there.
    pub voldemort_hot_bytes: f64,
}

/// Fitted on V-5 and V-E3.
pub const STATES: StateNumbers = StateNumbers {
    mcf_apki: 144.804_27,
    mcf_hot_bytes: 4_718_592.0,
    voldemort_apki: 67.6,
    voldemort_hot_bytes: 31_457_280.0,
};

/// A service of Heracles (H-4), on the cores of its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeraclesNumbers {
    /// Its name.
    pub name: &'static str,
    /// Coefficient of variation of a request's work.
    pub variation: f64,
    /// Utilisation of the cores that it has, alone on them, 0..1.
    pub utilisation: f64,
    /// Bytes that it likes to find in the last-level cache.
    pub hot_bytes: f64,
    /// Misses for 1000 instructions when all of that is there.
    pub least_mpki: f64,
    /// Misses for 1000 instructions besides when nothing of it is there.
    pub saved_mpki: f64,
    /// Speed beside a busy sibling as a share of that alone; none where nothing is told of it.
    pub smt_speed: Option<f64>,
}

/// websearch, ml_cluster and memkeyval, fitted on H-6 and on what H-4 says of their traffic.
pub const HERACLES: [HeraclesNumbers; 3] = [
    HeraclesNumbers {
        name: "websearch",
        variation: 0.9971,
        utilisation: 0.6,
        hot_bytes: 12_409_183.0,
        least_mpki: 25.777_08,
        saved_mpki: 15.862_82,
        smt_speed: Some(1.0),
    },
    HeraclesNumbers {
        name: "ml_cluster",
        variation: 0.5,
        utilisation: 0.6,
        hot_bytes: 23_236_444.0,
        least_mpki: 100.0,
        saved_mpki: 55.629_79,
        smt_speed: None,
    },
    HeraclesNumbers {
        name: "memkeyval",
        variation: 1.6851,
        utilisation: 0.508_561,
        hot_bytes: 27_262_976.0,
        least_mpki: 7.692_31,
        saved_mpki: 12.272,
        smt_speed: Some(1.0),
    },
];

/// Misses of services that overlap, and cycles of their instructions, assumed.
const SERVICE_OVERLAP: f64 = 4.0;
const SERVICE_CPI: f64 = 0.9;

impl HeraclesNumbers {
    /// The program of its workers.
    #[must_use]
    pub fn program(&self) -> Program {
        let most = self.least_mpki + self.saved_mpki;
        let phase = Phase {
            base_cpi: SERVICE_CPI,
            llc_apki: most,
            llc_misses: MissCurve::linear(self.hot_bytes, most, self.least_mpki),
            working_set_bytes: self.hot_bytes,
            overlap: SERVICE_OVERLAP,
            smt_speed: self.smt_speed,
            ..Phase::default()
        };
        of(self.name, self.hot_bytes, phase)
    }
}
