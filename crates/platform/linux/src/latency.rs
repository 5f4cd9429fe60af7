//! Latency from where the service itself tells it: a Prometheus endpoint, or samples pushed to a
//! Unix socket.

pub(crate) mod prometheus;
pub(crate) mod pushed;

pub use prometheus::PrometheusSource;
pub use pushed::PushedSource;

use quell_types::{Reading, RequestReading};

/// A source of requests and latencies. Counters only grow.
pub trait LatencySource: Send {
    /// Everything since the source was opened.
    ///
    /// # Errors
    /// A gap with the reason.
    fn read(&mut self) -> Reading<RequestReading>;
}
