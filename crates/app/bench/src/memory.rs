//! Memory for polluters that stays from cell to cell.
//!
//! A virtual machine's memory goes back to its host seconds after it was freed, and to touch it
//! again takes seconds of CPU time for a gigabyte: more than a polluter under a limit gets in a
//! whole cell. So polluters work in files of a file system in memory, which this process keeps.
//! It is mounted nowhere, and is gone with the process, however that ends.

use crate::{Mix, Polluter};
use anyhow::Context as _;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files, by polluter.
#[derive(Debug)]
pub(crate) struct KeptMemory {
    files: Vec<(Polluter, OwnedFd)>,
}

impl KeptMemory {
    /// Empty files for the polluters that work on memory; none, so that each polluter takes memory
    /// of its own, where that is not to be had.
    pub(crate) fn make_or_none() -> Self {
        Self::make().unwrap_or_else(|error| {
            eprintln!("quell: polluters under a limit will be ready late: {error:#}");
            Self { files: Vec::new() }
        })
    }

    fn make() -> anyhow::Result<Self> {
        let folder = file_system().context("cannot make a file system in memory")?;
        let file = |polluter: Polluter| {
            let how = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = openat(&folder, polluter.name(), how, Mode::RUSR | Mode::WUSR)?;
            Ok((polluter, file))
        };
        let files = [Polluter::Llc, Polluter::Membw].map(file).into_iter();
        Ok(Self { files: files.collect::<anyhow::Result<_>>()? })
    }

    /// The file of a polluter, as other processes open it.
    pub(crate) fn file(&self, polluter: Polluter) -> Option<PathBuf> {
        let (_, file) = self.files.iter().find(|(of, _)| *of == polluter)?;
        Some(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into())
    }

    /// Lets each polluter of a mix touch its memory once, unlimited, and end.
    pub(crate) fn fill(&self, program: &Path, mix: Mix, threads: usize) -> anyhow::Result<()> {
        for &polluter in mix.parts() {
            let Some(file) = self.file(polluter) else { continue };
            let output = Command::new(program)
                .args(["pressure", polluter.name(), "--seconds", "0.01"])
                .args(["--threads", &threads.to_string(), "--memory-file"])
                .arg(file)
                .stdin(Stdio::null())
                .output()
                .with_context(|| format!("cannot start {} pressure", program.display()))?;
            anyhow::ensure!(
                output.status.success(),
                "quell pressure {} ended ({}): {}",
                polluter.name(),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }
}

/// One in memory, with huge pages where the kernel has them.
fn file_system() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // A kernel without huge pages refuses this: small ones serve.
    let _ = fsconfig_set_string(&context, "huge", "always");
    fsconfig_set_string(&context, "mode", "0700")?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_one_process_leaves_the_next_one_finds() {
        let memory = KeptMemory::make().expect("this needs root");
        let file = memory.file(Polluter::Membw).unwrap();
        fs::write(&file, "kept").unwrap();
        let seen = Command::new("cat").arg(&file).output().unwrap();
        assert_eq!(seen.stdout, b"kept");
        assert_eq!(memory.file(Polluter::Cpu), None);
        assert_ne!(memory.file(Polluter::Llc), memory.file(Polluter::Membw));
    }
}
