//! The group of a virtual machine that libvirt runs.
//!
//! libvirt puts each machine into a group of its own: with systemd a scope in `machine.slice`
//! (`machine-qemu\x2d3\x2dNAME.scope`), else `/machine/qemu-3-NAME.libvirt-qemu`, or either in a
//! partition that the machine's definition names; the number is another after each start, and long
//! names are cut. Below lie groups for the emulator, for each virtual CPU and each I/O thread; with
//! systemd, of newer versions, in a group `libvirt`. So the machine is found by the process that libvirt says it is, and the group
//! by going up from there. Source: <https://libvirt.org/cgroups.html>.

use crate::CgroupError;
use crate::group::{Group, Place};
use crate::layout::Layout;

/// Where libvirt's QEMU driver keeps what it knows of machines that run.
const RUNNING: &str = "run/libvirt/qemu";

impl Group {
    /// The group of a virtual machine that libvirt runs on QEMU, in every hierarchy, with
    /// everything below it.
    ///
    /// # Errors
    /// No such machine runs.
    pub fn of_vm(layout: &Layout, name: &str) -> Result<Self, CgroupError> {
        let none = |why: String| CgroupError::NoVm { name: name.to_owned(), why };
        let file = layout.root().join(RUNNING).join(format!("{name}.pid"));
        let text = std::fs::read_to_string(&file)
            .map_err(|error| none(format!("{}: {error}", file.display())))?;
        let pid: u32 =
            text.trim().parse().map_err(|_| none(format!("{} is no number", file.display())))?;
        Self::of_vm_process(layout, name, pid)
    }

    /// The same by the machine's process, where somebody else has told it.
    ///
    /// # Errors
    /// The process is not that machine's (any more), or in no group that is the machine's own: there
    /// libvirt makes none, or has not yet. Who limited that group would limit others in it.
    pub fn of_vm_process(layout: &Layout, name: &str, pid: u32) -> Result<Self, CgroupError> {
        // A file that libvirt left behind may name somebody else by now.
        if !is_machine(layout, pid, name) {
            let why = format!("process {pid} is not it any more");
            return Err(CgroupError::NoVm { name: name.to_owned(), why });
        }
        Self::above_pid(layout, pid, machine_part).map_err(|error| match error {
            CgroupError::RootGroup { .. } => CgroupError::NoVm {
                name: name.to_owned(),
                why: format!("its process {pid} is in no group that libvirt made for it"),
            },
            other => other,
        })
    }

    /// The group that libvirt puts a machine's own limits on: `libvirt` below a scope that systemd
    /// made for it, else the machine's group itself.
    #[must_use]
    pub fn limits_of_vm(&self) -> Self {
        let below = |place: &Place| {
            let dir = place.dir.join("libvirt");
            if dir.is_dir() { Place { dir, ..place.clone() } } else { place.clone() }
        };
        self.with_places(self.places().iter().map(below).collect())
    }
}

/// Whether a process is QEMU with this machine: libvirt says so on its command line.
fn is_machine(layout: &Layout, pid: u32, name: &str) -> bool {
    let path = layout.root().join(format!("proc/{pid}/cmdline"));
    let line = std::fs::read(path).unwrap_or_default();
    // A comma in a name is written twice; one alone ends it.
    let wanted = format!("guest={}", name.replace(',', ",,"));
    let mut words = line.split(|&byte| byte == 0);
    words.any(|word| match word.strip_prefix(wanted.as_bytes()) {
        Some(rest) => rest.is_empty() || rest[0] == b',' && rest.get(1) != Some(&b','),
        None => false,
    })
}

