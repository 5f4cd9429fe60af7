//! What an agent costs: CPU time in user space and in eBPF, memory.

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
        let threads = list(&home.join("task"));
        let cpu = threads.iter().filter_map(|thread| read(&thread.join("schedstat")));
        let programs = list(&home.join("fdinfo"));
        let bpf = programs.iter().filter_map(|file| read(file));
        let status = read(&home.join("status")).unwrap_or_default();
        Self {
            cpu_ns: cpu
                .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
                .sum(),
            bpf_ns: bpf.filter_map(|text| number_after(&text, "run_time_ns:")).sum(),
            rss_bytes: number_after(&status, "VmRSS:").unwrap_or(0) * 1024,
        }
    }
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
}
