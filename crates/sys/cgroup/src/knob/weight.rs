//! The share of a group when CPUs are contended: `cpu.weight` (v2), `cpu.shares` (v1).

use super::GroupKnob;
use crate::group::{Group, Place};
use crate::layout::Version;
use crate::raw::{self, RawFile};
use crate::{CgroupError, file, parse};
use quell_types::{Gap, KnobRange, Reading, Setting};
use std::path::PathBuf;

const MIN_WEIGHT: u32 = 1;
const MAX_WEIGHT: u32 = 10_000;
/// The usual weight, and the shares that mean the same.
const USUAL_WEIGHT: u64 = 100;
const USUAL_SHARES: u64 = 1024;
/// The kernel clamps `cpu.shares` to these.
const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 1 << 18;

/// The shares of a weight, as the kernel computes them (`sched_weight_from_cgroup`).
#[must_use]
pub fn shares_from_weight(weight: u32) -> u64 {
    let weight = u64::from(weight.clamp(MIN_WEIGHT, MAX_WEIGHT));
    ((weight * USUAL_SHARES + USUAL_WEIGHT / 2) / USUAL_WEIGHT).clamp(MIN_SHARES, MAX_SHARES)
}

/// The weight of shares, as the kernel computes it (`sched_weight_to_cgroup`).
#[must_use]
pub fn weight_from_shares(shares: u64) -> u32 {
    let shares = shares.clamp(MIN_SHARES, MAX_SHARES);
    let weight = (shares * USUAL_WEIGHT + USUAL_SHARES / 2) / USUAL_SHARES;
    u32::try_from(weight).unwrap_or(MAX_WEIGHT).clamp(MIN_WEIGHT, MAX_WEIGHT)
}

/// The weight of a group, 1..10000, 100 being the usual one.
///
/// A group in the idle class has a fixed weight that reads 1; setting it is refused until the
/// group leaves that class.
#[derive(Clone, Debug)]
pub struct WeightKnob {
    place: Place,
}

impl WeightKnob {
    /// The weight of this group.
    ///
    /// # Errors
    /// A gap if the group is in no hierarchy with the cpu controller.
    pub fn new(group: &Group) -> Reading<Self> {
        Ok(Self { place: group.place("cpu")?.clone() })
    }

    fn path(&self) -> PathBuf {
        weight_file(&self.place)
    }

    fn read_weight(&self) -> Result<u32, CgroupError> {
        let path = self.path();
        let text = file::read(&path)?;
        let value = parse::number(&text).ok_or_else(|| raw::malformed(&path, &text))?;
        Ok(match self.place.version {
            Version::V1 => weight_from_shares(value),
            // Some kernels print 0 for the idle class.
            Version::V2 => u32::try_from(value).unwrap_or(MAX_WEIGHT).max(MIN_WEIGHT),
        })
    }

    fn is_idle(&self) -> bool {
        let text = file::read(&self.place.file("cpu.idle")).unwrap_or_default();
        parse::flag(&text) == Some(true)
    }
}

/// The file that holds the weight.
pub(crate) fn weight_file(place: &Place) -> PathBuf {
    place.file(if place.version == Version::V1 { "cpu.shares" } else { "cpu.weight" })
}

impl GroupKnob for WeightKnob {
    fn read(&self) -> Reading<Setting> {
        self.read_weight().map(Setting::Weight).map_err(Gap::from)
    }

    fn range(&self) -> Reading<KnobRange> {
        self.read_weight().map_err(Gap::from)?;
        Ok(KnobRange::Weight { min: MIN_WEIGHT, max: MAX_WEIGHT })
    }

    fn round(&self, wanted: &Setting) -> Setting {
        match wanted {
            Setting::Weight(weight) => Setting::Weight((*weight).clamp(MIN_WEIGHT, MAX_WEIGHT)),
            other => other.clone(),
        }
    }

    fn write(&self, wanted: &Setting) -> Result<(), CgroupError> {
        let Setting::Weight(weight) = self.round(wanted) else {
            return Err(CgroupError::WrongSetting { knob: "a weight", setting: wanted.clone() });
        };
        if self.read_weight()? == weight {
            return Ok(());
        }
        if self.is_idle() {
            let why = "the group is in the idle class, whose weight is fixed; clear cpu.idle first";
            return Err(CgroupError::Refused { path: self.path(), why: why.into() });
        }
        let number = match self.place.version {
            Version::V1 => shares_from_weight(weight),
            Version::V2 => u64::from(weight),
        };
        file::write(&self.path(), &number.to_string())?;
        raw::verify(&self.path(), &weight, &self.read_weight()?)
    }

    fn raw_files(&self) -> Result<Vec<RawFile>, CgroupError> {
        raw::save([self.path()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn converts_as_the_kernel_does() {
        for (weight, shares) in [(1, 10), (2, 20), (39, 399), (100, 1024), (10_000, 102_400)] {
            assert_eq!(shares_from_weight(weight), shares);
        }
        for (shares, weight) in [(2, 1), (3, 1), (1024, 100), (1019, 100), (262_144, 10_000)] {
            assert_eq!(weight_from_shares(shares), weight, "{shares}");
        }
    }

    proptest! {
        #[test]
        fn a_weight_survives_its_way_through_shares(weight in 1u32..=10_000) {
            prop_assert_eq!(weight_from_shares(shares_from_weight(weight)), weight);
        }

        #[test]
        fn any_number_is_answered(weight: u32, shares: u64) {
            prop_assert!((2..=1 << 18).contains(&shares_from_weight(weight)));
            prop_assert!((1..=10_000).contains(&weight_from_shares(shares)));
        }
    }
}
