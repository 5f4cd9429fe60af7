//! Virtual machines of libvirt: found by its API, and what it owns of them set through it, so that
//! its own view (`virsh schedinfo`, `virsh vcpupin`) stays true.
//!
//! libvirt may be slow, so after the start all that is asked of it is asked by one thread
//! ([`worker`]); a setting that takes longer than [`knob::AT_ONCE`] reads as pending until it is
//! done. What the kernel can tell (a quota, where threads may run) is read from the kernel.

mod knob;
mod parts;
mod starting;
mod undo;
mod worker;

pub(crate) use knob::{VmKnob, is_libvirts};
pub(crate) use parts::Part;
pub(crate) use undo::{is_moot, undo};
pub(crate) use worker::Client;

use parts::Late;
use quell_cgroup::{CgroupError, Group, Layout};
use quell_libvirt::{
    Access, Connection, Domain, LibvirtError, Parameter, Uuid, Value, process_of, sockets,
};
use quell_topology::Machine;
use quell_types::{Capability, CpuSet};
use starting::Starts;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use worker::Worker;

/// How long one call may take while nothing else waits: at the start, and at the end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How often all processes are looked at for a machine that went away.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A quota of more microseconds than this is none (the kernel's largest).
const MOST_QUOTA_US: i64 = (1 << 44) - 1;

/// The group of a virtual machine: by libvirt's API where a socket of its answers, else by the
/// file that libvirt keeps of the machine's process.
///
/// # Errors
/// No such machine runs, as far as either tells; or libvirt is at starting it, and not done within ten
/// seconds.
pub fn find_vm(layout: &Layout, name: &str) -> Result<Group, CgroupError> {
    if sockets(layout.root()).is_empty() {
        return Group::of_vm(layout, name);
    }
    let found = match ask_for_process(layout.root(), name) {
        Ok(Asked::Starts) => return Err(no_vm(name, "libvirt is still at starting it".into())),
        Ok(Asked::Runs(pid)) => Group::of_vm_process(layout, name, pid),
        Err(why) => Err(no_vm(name, why)),
    };
    found.or_else(|asked| {
        // libvirt may be at its own restart while its machines run on.
        let by_file = Group::of_vm(layout, name);
        by_file.map_err(|error| no_vm(name, format!("{}; {}", why(asked), why(error))))
    })
}

fn no_vm(name: &str, why: String) -> CgroupError {
    CgroupError::NoVm { name: name.to_owned(), why }
}

fn why(error: CgroupError) -> String {
    match error {
        CgroupError::NoVm { why, .. } => why,
        other => other.to_string(),
    }
}

/// What libvirt says of a machine.
enum Asked {
    /// It runs, as this process.
    Runs(u32),
    /// It is being started.
    Starts,
}

fn ask_for_process(root: &Path, name: &str) -> Result<Asked, String> {
    let told = |error: LibvirtError| error.to_string();
    let mut connection = Connection::system(root, Access::Read, PATIENCE).map_err(told)?;
    let domain = connection.by_name(name).map_err(told)?;
    if domain.id.is_none() {
        return Err("libvirt says that it does not run".into());
    }
    if !starting::wait(&mut connection, name).map_err(told)? {
        return Ok(Asked::Starts);
    }
    let none = || format!("no process is QEMU with its UUID {}", domain.uuid);
    process_of(&root.join("proc"), &domain.uuid).map(Asked::Runs).ok_or_else(none)
}

/// Whether libvirt answers, which version it is, and how many machines run.
pub(crate) fn capability(root: &Path) -> Capability {
    match look(root) {
        Ok(seen) => Capability::Native(seen),
        Err(error) => Capability::Absent(error.to_string()),
    }
}

fn look(root: &Path) -> Result<String, LibvirtError> {
    let mut connection = Connection::system(root, Access::Read, PATIENCE)?;
    let (version, running) = (connection.version()?, connection.running()?.len());
    let socket = connection.socket().strip_prefix(root).unwrap_or(connection.socket());
    let machines = if running == 1 { "machine runs" } else { "machines run" };
    Ok(format!("libvirt {version} at /{}, {running} {machines}", socket.display()))
}

