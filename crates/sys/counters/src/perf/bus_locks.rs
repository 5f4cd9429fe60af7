//! Bus locks: atomic operations across two cache lines, or on uncached memory.
//!
//! Intel counts them as SQ_MISC.SPLIT_LOCK, later SQ_MISC.BUS_LOCK, AMD since Zen as
//! LS_LOCKS.BUS_LOCK: an event of each family's own. Where there is no PMU the kernel's own traps
//! are all there is: they slow or end who makes such locks, and count nothing.

use super::check::CounterCheck;
use super::counters::{Counters, Target};
use super::event::Event;
use super::probe;
use crate::file;
use quell_types::{CpuSet, Gap, Reading};
use std::collections::BTreeMap;
use std::path::Path;

/// SQ_MISC.SPLIT_LOCK: event 0xf4, umask 0x10, from Nehalem to Ice Lake and its kin.
const SPLIT_LOCK: u64 = 0x10f4;
/// SQ_MISC.BUS_LOCK: event 0x2c, umask 0x10, from Sapphire Rapids on.
const BUS_LOCK: u64 = 0x102c;
/// LS_LOCKS.BUS_LOCK: event 0x25, umask 0x01, AMD since family 17h.
const AMD_BUS_LOCK: u64 = 0x0125;

/// Models of Intel's family 6 with SPLIT_LOCK.
const OLDER: [u32; 33] = [
    0x1a, 0x1e, 0x1f, 0x25, 0x2a, 0x2c, 0x2d, 0x2e, 0x2f, 0x3a, 0x3c, 0x3d, 0x3e, 0x3f, 0x45, 0x46,
    0x47, 0x4e, 0x4f, 0x55, 0x56, 0x5e, 0x66, 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0x8e, 0x9e, 0xa5,
    0xa7,
];
/// Models with BUS_LOCK on all of their cores.
const NEWER: [u32; 4] = [0x8f, 0xad, 0xae, 0xcf];

/// Counts of each CPU.
#[derive(Debug)]
pub struct BusLocks {
    event: Event,
    cpus: BTreeMap<u32, Counters>,
}

impl BusLocks {
    /// The event of the processor that `root`/proc/cpuinfo names.
    ///
    /// # Errors
    /// Absent if it has none that is known.
    pub fn event(root: &Path) -> Reading<Event> {
        let info = file::text(&root.join("proc/cpuinfo"))?;
        let value = |key: &str| {
            let line = info.lines().find(|line| line.split(':').next().map(str::trim) == Some(key));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
        };
        let number = |key: &str| value(key).and_then(|value| value.parse::<u32>().ok());
        let (vendor, family, model) = (value("vendor_id"), number("cpu family"), number("model"));
        event_of(vendor.unwrap_or_default(), family.unwrap_or(0), model.unwrap_or(0))
    }

    /// Whether this machine counts them, and how many counters really count.
    ///
    /// # Errors
    /// Absent without a PMU or without the event, with what the kernel does by itself; failed if
    /// the PMU that is shown does not count.
    pub fn usable(root: &Path) -> Reading<(Event, CounterCheck)> {
        let usable = Self::event(root).and_then(|event| {
            probe::can_open(event)?;
            Ok((event, CounterCheck::run()?))
        });
        usable.map_err(|gap| match gap {
            Gap::Absent(why) => Gap::absent(format!("{why}; {}", kernel_brake(root))),
            other => other,
        })
    }

    /// Begins to count on each of these CPUs.
    ///
    /// # Errors
    /// If the event cannot be counted at all.
    pub fn open(event: Event, cpus: &CpuSet) -> Reading<Self> {
        let open = |cpu: u32| {
            let target = Target::Cpus(CpuSet::of(cpu));
            let counters = Counters::open(&target, &[event]).map_err(|error| Gap::from(&error))?;
            Ok((cpu, counters))
        };
        let cpus: BTreeMap<u32, Counters> = cpus.iter().map(open).collect::<Reading<_>>()?;
        Ok(Self { event, cpus })
    }

    /// Bus locks by CPU since it was opened. A CPU that does not answer is left out.
    ///
    /// # Errors
    /// The first CPU's gap if none answers.
    pub fn read(&mut self) -> Reading<BTreeMap<u32, u64>> {
        let (mut counts, mut missing) = (BTreeMap::new(), None);
        for (cpu, counters) in &mut self.cpus {
            let none = || Err(Gap::absent(format!("{} is not counted", self.event)));
            match counters.read().remove(&self.event).unwrap_or_else(none) {
                Ok(count) => {
                    counts.insert(*cpu, count);
                }
                Err(gap) => missing = missing.or(Some(gap)),
            }
        }
        match missing {
            Some(gap) if counts.is_empty() => Err(gap),
            _ => Ok(counts),
        }
    }
}

