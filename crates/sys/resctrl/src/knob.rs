//! The two knobs of a group in one domain: last-level cache ways and memory bandwidth.

use crate::file::RawFile;
use crate::info::Info;
use crate::mask::MaskRules;
use crate::mba::MbaRules;
use crate::schemata::Resource;
use crate::{Group, ResctrlError};
use quell_types::{Gap, KnobRange, Reading, Setting};

/// A knob: read, range, round, write, and the raw text that restores it.
#[derive(Clone, Debug)]
pub struct SchemataKnob {
    group: Group,
    domain: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Ways, of L3 or of both halves under CDP.
    Ways { rules: MaskRules, classes: u32, resources: Vec<Resource> },
    /// The MB line.
    Bandwidth { rules: MbaRules },
}

impl SchemataKnob {
    pub(crate) fn ways(info: &Info, group: &Group, domain: u32) -> Reading<Self> {
        let rules = info.llc()?.rules;
        let kind = Kind::Ways { rules, classes: info.classes()?, resources: info.llc_resources() };
        Ok(Self { group: group.clone(), domain, kind })
    }

    pub(crate) fn bandwidth(info: &Info, group: &Group, domain: u32) -> Reading<Self> {
        let rules = info.bandwidth.as_ref().map_err(Gap::clone)?.rules;
        // Also refuses mba_MBps, under which there is no percentage to set.
        rules.percent_range()?;
        Ok(Self { group: group.clone(), domain, kind: Kind::Bandwidth { rules } })
    }

    /// The group it belongs to.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The domain it belongs to.
    #[must_use]
    pub fn domain(&self) -> u32 {
        self.domain
    }

    /// How it stands: [`Setting::Ways`] or [`Setting::Percent`].
    ///
    /// # Errors
    /// Gone with the group; absent without the domain; ambiguous if code and data (CDP) have
    /// different ways.
    pub fn read(&self) -> Reading<Setting> {
        let schemata = self.group.schemata().map_err(|e| Gap::from(&e))?;
        let value = |resource: Resource| {
            let missing = || Gap::absent(format!("no domain {} of {resource}", self.domain));
            schemata.get(resource, self.domain).ok_or_else(missing)
        };
        match &self.kind {
            Kind::Bandwidth { rules } => {
                Ok(Setting::Percent(rules.to_percent(value(Resource::Mb)?)?))
            }
            Kind::Ways { resources, .. } => {
                let masks: Vec<u64> =
                    resources.iter().map(|r| value(*r)).collect::<Result<_, _>>()?;
                match masks.as_slice() {
                    [code, data] if code != data => Err(Gap::Ambiguous(format!(
                        "code may fill the ways {code:#x} and data {data:#x}"
                    ))),
                    [mask, ..] => Ok(Setting::Ways(*mask)),
                    [] => Err(Gap::absent("no last-level cache line")),
                }
            }
        }
    }

    /// What it accepts: [`KnobRange::Ways`] or [`KnobRange::Percent`].
    ///
    /// # Errors
    /// Absent without the domain.
    pub fn range(&self) -> Reading<KnobRange> {
        match &self.kind {
            Kind::Ways { rules, classes, .. } => Ok(KnobRange::Ways {
                full: rules.full,
                min_bits: rules.min_bits,
                sparse: rules.sparse,
                shareable: rules.shareable,
                classes: *classes,
            }),
            Kind::Bandwidth { rules } => {
                let (min, step) = rules.percent_range()?;
                Ok(KnobRange::Percent { min, step })
            }
        }
    }

    /// The setting that will be read back after `wanted` is written.
    ///
    /// # Errors
    /// If `wanted` is not of the knob's kind.
    pub fn round(&self, wanted: &Setting) -> Result<Setting, ResctrlError> {
        match (&self.kind, wanted) {
            (Kind::Ways { rules, .. }, Setting::Ways(mask)) => {
                Ok(Setting::Ways(rules.round(*mask)))
            }
            (Kind::Bandwidth { rules }, Setting::Percent(percent)) => {
                let rounded = rules.round(*percent);
                rounded.map(Setting::Percent).map_err(|e| ResctrlError::Unsupported(e.to_string()))
            }
            _ => Err(self.wrong_kind(wanted)),
        }
    }

    /// Sets it, bandwidth rounded as [`SchemataKnob::round`] says. A mask must be legal as it is:
    /// a mask made legal could overlap another group's.
    ///
    /// # Errors
    /// If the mask is not legal, the group or domain is gone, or with the kernel's reason.
    pub fn write(&self, wanted: &Setting) -> Result<(), ResctrlError> {
        match (&self.kind, wanted) {
            (Kind::Ways { rules, resources, .. }, Setting::Ways(mask)) => {
                rules.check(*mask)?;
                self.group.set(resources, self.domain, *mask)
            }
            (Kind::Bandwidth { rules }, Setting::Percent(percent)) => {
                let value = rules.to_value(*percent);
                let value = value.map_err(|e| ResctrlError::Unsupported(e.to_string()))?;
                self.group.set(&[Resource::Mb], self.domain, value)
            }
            _ => Err(self.wrong_kind(wanted)),
        }
    }

    /// The files that a write changes, with their text now: what the restore journal keeps.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn raw_files(&self) -> Result<Vec<RawFile>, ResctrlError> {
        Ok(vec![self.group.snapshot()?])
    }

    fn wrong_kind(&self, wanted: &Setting) -> ResctrlError {
        let kind = match self.kind {
            Kind::Ways { .. } => "ways of a cache",
            Kind::Bandwidth { .. } => "a percentage of bandwidth",
        };
        ResctrlError::Unsupported(format!("this knob takes {kind}, not {wanted}"))
    }
}
