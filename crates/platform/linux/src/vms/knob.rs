//! What libvirt owns of a machine: its quota of CPU time, and where its CPUs may run.
//!
//! **CPU time** is the quota of the whole machine (`global_quota`), which libvirt writes into the
//! machine's group. **CPUs** are pins of each virtual CPU, each I/O thread and the emulator: libvirt
//! gives each a group of its own below the machine's, and in cgroup v1 the machine's own set cannot
//! be made smaller than theirs. A thread that was pinned before keeps to its pins as far as they lie
//! within the new set: `narrowed`. Parts that come later are brought under the same set:
//! [`super::parts`].

use super::parts::{Part, in_turn, parts_of, snapshot};
use super::undo::{Limits, Snapshot};
use super::{Before, Vm, bandwidth_parameters, is_no_limit};
use crate::undoer::file_undo;
use quell_cgroup::{Group, GroupKnob};
use quell_libvirt::{Connection, LibvirtError, Role, Thread, threads};
use quell_platform::Undo;
use quell_types::{CpuBandwidth, CpuSet, Gap, Knob, Reading, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So long a write waits for libvirt; what takes longer reads as pending meanwhile. A quota or one
/// pin took libvirt 9.0 4 ms (median of 50, 12 and 17 ms at most) on two shared CPUs, by the example
/// `machines` of `quell-libvirt`.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(5);

/// How far a setting has come.
#[derive(Debug, Default)]
struct Progress {
    on_its_way: bool,
    /// Why one failed that nobody waited for any more.
    failed: Option<String>,
    /// The CPUs that were set last.
    cpus: Option<CpuSet>,
    /// Parts that were there when it was last read.
    there: BTreeSet<Part>,
    /// Parts of the record of the first write that are there since.
    first: BTreeSet<Part>,
    /// Parts with a record of their own.
    later: BTreeSet<Part>,
}

/// A knob that is set through libvirt and read from the kernel. Where libvirt turns out not to know
/// the machine, its files are written.
pub(crate) struct VmKnob {
    vm: Arc<Vm>,
    files: Box<dyn GroupKnob>,
    group: Group,
    proc: PathBuf,
    progress: Arc<Mutex<Progress>>,
}

/// Whether a knob of a machine is libvirt's.
pub(crate) fn is_libvirts(knob: &Knob) -> bool {
    matches!(knob, Knob::CpuBandwidth { .. } | Knob::Cpus { .. })
}

/// A thread's pins within this set; the whole set if none of them is.
fn narrowed(pins: &CpuSet, cpus: &CpuSet) -> CpuSet {
    let within = pins.intersection(cpus);
    if within.is_empty() { cpus.clone() } else { within }
}

/// A machine and where its parts may run by themselves, also those that came later.
#[derive(Clone)]
struct Known {
    before: Before,
    parts: BTreeMap<Part, CpuSet>,
}

impl Known {
    /// Whether a thread may run where this set puts it; none for one that is not put anywhere. Of a
    /// part of which nothing is known yet it is enough that it runs within.
    fn stands(&self, thread: &Thread, last: &CpuSet) -> Option<bool> {
        let pins = match (Part::of(thread), thread.role) {
            (Some(part), _) => self.parts.get(&part),
            (None, Role::AllVcpus) => None,
            _ if thread.tid == self.before.pid => Some(&self.before.emulator),
            _ => return None,
        };
        Some(pins.map_or(thread.cpus.is_subset(last), |pins| thread.cpus == narrowed(pins, last)))
    }

    /// Where the machine may run: the set that was set last if all its threads run where that puts
    /// them; else all CPUs of its virtual CPUs and of threads that are elsewhere.
    fn seen(&self, threads: &[Thread], last: Option<&CpuSet>) -> CpuSet {
        let strays =
            |thread: &&Thread| last.is_some_and(|last| self.stands(thread, last) == Some(false));
        let carries = |thread: &&Thread| matches!(thread.role, Role::Vcpu(_) | Role::AllVcpus);
        match last {
            Some(last) if !threads.iter().any(|thread| strays(&thread)) => last.clone(),
            _ => {
                let counted = threads.iter().filter(|thread| carries(thread) || strays(thread));
                counted.fold(CpuSet::new(), |all, thread| all.union(&thread.cpus))
            }
        }
    }

    /// Carries a setting out.
    fn tell(
        &self,
        connection: &mut Connection,
        proc: &Path,
        to: &Setting,
    ) -> Result<(), LibvirtError> {
        let (domain, pid) = (&self.before.domain, self.before.pid);
        match (to, self.before.bandwidth) {
            (Setting::Bandwidth(wanted), Some(limit)) => {
                let (period_us, quota_us) = quota(*wanted, limit);
                let parameters = bandwidth_parameters(period_us, quota_us);
                connection.set_scheduler(domain, &parameters)
            }
            (Setting::Cpus(cpus), _) => {
                // Of a machine that has just gone libvirt itself tells.
                let there = parts_of(&threads(proc, pid).unwrap_or_default());
                for part in in_turn(&self.parts, &there) {
                    let pins = narrowed(&self.parts[&part], cpus);
                    part.pin(connection, (domain, pid, proc), &pins)?;
                }
                connection.pin_emulator(domain, &narrowed(&self.before.emulator, cpus))
            }
            _ => Ok(()),
        }
    }
}

/// Quota and period in microseconds that stand for this; without a limit, what libvirt said when
/// there was none.
fn quota(wanted: CpuBandwidth, before: (u64, i64)) -> (u64, i64) {
    let none = if is_no_limit(before.1) { before.1 } else { -1 };
    let quota = |cpus: f64| (cpus * wanted.period_us as f64).round() as i64;
    (wanted.period_us, wanted.limit_cpus.map_or(none, |cpus| quota(cpus.0)))
}

/// Whether a group below a machine's is one that libvirt makes for a part of it.
fn is_part(name: &str) -> bool {
    name == "emulator" || Part::of_group(name).is_some()
}

impl VmKnob {
    pub(crate) fn new(
        vm: &Arc<Vm>,
        files: Box<dyn GroupKnob>,
        group: &Group,
        proc: PathBuf,
    ) -> Self {
        let (vm, group) = (vm.clone(), group.clone());
        Self { vm, files, group, proc, progress: Arc::default() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands; pending while libvirt is at it.
    pub(crate) fn read(&self) -> Reading<Setting> {
        if self.progress().on_its_way {
            return Err(Gap::Pending);
        }
        let stands = self.files.read()?;
        match (stands, self.vm.before()) {
            (Setting::Cpus(_), Some(Ok(before))) if before.has_pins() => {
                let threads = threads(&self.proc, before.pid)?;
                let there = parts_of(&threads);
                self.vm.late.keep(&there);
                self.vm.late.ask(&self.vm.worker, &before, &threads);
                let known = self.known(before);
                let mut progress = self.progress();
                // Should one come again, it has another group.
                progress.first.retain(|part| there.contains(part));
                progress.there = there;
                Ok(Setting::Cpus(known.seen(&threads, progress.cpus.as_ref())))
            }
            (stands, _) => Ok(stands),
        }
    }

    fn known(&self, before: Before) -> Known {
        let mut parts = before.parts.clone();
        parts.extend(self.vm.late.known());
        Known { before, parts }
    }

    /// How libvirt had it, where libvirt is the one to set this.
    ///
    /// # Errors
    /// libvirt has not told yet.
    fn owner(&self, stands: &Setting) -> Result<Option<Before>, String> {
        let Some(before) = self.vm.before() else {
            return Err("libvirt has not yet told how the machine stands".into());
        };
        let has = |before: &Before| match stands {
            Setting::Bandwidth(_) => before.bandwidth.is_some(),
            _ => before.has_pins(),
        };
        Ok(before.ok().filter(has))
    }

    /// How a write is taken back: in libvirt's view, and in the kernel's files that it writes.
    pub(crate) fn undo(&self) -> Result<Vec<Undo>, String> {
        let stands = self.files.read().map_err(|gap| gap.to_string())?;
        let file = |(path, text)| file_undo(path, text);
        let own = || self.files.raw_files().map_err(|error| error.to_string());
        let Some(before) = self.owner(&stands)? else {
            return Ok(own()?.into_iter().map(file).collect());
        };
        let (raw, limits) = match (stands, before.bandwidth) {
            (Setting::Bandwidth(_), Some((period_us, quota_us))) => {
                (own()?, Limits::Bandwidth { period_us, quota_us })
            }
            _ => {
                let files = self.pin_files();
                let mut progress = self.progress();
                let parts = files.iter().filter_map(|(part, ..)| *part);
                progress.first = parts.filter(|part| before.parts.contains_key(part)).collect();
                progress.later.clear();
                let raw = files.into_iter().map(|(_, path, text)| (path, text)).collect();
                (raw, Limits::pins(&before))
            }
        };
        let snapshot = Snapshot::new(&before, limits);
        let mut undo: Vec<Undo> = raw.into_iter().map(file).collect();
        undo.push(Undo::Vm { snapshot: snapshot.to_json() });
        Ok(undo)
    }

    /// The CPU sets of the groups that libvirt made for the machine's parts, and for the rest of it.
    /// Files that are not there need no bringing back.
    fn pin_files(&self) -> Vec<(Option<Part>, PathBuf, String)> {
        let limits = self.group.limits_of_vm();
        let parts = limits.children().into_iter().filter(|name| is_part(name));
        let Ok(place) = limits.place("cpuset") else { return Vec::new() };
        let file = |name: String| {
            let path = place.dir.join(&name).join("cpuset.cpus");
            let text = std::fs::read_to_string(&path).ok()?;
            Some((Part::of_group(&name), path, text))
        };
        parts.filter_map(file).collect()
    }

    /// Parts that came since the first write and have no record yet, with how each is set back.
    pub(crate) fn came(&self) -> Vec<(Part, Vec<Undo>)> {
        let new: Vec<Part> = {
            let progress = self.progress();
            let others = progress.there.difference(&progress.first);
            others.filter(|part| !progress.later.contains(part)).copied().collect()
        };
        let Some(Ok(before)) = self.vm.before().filter(|_| !new.is_empty()) else {
            return Vec::new();
        };
        let known = self.known(before);
        let grouped = !self.pin_files().is_empty();
        let one = |part: Part| {
            let (file, vm) = self.undo_of(part, &known, known.parts.get(&part)?);
            // Where parts have groups its own is about to be made: it waits for that.
            let ready = file.is_some() || !grouped;
            ready.then(|| (part, file.into_iter().chain(vm).collect()))
        };
        new.into_iter().filter_map(one).collect()
    }

    /// How a part is set back that came late: the file of its group, and libvirt's view. Where it
    /// belongs by the machine's own record, it may be pinned elsewhere already.
    fn undo_of(&self, part: Part, known: &Known, pins: &CpuSet) -> (Option<Undo>, Option<Undo>) {
        let limits = self.group.limits_of_vm();
        let text = |path: &Path| {
            let text = std::fs::read_to_string(path).ok()?;
            if !known.before.parts.contains_key(&part) {
                return Some(text);
            }
            // A group of v1 can have no CPU that the one above has not.
            let above = path.parent()?.parent()?.join("cpuset.cpus");
            let above: CpuSet = std::fs::read_to_string(above).ok()?.trim().parse().ok()?;
            let cut = if above.is_empty() { pins.clone() } else { narrowed(pins, &above) };
            Some(format!("{cut}\n"))
        };
        let path = limits.place("cpuset").ok().map(|place| place.dir.join(part.group()));
        let path = path.map(|dir| dir.join("cpuset.cpus"));
        let file = path.and_then(|path| Some(file_undo(path.clone(), text(&path)?)));
        let vm = snapshot(&known.before, part, pins).map(|snapshot| Undo::Vm { snapshot });
        (file, vm)
    }

    /// Parts that have left, and had a record of their own.
    pub(crate) fn left(&self) -> Vec<Part> {
        let progress = self.progress();
        progress.later.difference(&progress.there).copied().collect()
    }

    /// Notes that a part has a record of its own, or has none any more.
    pub(crate) fn note_record(&self, part: Part, has: bool) {
        let later = &mut self.progress().later;
        let _ = if has { later.insert(part) } else { later.remove(&part) };
    }

    /// Sets it through libvirt. What takes longer than [`AT_ONCE`] is done later; then an error is
    /// told by the next write.
    pub(crate) fn write(&self, to: &Setting) -> Result<(), String> {
        let to = self.files.round(to);
        let Some(before) = self.owner(&to)? else {
            return self.files.write(&to).map_err(|error| error.to_string());
        };
        if matches!(&to, Setting::Cpus(cpus) if cpus.is_empty()) {
            return Err("a machine needs at least one CPU".into());
        }
        let mut progress = self.progress();
        if progress.on_its_way {
            return Err("libvirt is still at the setting before".into());
        }
        if let Some(why) = progress.failed.take() {
            return Err(why);
        }
        progress.on_its_way = true;
        let mut known = self.known(before);
        // What is not on record is not pinned.
        let (told_of, later) = (&known.before.parts, &progress.later);
        known.parts.retain(|part, _| told_of.contains_key(part) || later.contains(part));
        drop(progress);
        let (told, answer) = channel();
        let (way, proc) = (OnItsWay(self.progress.clone()), self.proc.clone());
        self.vm.worker.send(move |client| {
            let talk = client.talk(|connection| known.tell(connection, &proc, &to));
            let done = talk.and_then(|done| done.map_err(|error| error.to_string()));
            way.arrive(&to, &done);
            // Nobody may be waiting any more.
            let _ = told.send(done);
        });
        match answer.recv_timeout(AT_ONCE) {
            Ok(done) => {
                self.progress().failed = None;
                done
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err("nobody talks with libvirt any more".into()),
        }
    }
}

/// A setting that libvirt was told; also if its job is dropped, it is no longer on its way.
struct OnItsWay(Arc<Mutex<Progress>>);

impl OnItsWay {
    fn arrive(&self, to: &Setting, done: &Result<(), String>) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.failed = done.as_ref().err().cloned();
        if let (Setting::Cpus(cpus), Ok(())) = (to, done) {
            progress.cpus = Some(cpus.clone());
        }
        progress.on_its_way = false;
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).on_its_way = false;
    }
}

#[cfg(test)]
mod tests;
