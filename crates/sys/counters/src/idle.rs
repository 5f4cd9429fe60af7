//! cpuidle: whether a CPU that has nothing to do may halt or sleep.
//!
//! A halted CPU answers late: on bare metal by what its sleep state needs to end (up to some hundred
//! µs), in a virtual machine by what the host's scheduler needs to run it again, which beside busy
//! neighbours can be tens of milliseconds. The kernel takes a bound for each CPU
//! (`power/pm_qos_resume_latency_us`: 0 = none, `n/a` = no latency at all, else µs); under
//! `n/a` an idle CPU polls. It needs a cpuidle driver that has a polling state.

use crate::file::{self, RawFile};
use quell_types::{Gap, KnobRange, Reading, Setting};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What the kernel says and takes for "no latency at all".
const AWAKE: &str = "n/a";
/// What it says and takes for "no bound".
const UNBOUND: &str = "0";

/// A CPU that could not be told to stay awake, or to sleep.
#[derive(Debug, Error)]
pub enum IdleError {
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
    /// The setting is no yes or no.
    #[error("this knob takes yes or no, not {0}")]
    Kind(Setting),
}

/// How idle CPUs are put to sleep on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleStates {
    driver: String,
    cpus: PathBuf,
}

impl IdleStates {
    /// Looks below `root`/sys/devices/system/cpu.
    ///
    /// # Errors
    /// Absent if the kernel has no cpuidle driver: idle CPUs then halt whatever is asked.
    pub fn discover(root: &Path) -> Reading<Self> {
        let cpus = root.join("sys/devices/system/cpu");
        let driver = file::text(&cpus.join("cpuidle/current_driver"));
        match driver {
            Ok(driver) if driver != "none" && !driver.is_empty() => Ok(Self { driver, cpus }),
            _ => Err(Gap::absent("this kernel has no cpuidle driver: idle CPUs always halt")),
        }
    }

    /// The driver: `haltpoll`, `intel_idle`, `acpi_idle`, `psci_idle` …
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The knob that keeps a CPU awake.
    ///
    /// # Errors
    /// Absent if the CPU takes no bound (power management is left out of the kernel).
    pub fn awake_knob(&self, cpu: u32) -> Reading<AwakeKnob> {
        let path = self.cpus.join(format!("cpu{cpu}/power/pm_qos_resume_latency_us"));
        let found = file::text(&path)?;
        let asleep = if found == AWAKE { UNBOUND.to_owned() } else { found };
        Ok(AwakeKnob { path, asleep })
    }
}

/// `pm_qos_resume_latency_us` of one CPU, as a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwakeKnob {
    path: PathBuf,
    /// The bound that holds while the CPU may sleep: another program's, else none.
    asleep: String,
}

impl AwakeKnob {
    /// Whether the CPU stays awake. A bound in µs that somebody else set counts as no.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Reading<Setting> {
        Ok(Setting::Flag(file::text(&self.path)? == AWAKE))
    }

    /// What it accepts.
    ///
    /// # Errors
    /// Never.
    pub fn range(&self) -> Reading<KnobRange> {
        Ok(KnobRange::Flag)
    }

    /// Sets it.
    ///
    /// # Errors
    /// If `wanted` is no yes or no, or the kernel refuses.
    pub fn write(&self, wanted: &Setting) -> Result<(), IdleError> {
        let text = match wanted {
            Setting::Flag(true) => AWAKE,
            Setting::Flag(false) => &self.asleep,
            other => return Err(IdleError::Kind(other.clone())),
        };
        fs::write(&self.path, format!("{text}\n")).map_err(|source| self.failed("write", source))
    }

    /// The file that a write changes, with its text now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn raw_files(&self) -> Result<Vec<RawFile>, IdleError> {
        let text = fs::read_to_string(&self.path).map_err(|source| self.failed("read", source))?;
        Ok(vec![RawFile { path: self.path.clone(), text }])
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> IdleError {
        IdleError::Io { doing, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Cpus;

    /// A tree of two CPUs, the second without power management.
    fn tree(driver: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let cpus = root.path().join("sys/devices/system/cpu");
        fs::create_dir_all(cpus.join("cpuidle")).unwrap();
        fs::create_dir_all(cpus.join("cpu0/power")).unwrap();
        fs::write(cpus.join("cpuidle/current_driver"), format!("{driver}\n")).unwrap();
        fs::write(cpus.join("cpu0/power/pm_qos_resume_latency_us"), "100\n").unwrap();
        root
    }

    #[test]
    fn a_cpu_stays_awake_and_its_old_bound_is_kept_to_go_back_to() {
        let root = tree("haltpoll");
        let states = IdleStates::discover(root.path()).unwrap();
        assert_eq!(states.driver(), "haltpoll");
        let knob = states.awake_knob(0).unwrap();
        let before = knob.raw_files().unwrap().remove(0);
        assert_eq!((knob.read(), before.text.as_str()), (Ok(Setting::Flag(false)), "100\n"));
        knob.write(&Setting::Flag(true)).unwrap();
        assert_eq!(knob.read(), Ok(Setting::Flag(true)));
        assert_eq!(fs::read_to_string(&before.path).unwrap(), "n/a\n");
        knob.write(&Setting::Flag(false)).unwrap();
        assert_eq!(fs::read_to_string(&before.path).unwrap(), "100\n");
    }

    #[test]
    fn what_is_missing_is_absent_and_wrong_settings_are_refused() {
        assert!(matches!(IdleStates::discover(tree("none").path()), Err(Gap::Absent(_))));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(IdleStates::discover(empty.path()), Err(Gap::Absent(_))));
        let root = tree("intel_idle");
        let states = IdleStates::discover(root.path()).unwrap();
        assert!(matches!(states.awake_knob(1), Err(Gap::Absent(_))));
        let knob = states.awake_knob(0).unwrap();
        let wrong = Setting::Bandwidth(quell_types::CpuBandwidth::limited(
            Cpus(1.0).0,
            std::time::Duration::from_millis(10),
        ));
        assert!(knob.write(&wrong).unwrap_err().to_string().contains("yes or no"));
    }

    /// This kernel takes it, where it has a driver: written, read back, put back.
    #[test]
    fn this_machine_does_as_the_fixture_does() {
        let Ok(states) = IdleStates::discover(Path::new("/")) else { return };
        let Ok(knob) = states.awake_knob(0) else { return };
        let before = knob.raw_files().unwrap().remove(0);
        if fs::write(&before.path, &before.text).is_err() {
            return; // not root
        }
        knob.write(&Setting::Flag(true)).unwrap();
        let awake = knob.read();
        fs::write(&before.path, &before.text).unwrap();
        assert_eq!(awake, Ok(Setting::Flag(true)));
        assert_eq!(knob.raw_files().unwrap().remove(0), before);
    }
}
