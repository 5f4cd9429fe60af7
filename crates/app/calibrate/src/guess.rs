//! The free parameters: what they are, where the search begins, what they make of a program.

use crate::cells::Service;
use quell_sim::Flow;
use quell_sim::calibrated::{self, ServiceNumbers};

const MIB: f64 = 1_048_576.0;

/// One free parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Where the search begins.
    pub begin: f64,
    /// Its least value.
    pub least: f64,
    /// Its greatest value.
    pub most: f64,
    /// Whether it is a whole number.
    pub whole: bool,
    /// Which service's cells it is fitted on; none in fits that have one set of cells.
    pub(crate) service: Option<Service>,
}

const fn real(
    service: Service,
    name: &'static str,
    unit: &'static str,
    begin: f64,
    least: f64,
    most: f64,
) -> ParameterSpec {
    ParameterSpec { name, unit, begin, least, most, whole: false, service: Some(service) }
}

const fn whole(service: Service, name: &'static str, begin: f64, most: f64) -> ParameterSpec {
    ParameterSpec { name, unit: "", begin, least: 1.0, most, whole: true, service: Some(service) }
}

/// A parameter of a fit that has one set of cells.
pub(crate) const fn free_parameter(
    name: &'static str,
    unit: &'static str,
    begin: f64,
    least: f64,
    most: f64,
) -> ParameterSpec {
    ParameterSpec { name, unit, begin, least, most, whole: false, service: None }
}

/// Workers of a service, each on a core of its own, assumed: while this was free it never moved.
const WORKERS: u32 = 1;

const X: Service = Service::Xapian;
const S: Service = Service::Silo;

/// All free parameters.
pub const PARAMETERS: [ParameterSpec; 17] = [
    real(X, "xapian: work of a request", "10^6 instructions", 7.5, 1.0, 60.0),
    real(X, "xapian: requests/s at full load", "1/s", 310.0, 10.0, 4_000.0),
    real(X, "xapian: variation of work", "", 0.65, 0.05, 2.0),
    real(X, "xapian: hot set", "MiB", 11.0, 0.5, 11.0),
    real(X, "xapian: misses without it", "1/10^3 instructions", 1.5, 0.1, 40.0),
    real(X, "xapian: misses with it", "1/10^3 instructions", 0.14, 0.0, 5.0),
    real(X, "xapian: speed beside a sibling", "", 0.68, 0.4, 1.0),
    real(S, "share of private caches that the LLC has too", "", 0.2, 0.0, 1.0),
    real(X, "flow below its socket", "kB", 150.0, 10.0, 1_500.0),
    real(X, "flow below its socket", "ms at the link's rate", 0.38, 0.0, 5.0),
    real(S, "silo: work of a request", "10^6 instructions", 0.9, 0.05, 20.0),
    real(S, "silo: requests/s at full load", "1/s", 3_500.0, 50.0, 40_000.0),
    real(S, "silo: variation of work", "", 0.3, 0.05, 3.0),
    real(S, "silo: hot set", "MiB", 10.0, 0.5, 20.0),
    real(S, "silo: misses without it", "1/10^3 instructions", 0.3, 0.0, 40.0),
    real(S, "silo: speed beside a sibling", "", 0.57, 0.3, 1.0),
    whole(X, "threads of a sweep", 6.0, 15.0),
];

/// A value for each of [`PARAMETERS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Guess(pub [f64; PARAMETERS.len()]);

impl Guess {
    /// Where the search begins.
    #[must_use]
    pub fn begin() -> Self {
        Self(PARAMETERS.map(|p| p.begin))
    }

    /// The parameters that are fitted on one service's cells, by their place.
    pub(crate) fn free(service: Service) -> Vec<usize> {
        let of_service = |i: &usize| PARAMETERS[*i].service == Some(service);
        (0..PARAMETERS.len()).filter(of_service).collect()
    }

    /// From as many values as there are [`PARAMETERS`].
    pub(crate) fn of(values: &[f64]) -> Self {
        Self(std::array::from_fn(|i| values[i]))
    }

    /// Numbers of greedy flows.
    pub(crate) fn flow(&self) -> Flow {
        Flow { bytes: self.0[8] * 1e3, seconds: self.0[9] / 1e3 }
    }

    /// Share of what private caches hold that the first host's last-level cache has too.
    pub(crate) fn inclusion(&self) -> f64 {
        self.0[7]
    }

    /// Threads of a sweep.
    pub(crate) fn sweepers(&self) -> u32 {
        self.0[16] as u32
    }

    /// What it makes of a service.
    pub(crate) fn made(&self, service: Service) -> ServiceNumbers {
        let v = &self.0;
        match service {
            Service::Xapian => ServiceNumbers {
                name: "xapian",
                instructions: v[0] * 1e6,
                full_qps: v[1],
                variation: v[2],
                hot_bytes: v[3] * MIB,
                most_mpki: v[4],
                least_mpki: v[5],
                smt_speed: v[6],
                workers: WORKERS,
            },
            Service::Silo => ServiceNumbers {
                name: "silo",
                instructions: v[10] * 1e6,
                full_qps: v[11],
                variation: v[12],
                hot_bytes: v[13] * MIB,
                most_mpki: v[14],
                least_mpki: 0.0,
                smt_speed: v[15],
                workers: WORKERS,
            },
        }
    }

    /// The numbers with which the simulator comes.
    #[must_use]
    pub fn shipped() -> Self {
        let (x, s) = (calibrated::XAPIAN, calibrated::SILO);
        Self([
            x.instructions / 1e6,
            x.full_qps,
            x.variation,
            x.hot_bytes / MIB,
            x.most_mpki,
            x.least_mpki,
            x.smt_speed,
            calibrated::INCLUSION,
            calibrated::FLOW_BYTES / 1e3,
            calibrated::FLOW_S * 1e3,
            s.instructions / 1e6,
            s.full_qps,
            s.variation,
            s.hot_bytes / MIB,
            s.most_mpki,
            s.smt_speed,
            f64::from(calibrated::SWEEP_THREADS),
        ])
    }
}
