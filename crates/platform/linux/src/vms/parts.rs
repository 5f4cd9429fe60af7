//! Parts of a machine that have pins of their own, and those that come while it is guarded.
//!
//! Virtual CPUs are plugged into a machine that runs, and I/O threads are added to it. libvirt knows
//! from the beginning how many CPUs there may be and where each belongs, so those that are not there
//! yet are pinned with the others ([`AHEAD`] of them): they are born where they shall run. What comes
//! otherwise counts as a stray until it is pinned: libvirt is asked once where it belongs, that goes
//! on record, and the next write of the set pins it.
//!
//! A part that came has a record of its own in the journal, since that of the machine was written
//! before there was its group. When the part goes, so does its record.

use super::Before;
use super::knob::AT_ONCE;
use super::undo::{Limits, Snapshot};
use super::worker::Worker;
use quell_libvirt::{Connection, Domain, LibvirtError, Role, Thread, threads};
use quell_types::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many CPUs that are not plugged in are pinned ahead, the next ones in libvirt's order: each pin
/// takes libvirt milliseconds, and a machine may have hundreds that never come.
pub(super) const AHEAD: usize = 16;

/// A part of a machine that libvirt pins by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// The virtual CPU of this number.
    Vcpu(u32),
    /// The I/O thread of this number.
    Iothread(u32),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Vcpu(number) => write!(f, "virtual CPU {number}"),
            Part::Iothread(number) => write!(f, "I/O thread {number}"),
        }
    }
}

impl Part {
    /// The part that a thread is.
    pub(super) fn of(thread: &Thread) -> Option<Self> {
        match thread.role {
            Role::Vcpu(number) => Some(Part::Vcpu(number)),
            Role::Iothread(number) => Some(Part::Iothread(number)),
            Role::AllVcpus | Role::Other => None,
        }
    }

    /// The part that libvirt made a group of this name for.
    pub(super) fn of_group(name: &str) -> Option<Self> {
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
        number("vcpu").map(Part::Vcpu).or_else(|| number("iothread").map(Part::Iothread))
    }

    /// The name of the group that libvirt makes for it.
    pub(super) fn group(self) -> String {
        match self {
            Part::Vcpu(number) => format!("vcpu{number}"),
            Part::Iothread(number) => format!("iothread{number}"),
        }
    }

    /// Pins it, if it is there: one that has left needs no pin, nor does one that an old libvirt does
    /// not pin ahead.
    pub(super) fn pin(
        self,
        connection: &mut Connection,
        (domain, pid, proc): (&Domain, u32, &Path),
        cpus: &CpuSet,
    ) -> Result<(), LibvirtError> {
        let done = match self {
            Part::Vcpu(number) => connection.pin_vcpu(domain, number, cpus),
            Part::Iothread(number) => connection.pin_iothread(domain, number, cpus),
        };
        match done {
            Err(LibvirtError::Refused { .. }) if !is_there(self, proc, pid) => Ok(()),
            done => done,
        }
    }
}

/// Whether a thread of the process is this part, or may be.
pub(super) fn is_there(part: Part, proc: &Path, pid: u32) -> bool {
    let all_in_one = matches!(part, Part::Vcpu(_));
    let is = |thread: &Thread| {
        Part::of(thread) == Some(part) || all_in_one && thread.role == Role::AllVcpus
    };
    threads(proc, pid).is_ok_and(|threads| threads.iter().any(is))
}

/// The parts that these threads are.
pub(super) fn parts_of(threads: &[Thread]) -> BTreeSet<Part> {
    threads.iter().filter_map(Part::of).collect()
}

/// The parts to pin, those that are there first: of CPUs that may yet come, the next ones.
pub(super) fn in_turn(known: &BTreeMap<Part, CpuSet>, there: &BTreeSet<Part>) -> Vec<Part> {
    let (now, other): (Vec<Part>, Vec<Part>) = known.keys().partition(|part| there.contains(part));
    let to_come = other.into_iter().filter(|part| matches!(part, Part::Vcpu(_))).take(AHEAD);
    now.into_iter().chain(to_come).collect()
}

/// Parts that were not known when the machine was taken, with where they might run when they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Late(Arc<Mutex<BTreeMap<Part, Option<CpuSet>>>>);

impl Late {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, Option<CpuSet>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of them.
    pub(super) fn known(&self) -> BTreeMap<Part, CpuSet> {
        let all = self.lock();
        all.iter().filter_map(|(part, pins)| Some((*part, pins.clone()?))).collect()
    }

    /// Forgets those that have left; should they come again they are asked for again.
    pub(super) fn keep(&self, there: &BTreeSet<Part>) {
        self.lock().retain(|part, _| there.contains(part));
    }

