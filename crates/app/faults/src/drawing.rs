//! Ways of drawing an episode from its seed.
//!
//! Seeds of former ways go on meaning what they meant, so that an episode that once broke something
//! is always played as it was: a way names the kinds of fault and the sites that it knew, and the
//! cells, in that order, at which the lowest bits of its seeds aim.

use crate::dice::Dice;
use crate::{Cell, FaultKind, KnobKind, Site};

/// Bits of a seed that name the cell at which it aims.
pub(crate) const AIM_BITS: u32 = 10;
/// The bits from here on name the way of drawing.
const DRAWING_BIT: u32 = 48;

/// How an episode is drawn from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Drawing {
    /// Six laws, all services slow.
    First,
    /// Ten laws; requests are frequent enough for those that look who slows a service.
    Second,
    /// All laws, some of them beside others; clocks that can be modulated, programs that lock the
    /// bus or heat their cores, and sensors of the machine that fail.
    Third,
    /// Programs whom CPU bandwidth does not hold, under the law that sees whether it does.
    Fourth,
}

impl Drawing {
    /// The present way.
    pub(crate) const NOW: Self = Self::Fourth;

    pub(crate) fn of(seed: u64) -> Self {
        match seed >> DRAWING_BIT {
            0 => Self::First,
            1 => Self::Second,
            2 => Self::Third,
            _ => Self::Fourth,
        }
    }

    /// Kinds of fault that it knows; the last is "two at once".
    pub(crate) fn kinds(self) -> Vec<FaultKind> {
        let known = |kind: &FaultKind| self >= Self::Third || !kind.is_of_hardware();
        FaultKind::ALL.into_iter().filter(known).collect()
    }

    /// Sites that it knows.
    pub(crate) fn sites(self) -> Vec<Site> {
        let is_new =
            |site: &Site| matches!(site, Site::Set(KnobKind::Duty) | Site::Restore(KnobKind::Duty));
        Site::all().into_iter().filter(|site| self >= Self::Third || !is_new(site)).collect()
    }

    fn cells(self) -> Vec<Cell> {
        let kinds = self.kinds();
        let of = |site: Site| kinds.iter().map(move |kind| Cell { kind: *kind, site });
        self.sites().into_iter().flat_map(of).collect()
    }

    /// One kind of fault.
    pub(crate) fn one(self, dice: &mut Dice) -> FaultKind {
        let all = self.kinds();
        all[dice.below(all.len() as u64 - 1) as usize]
    }

    /// Two kinds that differ.
    pub(crate) fn two(self, dice: &mut Dice) -> Vec<FaultKind> {
        let first = self.one(dice);
        loop {
            let second = self.one(dice);
            if second != first {
                return vec![first, second];
            }
        }
    }
}

/// The seed number `number` that aims at a cell of [`Cell::all`], as episodes are drawn at present.
#[must_use]
pub(crate) fn seed_at(number: u64, cell: usize) -> u64 {
    let within = (1 << (DRAWING_BIT - AIM_BITS)) - 1;
    ((Drawing::NOW as u64) << DRAWING_BIT) | ((number & within) << AIM_BITS) | cell as u64
}

/// The cell at which a seed aims.
pub(crate) fn aim(seed: u64) -> Option<Cell> {
    let cell = seed & ((1 << AIM_BITS) - 1);
    Drawing::of(seed).cells().get(cell as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_its_way_of_drawing_whatever_the_number_of_the_run() {
        for run in [0, 1, 3, (1 << 14) - 1, 1 << 20] {
            let seed = seed_at(run << 24, 5);
            assert_eq!(Drawing::of(seed), Drawing::NOW, "{run}");
            assert!(seed < 1 << 53, "readers of JSON must not round it");
        }
        assert_eq!(Drawing::of(17_181_611_021), Drawing::First);
        assert_eq!(Drawing::of(281_492_156_984_323), Drawing::Second);
        assert_eq!(Drawing::of(562_967_133_305_887), Drawing::Third);
    }

    #[test]
    fn former_ways_know_neither_new_kinds_nor_new_sites_and_the_present_one_all() {
        for (way, kinds, sites) in [
            (Drawing::First, 21, 29),
            (Drawing::Second, 21, 29),
            (Drawing::Third, 24, 31),
            (Drawing::Fourth, 24, 31),
        ] {
            assert_eq!((way.kinds().len(), way.sites().len()), (kinds, sites), "{way:?}");
            assert_eq!(way.kinds().last(), Some(&FaultKind::Two));
        }
        assert_eq!(Drawing::NOW.cells(), Cell::all());
        // What seeds of former ways aimed at: kind 3 of site 9, say.
        let aimed = Cell { kind: FaultKind::DeathBefore, site: Site::Restore(KnobKind::Cpus) };
        assert_eq!(aim((1 << DRAWING_BIT) | (9 * 21 + 3)), Some(aimed));
        assert_eq!(aim(9 * 21 + 3), Some(aimed));
    }
}
