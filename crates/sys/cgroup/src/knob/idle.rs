//! The idle class: the group runs only where nobody else wants to (`cpu.idle`, v1 and v2).

use super::GroupKnob;
use super::weight::weight_file;
use crate::group::{Group, Place};
use crate::raw::{self, RawFile};
use crate::{CgroupError, file, parse};
use quell_types::{Gap, KnobRange, Reading, Setting};

/// Whether the group is in the idle class.
///
/// Leaving the class gives the group the usual weight, whatever it had before: the kernel forgets
/// it. The raw files therefore include the weight's.
#[derive(Clone, Debug)]
pub struct IdleKnob {
    place: Place,
}

impl IdleKnob {
    /// The idle flag of this group.
    ///
    /// # Errors
    /// A gap if the group is in no hierarchy with the cpu controller.
    pub fn new(group: &Group) -> Reading<Self> {
        Ok(Self { place: group.place("cpu")?.clone() })
    }

    fn read_flag(&self) -> Result<bool, CgroupError> {
        let path = self.place.file("cpu.idle");
        let text = file::read(&path)?;
        parse::flag(&text).ok_or_else(|| raw::malformed(&path, &text))
    }
}

impl GroupKnob for IdleKnob {
    fn read(&self) -> Reading<Setting> {
        self.read_flag().map(Setting::Flag).map_err(Gap::from)
    }

    fn range(&self) -> Reading<KnobRange> {
        self.read_flag().map_err(Gap::from)?;
        Ok(KnobRange::Flag)
    }

    fn round(&self, wanted: &Setting) -> Setting {
        wanted.clone()
    }

    fn write(&self, wanted: &Setting) -> Result<(), CgroupError> {
        let Setting::Flag(idle) = *wanted else {
            return Err(CgroupError::WrongSetting {
                knob: "the idle class",
                setting: wanted.clone(),
            });
        };
        if self.read_flag()? == idle {
            return Ok(());
        }
        let path = self.place.file("cpu.idle");
        file::write(&path, if idle { "1" } else { "0" })?;
        raw::verify(&path, &idle, &self.read_flag()?)
    }

    fn raw_files(&self) -> Result<Vec<RawFile>, CgroupError> {
        raw::save([self.place.file("cpu.idle"), weight_file(&self.place)])
    }
}
