//! Who holds how much of one last-level cache (S-4).
//!
//! # Problem
//! Occupancy follows insertions: whoever misses more takes more, within the ways that its mask
//! allows. Masks may overlap, so a class's lines lie in several regions with different rivals.
//!
//! # Idea
//! The cache is cut into *regions*: ways that the same classes may fill. A class inserts into its
//! regions in proportion to their size, as long as its working set has lines elsewhere: what rivals
//! push out of one region comes back into all of them, and stays where nobody pushes. Insertions
//! fill what is free; in a full region each replaces any line with equal chance, so with a size S
//! and insertions R in all, `d o_i/dt = r_i - R * o_i / S`: first-order dynamics whose rest point
//! is a share in proportion to insertions.
//!
//! The step is implicit: everybody's insertions are added, and if the sum is over S all shrink in
//! proportion, `o_i' = (o_i + dt r_i) / (1 + dt R / S)`. It is stable for every step and never over
//! S in sum. Units: bytes, seconds.

/// One region.
#[derive(Clone, Debug)]
struct Region {
    bytes: f64,
    /// Which holders may fill it.
    allowed: Vec<bool>,
    held: Vec<f64>,
    /// What each would hold if all found room; lives from step to step.
    grown: Vec<f64>,
}

impl Region {
    /// Adds what comes in, of each holder as much as its working set has elsewhere. Answers the sum.
    fn grow(&mut self, seconds: f64, inserts: &[f64], most: &[f64], holders: &[Holder]) -> f64 {
        let (size, mut all) = (self.bytes, 0.0);
        let each = self.held.iter().zip(&mut self.grown).zip(inserts).enumerate();
        for (index, ((held, grown), inserts)) in each {
            *grown = *held;
            if *inserts > 0.0 && self.allowed[index] {
                let holder = &holders[index];
                let into = seconds * inserts * size / holder.room;
                // In several regions the working set bounds the sum, by `part`.
                let bound = if holder.regions > 1 { f64::INFINITY } else { most[index] };
                *grown = (held + into * holder.part).min(held.max(bound));
            }
            all += *grown;
        }
        all
    }
}

/// Where one holder inserts.
#[derive(Clone, Debug)]
struct Holder {
    mask: u64,
    /// Bytes that it may fill.
    room: f64,
    /// Regions that it may fill.
    regions: usize,
    /// The part of its insertions in this step that its working set has lines for.
    part: f64,
}

/// One cache with its holders.
#[derive(Clone, Debug)]
pub(crate) struct CacheState {
    way_bytes: f64,
    ways: u32,
    holders: Vec<Holder>,
    regions: Vec<Region>,
}

impl CacheState {
    pub(crate) fn new(bytes: f64, ways: u32) -> Self {
        let way_bytes = bytes / f64::from(ways);
        Self { way_bytes, ways, holders: Vec::new(), regions: Vec::new() }
    }

    /// A new holder that may fill these ways; answers its number.
    pub(crate) fn add(&mut self, mask: u64) -> usize {
        self.holders.push(Holder { mask, room: 0.0, regions: 0, part: 1.0 });
        for region in &mut self.regions {
            region.held.push(0.0);
            region.grown.push(0.0);
            region.allowed.push(false);
        }
        self.cut();
        self.holders.len() - 1
    }

    /// Another mask. What lies outside stays until others push it out.
    pub(crate) fn set_mask(&mut self, holder: usize, mask: u64) {
        if self.holders[holder].mask != mask {
            self.holders[holder].mask = mask;
            self.cut();
        }
    }

    /// Gives back what a holder held: its program has ended.
    pub(crate) fn clear(&mut self, holder: usize) {
        self.regions.iter_mut().for_each(|region| region.held[holder] = 0.0);
    }

    /// Bytes held, all regions.
    pub(crate) fn held(&self, holder: usize) -> f64 {
        match self.regions.as_slice() {
            [whole] => whole.held[holder],
            regions => regions.iter().map(|region| region.held[holder]).sum(),
        }
    }

