//! Private readers, for the fuzz targets.

use crate::latency;
use quell_types::{LogHistogram, Reading, RequestReading};
use std::collections::BTreeMap;

/// A histogram in Prometheus' text format.
///
/// # Errors
/// It holds none of this name with these labels.
pub fn prometheus(
    text: &str,
    metric: &str,
    labels: &BTreeMap<String, String>,
) -> Reading<RequestReading> {
    latency::prometheus::parse(text, metric, labels)
}

/// A datagram of pushed latencies: those that it holds, and how many lines are none.
#[must_use]
pub fn pushed(datagram: &[u8]) -> (LogHistogram, u64) {
    let mut latency = LogHistogram::new();
    let refused = latency::pushed::take(datagram, &mut latency);
    (latency, refused)
}
