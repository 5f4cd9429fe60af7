//! A program under measurement: bound to CPUs, in a process group of its own, and never left behind.

use crate::affinity;
use quell_types::CpuSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpriority_process, kill_process_group,
    pidfd_open, set_parent_process_death_signal, setpriority_process, waitid,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command};
use std::time::Duration;

/// A child and all that it starts in its process group. Dropping it kills and reaps them.
#[derive(Debug)]
pub struct Bound {
    child: Child,
    group: Pid,
    watch: OwnedFd,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

/// Starts a program in a process group of its own, on these CPUs (none: where we are). It is killed
/// when the calling thread ends, however that happens. A caller that runs at raised priority does not
/// pass it on.
///
/// # Errors
/// CPUs that do not exist or are not allowed; a program that cannot be started.
pub fn spawn_bound(command: &mut Command, cpus: &CpuSet) -> io::Result<Bound> {
    let mask = match affinity::mask(cpus) {
        None if !cpus.is_empty() => return Err(io::ErrorKind::InvalidInput.into()),
        mask => mask,
    };
    command.process_group(0);
    let prepare = move || {
        if let Some(mask) = &mask {
            rustix::thread::sched_setaffinity(None, mask)?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getpriority_process(None)? < 0 {
            setpriority_process(None, 0)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes a few system calls and touches no memory but
    // its own mask, which was built before; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    match pidfd_open(group, PidfdFlags::empty()) {
        Ok(watch) => Ok(Bound { child, group, watch }),
        Err(e) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(e.into())
        }
    }
}

impl Bound {
    /// Its process id, which is its group's too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child's output, where it was asked to be piped; once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// CPU time of the child itself, as [`process_cpu_time`] has it.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        process_cpu_time(self.id())
    }

    /// Stops the group until [`Bound::resume`].
    ///
    /// # Errors
    /// The group is gone.
    pub fn pause(&self) -> io::Result<()> {
        Ok(kill_process_group(self.group, Signal::STOP)?)
    }

    /// Lets the group go on.
    ///
    /// # Errors
    /// The group is gone.
    pub fn resume(&self) -> io::Result<()> {
        Ok(kill_process_group(self.group, Signal::CONT)?)
    }

    /// Waits until the child has ended, `timeout` at most. It is not reaped before it is dropped, so
    /// what `/proc` tells of it can still be read.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<Ended>> {
        let left = Timespec::try_from(timeout).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.watch, PollFlags::IN)], Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), how)?;
        Ok(status.map(|status| match status.exit_status() {
            Some(code) => Ended::Status(code),
            None => Ended::Signal(status.terminating_signal().unwrap_or(0)),
        }))
    }
}

/// CPU time of all threads of a process, of those that have ended too, and not of its children. It can
/// be asked as long as the process is not reaped. None if there is no such process.
#[must_use]
pub fn process_cpu_time(pid: u32) -> Option<Duration> {
    // 0 would be the caller itself.
    let pid = libc::pid_t::try_from(pid).ok().filter(|&pid| pid > 0)?;
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: each call writes what it is given, the clock's name and the time, and nothing else; both fail
    // where there is no such process.
    let told = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    told.then(|| Duration::new(seconds, nanos))
}

impl Drop for Bound {
    fn drop(&mut self) {
        // The child is not reaped before, so the group's number cannot have become another's.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    const LONG: Duration = Duration::from_secs(30);

    fn start(script: &str) -> Bound {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        spawn_bound(&mut command, &CpuSet::new()).unwrap()
    }

    #[test]
    fn its_end_is_told_and_it_is_reaped_when_dropped() {
        for (script, end) in [("exit 3", Ended::Status(3)), ("kill -9 $$", Ended::Signal(9))] {
            let child = start(script);
            assert_eq!(child.wait(LONG).unwrap(), Some(end));
            let stat = format!("/proc/{}/stat", child.id());
            assert!(std::fs::exists(&stat).unwrap(), "not reaped yet");
            drop(child);
            assert!(!std::fs::exists(&stat).unwrap());
        }
    }

    #[test]
    fn what_it_started_ends_with_it_even_while_stopped() {
        use std::io::{BufRead, BufReader};
        let mut child = start("sleep 600 & echo $!; wait");
        let mut line = String::new();
        BufReader::new(child.take_stdout().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(child.wait(Duration::ZERO).unwrap(), None);
        child.pause().unwrap();
        drop(child);
        let stat = format!("/proc/{}/stat", line.trim());
        let gone = || match std::fs::read_to_string(&stat) {
            Ok(stat) => {
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
            }
            Err(_) => true,
        };
        let end = std::time::Instant::now() + LONG;
        while !gone() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(gone(), "the grandchild {line} goes on");
    }

    #[test]
    fn threads_that_have_ended_count() {
        let before = process_cpu_time(std::process::id()).unwrap();
        let worked = || {
            let begun = crate::worker::cpu_time();
            while crate::worker::cpu_time() - begun < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        };
        std::thread::spawn(worked).join().unwrap();
        let after = process_cpu_time(std::process::id()).unwrap();
        assert!(after - before >= Duration::from_millis(20), "{before:?} {after:?}");
        assert_eq!(process_cpu_time(0), None);
        assert_eq!(process_cpu_time(u32::MAX), None);
    }

    #[test]
    fn who_has_ended_is_asked_until_it_is_dropped() {
        let child = start("i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done");
        child.wait(LONG).unwrap().unwrap();
        assert!(child.cpu_time().unwrap() > Duration::ZERO);
    }

    #[test]
    fn absent_cpus_are_refused() {
        let mut command = Command::new("true");
        assert!(spawn_bound(&mut command, &CpuSet::of(60_000)).is_err());
        assert!(spawn_bound(&mut Command::new("/nowhere"), &CpuSet::new()).is_err());
    }
}
