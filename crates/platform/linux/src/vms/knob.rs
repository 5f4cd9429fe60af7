//! What libvirt owns of a machine: its quota of CPU time, and where its CPUs may run.
//!
//! **CPU time** is the quota of the whole machine (`global_quota`), which libvirt writes into the
//! machine's group. **CPUs** are pins of each virtual CPU, each I/O thread and the emulator: libvirt
//! gives each a group of its own below the machine's, and in cgroup v1 the machine's own set cannot
//! be made smaller than theirs. A thread that was pinned before keeps to its pins as far as they lie
//! within the new set: `narrowed`.

use super::undo::{Limits, Snapshot};
use super::{Before, Vm, bandwidth_parameters, is_no_limit};
use crate::undoer::file_undo;
use quell_cgroup::{Group, GroupKnob};
use quell_libvirt::{Connection, LibvirtError, Role, Thread, threads};
use quell_platform::Undo;
use quell_types::{CpuBandwidth, CpuSet, Gap, Knob, Reading, Setting};
use std::path::PathBuf;
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

/// Whether a thread may run where this set puts it; none for one that is not put anywhere.
fn stands(thread: &Thread, before: &Before, last: &CpuSet) -> Option<bool> {
    let pins = match thread.role {
        Role::Vcpu(number) => before.vcpus.get(number as usize)?,
        Role::Iothread(number) => &before.iothreads.iter().find(|(own, _)| *own == number)?.1,
        Role::Other if thread.tid == before.pid => &before.emulator,
        Role::AllVcpus => return Some(thread.cpus.is_subset(last)),
        Role::Other => return None,
    };
    Some(thread.cpus == narrowed(pins, last))
}

