//! The emulated machine: what it offers, what its processor was told, and resctrl mounted on it.

use quell_resctrl::{Group, Resctrl, ResctrlError, unmount};
use quell_types::CpuSet;
use rustix::mount::{MountFlags, mount};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const POINT: &str = "/sys/fs/resctrl";
/// Names the serial port on which those who emulate the machine answer (lab/kit/rdt.py).
const PORT: &str = "QUELL_LAB_OUTSIDE";
/// Bits of a counter.
pub(crate) const WIDTH: u32 = 62;
const PATIENCE: Duration = Duration::from_secs(60);

/// The processor's registers, as those see them who emulate it.
struct Outside(BufReader<File>);

static OUTSIDE: OnceLock<Option<Mutex<Outside>>> = OnceLock::new();

impl Outside {
    fn open() -> Option<Mutex<Self>> {
        let port = std::env::var_os(PORT)?;
        let file = File::options().read(true).write(true).open(port).unwrap();
        Some(Mutex::new(Self(BufReader::new(file))))
    }

    fn ask(&mut self, question: &str) -> String {
        self.0.get_mut().write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty() && !answer.starts_with("error"), "{question}: {answer}");
        answer.trim().to_owned()
    }
}

/// The machine, for one test at a time. What the test mounted is unmounted after it, and with it
/// go all groups.
pub(crate) struct Lab(RefCell<MutexGuard<'static, Outside>>);

impl Lab {
    /// None outside of the lab.
    pub(crate) fn get() -> Option<Self> {
        let Some(outside) = OUTSIDE.get_or_init(Outside::open) else {
            eprintln!("not in an emulated machine: the kernel's resctrl is not tested");
            return None;
        };
        // A test that failed must not fail the others.
        let alone = outside.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self(alone.into()))
    }

    /// With resctrl mounted so; none outside of the lab.
    pub(crate) fn mounted(options: &str) -> Option<(Self, Resctrl)> {
        let lab = Self::get()?;
        let tree = lab.mount(options);
        Some((lab, tree))
    }

    /// As [`Lab::mounted`], but only where the machine has ways to allot.
    pub(crate) fn allotting(options: &str) -> Option<(Self, Resctrl)> {
        let lab = Self::get().filter(|lab| lab.offers()["l3_ways"] > 0)?;
        let tree = lab.mount(options);
        Some((lab, tree))
    }

    pub(crate) fn mount(&self, options: &str) -> Resctrl {
        let options = CString::new(options).unwrap();
        mount("resctrl", POINT, "resctrl", MountFlags::empty(), options.as_c_str()).unwrap();
        Resctrl::open(Path::new("/")).unwrap()
    }

    pub(crate) fn ask(&self, question: &str) -> String {
        self.0.borrow_mut().ask(question)
    }

    /// A mask of L3 in the processor.
    pub(crate) fn l3(&self, domain: u32, slot: u64) -> u64 {
        u64::from_str_radix(&self.ask(&format!("l3 {domain} {slot}")), 16).unwrap()
    }

    /// A mask of L2 in the processor.
    pub(crate) fn l2(&self, domain: u32, slot: u64) -> u64 {
        u64::from_str_radix(&self.ask(&format!("l2 {domain} {slot}")), 16).unwrap()
    }

    /// A delay of memory traffic in the processor, in percent.
    pub(crate) fn delay(&self, domain: u32, slot: u64) -> u64 {
        self.ask(&format!("mba {domain} {slot}")).parse().unwrap()
    }

    /// Class and RMID that a CPU works for.
    pub(crate) fn association(&self, cpu: u32) -> (u64, u64) {
        let answer = self.ask(&format!("pqr {cpu}"));
        let (class, rmid) = answer.split_once(' ').unwrap();
        (class.parse().unwrap(), rmid.parse().unwrap())
    }

    /// Sets a counter in the processor, in its own units and with its flags.
    pub(crate) fn count(&self, domain: u32, rmid: u64, event: &str, raw: u64) {
        self.ask(&format!("count {domain} {rmid} {event} {raw:x}"));
    }

    /// How a counter stands in the processor.
    pub(crate) fn raw(&self, domain: u32, rmid: u64, event: &str) -> u64 {
        u64::from_str_radix(&self.ask(&format!("raw {domain} {rmid} {event}")), 16).unwrap()
    }

    /// Lets a counter go on by so many of its units.
    pub(crate) fn more(&self, domain: u32, rmid: u64, event: &str, units: u64) {
        let raw = self.raw(domain, rmid, event) + units;
        self.count(domain, rmid, event, raw % (1 << WIDTH));
    }

    /// What the machine was made to offer.
    pub(crate) fn offers(&self) -> BTreeMap<String, u64> {
        let words = self.ask("offers");
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        words.split(' ').map(pair).collect()
    }

    /// Class and RMID of a group, as a CPU says that is given to it for a moment.
    pub(crate) fn ids(&self, group: &Group) -> (u64, u64) {
        let cpu = *cpus().last().unwrap();
        group.set_cpus(&CpuSet::of(cpu)).unwrap();
        let ids = waits("a CPU works for the group", || {
            Some(self.association(cpu)).filter(|ids| *ids != (0, 0))
        });
        group.set_cpus(&CpuSet::new()).unwrap();
        waits("the CPU is given back", || (self.association(cpu) == (0, 0)).then_some(()));
        ids
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        // Readers of the tree, if a test left one, end with it.
        while unmount(Path::new(POINT)).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
        // Else an RMID whose lines seem to stay is not given out again.
        self.ask("clear");
    }
}

/// Polls until there is an answer.
pub(crate) fn waits<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A group that is made as soon as an RMID is free: those of groups that were just removed come
/// back within seconds.
pub(crate) fn made(make: impl Fn() -> Result<Group, ResctrlError>) -> Group {
    waits("an RMID is free", || match make() {
        Err(error) if error.errno() == Some(libc::EBUSY) => None,
        made => Some(made.unwrap()),
    })
}

/// CPUs that are online.
pub(crate) fn cpus() -> Vec<u32> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    online.parse::<CpuSet>().unwrap().iter().collect()
}

/// Last-level caches by the kernel's numbers, from sysfs.
pub(crate) fn caches() -> Vec<u32> {
    let id = |cpu: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/id");
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    };
    cpus().into_iter().map(id).collect::<BTreeSet<u32>>().into_iter().collect()
}
