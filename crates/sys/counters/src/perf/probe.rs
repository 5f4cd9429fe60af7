//! What the PMU offers, with reasons for what it does not.

use super::attr::{self, Scope};
use super::check::CounterCheck;
use super::event::Event;
use crate::file;
use quell_types::{Gap, Reading};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Why an event cannot be opened, in words.
#[must_use]
pub fn open_error(event: Event, error: &io::Error) -> Gap {
    match error.raw_os_error() {
        Some(libc::ENOENT) if event.is_hardware() => Gap::absent(format!(
            "{event}: this machine shows no PMU (usual in virtual machines), or one without this event"
        )),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL) => {
            Gap::absent(format!("{event}: not supported here ({error})"))
        }
        Some(libc::EACCES | libc::EPERM) => Gap::absent(format!(
            "{event}: not allowed; run as root or with CAP_PERFMON, or lower kernel.perf_event_paranoid"
        )),
        Some(libc::ENOSYS) => Gap::absent(format!("{event}: this kernel has no perf events")),
        Some(libc::ESRCH) => Gap::Gone(format!("{event}: the thread has ended")),
        Some(libc::ENODEV) => Gap::absent(format!("{event}: the CPU is offline")),
        Some(libc::EBADF) => Gap::failed(format!(
            "{event}: not a cgroup that perf knows (a folder of cgroup v2, or of v1's perf_event)"
        )),
        Some(libc::EMFILE | libc::ENFILE) => Gap::failed(format!(
            "{event}: too many open files, one is needed for each event, CPU and group; \
             raise LimitNOFILE"
        )),
        Some(libc::EBUSY) => Gap::failed(format!("{event}: another tool has the PMU for itself")),
        _ => Gap::failed(format!("{event}: {error}")),
    }
}

/// Opens and closes an event on the calling thread.
///
/// # Errors
/// Why it cannot be opened.
pub(crate) fn can_open(event: Event) -> Reading<()> {
    let opened = attr::open(event, Scope::Task(0), None);
    opened.map(drop).map_err(|error| open_error(event, &error))
}

/// What can be counted on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuProbe {
    /// The kernel's PMUs and their type numbers (`cpu`, `software`, `uncore_imc_0` …).
    pub pmus: BTreeMap<String, u32>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Reading<i64>,
    /// Each generic event, or why it cannot be counted.
    pub events: BTreeMap<Event, Reading<()>>,
    /// Whether the PMU's counters count.
    pub check: Reading<CounterCheck>,
}

impl PmuProbe {
    /// Opens and closes each generic event on the calling thread, and counts a short loop (1 ms).
    /// PMUs and settings are read below `root`.
    #[must_use]
    pub fn run(root: &Path) -> Self {
        let all = Event::HARDWARE.into_iter().chain(Event::SOFTWARE);
        Self {
            pmus: pmus(&root.join("sys/bus/event_source/devices")),
            paranoid: file::signed(&root.join("proc/sys/kernel/perf_event_paranoid")),
            events: all.map(|event| (event, can_open(event))).collect(),
            check: CounterCheck::run(),
        }
    }

    /// The countable hardware or software events, or why there is none.
    ///
    /// # Errors
    /// The first event's gap if none can be counted.
    pub fn countable(&self, hardware: bool) -> Reading<Vec<Event>> {
        let mut first = None;
        let mut countable = Vec::new();
        for (event, found) in self.events.iter().filter(|(e, _)| e.is_hardware() == hardware) {
            match found {
                Ok(()) => countable.push(*event),
                Err(gap) => first = first.or_else(|| Some(gap.clone())),
            }
        }
        match first {
            Some(gap) if countable.is_empty() => Err(gap),
            _ => Ok(countable),
        }
    }
}

fn pmus(dir: &Path) -> BTreeMap<String, u32> {
    let Ok(entries) = fs::read_dir(dir) else { return BTreeMap::new() };
    let pmu = |entry: fs::DirEntry| {
        let number = file::number(&entry.path().join("type")).ok()?;
        Some((entry.file_name().to_str()?.to_owned(), u32::try_from(number).ok()?))
    };
    entries.flatten().filter_map(pmu).collect()
}
