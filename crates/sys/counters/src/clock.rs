//! Clock modulation: the share of time in which a core's clock runs (IA32_CLOCK_MODULATION, A-10).
//!
//! The register cuts time into 8 parts, on newer processors into 16 (CPUID leaf 6 tells). Where that
//! is not told, 8 are used: their codes mean the same on both. A core runs at the highest level of
//! its threads, so whoever slows a core writes all of them.

use crate::file::{self, gap};
use crate::msr::{read_msr, write_register};
use quell_types::{CpuSet, Gap, KnobRange, Reading, Setting};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// IA32_CLOCK_MODULATION.
const REGISTER: u64 = 0x19a;
/// Bit 4 turns modulation on; the level lies below it.
const ENABLE: u64 = 1 << 4;
const FIELD: u64 = 0xf;
/// CPUID leaf 6, EAX bit 5: sixteen parts (ECMD).
const POWER_LEAF: u64 = 6;
const EXTENDED: u32 = 1 << 5;

/// A level that was not set.
#[derive(Debug, Error)]
pub enum ClockError {
    /// Not a setting of this knob.
    #[error("a clock takes parts of time, not {0}")]
    Kind(Setting),
    /// Out of range.
    #[error("a clock here runs in 1 to {parts} parts of the time, not {wanted}")]
    Range {
        /// How many there are.
        parts: u32,
        /// What was wanted.
        wanted: u32,
    },
    /// The device refuses.
    #[error(
        "{path}: register 0x19a: {source}; is the kernel locked down, or msr.allow_writes off?"
    )]
    Io {
        /// The device.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A register and its value, as the restore journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawRegister {
    /// The device of the CPU.
    pub path: PathBuf,
    /// Its number.
    pub register: u64,
    /// What it held.
    pub value: u64,
}

/// Clock modulation of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockModulation {
    root: PathBuf,
    cpus: CpuSet,
    parts: u32,
}

impl ClockModulation {
    /// Looks for it below `root`: the processor's word that it has it (flag `acpi`), the register
    /// of each CPU, and into how many parts time is cut.
    ///
    /// # Errors
    /// Absent where the processor has no clock modulation or its registers cannot be had.
    pub fn discover(root: &Path) -> Reading<Self> {
        let cpus = crate::msr::msr_cpus(root)?;
        let info = file::text(&root.join("proc/cpuinfo"))?;
        if !flags(&info).any(|flag| flag == "acpi") {
            return Err(Gap::absent("the processor has no clock modulation (flag acpi)"));
        }
        let readable = |cpu: &u32| read_msr(root, *cpu, REGISTER).is_ok();
        let cpus: CpuSet = cpus.iter().filter(readable).collect();
        let Some(first) = cpus.iter().next() else {
            return Err(Gap::absent("no CPU has the register of clock modulation (0x19a)"));
        };
        let parts = if is_extended(root, first) { 16 } else { 8 };
        Ok(Self { root: root.to_owned(), cpus, parts })
    }

    /// The CPUs whose clocks can be set.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Into how many parts time is cut: 8 or 16.
    #[must_use]
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// The knob of a CPU.
    ///
    /// # Errors
    /// Absent if it has none.
    pub fn knob(&self, cpu: u32) -> Reading<ClockKnob> {
        if !self.cpus.contains(cpu) {
            return Err(Gap::absent(format!("CPU {cpu} has no clock modulation")));
        }
        Ok(ClockKnob { root: self.root.clone(), cpu, parts: self.parts })
    }
}

/// The clock of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockKnob {
    root: PathBuf,
    cpu: u32,
    parts: u32,
}

impl ClockKnob {
    /// In how many parts of the time the clock runs.
    ///
    /// # Errors
    /// If the register cannot be read, or holds a code that means nothing.
    pub fn read(&self) -> Reading<Setting> {
        let value = read_msr(&self.root, self.cpu, REGISTER)?;
        match decode(value, self.parts) {
            Some(parts) => Ok(Setting::Duty(parts)),
            None => Err(Gap::failed(format!("CPU {}: level {value:#x} is reserved", self.cpu))),
        }
    }

    /// What it accepts.
    ///
    /// # Errors
    /// Never.
    pub fn range(&self) -> Reading<KnobRange> {
        Ok(KnobRange::Duty { parts: self.parts })
    }

    /// Sets it.
    ///
    /// # Errors
    /// If `wanted` is not one of its levels, or the kernel refuses.
    pub fn write(&self, wanted: &Setting) -> Result<(), ClockError> {
        let Setting::Duty(level) = wanted else { return Err(ClockError::Kind(wanted.clone())) };
        let range = ClockError::Range { parts: self.parts, wanted: *level };
        let code = encode(*level, self.parts).ok_or(range)?;
        let path = self.path();
        write_register(&path, REGISTER, code).map_err(|source| ClockError::Io { path, source })
    }

    /// The register that a write changes, with its value now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn raw(&self) -> Reading<RawRegister> {
        let value = read_msr(&self.root, self.cpu, REGISTER)?;
        Ok(RawRegister { path: self.path(), register: REGISTER, value })
    }

    fn path(&self) -> PathBuf {
        crate::msr::device(&self.root, self.cpu)
    }
}

