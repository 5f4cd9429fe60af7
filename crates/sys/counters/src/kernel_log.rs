//! The kernel's log of split and bus locks: who took one at all, where nothing counts them.
//!
//! Kernels since 5.7 trap an atomic operation across two cache lines (`#AC`), since 5.13 any bus lock
//! (`#DB`), where the processor can, and write a line for it:
//!
//! ```text
//! x86/split lock detection: #AC: NAME/TID took a split_lock trap at address: 0x401234
//! ```
//!
//! That is each thread's first split lock only, and at most ten lines in five seconds: it says who made
//! any, not how many, and that no line comes says nothing. Lines that a program wrote into the log are not
//! believed: the kernel marks them as of another facility than its own.

use crate::file;
use crate::perf::kernel_traps;
use quell_types::{Gap, Reading};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longer records there are none.
const LONGEST: usize = 8192;
/// Most reads at a time: the rest is read the next time.
const MOST_READS: usize = 256;
/// The first process namespace: the kernel's log tells threads by their numbers in it.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A line in which the kernel tells of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTrap {
    /// The thread that made it.
    pub tid: u32,
    /// What it was trapped for.
    pub kind: LockTrapKind,
}

/// What a thread was trapped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTrapKind {
    /// An atomic operation across two cache lines, before it was made.
    SplitLock,
    /// Any bus lock, after it was made.
    BusLock,
}

impl LockTrap {
    /// Reads a line of `/dev/kmsg`; none if it is about something else or is not the kernel's own.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (head, message) = line.split_once(';')?;
        let priority: u32 = head.split(',').next()?.parse().ok()?;
        // Below eight: facility 0, which programs cannot write.
        if priority >= 8 {
            return None;
        }
        let told = message.strip_prefix("x86/split lock detection: ")?;
        let of = |kind, mark: &str, words: &str| {
            // Threads may call themselves anything, so the line is read from its end.
            let (who, address) = told.strip_prefix(mark)?.rsplit_once(words)?;
            let is_address = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit());
            let (_, tid) = who.rsplit_once('/')?;
            let digits = tid.bytes().all(|b| b.is_ascii_digit());
            let tid = tid.parse().ok().filter(|tid| digits && is_address && *tid > 0)?;
            Some(Self { tid, kind })
        };
        of(LockTrapKind::SplitLock, "#AC: ", " took a split_lock trap at address: 0x")
            .or_else(|| of(LockTrapKind::BusLock, "#DB: ", " took a bus_lock trap at address: 0x"))
    }
}

/// The log from the moment on at which it was opened.
#[derive(Debug)]
pub struct KernelLog {
    log: File,
    /// A line of which the end is not there yet.
    begun: Vec<u8>,
}

impl KernelLog {
    /// Opens the log of the machine below `root`, where the kernel traps locks and tells of them.
    ///
    /// # Errors
    /// Absent if it does not, or if this process sees other numbers of threads than the kernel; failed
    /// if the log may not be read.
    pub fn open(root: &Path) -> Reading<Self> {
        let how = kernel_traps(root)?;
        if how.ends_with("fatal") {
            return Err(Gap::absent(format!("{how}: who makes such a lock is ended, not told of")));
        }
        let namespace = fs::read_link(root.join("proc/self/ns/pid"));
        if namespace.is_ok_and(|name| name.as_os_str() != FIRST_NAMESPACE) {
            return Err(Gap::absent(
                "the numbers of threads are not those of the kernel's log here",
            ));
        }
        let path = root.join("dev/kmsg");
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let mut log = opened.map_err(|error| file::gap(&path, &error))?;
        log.seek(SeekFrom::End(0)).map_err(|error| file::gap(&path, &error))?;
        Ok(Self { log, begun: Vec::new() })
    }

    /// What the kernel told since the last call; never waits. Of a log that grows faster than it is read
    /// the kernel drops the oldest.
    ///
    /// # Errors
    /// Failed if it cannot be read any more.
    pub fn lock_traps(&mut self) -> Reading<Vec<LockTrap>> {
        let (mut traps, mut buffer) = (Vec::new(), [0; LONGEST]);
        for _ in 0..MOST_READS {
            match self.log.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.take(&buffer[..length], &mut traps),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Interrupted, or records were dropped: the next read goes on with what is there.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => self.begun.clear(),
                Err(error) => return Err(file::gap(Path::new("/dev/kmsg"), &error)),
            }
        }
        Ok(traps)
    }

    fn take(&mut self, bytes: &[u8], traps: &mut Vec<LockTrap>) {
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.begun.drain(..=end).collect();
            traps.extend(LockTrap::parse(&String::from_utf8_lossy(&line[..end])));
        }
        if self.begun.len() > LONGEST {
            self.begun.clear();
        }
    }
}

