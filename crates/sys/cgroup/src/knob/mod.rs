//! Knobs of a group.

pub(crate) mod bandwidth;
pub(crate) mod cpuset;
pub(crate) mod freezer;
pub(crate) mod idle;
pub(crate) mod weight;

use crate::raw::RawFile;
use crate::{CgroupError, Group};
use quell_types::{KnobRange, Reading, Setting};
use std::fmt::Debug;

/// One thing of a group that can be set.
pub trait GroupKnob: Debug + Send + Sync {
    /// How it stands now.
    ///
    /// # Errors
    /// A gap if the group is gone or the file cannot be read; [`quell_types::Gap::Pending`] while
    /// a freeze has not yet reached every task.
    fn read(&self) -> Reading<Setting>;

    /// What it accepts here: the check of support, too.
    ///
    /// # Errors
    /// A gap if this kernel or this group has no such knob.
    fn range(&self) -> Reading<KnobRange>;

    /// The setting that will stand after `wanted` was written: rounded as the kernel does, and
    /// clamped to what it would refuse. Rounding twice changes nothing.
    fn round(&self, wanted: &Setting) -> Setting;

    /// Sets it to `round(wanted)` and reads it back.
    ///
    /// # Errors
    /// Refused by the kernel, the group is gone, or something else stands there afterwards.
    fn write(&self, wanted: &Setting) -> Result<(), CgroupError>;

    /// The present text of every file that a write may change, for [`crate::restore_raw`].
    ///
    /// # Errors
    /// A file cannot be read: then nothing should be written.
    fn raw_files(&self) -> Result<Vec<RawFile>, CgroupError>;
}

/// All knobs that the group has here, by name: `cpus`, `bandwidth`, `weight`, `idle`, `frozen`,
/// each with why it is missing where it is.
#[must_use]
pub fn knobs_of(
    group: &Group,
    cpus: cpuset::Exclusivity,
) -> Vec<(&'static str, Reading<Box<dyn GroupKnob>>)> {
    fn boxed<K: GroupKnob + 'static>(knob: Reading<K>) -> Reading<Box<dyn GroupKnob>> {
        let knob = knob?;
        knob.range()?;
        Ok(Box::new(knob))
    }
    vec![
        ("cpus", boxed(cpuset::CpusKnob::new(group, cpus))),
        ("bandwidth", boxed(bandwidth::BandwidthKnob::new(group))),
        ("weight", boxed(weight::WeightKnob::new(group))),
        ("idle", boxed(idle::IdleKnob::new(group))),
        ("frozen", boxed(freezer::FreezerKnob::new(group))),
    ]
}