impl RawRegister {
    /// Writes the old value back and reads it.
    ///
    /// # Errors
    /// If the device refuses, or the register reads otherwise.
    pub fn restore(&self) -> Result<(), String> {
        let told = |error: io::Error| format!("{}: {error}", self.path.display());
        // A CPU that was unplugged comes back with registers of its own.
        if !self.path.exists() {
            return Ok(());
        }
        write_register(&self.path, self.register, self.value).map_err(told)?;
        let mut now = [0u8; 8];
        let device = File::open(&self.path).map_err(told)?;
        device.read_exact_at(&mut now, self.register).map_err(told)?;
        match u64::from_le_bytes(now) == self.value {
            true => Ok(()),
            false => Err(format!(
                "{}: register {:#x} does not keep its value",
                self.path.display(),
                self.register
            )),
        }
    }
}

/// The register's value for a level; none if there is no such level.
fn encode(level: u32, parts: u32) -> Option<u64> {
    let shift = u32::from(parts == 8);
    match level {
        _ if level == parts => Some(0),
        0 => None,
        _ if level > parts => None,
        _ => Some(ENABLE | u64::from(level) << shift),
    }
}

/// The level that a value means; none for the reserved code.
fn decode(value: u64, parts: u32) -> Option<u32> {
    if value & ENABLE == 0 {
        return Some(parts);
    }
    let shift = u32::from(parts == 8);
    let level = ((value & FIELD) >> shift) as u32;
    (level > 0).then_some(level)
}

fn flags(info: &str) -> impl Iterator<Item = &str> {
    let line = info.lines().find(|line| line.starts_with("flags"));
    line.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags).split_whitespace()
}

/// Whether CPUID, by its device, says that time is cut into sixteen parts.
fn is_extended(root: &Path, cpu: u32) -> bool {
    let path = root.join(format!("dev/cpu/{cpu}/cpuid"));
    let mut eax = [0u8; 4];
    let read = File::open(&path).and_then(|device| read_leaf(&device, &mut eax));
    read.map_err(|error| gap(&path, &error)).is_ok_and(|()| u32::from_le_bytes(eax) & EXTENDED != 0)
}

/// The device answers with four words a leaf, in pieces of sixteen bytes; the first is EAX.
fn read_leaf(device: &File, eax: &mut [u8; 4]) -> io::Result<()> {
    let mut words = [0u8; 16];
    device.read_exact_at(&mut words, POWER_LEAF)?;
    eax.copy_from_slice(&words[..4]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// Two CPUs with registers of zeros; the processor tells that it has 16 parts, or does not.
    fn tree(extended: bool, flags: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..2 {
            let dir = root.path().join(format!("dev/cpu/{cpu}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("msr"), vec![0u8; 0x200]).unwrap();
            if extended {
                let mut leaf = vec![0u8; 32];
                leaf[6] = EXTENDED as u8;
                fs::write(dir.join("cpuid"), leaf).unwrap();
            }
        }
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let info = format!("processor\t: 0\nflags\t\t: fpu {flags} sse\n");
        fs::write(root.path().join("proc/cpuinfo"), info).unwrap();
        root
    }

    fn value(root: &Path, cpu: u32) -> u64 {
        read_msr(root, cpu, REGISTER).unwrap()
    }

    #[test]
    fn levels_are_written_read_back_and_put_back() {
        for (extended, parts, half) in [(true, 16, 0x18), (false, 8, 0x18)] {
            let root = tree(extended, "acpi");
            let clocks = ClockModulation::discover(root.path()).unwrap();
            assert_eq!((clocks.parts(), clocks.cpus().to_string()), (parts, "0-1".into()));
            let knob = clocks.knob(1).unwrap();
            assert_eq!(knob.read(), Ok(Setting::Duty(parts)), "off means all of the time");
            let before = knob.raw().unwrap();
            knob.write(&Setting::Duty(parts / 2)).unwrap();
            assert_eq!(value(root.path(), 1), half, "half of the time is one code on both");
            assert_eq!(value(root.path(), 0), 0, "the other CPU is not touched");
            assert_eq!(knob.read(), Ok(Setting::Duty(parts / 2)));
            before.restore().unwrap();
            assert_eq!(value(root.path(), 1), 0);
        }
    }

    #[test]
    fn what_is_no_level_is_refused_and_nothing_is_written() {
        let root = tree(true, "acpi");
        let knob = ClockModulation::discover(root.path()).unwrap().knob(0).unwrap();
        for wrong in [Setting::Duty(0), Setting::Duty(17), Setting::Flag(true)] {
            assert!(knob.write(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(value(root.path(), 0), 0);
        write_register(&root.path().join("dev/cpu/0/msr"), REGISTER, ENABLE).unwrap();
        assert!(matches!(knob.read(), Err(Gap::Failed(_))), "reserved");
    }

    #[test]
    fn without_the_flag_the_device_or_the_register_it_is_absent() {
        let why = |root: &Path| match ClockModulation::discover(root) {
            Err(Gap::Absent(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(tree(true, "tm2").path()).contains("no clock modulation"));
        assert!(why(tempfile::tempdir().unwrap().path()).contains("msr module"));
        let short = tree(true, "acpi");
        for cpu in 0..2 {
            fs::write(short.path().join(format!("dev/cpu/{cpu}/msr")), vec![0u8; 0x20]).unwrap();
        }
        assert!(why(short.path()).contains("0x19a"));
    }

    proptest! {
        #[test]
        fn every_level_comes_back(wide in any::<bool>(), level in 0u32..20) {
            let parts = if wide { 16 } else { 8 };
            match encode(level, parts) {
                Some(code) => {
                    prop_assert_eq!(decode(code, parts), Some(level));
                    prop_assert_eq!(code & !(ENABLE | FIELD), 0);
                }
                None => prop_assert!(level == 0 || level > parts),
            }
        }
    }
}
