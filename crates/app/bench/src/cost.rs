//! What an agent costs: CPU time in user space and in eBPF, memory; how long threads waited for a CPU.

use std::fs;
use std::path::Path;

/// Counters of a process, as `/proc` tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessCost {
    /// CPU time of all its threads, system calls included.
    pub(crate) cpu_ns: u64,
    /// Run time of the eBPF programs that it holds; counted only while the kernel's statistics
    /// are on (`quell guard --bpf-stats`).
    pub(crate) bpf_ns: u64,
    /// Resident memory.
    pub(crate) rss_bytes: u64,
}

impl ProcessCost {
    /// Reads them; what cannot be read counts as 0.
    pub(crate) fn of(pid: u32) -> Self {
        let home = Path::new("/proc").join(pid.to_string());
        let programs = list(&home.join("fdinfo"));
        let bpf = programs.iter().filter_map(|file| read(file));
        let status = read(&home.join("status")).unwrap_or_default();
        Self {
            cpu_ns: scheduled(&home, 0),
            bpf_ns: bpf.filter_map(|text| number_after(&text, "run_time_ns:")).sum(),
            rss_bytes: number_after(&status, "VmRSS:").unwrap_or(0) * 1024,
        }
    }
}

/// How long the threads of the processes listed in this `cgroup.procs` file were ready and had no CPU,
/// in nanoseconds; those that ended are missing.
pub(crate) fn waited_ns(procs: &Path) -> u64 {
    let pids = read(procs).unwrap_or_default();
    pids.lines().map(|pid| scheduled(&Path::new("/proc").join(pid), 1)).sum()
}

/// The sum over a process' threads of a column of `schedstat`: 0 ran, 1 waited, in nanoseconds.
fn scheduled(home: &Path, column: usize) -> u64 {
    let of = |thread: &std::path::PathBuf| {
        let text = read(&thread.join("schedstat"))?;
        text.split_whitespace().nth(column)?.parse::<u64>().ok()
    };
    list(&home.join("task")).iter().filter_map(of).sum()
}

fn list(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).collect()
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_after_their_key() {
        let text = "prog_type:\t8\nrun_time_ns:\t4711\nrun_cnt:\t3\n";
        assert_eq!(number_after(text, "run_time_ns:"), Some(4711));
        assert_eq!(number_after(text, "VmRSS:"), None);
    }

    #[test]
    fn a_process_that_works_costs() {
        let before = ProcessCost::of(std::process::id());
        let mut sum = 0_u64;
        while ProcessCost::of(std::process::id()).cpu_ns <= before.cpu_ns {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        assert!(before.rss_bytes > 100_000 && sum < u64::MAX);
    }

    #[test]
    fn waits_are_those_of_the_processes_named() {
        let procs = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(waited_ns(procs.path()), 0, "nobody waits");
        fs::write(procs.path(), format!("{}\n999999999\n", std::process::id())).unwrap();
        let before = waited_ns(procs.path());
        let stop = std::sync::atomic::AtomicBool::new(false);
        let cpus = std::thread::available_parallelism().unwrap().get();
        // More loops than CPUs cannot but wait for each other.
        std::thread::scope(|scope| {
            for _ in 0..=cpus {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            while waited_ns(procs.path()) == before {}
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
