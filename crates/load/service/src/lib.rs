//! Latency-critical services and the open-loop load generator (L-1 to L-6).
//!
//! ```no_run
//! use quell_service::{Bench, Controls, LoadPlan, SearchParams, ServiceSpec, Target};
//!
//! # fn main() -> Result<(), quell_service::LoadError> {
//! let spec = ServiceSpec::Search(SearchParams::default());
//! let bench = Bench::open(&Target::Integrated { spec, threads: 0 }, None)?;
//! let run = bench.run(&LoadPlan::default(), &Controls::default(), &mut |window| {
//!     println!("{:5.1} s  p95 {:?} ms", window.start_s, window.p95_ms);
//! })?;
//! println!("p99 {:.2} ms", run.sojourn.p99_ms);
//! # Ok(())
//! # }
//! ```

mod arrivals;
mod bench;
mod clock;
mod controls;
mod draws;
mod driver;
mod embedded;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod generator;
mod netns;
mod peak;
mod probe;
mod profile;
mod repeat;
mod report;
mod server;
mod slo;
mod stats;
mod target;
mod window;
pub mod wire;

pub use arrivals::Arrivals;
pub use bench::Bench;
pub use clock::{Realtime, now_ns};
pub use controls::{Controls, Tally};
pub use draws::Draws;
pub use driver::KeyValueMix;
pub use embedded::{
    RequestSource, Search, SearchParams, Service, ServiceSpec, Store, StoreParams, Topics,
    TopicsParams,
};
pub use error::LoadError;
pub use generator::{Extent, LoadPlan};
pub use peak::{PeakPlan, PeakReport, find_peak};
pub use probe::{Probe, ProbeSpec};
pub use profile::Profile;
pub use repeat::{LoadOptions, RepeatRule, run};
pub use report::{GeneratorReport, LOAD_SCHEMA, LoadReport, RunReport, TailInterval};
pub use server::{ServeOptions, Server, ServerLaunch, ServerProcess, ServerReport, serve_command};
pub use slo::{SloPlan, SloReport, find_slo};
pub use stats::{Interval, Latencies, LatencySummary, interval, nearest_rank, student_95};
pub use target::Target;
pub use window::{Window, WindowRule};
