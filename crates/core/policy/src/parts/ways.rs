//! Ways of a last-level cache to divide between services and batch.

use quell_types::KnobRange;

/// How one cache is laid out, from high to low bits: batch | services | system (T-15).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WayLayout {
    low: u32,
    ways: u32,
    min: u32,
    system: u32,
}

impl WayLayout {
    /// The layout of a cache with so many ways for the system; none if the cache cannot be
    /// divided (too few ways, or holes in its mask).
    pub(crate) fn of(range: &KnobRange, system: u32) -> Option<Self> {
        let KnobRange::Ways { full, min_bits, .. } = *range else { return None };
        let (low, ways) = (full.trailing_zeros(), full.count_ones());
        let min = min_bits.max(1);
        let system = if system == 0 { 0 } else { system.max(min) };
        let contiguous = full != 0 && 64 - full.leading_zeros() - low == ways;
        // Services and batch need the minimum each; batch may live on the system's ways.
        let needed = if system == 0 { 2 * min } else { system + min };
        (contiguous && ways >= needed).then_some(Self { low, ways, min, system })
    }

    /// The most ways that batch may have of its own; 0 if what is left is less than the machine's
    /// minimum.
    pub(crate) fn batch_max(&self) -> u32 {
        let most = self.ways - self.system - self.min;
        if most < self.min { 0 } else { most }
    }

    /// Ways that batch really gets when it shall have `n`: none, or at least the machine's
    /// minimum.
    pub(crate) fn fit(&self, n: u32) -> u32 {
        let most = self.batch_max();
        match n {
            0 if self.system > 0 => 0,
            n => n.clamp(self.min.min(most), most),
        }
    }

    /// The mask of a batch with `n` ways; with none of its own it fills the system's.
    pub(crate) fn batch(&self, n: u32) -> u64 {
        match self.fit(n) {
            0 => mask(self.low, self.system),
            n => mask(self.low + self.ways - n, n),
        }
    }

    /// The mask of services beside a batch with `n` ways.
    pub(crate) fn service(&self, n: u32) -> u64 {
        mask(self.low + self.system, self.ways - self.system - self.fit(n))
    }

    /// The mask of services when batch is off: all but the system's.
    pub(crate) fn service_alone(&self) -> u64 {
        mask(self.low + self.system, self.ways - self.system)
    }

    /// The mask of a batch that is off, which fills nothing: as small as the machine allows.
    pub(crate) fn batch_off(&self) -> u64 {
        match self.system {
            0 => mask(self.low + self.ways - self.min, self.min),
            system => mask(self.low, system),
        }
    }

    /// How many ways batch may fill, of the whole.
    pub(crate) fn ways(&self) -> u32 {
        self.ways
    }
}

fn mask(low: u32, bits: u32) -> u64 {
    let ones = if bits >= 64 { u64::MAX } else { (1u64 << bits) - 1 };
    ones.checked_shl(low).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(full: u64, min_bits: u32) -> KnobRange {
        KnobRange::Ways { full, min_bits, sparse: false, shareable: 0, classes: 8 }
    }

    #[test]
    fn twenty_bits_are_laid_out_as_batch_services_system() {
        let layout = WayLayout::of(&range(0xfffff, 1), 1).unwrap();
        assert_eq!((layout.batch(0), layout.service(0)), (0x1, 0xffffe));
        assert_eq!((layout.batch(1), layout.service(1)), (0x80000, 0x7fffe));
        assert_eq!((layout.batch(99), layout.service(99)), (0xffffc, 0x2));
        assert_eq!(layout.batch_max(), 18);
    }

    #[test]
    fn two_partitions_leave_nothing_to_the_system() {
        let layout = WayLayout::of(&range(0xfffff, 1), 0).unwrap();
        assert_eq!((layout.batch(2), layout.service(2)), (0xc0000, 0x3ffff));
        assert_eq!((layout.batch(0), layout.service(0)), (0x80000, 0x7ffff));
    }

    #[test]
    fn a_cache_that_cannot_be_divided_has_no_layout() {
        assert_eq!(WayLayout::of(&range(0b1, 1), 1), None);
        assert_eq!(WayLayout::of(&range(0b1011, 1), 1), None);
        assert_eq!(WayLayout::of(&range(0, 1), 1), None);
        assert_eq!(WayLayout::of(&KnobRange::Flag, 1), None);
    }

    proptest! {
        #[test]
        fn masks_are_contiguous_apart_and_never_empty(
            ways in 1u32..33, low in 0u32..4, min in 0u32..4, system in 0u32..3, n in 0u32..40,
        ) {
            let full = ((1u64 << ways) - 1) << low;
            if let Some(layout) = WayLayout::of(&range(full, min), system) {
                let (batch, service) = (layout.batch(n), layout.service(n));
                for mask in [batch, service, layout.batch_off(), layout.service_alone()] {
                    let bits = mask >> mask.trailing_zeros();
                    prop_assert!(mask != 0 && bits & (bits + 1) == 0, "{mask:#x}");
                    prop_assert!(mask & !full == 0 && mask.count_ones() >= min);
                }
                prop_assert_eq!(batch & service, 0);
            }
        }
    }
}