    /// Bytes held by all.
    pub(crate) fn all_held(&self) -> f64 {
        self.regions.iter().flat_map(|region| &region.held).sum()
    }

    /// Cuts the ways anew after masks have changed; lines stay where they are, spread evenly over
    /// the ways of their old region.
    fn cut(&mut self) {
        let holders = self.holders.len();
        let old = std::mem::take(&mut self.regions);
        let ways_of_old: Vec<f64> = old.iter().map(|r| r.bytes / self.way_bytes).collect();
        let mut old_index = (0..old.len())
            .flat_map(|i| std::iter::repeat_n(i, ways_of_old[i].round() as usize))
            .collect::<Vec<_>>()
            .into_iter();
        for way in 0..self.ways {
            if way == 0 || self.differ(way - 1, way) {
                self.regions.push(Region {
                    bytes: 0.0,
                    allowed: self.holders.iter().map(|h| h.mask >> way & 1 == 1).collect(),
                    held: vec![0.0; holders],
                    grown: vec![0.0; holders],
                });
            }
            let Some(region) = self.regions.last_mut() else { continue };
            region.bytes += self.way_bytes;
            if let Some(from) = old_index.next() {
                for (mine, theirs) in region.held.iter_mut().zip(&old[from].held) {
                    *mine += theirs / ways_of_old[from];
                }
            }
        }
        self.count_rooms();
    }

    /// Whether somebody may fill one of two ways and not the other.
    fn differ(&self, one: u32, other: u32) -> bool {
        self.holders.iter().any(|holder| (holder.mask >> one ^ holder.mask >> other) & 1 == 1)
    }

    /// How much each holder may fill, and in how many regions.
    fn count_rooms(&mut self) {
        for (i, holder) in self.holders.iter_mut().enumerate() {
            holder.room = f64::from(holder.mask.count_ones().max(1)) * self.way_bytes;
            holder.regions = self.regions.iter().filter(|region| region.allowed[i]).count();
            holder.part = 1.0;
        }
    }

    /// Bounds what comes in of those who insert into several regions.
    fn bound(&mut self, seconds: f64, inserts: &[f64], most: &[f64]) {
        for (i, holder) in self.holders.iter_mut().enumerate() {
            if holder.regions > 1 && inserts[i] > 0.0 {
                let here = self.regions.iter().filter(|region| region.allowed[i]);
                let held: f64 = here.map(|region| region.held[i]).sum();
                holder.part = ((most[i] - held).max(0.0) / (seconds * inserts[i])).min(1.0);
            }
        }
    }

