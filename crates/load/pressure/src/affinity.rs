//! Which CPUs a thread may run on.

use crate::PressureError;
use quell_types::CpuSet;
use rustix::process::Pid;
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use, as its first thread has them: a thread that bound itself to
/// one of them may still start others elsewhere.
///
/// # Errors
/// The kernel does not tell.
pub fn allowed() -> Result<CpuSet, PressureError> {
    mask_of(Some(rustix::process::getpid()))
}

/// The CPUs that a thread may use; none: the calling one.
fn mask_of(thread: Option<Pid>) -> Result<CpuSet, PressureError> {
    let mask = sched_getaffinity(thread)
        .map_err(|e| PressureError::system("cannot read the CPU mask of", "this process", e))?;
    let known = u32::try_from(Mask::MAX_CPU).unwrap_or(u32::MAX);
    Ok((0..known).filter(|&cpu| mask.is_set(cpu as usize)).collect())
}

/// Binds the calling thread to one CPU.
pub(crate) fn bind(cpu: u32) -> Result<(), PressureError> {
    bind_all(&CpuSet::of(cpu))
}

/// Binds the calling thread, and all that it will start, to these CPUs.
///
/// # Errors
/// A CPU that does not exist or that this process may not use; no CPU at all.
pub fn bind_all(cpus: &CpuSet) -> Result<(), PressureError> {
    let refuse = |e: std::io::Error| {
        PressureError::system("cannot bind a thread to CPU", cpus.to_string(), e)
    };
    let mask = mask(cpus).ok_or_else(|| refuse(std::io::ErrorKind::InvalidInput.into()))?;
    sched_setaffinity(None, &mask).map_err(|e| refuse(e.into()))
}

/// Lets the calling thread run before all that is not real-time itself, at the least such priority: for looks of
/// some hundred microseconds, which who works there meanwhile is made to wait for.
///
/// # Errors
/// The system does not permit it.
pub fn run_before_others() -> Result<(), PressureError> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is only read, and lives until the call returns; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } == 0 {
        return Ok(());
    }
    let refused = std::io::Error::last_os_error();
    Err(PressureError::system("cannot set the priority of", "a thread".to_owned(), refused))
}

/// Binds all threads of a process, and all that they will start, to these CPUs.
///
/// # Errors
/// There is no such process, it is somebody else's, or a CPU may not be used.
pub fn bind_process(process: u32, cpus: &CpuSet) -> Result<(), PressureError> {
    let failed =
        |e| PressureError::system("cannot bind the threads of process", process.to_string(), e);
    let mask = mask(cpus).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    for entry in std::fs::read_dir(format!("/proc/{process}/task")).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match sched_setaffinity(thread, &mask) {
            // A thread that ended since has no place any more.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => return Err(failed(e.into())),
        }
    }
    Ok(())
}

/// As the kernel wants it; none if it knows no such CPU.
pub(crate) fn mask(cpus: &CpuSet) -> Option<Mask> {
    let mut mask = Mask::new();
    for cpu in cpus.iter() {
        if cpu as usize >= Mask::MAX_CPU {
            return None;
        }
        mask.set(cpu as usize);
    }
    (!cpus.is_empty()).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_has_one_cpu() {
        let first = allowed().unwrap().first(1);
        let cpu = first.iter().next().unwrap();
        let bind_and_look = move || bind(cpu).map(|()| (mask_of(None), allowed()));
        let (own, process) = std::thread::spawn(bind_and_look).join().unwrap().unwrap();
        assert_eq!(own.unwrap(), first);
        assert_eq!(process.unwrap(), allowed().unwrap(), "the others are as free as before");
        assert!(bind(60_000).is_err());
    }

    #[test]
    fn who_runs_before_others_is_real_time() {
        let told = std::thread::spawn(|| {
            let risen = run_before_others();
            (risen, std::fs::read_to_string("/proc/thread-self/stat"))
        });
        let (risen, stat) = told.join().unwrap();
        let stat = stat.unwrap();
        // Behind the name in brackets: 40th of all fields, the real-time priority.
        let after = stat.rsplit(')').next().unwrap();
        assert_eq!(after.split_whitespace().nth(37), Some(if risen.is_ok() { "1" } else { "0" }));
    }

    #[test]
    fn a_process_is_bound_with_all_its_threads() {
        let cpus = allowed().unwrap().first(1);
        let mut command = std::process::Command::new("sleep");
        let child = crate::spawn_bound(command.arg("60"), &allowed().unwrap()).unwrap();
        bind_process(child.id(), &cpus).unwrap();
        let child_pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        assert_eq!(mask_of(child_pid).unwrap(), cpus);
        assert!(bind_process(child.id(), &CpuSet::new()).is_err(), "no CPU");
        assert!(bind_process(u32::MAX, &cpus).unwrap_err().to_string().contains("4294967295"));
    }
}
