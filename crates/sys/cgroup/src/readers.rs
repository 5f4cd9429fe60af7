//! Counters of a group, read by one `pread` of a file that stays open.
//!
//! A group removed between two reads answers [`Gap::Gone`], also when another of the same name has
//! taken its place: make a new reader then.

use crate::file::KeptFile;
use crate::group::{Group, Place};
use crate::parse;
use quell_types::{Gap, Pressure, Reading, Throttling};
use std::path::Path;

/// What is read of a group at one moment. Counters only grow.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReading {
    /// The group's identity (see [`Group::identity`]).
    pub identity: Reading<u64>,
    /// CPU time in nanoseconds.
    pub cpu_ns: Reading<u64>,
    /// CFS throttling.
    pub throttling: Reading<Throttling>,
    /// Stall times.
    pub pressure: Reading<Pressure>,
    /// Page faults of all kinds.
    pub page_faults: Reading<u64>,
    /// Memory in use, in bytes.
    pub memory_used_bytes: Reading<u64>,
}

/// Reads one group again and again.
#[derive(Debug)]
pub struct GroupReader {
    identity: Reading<u64>,
    cpu: CpuUsage,
    throttling: Option<KeptFile>,
    throttling_above: Vec<KeptFile>,
    pressure: Option<[KeptFile; 3]>,
    memory_stat: Option<(KeptFile, &'static str)>,
    memory_used: Option<KeptFile>,
    buffer: Vec<u8>,
}

impl GroupReader {
    /// A reader of everything that the group's hierarchies offer.
    #[must_use]
    pub fn new(group: &Group) -> Self {
        let file = |place: &Place, name: &str| KeptFile::new(place.file(name));
        let psi = |place: &Place| {
            ["cpu.pressure", "memory.pressure", "io.pressure"].map(|name| file(place, name))
        };
        let v1_memory = group.v1("memory");
        let v2_memory = || group.place("memory").ok();
        let stat = |place| (file(place, "memory.stat"), "pgfault");
        Self {
            identity: group.identity(),
            cpu: CpuUsage::new(group),
            throttling: group.place("cpu").ok().map(|place| file(place, "cpu.stat")),
            throttling_above: Vec::new(),
            pressure: group.v2().map(psi),
            // In v1 the plain field leaves out the groups below.
            memory_stat: v1_memory
                .map(|place| (file(place, "memory.stat"), "total_pgfault"))
                .or_else(|| v2_memory().map(stat)),
            memory_used: v1_memory
                .map(|place| file(place, "memory.usage_in_bytes"))
                .or_else(|| v2_memory().map(|place| file(place, "memory.current"))),
            buffer: Vec::new(),
        }
    }

    /// The same, but its throttling counts that of the groups above as well, whose quotas hold it
    /// back as its own does.
    #[must_use]
    pub fn with_groups_above(group: &Group) -> Self {
        let above = |place: &Place| {
            let below_top = |dir: &&Path| *dir != place.top && dir.starts_with(&place.top);
            let dirs = place.dir.ancestors().skip(1).take_while(below_top);
            dirs.map(|dir| KeptFile::new(dir.join("cpu.stat"))).collect()
        };
        let throttling_above = group.place("cpu").map(above).unwrap_or_default();
        Self { throttling_above, ..Self::new(group) }
    }

    /// Everything at once.
    pub fn read(&mut self) -> GroupReading {
        let cpu_ns = self.cpu.read();
        let identity = match &cpu_ns {
            Err(gone @ Gap::Gone(_)) => Err(gone.clone()),
            _ => self.identity.clone(),
        };
        GroupReading {
            identity,
            cpu_ns,
            throttling: self.throttling(),
            pressure: self.pressure(),
            page_faults: self.page_faults(),
            memory_used_bytes: self.memory_used(),
        }
    }

    /// CPU time in nanoseconds.
    ///
    /// # Errors
    /// A gap if no hierarchy tells, or the group is gone.
    pub fn cpu_ns(&mut self) -> Reading<u64> {
        self.cpu.read()
    }