    /// Lets `seconds` pass with these insertions (bytes/s) and working sets (bytes). Answers the
    /// largest change as a share of the cache.
    pub(crate) fn step(&mut self, seconds: f64, inserts: &[f64], most: &[f64]) -> f64 {
        let whole = self.way_bytes * f64::from(self.ways);
        if self.regions.len() > 1 {
            self.bound(seconds, inserts, most);
        }
        let mut moved: f64 = 0.0;
        for region in &mut self.regions {
            let all = region.grow(seconds, inserts, most, &self.holders);
            let kept = if all > region.bytes { region.bytes / all } else { 1.0 };
            for (held, grown) in region.held.iter_mut().zip(&region.grown) {
                let next = grown * kept;
                let change = (next - *held).abs();
                moved = if change > moved { change } else { moved };
                *held = next;
            }
        }
        moved / whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: f64 = 1_048_576.0;

    fn settle(cache: &mut CacheState, inserts: &[f64], most: &[f64]) {
        for _ in 0..20_000 {
            cache.step(0.001, inserts, most);
        }
    }

    #[test]
    fn shares_follow_insertions_and_stay_within_masks() {
        let mut cache = CacheState::new(16.0 * MIB, 16);
        let (a, b) = (cache.add(0xffff), cache.add(0xffff));
        settle(&mut cache, &[3e8, 1e8], &[1e9, 1e9]);
        assert!((cache.held(a) / cache.held(b) - 3.0).abs() < 0.01);
        cache.set_mask(a, 0x000f);
        cache.set_mask(b, 0xfff0);
        settle(&mut cache, &[3e8, 1e8], &[1e9, 1e9]);
        assert!((cache.held(a) / MIB - 4.0).abs() < 0.05, "{}", cache.held(a) / MIB);
        assert!((cache.held(b) / MIB - 12.0).abs() < 0.05, "{}", cache.held(b) / MIB);
    }

    #[test]
    fn nobody_holds_more_than_the_working_set() {
        let mut cache = CacheState::new(16.0 * MIB, 16);
        let a = cache.add(0xffff);
        settle(&mut cache, &[1e9], &[2.0 * MIB]);
        assert!((cache.held(a) / MIB - 2.0).abs() < 1e-6);
    }

    #[test]
    fn what_fits_together_pushes_nobody_out() {
        let mut cache = CacheState::new(16.0 * MIB, 16);
        let (a, b) = (cache.add(0xffff), cache.add(0xffff));
        settle(&mut cache, &[1e8, 1e10], &[5.0 * MIB, 8.0 * MIB]);
        assert!((cache.held(a) / MIB - 5.0).abs() < 1e-6, "{}", cache.held(a) / MIB);
        assert!((cache.held(b) / MIB - 8.0).abs() < 1e-6, "{}", cache.held(b) / MIB);
    }

    #[test]
    fn who_is_pushed_out_of_a_corner_finds_room_in_the_rest() {
        let mut cache = CacheState::new(16.0 * MIB, 16);
        let (service, sweep) = (cache.add(0xffff), cache.add(0x000f));
        settle(&mut cache, &[1e8, 1e10], &[8.0 * MIB, 1e9]);
        let held = cache.held(service) / MIB;
        assert!(
            held > 7.9 && held <= 8.0 + 1e-9,
            "its working set, in twelve ways of its own: {held}"
        );
        assert!((cache.held(sweep) / MIB - 4.0).abs() < 0.1);
    }

    #[test]
    fn new_masks_move_no_line() {
        let mut cache = CacheState::new(16.0 * MIB, 16);
        let (a, b) = (cache.add(0xffff), cache.add(0xffff));
        settle(&mut cache, &[3e8, 1e8], &[1e9, 1e9]);
        let before = (cache.held(a), cache.held(b));
        cache.set_mask(a, 0x00f0);
        let after = (cache.held(a), cache.held(b));
        assert!((before.0 - after.0).abs() < 1.0 && (before.1 - after.1).abs() < 1.0);
    }

    proptest! {
        #[test]
        fn holdings_never_exceed_the_cache_nor_a_region(
            steps in proptest::collection::vec(
                (0.0001f64..0.05, 0.0f64..2e10, 0.0f64..2e10, 0.0f64..2e10, 1u64..0x7ff, 1u64..0x7ff),
                1..40,
            ),
        ) {
            let size = 33.0 * MIB;
            let mut cache = CacheState::new(size, 11);
            for _ in 0..3 {
                cache.add(0x7ff);
            }
            for (seconds, a, b, c, mask_a, mask_b) in steps {
                cache.set_mask(0, mask_a);
                cache.set_mask(1, mask_b);
                cache.step(seconds, &[a, b, c], &[1e9, 5.0 * MIB, 1e9]);
                let held: f64 = (0..3).map(|i| cache.held(i)).sum();
                prop_assert!(held <= size * (1.0 + 1e-9), "{held} of {size}");
                for region in &cache.regions {
                    let held: f64 = region.held.iter().sum();
                    prop_assert!(held <= region.bytes * (1.0 + 1e-9));
                    prop_assert!(region.held.iter().all(|h| *h >= 0.0));
                }
            }
        }
    }
}