/// Where the machine may run: the set that was set last if all its threads run where that puts
/// them; else all CPUs of its virtual CPUs and of threads that are elsewhere.
fn seen(threads: &[Thread], before: &Before, last: Option<&CpuSet>) -> CpuSet {
    let strays =
        |thread: &&Thread| last.is_some_and(|last| stands(thread, before, last) == Some(false));
    let carries = |thread: &&Thread| matches!(thread.role, Role::Vcpu(_) | Role::AllVcpus);
    match last {
        Some(last) if !threads.iter().any(|thread| strays(&thread)) => last.clone(),
        _ => {
            let counted = threads.iter().filter(|thread| carries(thread) || strays(thread));
            counted.fold(CpuSet::new(), |all, thread| all.union(&thread.cpus))
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
    let number = name.strip_prefix("vcpu").or_else(|| name.strip_prefix("iothread"));
    name == "emulator" || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Carries a setting out.
fn tell(connection: &mut Connection, before: &Before, to: &Setting) -> Result<(), LibvirtError> {
    match (to, before.bandwidth) {
        (Setting::Bandwidth(wanted), Some(limit)) => {
            let (period_us, quota_us) = quota(*wanted, limit);
            let parameters = bandwidth_parameters(period_us, quota_us);
            connection.set_scheduler(&before.domain, &parameters)
        }
        (Setting::Cpus(cpus), _) => {
            for (number, pins) in (0..).zip(&before.vcpus) {
                connection.pin_vcpu(&before.domain, number, &narrowed(pins, cpus))?;
            }
            for (number, pins) in &before.iothreads {
                connection.pin_iothread(&before.domain, *number, &narrowed(pins, cpus))?;
            }
            connection.pin_emulator(&before.domain, &narrowed(&before.emulator, cpus))
        }
        _ => Ok(()),
    }
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
            (Setting::Cpus(_), Some(Ok(before))) if !before.vcpus.is_empty() => {
                let threads = threads(&self.proc, before.pid)?;
                Ok(Setting::Cpus(seen(&threads, &before, self.progress().cpus.as_ref())))
            }
            (stands, _) => Ok(stands),
        }
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
            _ => !before.vcpus.is_empty(),
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
                let (vcpus, emulator) = (before.vcpus.clone(), before.emulator.clone());
                let iothreads = before.iothreads.clone();
                (self.pin_files(), Limits::Pins { vcpus, emulator, iothreads })
            }
        };
        let snapshot = Snapshot::new(&before, limits);
        let mut undo: Vec<Undo> = raw.into_iter().map(file).collect();
        undo.push(Undo::Vm { snapshot: snapshot.to_json() });
        Ok(undo)
    }

    /// The CPU sets of the groups that libvirt made for the machine's parts. Files that are not
    /// there need no bringing back.
    fn pin_files(&self) -> Vec<(PathBuf, String)> {
        let limits = self.group.limits_of_vm();
        let parts = limits.children().into_iter().filter(|name| is_part(name));
        let Ok(place) = limits.place("cpuset") else { return Vec::new() };
        let files = parts.map(|part| place.dir.join(part).join("cpuset.cpus"));
        files.filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?))).collect()
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
        drop(progress);
        let (told, answer) = channel();
        let way = OnItsWay(self.progress.clone());
        self.vm.worker.send(move |client| {
            let talk = client.talk(|connection| tell(connection, &before, &to));
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
mod tests {
    use super::*;
    use quell_libvirt::{Domain, Uuid};
    use quell_types::Cpus;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn before(vcpus: &[&str], emulator: &str) -> Before {
        Before {
            domain: Domain { name: "g1".into(), uuid: Uuid([1; 16]), id: Some(3) },
            pid: 41,
            start_ns: 7,
            bandwidth: Some((100_000, -1)),
            vcpus: vcpus.iter().map(|list| cpus(list)).collect(),
            emulator: cpus(emulator),
            iothreads: vec![(1, cpus("0-3"))],
        }
    }

    fn thread(tid: u32, role: Role, list: &str) -> Thread {
        Thread { tid, role, cpus: cpus(list) }
    }

    #[test]
    fn pins_from_before_are_kept_as_far_as_they_go() {
        for (pins, set, wanted) in
            [("0-7", "2-3", "2-3"), ("2", "2-3", "2"), ("0", "2-3", "2-3"), ("1-2", "2-3", "2")]
        {
            assert_eq!(narrowed(&cpus(pins), &cpus(set)), cpus(wanted), "{pins} in {set}");
        }
    }

    #[test]
    fn a_set_stands_if_every_thread_runs_where_it_is_put() {
        let before = before(&["0-3", "1"], "0-3");
        let all = |first: &str, second: &str, main: &str| {
            vec![
                thread(41, Role::Other, main),
                thread(42, Role::Other, "0-3"),
                thread(43, Role::Vcpu(0), first),
                thread(44, Role::Vcpu(1), second),
            ]
        };
        for (threads, last, wanted) in [
            (all("0-3", "1", "0-3"), None, "0-3"),
            (all("0-1", "1", "0-1"), Some("0-1"), "0-1"),
            // The second one was pinned elsewhere; so it got the whole set.
            (all("2-3", "2-3", "2-3"), Some("2-3"), "2-3"),
            // Somebody moved the first CPU, or the emulator, back.
            (all("0-3", "2-3", "2-3"), Some("2-3"), "0-3"),
            (all("2-3", "2-3", "0-3"), Some("2-3"), "0-3"),
            (all("2-3", "2", "2-3"), Some("2-3"), "2-3"),
        ] {
            let last = last.map(cpus);
            assert_eq!(seen(&threads, &before, last.as_ref()), cpus(wanted), "{threads:?}");
        }
        let moved = all("2", "2-3", "0-3");
        assert_eq!(seen(&moved, &before, Some(&cpus("2"))), cpus("0-3"));
        let mut stray = all("2-3", "2-3", "2-3");
        // Of the second I/O thread nothing was known when the machine was taken.
        stray.push(thread(45, Role::Iothread(2), "1"));
        assert_eq!(seen(&stray, &before, Some(&cpus("2-3"))), cpus("2-3"));
        stray.push(thread(46, Role::Iothread(1), "0"));
        assert_eq!(seen(&stray, &before, Some(&cpus("2-3"))), cpus("0,2-3"));
        let one = [thread(43, Role::AllVcpus, "2")];
        assert_eq!(seen(&one, &before, Some(&cpus("2-3"))), cpus("2-3"));
    }

    #[test]
    fn a_limit_becomes_a_quota_and_none_is_what_libvirt_called_none() {
        let half = CpuBandwidth { limit_cpus: Some(Cpus(0.5)), period_us: 10_000 };
        assert_eq!(quota(half, (100_000, -1)), (10_000, 5_000));
        let none = CpuBandwidth { limit_cpus: None, period_us: 100_000 };
        assert_eq!(quota(none, (100_000, -1)), (100_000, -1));
        assert_eq!(quota(none, (100_000, 50_000)), (100_000, -1));
        let v2 = 17_592_186_044_415;
        assert_eq!(quota(none, (100_000, v2)), (100_000, v2));
    }

    #[test]
    fn a_job_that_is_dropped_is_no_longer_on_its_way() {
        let progress = Arc::new(Mutex::new(Progress { on_its_way: true, ..Progress::default() }));
        drop(OnItsWay(progress.clone()));
        assert!(!progress.lock().unwrap().on_its_way);
        let way = OnItsWay(progress.clone());
        way.arrive(&Setting::Cpus(cpus("1")), &Err("no".into()));
        assert_eq!(progress.lock().unwrap().cpus, None);
        assert_eq!(progress.lock().unwrap().failed.as_deref(), Some("no"));
        way.arrive(&Setting::Cpus(cpus("1")), &Ok(()));
        assert_eq!(progress.lock().unwrap().cpus, Some(cpus("1")));
    }
}
