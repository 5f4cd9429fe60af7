//! Reading and writing the kernel's files.

use crate::CgroupError;
use quell_types::{Gap, Reading};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The whole text of a file.
pub(crate) fn read(path: &Path) -> Result<String, CgroupError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(source) => Err(read_error(path, source)),
    }
}

/// A missing file in a directory that still exists is a file that this kernel lacks; with the
/// directory, the group itself is gone (ENODEV: removed while the file was open).
fn read_error(path: &Path, source: io::Error) -> CgroupError {
    if is_gone(path, &source) {
        return CgroupError::Gone { path: path.to_owned() };
    }
    if source.kind() == io::ErrorKind::NotFound {
        return missing(path);
    }
    let hint = hint(path, &source).to_owned();
    CgroupError::Read { path: path.to_owned(), source, hint }
}

fn is_gone(path: &Path, error: &io::Error) -> bool {
    let removed = error.raw_os_error() == Some(Errno::NODEV.raw_os_error());
    let missing = error.kind() == io::ErrorKind::NotFound;
    removed || missing && path.parent().is_some_and(|dir| !dir.exists())
}

/// The error for a file that the group's directory does not have.
fn missing(path: &Path) -> CgroupError {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let controller = name.split('.').next().unwrap_or_default();
    let dir = path.parent().unwrap_or(path);
    // In cgroup v2 a controller's files are there only if the parent's subtree_control names it.
    let why = if dir.join("cgroup.controllers").exists() && controller != "cgroup" {
        let above = dir.parent().unwrap_or(dir).join("cgroup.subtree_control");
        format!("{} has none; write \"+{controller}\" to {}", dir.display(), above.display())
    } else {
        format!("{} has no such file (older kernel, or not built in)", dir.display())
    };
    CgroupError::Unsupported { what: name, why }
}

/// Writes `text` by one system call, without creating or cutting the file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CgroupError> {
    let done = File::options().write(true).open(path).and_then(|mut file| {
        // A plain file (a fixture) keeps its old tail unless it is cut; the kernel's ignore this.
        let _ = file.set_len(0);
        file.write_all(text.as_bytes())
    });
    done.map_err(|source| write_error(path, text, source))
}

/// The error for a refused write.
pub(crate) fn write_error(path: &Path, text: &str, source: io::Error) -> CgroupError {
    if is_gone(path, &source) {
        return CgroupError::Gone { path: path.to_owned() };
    }
    if source.kind() == io::ErrorKind::NotFound {
        return missing(path);
    }
    let hint = hint(path, &source).to_owned();
    CgroupError::Write { path: path.to_owned(), text: text.trim_end().to_owned(), source, hint }
}

/// What the kernel means by an error number on this file.
fn hint(path: &Path, error: &io::Error) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(errno) = error.raw_os_error().map(Errno::from_raw_os_error) else { return "" };
    match (name, errno) {
        (_, Errno::ROFS) => ": the cgroup tree is mounted read-only; remount it writable",
        (_, Errno::PERM) => ": run as root",
        (_, Errno::MFILE) => ": too many open files; raise the limit (ulimit -n)",
        ("cpuset.cpus", Errno::INVAL | Errno::RANGE) => {
            ": the CPUs overlap an exclusive sibling's, or do not exist"
        }
        ("cpuset.cpus", Errno::ACCESS) => ": the parent group does not have all of these CPUs",
        ("cpuset.cpus", Errno::BUSY) => ": a child group still uses CPUs that would be lost",
        ("cpuset.cpus" | "cpuset.mems", Errno::NOSPC) => {
            ": the group has tasks and cannot be empty"
        }
        ("cpuset.cpu_exclusive", Errno::INVAL) => ": a sibling uses some of its CPUs",
        ("cpuset.cpu_exclusive", Errno::ACCESS) => ": the parent group is not exclusive",
        ("cpu.cfs_quota_us" | "cpu.cfs_period_us" | "cpu.max", Errno::INVAL) => {
            ": under 1 ms, over the parent's limit, under a child's limit, or under the burst"
        }
        ("cpu.cfs_burst_us" | "cpu.max.burst", Errno::INVAL) => ": more than the quota",
        ("cpu.shares" | "cpu.weight", Errno::INVAL) => ": the group is in the idle class",
        ("cgroup.subtree_control", Errno::BUSY) => ": the group itself holds processes",
        ("cgroup.procs" | "cgroup.threads" | "tasks", Errno::SRCH) => ": the process has ended",
        ("cgroup.procs" | "cgroup.threads" | "tasks", Errno::NOSPC) => {
            ": the cpuset has no CPUs or memory nodes yet; set them first"
        }
        ("cgroup.procs", Errno::BUSY) => {
            ": a v2 group that passes controllers to its children takes no processes"
        }
        ("cgroup.procs" | "tasks", Errno::INVAL) => {
            ": a kernel thread, or a real-time task where cpu.rt_runtime_us is 0"
        }
        (_, Errno::ACCESS) => ": run as root",
        _ => "",
    }
}

/// Lifts this process' limit of open files as far as it may go, and says how far that is. A reader
/// keeps up to nine files of a group open; over the limit it opens them anew at each read.
#[must_use]
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// A file that is read again and again: opened once, read by one `pread` each time. It stays with
/// the group that it was opened in: another one of the same name is not read by mistake.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        // Out of file descriptors, it is opened at each read; that heals by itself.
        let file = File::open(&path).ok();
        Self { path, file }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's text, in `buffer`.
    pub(crate) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Reading<&'b str> {
        let length = self.fill(buffer).map_err(|e| Gap::from(read_error(&self.path, e)))?;
        std::str::from_utf8(&buffer[..length])
            .map_err(|_| Gap::failed(format!("{} is no text", self.path.display())))
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(File::open(&self.path)?);
        }
        let Some(file) = &self.file else { return Ok(0) };
        if buffer.len() < 4096 {
            buffer.resize(4096, 0);
        }
        let mut length = 0;
        loop {
            let got = file.read_at(&mut buffer[length..], length as u64)?;
            length += got;
            // The kernel fills a page at most; a full buffer means that there may be more.
            if got == 0 || length < buffer.len() {
                break;
            }
            buffer.resize(buffer.len() * 2, 0);
        }
        Ok(length)
    }
}
