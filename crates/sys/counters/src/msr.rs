//! Model-specific registers by /dev/cpu/N/msr. Only clock modulation is ever written (`clock`).

use crate::file;
use quell_types::{CpuSet, Gap, Reading};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The time stamp counter: every x86 has it, and reading it changes nothing.
const TIME_STAMP_COUNTER: u64 = 0x10;

/// The device of a CPU's registers.
pub(crate) fn device(root: &Path, cpu: u32) -> PathBuf {
    root.join(format!("dev/cpu/{cpu}/msr"))
}

/// Writes a register of the CPU whose device this is.
pub(crate) fn write_register(device: &Path, register: u64, value: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(device)?;
    file.write_all_at(&value.to_le_bytes(), register)
}

/// Reads a register of a CPU, below `root`.
///
/// # Errors
/// Absent without the device (the `msr` module), failed without root or if the CPU has no such
/// register.
pub fn read_msr(root: &Path, cpu: u32, register: u64) -> Reading<u64> {
    let path = device(root, cpu);
    let device = File::open(&path).map_err(|e| file::gap(&path, &e))?;
    let mut value = [0u8; 8];
    device
        .read_exact_at(&mut value, register)
        .map_err(|e| Gap::failed(format!("{}: register {register:#x}: {e}", path.display())))?;
    Ok(u64::from_le_bytes(value))
}

/// The CPUs whose registers can be read, below `root`.
///
/// # Errors
/// Absent if no CPU has the device; failed if none can be read.
pub fn msr_cpus(root: &Path) -> Reading<CpuSet> {
    let none = || {
        Gap::absent(
            "no /dev/cpu/N/msr: load the msr module (virtual machines and lockdown have none)",
        )
    };
    let dir = root.join("dev/cpu");
    let mut readable = CpuSet::new();
    let mut failure = None;
    for path in file::entries(&dir).map_err(|_| none())? {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(Ok(cpu)) = name.map(str::parse::<u32>) else { continue };
        match read_msr(root, cpu, TIME_STAMP_COUNTER) {
            Ok(_) => {
                readable.insert(cpu);
            }
            Err(Gap::Absent(_)) => {}
            Err(gap) => failure = failure.or(Some(gap)),
        }
    }
    match failure {
        _ if !readable.is_empty() => Ok(readable),
        Some(gap) => Err(gap),
        None => Err(none()),
    }
}
