//! The system call and the part of its argument that counting needs.

use super::event::Event;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const FORMAT_GROUP: u64 = 1 << 3;
const DISABLED: u64 = 1 << 0;
const IOC_ENABLE: libc::c_ulong = 0x2400;

/// `struct perf_event_attr` in its second version (72 bytes), which every kernel since 2.6.33
/// takes; the fields that came later default to 0.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

/// Whom one file descriptor counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// One thread on any CPU; 0 = the caller.
    Task(i32),
    /// Everything on one CPU.
    Cpu(u32),
    /// The threads of a cgroup (an open directory) on one CPU.
    Cgroup(RawFd, u32),
}

/// Opens an event: as the leader of a group (stopped until [`enable`]), or as one more of
/// `leader`'s.
pub(crate) fn open(event: Event, scope: Scope, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let (kind, config) = event.code();
    let attr = Attr {
        kind,
        config,
        size: size_of::<Attr>() as u32,
        read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING | FORMAT_GROUP,
        flags: if leader.is_none() { DISABLED } else { 0 },
        ..Attr::default()
    };
    let (pid, cpu, mode) = match scope {
        Scope::Task(task) => (task, -1, 0),
        Scope::Cpu(cpu) => (-1, cpu as i32, 0),
        Scope::Cgroup(dir, cpu) => (dir, cpu as i32, FLAG_PID_CGROUP),
    };
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` outlives the call, `size` is its true size, and the call writes only to it
    // (its size field, when it refuses it).
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            pid,
            cpu,
            group,
            mode | FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Starts a leader and with it its group.
pub(crate) fn enable(leader: &OwnedFd) -> io::Result<()> {
    // SAFETY: IOC_ENABLE takes a number and no pointer; the descriptor is open.
    let result = unsafe { libc::ioctl(leader.as_raw_fd(), IOC_ENABLE as _, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads a group: time enabled, time running, and one value for each event in the order in which
/// they were opened.
pub(crate) fn read(leader: &OwnedFd, events: usize) -> io::Result<(u64, u64, Vec<u64>)> {
    // Number of events, time enabled, time running, values.
    let mut words = vec![0u64; 3 + events];
    let bytes = words.len() * size_of::<u64>();
    // SAFETY: the buffer is `bytes` long, and any bits are a valid u64.
    let got = unsafe { libc::read(leader.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
    match usize::try_from(got) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(got) if got == bytes && words[0] == events as u64 => {
            Ok((words[1], words[2], words.split_off(3)))
        }
        // An event that could never be placed on the PMU reads as nothing.
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the kernel has stopped this group of events",
        )),
    }
}
