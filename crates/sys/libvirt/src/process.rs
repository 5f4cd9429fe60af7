//! The process of a machine and its threads, from `/proc`.
//!
//! libvirt's protocol does not tell a machine's process. It starts QEMU with the machine's UUID and
//! name on its command line (`-uuid …`, `-name guest=NAME,debug-threads=on`), and has it name its
//! threads: `CPU 2/KVM` carries the third virtual CPU, `CPU 2/TCG` does where no KVM is, and
//! `ALL CPUs/TCG` carries all of them; `IO iothread1` is the I/O thread of number 1.

use crate::Uuid;
use quell_types::{CpuSet, Gap, Reading};
use std::fs;
use std::path::Path;

/// What a thread of a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It carries this virtual CPU.
    Vcpu(u32),
    /// It carries all virtual CPUs in turn.
    AllVcpus,
    /// It is this I/O thread.
    Iothread(u32),
    /// Anything else: the emulator and its workers.
    Other,
}

/// A thread of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// What it does.
    pub role: Role,
    /// The host's CPUs it may run on.
    pub cpus: CpuSet,
}

/// The process of the machine with this UUID, found by its command line below `proc`.
#[must_use]
pub fn process_of(proc: &Path, uuid: &Uuid) -> Option<u32> {
    let uuid = uuid.to_string();
    let entries = fs::read_dir(proc).ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| carries(&proc.join(pid.to_string()).join("cmdline"), &uuid)).min()
}

/// Whether this command line is QEMU's for the machine.
fn carries(path: &Path, uuid: &str) -> bool {
    let line = fs::read(path).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let mut named = false;
    let mut found = false;
    while let Some(word) = words.next() {
        match word {
            b"-uuid" => found |= words.next() == Some(uuid.as_bytes()),
            b"-name" => named |= words.next().is_some_and(|name| name.starts_with(b"guest=")),
            _ => {}
        }
    }
    found && named
}

/// The threads of a machine's process, rising; those that end meanwhile are left out.
///
/// # Errors
/// A gap if the process is gone.
pub fn threads(proc: &Path, pid: u32) -> Reading<Vec<Thread>> {
    let folder = proc.join(pid.to_string()).join("task");
    let gone = |error| Gap::Gone(format!("{}: {error}", folder.display()));
    let entries = fs::read_dir(&folder).map_err(gone)?.flatten();
    let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let one = |tid: u32| {
        let folder = folder.join(tid.to_string());
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        Some(Thread { tid, role: role(name.trim_end()), cpus: allowed(&status)? })
    };
    let mut all: Vec<Thread> = tids.filter_map(one).collect();
    all.sort_by_key(|thread| thread.tid);
    if all.is_empty() {
        return Err(Gap::Gone(format!("{}: no thread is left", folder.display())));
    }
    Ok(all)
}

pub(crate) fn role(name: &str) -> Role {
    if let Some(number) = name.strip_prefix("IO iothread") {
        return number.parse().map_or(Role::Other, Role::Iothread);
    }
    let ends = |rest: &str| rest == "KVM" || rest == "TCG" || rest == "HVF" || rest == "WHPX";
    let Some((who, by)) = name.split_once('/').filter(|(_, by)| ends(by)) else {
        return Role::Other;
    };
    let number = who.strip_prefix("CPU ").and_then(|number| number.parse().ok());
    match (who, number, by) {
        ("ALL CPUs", _, "TCG") => Role::AllVcpus,
        (_, Some(number), _) => Role::Vcpu(number),
        _ => Role::Other,
    }
}

/// `Cpus_allowed_list` of a thread's status.
pub(crate) fn allowed(status: &str) -> Option<CpuSet> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_by_the_names_that_qemu_gives() {
        for (name, wanted) in [
            ("CPU 0/KVM", Role::Vcpu(0)),
            ("CPU 127/KVM", Role::Vcpu(127)),
            ("CPU 3/TCG", Role::Vcpu(3)),
            ("ALL CPUs/TCG", Role::AllVcpus),
            ("qemu-system-x86", Role::Other),
            ("IO mon_iothread", Role::Other),
            ("IO iothread12", Role::Iothread(12)),
            ("IO iothreadx", Role::Other),
            ("CPU x/KVM", Role::Other),
            ("CPU 1/", Role::Other),
            ("worker/0", Role::Other),
            ("", Role::Other),
        ] {
            assert_eq!(role(name), wanted, "{name}");
        }
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    const UUID: &str = "c7a5fdbd-edaf-9455-926a-d65c16db1809";

    #[test]
    fn a_process_is_found_by_its_uuid_and_by_being_a_machine() {
        let dir = tempfile::tempdir().unwrap();
        let qemu = format!("qemu\0-name\0guest=g1,debug-threads=on\0-uuid\0{UUID}\0");
        write(dir.path(), "41/cmdline", &qemu);
        write(dir.path(), "7/cmdline", &format!("grep\0-uuid\0{UUID}\0"));
        write(dir.path(), "8/cmdline", "qemu\0-name\0guest=g2\0-uuid\0x\0");
        write(dir.path(), "self/cmdline", &qemu);
        assert_eq!(process_of(dir.path(), &UUID.parse().unwrap()), Some(41));
        assert_eq!(process_of(dir.path(), &Uuid([0; 16])), None);
        assert_eq!(process_of(&dir.path().join("none"), &Uuid([0; 16])), None);
    }

    #[test]
    fn threads_tell_what_they_do_and_where_they_may_run() {
        let dir = tempfile::tempdir().unwrap();
        for (tid, name, cpus) in [(41, "qemu-system-x86", "0-1"), (43, "CPU 0/KVM", "1")] {
            write(dir.path(), &format!("41/task/{tid}/comm"), &format!("{name}\n"));
            let status = format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\nMems_allowed:\t1\n");
            write(dir.path(), &format!("41/task/{tid}/status"), &status);
        }
        let seen = threads(dir.path(), 41).unwrap();
        let list = |text: &str| text.parse::<CpuSet>().unwrap();
        let wanted = [
            Thread { tid: 41, role: Role::Other, cpus: list("0-1") },
            Thread { tid: 43, role: Role::Vcpu(0), cpus: list("1") },
        ];
        assert_eq!(seen, wanted);
        assert!(matches!(threads(dir.path(), 42), Err(Gap::Gone(_))));
    }
}