    /// Asks libvirt where these threads belong whose parts nobody knows, if it was not asked already,
    /// and waits a moment for the answer.
    pub(super) fn ask(&self, worker: &Worker, before: &Before, threads: &[Thread]) {
        let mut late = self.lock();
        let part = |thread: &Thread| Some((Part::of(thread)?, thread.cpus.clone()));
        let new = |(part, _): &(Part, CpuSet)| {
            !before.parts.contains_key(part) && !late.contains_key(part)
        };
        let asked: Vec<(Part, CpuSet)> = threads.iter().filter_map(part).filter(new).collect();
        if asked.is_empty() {
            return;
        }
        late.extend(asked.iter().map(|(part, _)| (*part, None)));
        drop(late);
        let (all, domain) = (self.clone(), before.domain.clone());
        let (told, wait) = channel();
        worker.send(move |client| {
            let answer = client.talk(|connection| super::pins(connection, &domain));
            for (part, seen) in asked {
                all.learn(part, seen, &answer);
            }
            // Nobody may be waiting any more.
            let _ = told.send(());
        });
        let _ = wait.recv_timeout(AT_ONCE);
    }

    /// What libvirt says of a part; where it says nothing, what was seen. Without libvirt nothing is
    /// known, and it is asked again.
    fn learn(
        &self,
        part: Part,
        seen: CpuSet,
        answer: &Result<Result<BTreeMap<Part, CpuSet>, LibvirtError>, String>,
    ) {
        let pins = match answer {
            Ok(Ok(pins)) => pins.get(&part).cloned().unwrap_or(seen),
            Ok(Err(LibvirtError::Refused { .. })) => seen,
            _ => return drop(self.lock().remove(&part)),
        };
        self.lock().insert(part, Some(pins));
    }
}

/// How a part is set back that came late: in libvirt's view where the machine's own record does not
/// tell, and by the file of its group that libvirt writes.
pub(super) fn snapshot(before: &Before, part: Part, cpus: &CpuSet) -> Option<serde_json::Value> {
    let limits = Limits::Part { part, cpus: cpus.clone() };
    let told = before.parts.contains_key(&part);
    (!told).then(|| Snapshot::new(before, limits).to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn a_part_has_the_group_that_libvirt_names_after_it() {
        for (name, part) in [
            ("vcpu0", Some(Part::Vcpu(0))),
            ("vcpu12", Some(Part::Vcpu(12))),
            ("iothread3", Some(Part::Iothread(3))),
            ("emulator", None),
            ("vcpu", None),
            ("vcpux", None),
            ("vcpu1.x", None),
        ] {
            assert_eq!(Part::of_group(name), part, "{name}");
            if let Some(part) = part {
                assert_eq!(part.group(), name);
            }
        }
    }

    #[test]
    fn those_that_are_there_are_pinned_first_and_not_all_that_may_come() {
        let mut known: BTreeMap<Part, CpuSet> =
            (0..200).map(|number| (Part::Vcpu(number), cpus("0"))).collect();
        known.insert(Part::Iothread(1), cpus("0"));
        // One that was there when the machine was taken, and left.
        known.insert(Part::Iothread(2), cpus("0"));
        let there = BTreeSet::from([Part::Vcpu(0), Part::Vcpu(7), Part::Iothread(1)]);
        let turns = in_turn(&known, &there);
        assert_eq!(turns[..3], [Part::Vcpu(0), Part::Vcpu(7), Part::Iothread(1)]);
        assert_eq!(turns[3..5], [Part::Vcpu(1), Part::Vcpu(2)]);
        assert_eq!(turns.len(), 3 + AHEAD);
    }

    #[test]
    fn where_libvirt_tells_nothing_of_a_part_it_belongs_where_it_was_first_seen() {
        let late = Late::default();
        let refused =
            || LibvirtError::Refused { call: "asking", message: "no".into(), code: 3, part: 10 };
        late.learn(Part::Vcpu(3), cpus("1"), &Ok(Ok(BTreeMap::from([(Part::Vcpu(3), cpus("2"))]))));
        late.learn(Part::Vcpu(4), cpus("1"), &Ok(Ok(BTreeMap::new())));
        late.learn(Part::Vcpu(5), cpus("3"), &Ok(Err(refused())));
        late.learn(Part::Vcpu(6), cpus("3"), &Err("nobody answers".into()));
        let wanted = [(Part::Vcpu(3), "2"), (Part::Vcpu(4), "1"), (Part::Vcpu(5), "3")];
        assert_eq!(late.known(), wanted.map(|(part, list)| (part, cpus(list))).into());
        late.keep(&BTreeSet::from([Part::Vcpu(4)]));
        assert_eq!(late.known().len(), 1);
    }
}