/// The part of a group's path that ends with the machine's own group, if there is one.
fn machine_part(path: &str) -> Option<&str> {
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        if is_machines(part) {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

/// Whether a group is a machine's own: after the driver stands the number of the start. A partition
/// that somebody named after QEMU has none.
fn is_machines(part: &str) -> bool {
    let numbered = |rest: &str, dash: &str| {
        let number = rest.split(dash).next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    // systemd writes a dash within a name as \x2d.
    let scope = part.strip_suffix(".scope").and_then(|part| part.strip_prefix("machine-qemu"));
    let scoped = scope.and_then(|rest| rest.strip_prefix(r"\x2d"));
    scoped.is_some_and(|rest| numbered(rest, r"\x2d"))
        || part.strip_prefix("qemu-").is_some_and(|rest| numbered(rest, "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_machines_own_group_is_above_those_of_its_threads() {
        for (path, part) in [
            (
                r"/machine.slice/machine-qemu\x2d3\x2dg1.scope/libvirt/emulator",
                r"/machine.slice/machine-qemu\x2d3\x2dg1.scope",
            ),
            ("/machine/qemu-1-g1.libvirt-qemu/vcpu0", "/machine/qemu-1-g1.libvirt-qemu"),
            ("/machine/qemu-1-g1", "/machine/qemu-1-g1"),
            (
                "/machine/qemu-tests.partition/qemu-12-g1.libvirt-qemu/emulator",
                "/machine/qemu-tests.partition/qemu-12-g1.libvirt-qemu",
            ),
            (
                r"/machine.slice/machine-qemu\x2dtests.slice/machine-qemu\x2d12\x2dg1.scope/emulator",
                r"/machine.slice/machine-qemu\x2dtests.slice/machine-qemu\x2d12\x2dg1.scope",
            ),
        ] {
            assert_eq!(machine_part(path), Some(part));
        }
        for path in [
            r"/machine.slice/machine-lxc\x2d3\x2dg1.scope",
            "/system.slice/libvirtd.service",
            "/user.slice",
            "/",
            "",
        ] {
            assert_eq!(machine_part(path), None, "{path}");
        }
    }

    /// A v2 machine with one guest, whose process is 41.
    fn host() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let scope = r"machine.slice/machine-qemu\x2d3\x2dg1.scope";
        write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpu cpuset\n");
        write(&format!("sys/fs/cgroup/{scope}/libvirt/emulator/cgroup.procs"), "41\n");
        write("proc/41/cgroup", &format!("0::/{scope}/libvirt/emulator\n"));
        write("proc/41/cmdline", "qemu-system-x86_64\0-name\0guest=g1,debug-threads=on\0");
        write("run/libvirt/qemu/g1.pid", "41\n");
        write("run/libvirt/qemu/gone.pid", "41\n");
        write("run/libvirt/qemu/odd.pid", "x\n");
        dir
    }

    #[test]
    fn a_machine_is_found_by_its_process() {
        let host = host();
        let layout = Layout::discover(host.path());
        let group = Group::of_vm(&layout, "g1").unwrap();
        assert!(group.v2().unwrap().dir.ends_with(r"machine-qemu\x2d3\x2dg1.scope"));
    }

    /// A group of every hierarchy is found: that of the machine, its limits', and the parts in it.
    #[test]
    fn every_layout_that_libvirt_has_is_known() {
        const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        const V1: &str = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                          cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                          cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        let scope = r"machine.slice/machine-qemu\x2d3\x2dmy\x2dvm.scope";
        let sliced = r"machine.slice/machine-prod.slice/machine-qemu\x2d3\x2dmy\x2dvm.scope";
        let plain = "machine/qemu-3-my-vm.libvirt-qemu";
        let parted = "machine/prod.partition/qemu-3-my-vm.libvirt-qemu";
        for (mounts, own, nested) in [
            (V2, scope, "/libvirt"),
            (V2, sliced, "/libvirt"),
            (V2, scope, ""),
            (V2, plain, ""),
            (V1, scope, ""),
            (V1, scope, "/libvirt"),
            (V1, plain, ""),
            (V1, parted, ""),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            write("proc/mounts", mounts);
            write("proc/41/cmdline", "qemu\0-name\0guest=my-vm,debug-threads=on\0");
            let limits = format!("{own}{nested}");
            // Controllers without parts of their own have the process in the machine's group.
            let lines = match mounts == V2 {
                true => format!("0::/{limits}/emulator\n"),
                false => format!(
                    "4:memory:/{limits}\n3:cpuset:/{limits}/emulator\n2:cpu,cpuacct:/{limits}/emulator\n"
                ),
            };
            write("proc/41/cgroup", &lines);
            let tops: &[&str] = match mounts == V2 {
                true => &["sys/fs/cgroup"],
                false => &["sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpuset"],
            };
            if mounts == V1 {
                write(&format!("sys/fs/cgroup/memory/{limits}/cgroup.procs"), "41\n");
            }
            for top in tops {
                for part in ["emulator", "vcpu0", "vcpu1", "iothread1"] {
                    write(&format!("{top}/{limits}/{part}/cgroup.procs"), "");
                }
            }
            let layout = Layout::discover(dir.path());
            let group = Group::of_vm_process(&layout, "my-vm", 41).unwrap();
            assert!(group.places().iter().all(|place| place.dir.ends_with(own)), "{group:?}");
            assert_eq!(group.places().len(), if mounts == V2 { 1 } else { 3 }, "{group:?}");
            let found = group.limits_of_vm();
            let place = if mounts == V2 { found.v2() } else { found.place("cpuset").ok() };
            assert!(place.unwrap().dir.ends_with(&limits), "{found:?}");
            assert_eq!(found.children().len(), 4, "{found:?}");
        }
    }

    #[test]
    fn a_name_with_commas_is_told_as_qemu_is_told_it() {
        let host = host();
        let layout = Layout::discover(host.path());
        for (line, name, is) in [
            ("guest=a,,b,debug-threads=on", "a,b", true),
            ("guest=a,,b", "a,b", true),
            ("guest=a,,b,debug-threads=on", "a", false),
            ("guest=a,debug-threads=on", "a,debug-threads=on", false),
            ("guest=ab,debug-threads=on", "a", false),
        ] {
            fs::write(host.path().join("proc/41/cmdline"), format!("qemu\0-name\0{line}\0"))
                .unwrap();
            assert_eq!(Group::of_vm_process(&layout, name, 41).is_ok(), is, "{line}: {name}");
        }
    }

    #[test]
    fn its_limits_lie_where_libvirt_puts_them() {
        let host = host();
        let layout = Layout::discover(host.path());
        let group = Group::of_vm_process(&layout, "g1", 41).unwrap();
        let limits = group.limits_of_vm();
        assert!(limits.v2().unwrap().dir.ends_with(r"machine-qemu\x2d3\x2dg1.scope/libvirt"));
        // Nothing lies below it: then it is the group itself.
        assert_eq!(limits.limits_of_vm(), limits);
    }

    #[test]
    fn a_machine_that_does_not_run_is_said_to_be_so() {
        let host = host();
        let layout = Layout::discover(host.path());
        for (name, why) in [("g2", "g2.pid"), ("gone", "not it any more"), ("odd", "no number")] {
            let error = Group::of_vm(&layout, name).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(why), "{error}");
        }
    }
}