fn event_of(vendor: &str, family: u32, model: u32) -> Reading<Event> {
    let config = match (vendor, family) {
        ("GenuineIntel", 6) if OLDER.contains(&model) => SPLIT_LOCK,
        ("GenuineIntel", 6) if NEWER.contains(&model) => BUS_LOCK,
        ("AuthenticAMD" | "HygonGenuine", 0x17..) => AMD_BUS_LOCK,
        ("", _) => return Err(Gap::absent("the processor has no bus to lock, or does not tell")),
        _ => {
            return Err(Gap::absent(format!(
                "no event for bus locks is known of {vendor} family {family} model {model:#x}"
            )));
        }
    };
    Ok(Event::Raw(config))
}

/// What the kernel does about split and bus locks by itself. It counts them nowhere.
#[must_use]
pub fn kernel_brake(root: &Path) -> String {
    match kernel_traps(root) {
        Ok(how) => format!("the kernel traps such locks ({how}) and counts none"),
        Err(Gap::Absent(why)) => why,
        Err(other) => other.to_string(),
    }
}

/// How the kernel traps split and bus locks.
///
/// # Errors
/// Absent if the processor cannot tell it of them, or it was told not to.
pub(crate) fn kernel_traps(root: &Path) -> Reading<String> {
    let info = file::text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let has = |flag: &str| {
        let lines = info.lines().filter(|line| line.starts_with("flags"));
        lines.flat_map(str::split_whitespace).any(|word| word == flag)
    };
    let told = file::text(&root.join("proc/cmdline")).unwrap_or_default();
    let told = told.split_whitespace().find_map(|word| word.strip_prefix("split_lock_detect="));
    if told == Some("off") || !(has("split_lock_detect") || has("bus_lock_detect")) {
        return Err(Gap::absent("the kernel traps no such locks here"));
    }
    let mitigated = file::number(&root.join("proc/sys/kernel/split_lock_mitigate"));
    Ok(match (told, mitigated) {
        (Some(mode), _) if mode.starts_with("ratelimit") || mode == "fatal" => {
            format!("split_lock_detect={mode}")
        }
        (_, Ok(1)) => "split_lock_mitigate = 1: who makes one waits 10 ms".to_owned(),
        (_, Ok(0)) => "split_lock_mitigate = 0: it warns only; 1 slows who makes them".to_owned(),
        _ => "it warns only".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn info(vendor: &str, family: u32, model: u32, flags: &str) -> String {
        format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: a processor\nflags\t\t: fpu {flags}\n"
        )
    }

    #[test]
    fn each_family_has_its_event() {
        for (vendor, family, model, config) in [
            ("GenuineIntel", 6, 0x55, Some(0x10f4)),
            ("GenuineIntel", 6, 0x6a, Some(0x10f4)),
            ("GenuineIntel", 6, 0x8f, Some(0x102c)),
            ("GenuineIntel", 6, 0xff, None),
            ("GenuineIntel", 15, 0x55, None),
            ("AuthenticAMD", 0x17, 0x31, Some(0x125)),
            ("AuthenticAMD", 0x1a, 0x02, Some(0x125)),
            ("AuthenticAMD", 0x10, 0x02, None),
            ("CentaurHauls", 6, 0x0f, None),
        ] {
            let root = tree(&[("proc/cpuinfo", &info(vendor, family, model, ""))]);
            let found = BusLocks::event(root.path()).ok();
            assert_eq!(found, config.map(Event::Raw), "{vendor} {family} {model:#x}");
        }
        let arm = tree(&[("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp\n")]);
        assert!(matches!(BusLocks::event(arm.path()), Err(Gap::Absent(_))));
    }

    #[test]
    fn what_the_kernel_does_by_itself_is_told() {
        let with = |flags: &str, more: &[(&str, &str)]| {
            let info = info("GenuineIntel", 6, 0x8f, flags);
            let mut files = vec![("proc/cpuinfo", info.as_str())];
            files.extend(more);
            kernel_brake(tree(&files).path())
        };
        assert!(with("", &[]).contains("traps no such locks"));
        let one = ("proc/sys/kernel/split_lock_mitigate", "1\n");
        assert!(with("split_lock_detect", &[one]).contains("10 ms"));
        let limit = ("proc/cmdline", "quiet split_lock_detect=ratelimit:500\n");
        assert!(with("bus_lock_detect", &[limit, one]).contains("ratelimit:500"));
        let off = ("proc/cmdline", "split_lock_detect=off\n");
        assert!(with("split_lock_detect", &[off, one]).contains("traps no such locks"));
        assert!(with("split_lock_detect", &[]).contains("warns only"));
        let zero = ("proc/sys/kernel/split_lock_mitigate", "0\n");
        assert!(with("split_lock_detect", &[zero]).contains("1 slows who makes them"));
    }

    /// Counting by CPU itself, by an event that every kernel has.
    #[test]
    fn each_cpu_is_counted_by_itself() {
        let cpus: CpuSet = [0].into_iter().collect();
        let Ok(mut locks) = BusLocks::open(Event::ContextSwitches, &cpus) else { return };
        // Not allowed here, where perf_event_paranoid forbids it.
        let Ok(before) = locks.read() else { return };
        assert_eq!(before.keys().copied().collect::<Vec<_>>(), [0]);
        assert!(locks.read().unwrap()[&0] >= before[&0]);
    }
}
