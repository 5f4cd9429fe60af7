//! The shaper's tree, as numbers.
//!
//! ```text
//!   5155:        HTB root, default class 10
//!   5155:1         the link: rate = ceiling = its usable capacity
//!   5155:10          services and all that is unmarked: borrows first, up to the capacity
//!   5155:100         batch tenant 0: own rate next to nothing, borrows last, up to its ceiling
//!   5155:101         batch tenant 1 …
//! ```
//!
//! A batch class owns almost nothing: all it sends is borrowed from what the services leave, and
//! its ceiling bounds the borrowing. So the link never carries more than its capacity, and a
//! ceiling that is too high for a moment does not take from the services.

use crate::route::{Handle, HtbClass};
use crate::tuning::{Tuning, frame};
use quell_types::{BytesPerSecond, Setting};

/// The root's major number ("QU"): by it a later process knows the tree for Quell's.
pub(super) const MAJOR: u16 = 0x5155;
pub(super) const ROOT: Handle = Handle::new(MAJOR, 0);
pub(super) const LINK: Handle = Handle::new(MAJOR, 1);
pub(super) const SERVICES: Handle = Handle::new(MAJOR, 0x10);
const FIRST_BATCH: u16 = 0x100;
/// So many tenants have a class id.
pub(super) const MOST_TENANTS: usize = (u16::MAX - FIRST_BATCH) as usize;
/// What a batch class may send whatever else goes on: 1 kbit/s keeps its connections from dying.
pub(super) const LEAST_RATE: u64 = 125;
const SERVICES_PRIORITY: u32 = 0;
const BATCH_PRIORITY: u32 = 7;

/// The class id of the batch tenant of this rank, for `skb->priority` or `SO_PRIORITY`. The same
/// on every link.
#[must_use]
pub fn class_of(tenant: usize) -> u32 {
    let rank = tenant.min(MOST_TENANTS - 1) as u16;
    Handle::new(MAJOR, FIRST_BATCH + rank).0
}

/// The class id of services, which is also that of all unmarked packets.
#[must_use]
pub fn service_class() -> u32 {
    SERVICES.0
}

/// Whether a class id is one of batch.
pub(super) fn is_batch(class: Handle) -> bool {
    class.major() == MAJOR && class.minor() >= FIRST_BATCH
}

/// The parameters of all classes of one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    /// What is handed out, in bytes per second.
    pub(super) capacity: u64,
    pub(super) mtu: u32,
    pub(super) tuning: Tuning,
}

impl Tree {
    fn class(&self, rate: u64, ceil: u64, priority: u32) -> HtbClass {
        HtbClass {
            rate,
            ceil,
            burst: self.tuning.burst_bytes(rate, self.mtu),
            ceil_burst: self.tuning.burst_bytes(ceil, self.mtu),
            // One packet a turn: finer interleaving costs nothing at this depth of tree.
            quantum: self.tuning.packet_bytes(self.capacity, self.mtu).max(frame(self.mtu)),
            priority,
        }
    }

    pub(super) fn link(&self) -> HtbClass {
        self.class(self.capacity, self.capacity, SERVICES_PRIORITY)
    }

    pub(super) fn services(&self) -> HtbClass {
        self.class(self.capacity, self.capacity, SERVICES_PRIORITY)
    }

    pub(super) fn batch(&self, ceiling: u64) -> HtbClass {
        self.class(LEAST_RATE.min(ceiling), ceiling, BATCH_PRIORITY)
    }

    /// The nearest ceiling that the shaper takes: at least [`LEAST_RATE`], at most the capacity.
    pub(super) fn round(&self, rate: f64) -> u64 {
        // `as` turns NaN and negatives to 0 and saturates above.
        (rate as u64).clamp(LEAST_RATE.min(self.capacity), self.capacity)
    }

    /// A ceiling as a setting; one at the capacity limits nothing.
    pub(super) fn setting(&self, ceiling: u64) -> Setting {
        let limited = ceiling < self.capacity;
        Setting::Rate(limited.then_some(BytesPerSecond(ceiling as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn class_ids_are_distinct_and_none_is_the_services() {
        let ids: BTreeSet<u32> = (0..MOST_TENANTS).map(class_of).collect();
        assert_eq!(ids.len(), MOST_TENANTS);
        assert!(!ids.contains(&service_class()));
        assert!(ids.iter().all(|&id| is_batch(Handle(id))));
        assert!(!is_batch(SERVICES) && !is_batch(LINK));
    }

    proptest! {
        #[test]
        fn a_ceiling_stays_in_range(rate in any::<f64>(), capacity in 1u64..u64::MAX / 2) {
            let tree = Tree { capacity, mtu: 1500, tuning: Tuning::default() };
            let ceiling = tree.round(rate);
            prop_assert!(ceiling >= 1 && ceiling <= capacity);
            prop_assert_eq!(tree.round(ceiling as f64).abs_diff(ceiling) <= ceiling >> 52, true);
            prop_assert!(tree.batch(ceiling).rate <= ceiling);
        }
    }
}