/// What the log tells, for `quell doctor`.
pub(crate) fn told(root: &Path) -> Reading<String> {
    KernelLog::open(root)?;
    Ok(format!("each thread's first in the kernel's log ({})", kernel_traps(root)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SPLIT: &str = "4,812,5130412,-;x86/split lock detection: #AC: locker/4211 took a split_lock \
                         trap at address: 0x401c2b";
    const BUS: &str = "4,813,5130999,-,caller=T77;x86/split lock detection: #DB: CPU 0/KVM/77 took a \
                       bus_lock trap at address: 0x7f00dead";

    /// A machine that traps locks, with this log.
    fn machine(log: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let cpu = "processor\t: 0\nflags\t\t: fpu split_lock_detect\n";
        for (path, text) in [("proc/cpuinfo", cpu), ("proc/cmdline", "quiet\n"), ("dev/kmsg", log)]
        {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn append(root: &tempfile::TempDir, text: &str) {
        let log = OpenOptions::new().append(true).open(root.path().join("dev/kmsg"));
        log.unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn both_kinds_of_trap_are_read_whatever_a_thread_is_called() {
        let of = |tid, kind| Some(LockTrap { tid, kind });
        assert_eq!(LockTrap::parse(SPLIT), of(4211, LockTrapKind::SplitLock));
        assert_eq!(LockTrap::parse(BUS), of(77, LockTrapKind::BusLock));
        let strange = SPLIT.replace("locker", "a/9 took a");
        assert_eq!(LockTrap::parse(&strange), of(4211, LockTrapKind::SplitLock));
    }

    #[test]
    fn what_is_not_the_kernels_word_is_not_believed() {
        let user = SPLIT.replacen("4,", "12,", 1);
        let other = SPLIT.replace("#AC", "#DB");
        let fatal = SPLIT.replace("took a split_lock", "fatal split_lock");
        let quoted = SPLIT.replacen(";x86", ";init: x86", 1);
        for line in
            [user, other, fatal, quoted, SPLIT.replace("4211", "-1"), SPLIT.replace("0x", "")]
                .iter()
                .map(String::as_str)
                .chain(["", ";", " SUBSYSTEM=cpu", "4,1,1,-;eth0: link up", "x;x"])
        {
            assert_eq!(LockTrap::parse(line), None, "{line}");
        }
    }

    #[test]
    fn only_what_comes_after_it_was_opened_is_told_and_once() {
        let root = machine(&format!("{SPLIT}\n"));
        let mut log = KernelLog::open(root.path()).unwrap();
        assert_eq!(log.lock_traps(), Ok(vec![]));
        append(&root, &format!("6,814,1,-;eth0: link up\n SUBSYSTEM=net\n{BUS}\n{}", &SPLIT[..40]));
        let tids = |log: &mut KernelLog| -> Vec<u32> {
            log.lock_traps().unwrap().iter().map(|trap| trap.tid).collect()
        };
        assert_eq!(tids(&mut log), [77], "half a line waits for its end");
        append(&root, &format!("{}\n", &SPLIT[40..]));
        assert_eq!(tids(&mut log), [4211]);
        assert!(tids(&mut log).is_empty());
    }

    #[test]
    fn a_flood_is_read_in_parts_and_nothing_of_it_is_lost() {
        let root = machine("");
        let mut log = KernelLog::open(root.path()).unwrap();
        append(&root, &format!("{SPLIT}\n").repeat(MOST_READS * LONGEST / SPLIT.len() + 1000));
        let first = log.lock_traps().unwrap().len();
        let rest = log.lock_traps().unwrap().len();
        assert!(first > 0 && rest > 0);
        assert_eq!(first + rest, MOST_READS * LONGEST / SPLIT.len() + 1000);
        append(&root, &"x".repeat(3 * LONGEST));
        assert_eq!(log.lock_traps(), Ok(vec![]));
        assert!(log.begun.len() <= LONGEST, "an endless line is not kept");
    }

    #[test]
    fn where_it_cannot_be_told_the_reason_is_said() {
        let silent = machine("");
        fs::write(silent.path().join("proc/cpuinfo"), "flags\t: fpu\n").unwrap();
        let why = |root: &tempfile::TempDir| KernelLog::open(root.path()).unwrap_err().to_string();
        assert!(why(&silent).contains("traps no such locks"));
        let fatal = machine("");
        fs::write(fatal.path().join("proc/cmdline"), "split_lock_detect=fatal\n").unwrap();
        assert!(why(&fatal).contains("ended"));
        let without = machine("");
        fs::remove_file(without.path().join("dev/kmsg")).unwrap();
        assert!(why(&without).contains("dev/kmsg"));
        let inner = machine("");
        fs::create_dir_all(inner.path().join("proc/self/ns")).unwrap();
        let link = inner.path().join("proc/self/ns/pid");
        std::os::unix::fs::symlink("pid:[4026532000]", &link).unwrap();
        assert!(why(&inner).contains("numbers of threads"));
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(FIRST_NAMESPACE, &link).unwrap();
        assert!(told(inner.path()).unwrap().contains("first"));
    }
}
