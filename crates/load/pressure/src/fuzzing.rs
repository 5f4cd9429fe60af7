//! Private readers, for the fuzz targets.

use crate::{FeedReading, hugepages, meter, netns, region};
use std::ops::Range;

/// The bytes of a feed.
///
/// # Errors
/// What is wrong with them.
pub fn feed(bytes: &[u8]) -> Result<FeedReading, &'static str> {
    meter::decode(bytes)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
#[must_use]
pub fn available_bytes(meminfo: &str) -> Option<u64> {
    region::parse_available(meminfo)
}

/// Bytes on huge pages of the mappings in `smaps` that overlap a range.
#[must_use]
pub fn huge_bytes(range: Range<usize>, smaps: &str) -> u64 {
    hugepages::huge_bytes(&[range], smaps)
}

/// Bytes that all links of `/proc/net/dev` but loopback sent.
#[must_use]
pub fn sent_bytes(table: &str) -> Option<u64> {
    netns::sent_in(table)
}