    fn throttling(&mut self) -> Reading<Throttling> {
        let file = present(self.throttling.as_mut(), "the cpu controller")?;
        let mut all = parsed(file, &mut self.buffer, parse::throttling)?;
        for file in &mut self.throttling_above {
            // Without a quota there are no periods, and in a v2 tree perhaps not even the words.
            if let Ok(above) = parsed(file, &mut self.buffer, parse::throttling) {
                all.periods = all.periods.saturating_add(above.periods);
                all.throttled_periods =
                    all.throttled_periods.saturating_add(above.throttled_periods);
                all.throttled_ns = all.throttled_ns.saturating_add(above.throttled_ns);
            }
        }
        Ok(all)
    }

    fn pressure(&mut self) -> Reading<Pressure> {
        let [cpu, memory, io] = present(self.pressure.as_mut(), "a cgroup v2 tree with PSI")?;
        let mut total = |file| parsed(file, &mut self.buffer, parse::some_total_ns);
        Ok(Pressure {
            cpu_some_ns: total(cpu)?,
            memory_some_ns: total(memory)?,
            io_some_ns: total(io)?,
        })
    }

    fn page_faults(&mut self) -> Reading<u64> {
        let (file, key) = present(self.memory_stat.as_mut(), "the memory controller")?;
        parsed(file, &mut self.buffer, |text| parse::field(text, key))
    }

    fn memory_used(&mut self) -> Reading<u64> {
        let file = present(self.memory_used.as_mut(), "the memory controller")?;
        parsed(file, &mut self.buffer, parse::number)
    }
}

fn present<T>(source: Option<T>, what: &str) -> Reading<T> {
    source.ok_or_else(|| Gap::absent(format!("the group is in no hierarchy with {what}")))
}

fn parsed<T>(
    file: &mut KeptFile,
    buffer: &mut Vec<u8>,
    parse: impl Fn(&str) -> Option<T>,
) -> Reading<T> {
    let value = parse(file.read(buffer)?);
    value.ok_or_else(|| Gap::failed(format!("{} has no such value", file.path().display())))
}

type Parse = fn(&str) -> Option<u64>;

/// Reads only the CPU time of a group: about a microsecond, so also fit for short windows.
///
/// A group may exist in v1 and v2 with its processes in one of them only. The first source that
/// shows any CPU time is kept for good; until then all are looked at.
#[derive(Debug)]
pub struct CpuUsage {
    sources: Vec<(KeptFile, Parse)>,
    settled: bool,
    buffer: Vec<u8>,
}

impl CpuUsage {
    /// A reader of this group's CPU time.
    #[must_use]
    pub fn new(group: &Group) -> Self {
        let v1 = group.v1("cpuacct").map(|place| (place, "cpuacct.usage", parse::number as Parse));
        let v2 = group.v2().map(|place| (place, "cpu.stat", usage_of_stat as Parse));
        let mut places: Vec<_> = [v1, v2].into_iter().flatten().collect();
        places.sort_by_key(|(place, ..)| !place.is_populated());
        let sources: Vec<_> = places
            .into_iter()
            .map(|(place, name, parse)| (KeptFile::new(place.file(name)), parse))
            .collect();
        Self { settled: sources.len() == 1, sources, buffer: Vec::new() }
    }

    /// CPU time in nanoseconds since the group was made.
    ///
    /// # Errors
    /// A gap if no hierarchy tells, or the group is gone.
    pub fn read(&mut self) -> Reading<u64> {
        let mut answer = Err(Gap::absent("the group is in no hierarchy that counts CPU time"));
        for index in 0..self.sources.len() {
            let (file, parse) = &mut self.sources[index];
            let value = parsed(file, &mut self.buffer, *parse);
            if self.settled {
                return value;
            }
            if matches!(value, Ok(ns) if ns > 0) {
                self.sources = vec![self.sources.swap_remove(index)];
                self.settled = true;
                return value;
            }
            if answer.is_err() {
                answer = value;
            }
        }
        answer
    }
}

pub(crate) fn usage_of_stat(text: &str) -> Option<u64> {
    parse::field(text, "usage_usec").map(parse::micros)
}
