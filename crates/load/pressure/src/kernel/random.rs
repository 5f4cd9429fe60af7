//! Cheap uniform numbers (B-2: "a cheap generator"): one multiplication and one addition each.

/// Knuth's linear congruential generator.
pub(crate) fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// A uniform number below `bound` (< 2^32) from a state's upper half.
pub(crate) fn below(state: u64, bound: u64) -> usize {
    (((state >> 32) * bound) >> 32) as usize
}

/// `N` generators far from each other and from those of other `threads`.
pub(crate) fn streams<const N: usize>(thread: usize) -> [u64; N] {
    std::array::from_fn(|i| step(((thread * N + i) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_the_range_are_hit_alike() {
        let (mut state, mut hits) = (streams::<1>(3)[0], [0u32; 10]);
        for _ in 0..100_000 {
            state = step(state);
            hits[below(state, 10)] += 1;
        }
        assert!(hits.iter().all(|hits| (9_000..11_000).contains(hits)), "{hits:?}");
        assert_ne!(streams::<2>(0), streams::<2>(1));
    }
}
