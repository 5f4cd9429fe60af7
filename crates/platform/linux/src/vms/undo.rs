//! Taking back what was set of a machine through libvirt.

use super::parts::{Part, is_there, parts_of};
use super::worker::Client;
use super::{Before, bandwidth, bandwidth_parameters, is_no_limit, pins};
use quell_libvirt::{Connection, Domain, LibvirtError, threads};
use quell_topology::Machine;
use quell_types::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What libvirt said of a machine before it was told anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    name: String,
    uuid: String,
    /// libvirt's number of this start.
    id: Option<u32>,
    pid: u32,
    /// When the process started, in nanoseconds after boot.
    start_ns: u64,
    limits: Limits,
}

/// One knob of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limits", rename_all = "snake_case")]
pub(crate) enum Limits {
    /// Period and quota of the whole machine in microseconds.
    Bandwidth { period_us: u64, quota_us: i64 },
    /// Where its CPUs, from number 0 on, its I/O threads and the rest of it may run.
    Pins { vcpus: Vec<CpuSet>, emulator: CpuSet, iothreads: Vec<(u32, CpuSet)> },
    /// Where a part may run that came later.
    Part { part: Part, cpus: CpuSet },
}

impl Limits {
    /// Where its parts may run.
    pub(crate) fn pins(before: &Before) -> Self {
        let (mut vcpus, mut iothreads) = (Vec::new(), Vec::new());
        // CPUs come first and without a hole.
        for (part, cpus) in &before.parts {
            match part {
                Part::Vcpu(_) => vcpus.push(cpus.clone()),
                Part::Iothread(number) => iothreads.push((*number, cpus.clone())),
            }
        }
        Limits::Pins { vcpus, emulator: before.emulator.clone(), iothreads }
    }
}