/// A machine as libvirt had it before anything was set.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(crate) domain: Domain,
    pub(crate) pid: u32,
    /// When its process started, in nanoseconds after boot.
    pub(crate) start_ns: u64,
    /// Period and quota of the whole machine in microseconds; none where libvirt has no cpu
    /// controller.
    pub(crate) bandwidth: Option<(u64, i64)>,
    /// Where each of its CPUs may run, those too that may yet be plugged in, and each I/O thread.
    pub(crate) parts: BTreeMap<Part, CpuSet>,
    /// Where the rest of its process may run.
    pub(crate) emulator: CpuSet,
}

/// Where each part of a machine that runs may run.
fn pins(
    connection: &mut Connection,
    domain: &Domain,
) -> Result<BTreeMap<Part, CpuSet>, LibvirtError> {
    let vcpus = (0..).map(Part::Vcpu).zip(connection.vcpu_pins(domain)?);
    let mut parts: BTreeMap<Part, CpuSet> = vcpus.collect();
    match connection.iothread_pins(domain) {
        // A QEMU that has no such threads.
        Err(LibvirtError::Refused { .. }) => {}
        pins => {
            parts.extend(pins?.into_iter().map(|(number, cpus)| (Part::Iothread(number), cpus)))
        }
    }
    Ok(parts)
}

impl Before {
    /// What libvirt tells; an error within if the machine has no process.
    fn ask(
        connection: &mut Connection,
        root: &Path,
        name: &str,
    ) -> Result<Result<Self, String>, LibvirtError> {
        let domain = connection.by_name(name)?;
        let Some(pid) = process_of(&root.join("proc"), &domain.uuid) else {
            return Ok(Err(format!("no process is QEMU with the UUID {}", domain.uuid)));
        };
        let start_ns = match Machine::new(root).process(pid) {
            Ok(process) => process.start_ns,
            Err(gap) => return Ok(Err(gap.to_string())),
        };
        // Refused where libvirt has no cpu controller; the rest is worth having all the same.
        let bandwidth = connection.scheduler(&domain).ok().and_then(|list| bandwidth(&list));
        let emulator = connection.emulator_pin(&domain)?;
        let parts = pins(connection, &domain)?;
        Ok(Ok(Self { domain, pid, start_ns, bandwidth, parts, emulator }))
    }

    /// Whether libvirt tells where its CPUs may run.
    fn has_pins(&self) -> bool {
        self.parts.keys().any(|part| matches!(part, Part::Vcpu(_)))
    }
}

/// Period and quota of the whole machine.
pub(crate) fn bandwidth(list: &[Parameter]) -> Option<(u64, i64)> {
    let find = |field: &str| list.iter().find(|parameter| parameter.field == field);
    match (&find("global_period")?.value, &find("global_quota")?.value) {
        (Value::Ulong(period_us), Value::Long(quota_us)) => Some((*period_us, *quota_us)),
        _ => None,
    }
}

pub(crate) fn bandwidth_parameters(period_us: u64, quota_us: i64) -> [Parameter; 2] {
    [
        Parameter::new("global_period", Value::Ulong(period_us)),
        Parameter::new("global_quota", Value::Long(quota_us)),
    ]
}

/// Whether libvirt means no limit by this quota.
pub(crate) fn is_no_limit(quota_us: i64) -> bool {
    quota_us <= 0 || quota_us >= MOST_QUOTA_US
}

/// A tenant that is a machine of libvirt's, since one of its starts.
pub(crate) struct Vm {
    name: String,
    worker: Worker,
    /// None until libvirt has told; an error if it does not know the machine.
    before: Mutex<Option<Result<Before, String>>>,
    /// What came since.
    late: Late,
}

