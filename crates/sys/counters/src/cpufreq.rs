//! cpufreq: present frequency and the highest allowed one (H-2's power loop).

use crate::file::{self, RawFile, numbered};
use quell_types::{CpuSet, Gap, Kilohertz, KnobRange, Reading, Setting};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A frequency that could not be set.
#[derive(Debug, Error)]
pub enum CpufreqError {
    /// The file could not be read or written.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The setting is not a frequency.
    #[error("this knob takes a frequency, not {0}")]
    Kind(Setting),
    /// The range is not known, so nothing may be written.
    #[error("{0}")]
    Range(Gap),
}

/// CPUs that change their frequency together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The kernel's number (its first CPU).
    pub id: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The driver: `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`, `cppc_cpufreq` …
    pub driver: Reading<String>,
    /// The governor.
    pub governor: Reading<String>,
    dir: PathBuf,
}

/// All policies of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpufreq {
    policies: Vec<Policy>,
}

impl Cpufreq {
    /// Finds the policies below `root`/sys/devices/system/cpu/cpufreq.
    ///
    /// # Errors
    /// Absent if the kernel does not scale frequencies (virtual machines).
    pub fn discover(root: &Path) -> Reading<Self> {
        let none =
            || Gap::absent("this kernel does not scale CPU frequencies (no cpufreq policies)");
        let dir = root.join("sys/devices/system/cpu/cpufreq");
        let mut policies = Vec::new();
        for (id, dir) in numbered(&dir, "policy").map_err(|_| none())? {
            let cpus = file::text(&dir.join("affected_cpus")).and_then(|t| parse_cpus(&t));
            // A policy all of whose CPUs are offline has none, and no frequency.
            let Some(cpus) = cpus.ok().filter(|cpus| !cpus.is_empty()) else { continue };
            policies.push(Policy {
                id,
                cpus,
                driver: file::text(&dir.join("scaling_driver")),
                governor: file::text(&dir.join("scaling_governor")),
                dir,
            });
        }
        if policies.is_empty() { Err(none()) } else { Ok(Self { policies }) }
    }

    /// All policies, by number.
    #[must_use]
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The policy of a CPU.
    #[must_use]
    pub fn policy_of(&self, cpu: u32) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.cpus.contains(cpu))
    }

    /// Present frequency of each CPU in kHz. CPUs of which it is not known are left out.
    ///
    /// # Errors
    /// The first policy's gap if it is known of none.
    pub fn current_khz(&self) -> Reading<BTreeMap<u32, u64>> {
        let mut known = BTreeMap::new();
        let mut first = None;
        for policy in &self.policies {
            match policy.current() {
                Ok(khz) => known.extend(policy.cpus.iter().map(|cpu| (cpu, khz.0))),
                Err(gap) => first = first.or(Some(gap)),
            }
        }
        match first {
            Some(gap) if known.is_empty() => Err(gap),
            _ => Ok(known),
        }
    }

    /// The knob for a CPU's highest frequency. CPUs of one policy share it.
    ///
    /// # Errors
    /// Absent if the CPU has no policy.
    pub fn max_knob(&self, cpu: u32) -> Reading<FrequencyKnob> {
        let policy = self.policy_of(cpu);
        let policy =
            policy.ok_or_else(|| Gap::absent(format!("CPU {cpu} has no cpufreq policy")))?;
        Ok(FrequencyKnob { policy: policy.clone() })
    }
}

impl Policy {
    /// Present frequency.
    ///
    /// # Errors
    /// If the driver does not know.
    pub fn current(&self) -> Reading<Kilohertz> {
        self.khz("scaling_cur_freq").or_else(|_| self.khz("cpuinfo_cur_freq"))
    }

    /// Lowest and highest frequency that the hardware has.
    ///
    /// # Errors
    /// If the driver does not tell, or tells nonsense.
    pub fn hardware_range(&self) -> Reading<(Kilohertz, Kilohertz)> {
        let (min, max) = (self.khz("cpuinfo_min_freq")?, self.khz("cpuinfo_max_freq")?);
        if min > max {
            let shown = self.dir.display();
            return Err(Gap::failed(format!("{shown}: lowest {} > highest {}", min.0, max.0)));
        }
        Ok((min, max))
    }

    /// The frequencies that the driver steps through, rising; empty where it has no table
    /// (intel_pstate, amd-pstate).
    #[must_use]
    pub fn table(&self) -> Vec<Kilohertz> {
        let text = file::text(&self.dir.join("scaling_available_frequencies")).unwrap_or_default();
        let mut table: Vec<u64> =
            text.split_ascii_whitespace().filter_map(|f| f.parse().ok()).collect();
        table.sort_unstable();
        table.into_iter().map(Kilohertz).collect()
    }

    fn khz(&self, name: &str) -> Reading<Kilohertz> {
        file::number(&self.dir.join(name)).map(Kilohertz)
    }
}

/// `0 1 2 3`, as cpufreq lists CPUs.
fn parse_cpus(text: &str) -> Reading<CpuSet> {
    let cpu = |word: &str| word.parse().map_err(|_| Gap::failed(format!("not a CPU: {word:?}")));
    text.split_ascii_whitespace().map(cpu).collect()
}

/// `scaling_max_freq` of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyKnob {
    policy: Policy,
}

impl FrequencyKnob {
    /// All CPUs that a write changes.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.policy.cpus
    }

    /// How it stands.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Reading<Setting> {
        self.policy.khz("scaling_max_freq").map(Setting::Frequency)
    }

    /// What it accepts.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn range(&self) -> Reading<KnobRange> {
        let (min, max) = self.policy.hardware_range()?;
        Ok(KnobRange::Frequency { min, max })
    }

    /// The setting that takes effect for `wanted`: within the range, and where the driver has a
    /// table the highest step that is not above it.
    ///
    /// # Errors
    /// If `wanted` is no frequency or the range is not known.
    pub fn round(&self, wanted: &Setting) -> Result<Setting, CpufreqError> {
        let Setting::Frequency(wanted) = wanted else {
            return Err(CpufreqError::Kind(wanted.clone()));
        };
        let (min, max) = self.policy.hardware_range().map_err(CpufreqError::Range)?;
        let clamped = Kilohertz(wanted.0.clamp(min.0, max.0));
        let table = self.policy.table();
        let step = table.iter().rev().find(|step| **step <= clamped).or(table.first());
        Ok(Setting::Frequency(*step.unwrap_or(&clamped)))
    }

    /// Sets it, rounded as [`FrequencyKnob::round`] says. The hardware may still go lower.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn write(&self, wanted: &Setting) -> Result<(), CpufreqError> {
        let Setting::Frequency(khz) = self.round(wanted)? else { return Ok(()) };
        let path = self.path();
        fs::write(&path, format!("{}\n", khz.0)).map_err(|source| CpufreqError::Io {
            doing: "write",
            path,
            source,
        })
    }

    /// The file that a write changes, with its text now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn raw_files(&self) -> Result<Vec<RawFile>, CpufreqError> {
        let path = self.path();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(vec![RawFile { path, text }]),
            Err(source) => Err(CpufreqError::Io { doing: "read", path, source }),
        }
    }

    fn path(&self) -> PathBuf {
        self.policy.dir.join("scaling_max_freq")
    }
}