impl Snapshot {
    pub(crate) fn new(before: &Before, limits: Limits) -> Self {
        Self {
            name: before.domain.name.clone(),
            uuid: before.domain.uuid.to_string(),
            id: before.domain.id,
            pid: before.pid,
            start_ns: before.start_ns,
            limits,
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        // Only strings, numbers and lists: cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }

    fn from_json(json: &serde_json::Value) -> Result<Self, String> {
        serde_json::from_value(json.clone())
            .map_err(|error| format!("the record of a machine cannot be understood: {error}"))
    }

    fn runs(&self, machine: &Machine) -> bool {
        let process = machine.process(self.pid);
        process.is_ok_and(|p| p.start_ns == self.start_ns && p.state != 'Z')
    }

    /// The machine, if it is still at the same start.
    fn domain(&self, connection: &mut Connection) -> Result<Option<Domain>, LibvirtError> {
        let Ok(uuid) = self.uuid.parse() else { return Ok(None) };
        let domain = connection.by_uuid(&uuid)?;
        Ok(Some(domain).filter(|domain| domain.id == self.id))
    }

    fn set(
        &self,
        connection: &mut Connection,
        proc: &Path,
    ) -> Result<Result<(), String>, LibvirtError> {
        let Some(domain) = self.domain(connection)? else { return Ok(Ok(())) };
        let as_before = match &self.limits {
            Limits::Bandwidth { period_us, quota_us } => {
                connection.set_scheduler(&domain, &bandwidth_parameters(*period_us, *quota_us))?;
                let now = bandwidth(&connection.scheduler(&domain)?);
                let same = |(period, quota): (u64, i64)| {
                    let none = is_no_limit(quota) && is_no_limit(*quota_us);
                    period == *period_us && (none || quota == *quota_us)
                };
                now.is_some_and(same)
            }
            Limits::Pins { vcpus, emulator, iothreads } => {
                let iothreads = iothreads.iter().map(|(n, cpus)| (Part::Iothread(*n), cpus));
                let parts = (0..).map(Part::Vcpu).zip(vcpus).chain(iothreads).collect();
                let pinned = self.pin(connection, (&domain, proc), parts)?;
                connection.pin_emulator(&domain, emulator)?;
                pinned && connection.emulator_pin(&domain)? == *emulator
            }
            Limits::Part { part, cpus } => {
                self.pin(connection, (&domain, proc), [(*part, cpus)].into())?
            }
        };
        let other = || format!("machine {} reads otherwise after it was set back", self.name);
        Ok(if as_before { Ok(()) } else { Err(other()) })
    }

    /// Pins parts as they were; whether libvirt says so afterwards. One that has left owes nobody
    /// anything, and a CPU that is not plugged in need not be pinned again where it is as it was.
    fn pin(
        &self,
        connection: &mut Connection,
        (domain, proc): (&Domain, &Path),
        parts: BTreeMap<Part, &CpuSet>,
    ) -> Result<bool, LibvirtError> {
        let there = parts_of(&threads(proc, self.pid).unwrap_or_default());
        let now = pins(connection, domain)?;
        for (part, cpus) in &parts {
            if now.get(part) != Some(*cpus) || there.contains(part) {
                part.pin(connection, (domain, self.pid, proc), cpus)?;
            }
        }
        let now = pins(connection, domain)?;
        let as_before = |(part, cpus): (&Part, &&CpuSet)| match now.get(part) {
            Some(now) => now == *cpus,
            None => !is_there(*part, proc, self.pid),
        };
        Ok(parts.iter().all(as_before))
    }
}

/// Sets what libvirt keeps of a machine back. One that went away, or was started anew since, needs
/// none of it.
///
/// # Errors
/// The machine runs, but libvirt does not answer, refuses, or reads otherwise afterwards.
pub(crate) fn undo(
    client: &mut Client,
    machine: &Machine,
    snapshot: &serde_json::Value,
) -> Result<(), String> {
    let snapshot = Snapshot::from_json(snapshot)?;
    if !snapshot.runs(machine) {
        return Ok(());
    }
    let proc = client.root().join("proc");
    match client.talk(|connection| snapshot.set(connection, &proc))? {
        Ok(done) => done,
        // It went away while it was looked at.
        Err(error) if error.is_gone() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether what was set of a machine is owed to nobody any more: that start of it is over.
pub(crate) fn is_moot(machine: &Machine, snapshot: &serde_json::Value) -> bool {
    Snapshot::from_json(snapshot).is_ok_and(|snapshot| !snapshot.runs(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(limits: Limits) -> Snapshot {
        let uuid = "c7a5fdbd-edaf-9455-926a-d65c16db1809".to_owned();
        Snapshot { name: "g1".into(), uuid, id: Some(3), pid: 41, start_ns: 7, limits }
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let (vcpus, iothreads) = (vec![CpuSet::of(0)], vec![(1, CpuSet::of(2))]);
        let pins = Limits::Pins { vcpus, emulator: CpuSet::of(1), iothreads };
        let part = Limits::Part { part: Part::Vcpu(2), cpus: CpuSet::of(1) };
        for limits in [Limits::Bandwidth { period_us: 100_000, quota_us: -1 }, pins, part] {
            let snapshot = snapshot(limits);
            assert_eq!(serde_json::from_value::<Snapshot>(snapshot.to_json()).unwrap(), snapshot);
        }
    }

    #[test]
    fn a_machine_that_went_away_needs_nothing_back_and_libvirt_is_not_asked() {
        let root = tempfile::tempdir().unwrap();
        let (machine, mut client) = (Machine::new(root.path()), Client::new(root.path()));
        let record = snapshot(Limits::Bandwidth { period_us: 100_000, quota_us: -1 }).to_json();
        assert_eq!(undo(&mut client, &machine, &record), Ok(()));
        assert!(undo(&mut client, &machine, &serde_json::json!({ "name": "g1" })).is_err());
    }

    #[test]
    fn a_machine_that_runs_waits_for_libvirt_to_answer() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        // The 22nd field is the start, in ticks of 10 ms.
        let zeros = "0 ".repeat(18);
        write("proc/41/stat", &format!("41 (qemu) S {zeros}5 {}\n", "0 ".repeat(30)));
        write("proc/41/cgroup", "0::/\n");
        let (machine, mut client) = (Machine::new(root.path()), Client::new(root.path()));
        let limits = Limits::Bandwidth { period_us: 100_000, quota_us: -1 };
        let start_ns = machine.process(41).unwrap().start_ns;
        assert!(start_ns > 0);
        let same = Snapshot { start_ns, ..snapshot(limits.clone()) }.to_json();
        let error = undo(&mut client, &machine, &same).unwrap_err();
        assert!(error.contains("no libvirt here"), "{error}");
        assert!(!is_moot(&machine, &same));
        // Another process has its number by now.
        let other = Snapshot { start_ns: start_ns + 1, ..snapshot(limits) }.to_json();
        assert_eq!(undo(&mut client, &machine, &other), Ok(()));
        assert!(is_moot(&machine, &other));
        let odd = serde_json::json!({ "name": "g1" });
        assert!(!is_moot(&machine, &odd), "what nobody understands is told by the restore");
    }
}