impl Vm {
    pub(crate) fn before(&self) -> Option<Result<Before, String>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Vms {
    /// Begun with the first machine, where libvirt has a socket.
    worker: Option<Worker>,
    known: BTreeMap<String, Arc<Vm>>,
    uuids: BTreeMap<String, Uuid>,
    looked: Option<Instant>,
    starts: Starts,
}

impl Vms {
    /// A machine that was found, to be set through libvirt; none where libvirt has no socket.
    /// libvirt is asked how it stands, which takes its time.
    pub(crate) fn take(&mut self, root: &Path, name: &str) -> Option<Arc<Vm>> {
        if sockets(root).is_empty() {
            return None;
        }
        let worker = self.worker.get_or_insert_with(|| Worker::start(root)).clone();
        let (name, before) = (name.to_owned(), Mutex::default());
        let late = Late::default();
        let vm = Arc::new(Vm { name: name.clone(), worker: worker.clone(), before, late });
        self.remember_uuid(&name);
        self.known.insert(name, vm.clone());
        let (told, at) = (vm.clone(), root.to_owned());
        worker.send(move |client| {
            let asked = client.talk(|connection| Before::ask(connection, &at, &told.name));
            let before = asked.and_then(|answer| answer.map_err(|error| error.to_string())?);
            *told.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        });
        Some(vm)
    }

    fn remember_uuid(&mut self, name: &str) {
        let before = self.known.get(name).and_then(|vm| vm.before());
        if let Some(Ok(before)) = before {
            self.uuids.insert(name.to_owned(), before.domain.uuid);
        }
    }

    /// A machine that went away, if it is back and up: by libvirt's file, else by its UUID among all
    /// processes. libvirt is not waited for: this is in the way of a sample.
    pub(crate) fn again(&mut self, layout: &Layout, name: &str) -> Option<Group> {
        let group = self.find(layout, name)?;
        let identity = group.identity().ok()?;
        let starts = |worker| self.starts.is_at(worker, name, identity);
        (!self.worker.as_ref().is_some_and(starts)).then_some(group)
    }

    fn find(&mut self, layout: &Layout, name: &str) -> Option<Group> {
        if let Ok(group) = Group::of_vm(layout, name) {
            return Some(group);
        }
        self.remember_uuid(name);
        let uuid = self.uuids.get(name)?;
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        let pid = process_of(&layout.root().join("proc"), uuid)?;
        Group::of_vm_process(layout, name, pid).ok()
    }

    /// Waits until libvirt has done, or refused, all that it was told so far; not for ever.
    pub(crate) fn settle(&self) {
        if let Some(worker) = &self.worker {
            worker.settle();
        }
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod late_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_of_the_whole_machine_is_found_among_its_parameters() {
        let mut list = bandwidth_parameters(100_000, -1).to_vec();
        list.insert(0, Parameter::new("cpu_shares", Value::Ulong(1024)));
        assert_eq!(bandwidth(&list), Some((100_000, -1)));
        assert_eq!(bandwidth(&list[..2]), None);
        let odd = [Parameter::new("global_period", Value::Int(1)), list[2].clone()];
        assert_eq!(bandwidth(&odd), None);
    }

    #[test]
    fn quotas_that_are_none_are_told() {
        // -1 in cgroup v1; the kernel's largest, or 2^64 / 1000 of older versions, in v2.
        for (quota_us, none) in [
            (-1, true),
            (0, true),
            (1000, false),
            (50_000, false),
            ((1 << 44) - 1, true),
            (18_446_744_073_709_551, true),
        ] {
            assert_eq!(is_no_limit(quota_us), none, "{quota_us}");
        }
    }

    #[test]
    fn without_libvirt_a_machine_is_found_by_its_file_or_not_at_all() {
        let empty = tempfile::tempdir().unwrap();
        let layout = Layout::discover(empty.path());
        let error = find_vm(&layout, "g1").unwrap_err().to_string();
        assert!(error.contains("g1.pid"), "{error}");
        assert!(Vms::default().take(empty.path(), "g1").is_none());
        assert!(Vms::default().again(&layout, "g1").is_none());
        let Capability::Absent(why) = capability(empty.path()) else { panic!("there is none") };
        assert!(why.contains("virtqemud-sock"), "{why}");
    }

    #[test]
    fn a_socket_without_a_daemon_is_said_beside_what_the_file_says() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("run/libvirt/libvirt-sock");
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let layout = Layout::discover(root.path());
        let error = find_vm(&layout, "g1").unwrap_err().to_string();
        assert!(error.contains("libvirt-sock") && error.contains("g1.pid"), "{error}");
        let Capability::Absent(why) = capability(root.path()) else { panic!("nobody answers") };
        assert!(why.contains("libvirt-sock"), "{why}");
    }
}
