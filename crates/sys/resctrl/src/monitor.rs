//! Cache occupancy and memory traffic of a group.

use crate::Group;
use quell_types::{BandwidthReading, Gap, Reading};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Counters of one group in one L3 domain, as the kernel gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainCounters {
    /// Bytes of the cache that it holds now.
    pub llc_bytes: Reading<u64>,
    /// Bytes moved to and from all memory.
    pub total_bytes: Reading<u64>,
    /// Bytes moved to and from the domain's own memory.
    pub local_bytes: Reading<u64>,
}

/// What a file of `mon_data` says.
///
/// # Errors
/// `Unavailable` is not yet (the hardware has no count for the group now), `Unassigned` absent
/// (no counter is assigned), `Error` and anything else failed.
pub fn parse_counter(text: &str) -> Reading<u64> {
    let text = text.trim();
    match text {
        "Unavailable" => Err(Gap::not_yet("the hardware has no count for this group now")),
        "Unassigned" => Err(Gap::absent(
            "no counter is assigned to this group (info/L3_MON/mbm_assign_mode is mbm_event)",
        )),
        "Error" => Err(Gap::failed("the kernel could not read the counter")),
        _ if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map_err(|_| unknown(text))
        }
        _ => Err(unknown(text)),
    }
}

fn unknown(text: &str) -> Gap {
    let shown: String = text.chars().take(60).collect();
    Gap::failed(format!("not a counter: {shown:?}"))
}

fn read_counter(path: &Path) -> Reading<u64> {
    match fs::read_to_string(path) {
        Ok(text) => parse_counter(&text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Gap::absent(format!("no {}", path.display())))
        }
        Err(e) => Err(Gap::failed(format!("{}: {e}", path.display()))),
    }
}

/// The domain of a folder `mon_L3_00`; none for other folders.
#[must_use]
pub fn parse_domain(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("mon_L3_")?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

pub(crate) fn read_counters(group: &Path) -> Reading<BTreeMap<u32, DomainCounters>> {
    let dir = group.join("mon_data");
    let entries = fs::read_dir(&dir).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound if group.is_dir() => {
            Gap::absent(format!("no {}: this CPU or kernel does not monitor", dir.display()))
        }
        io::ErrorKind::NotFound => Gap::Gone(format!("{} was removed", group.display())),
        _ => Gap::failed(format!("{}: {e}", dir.display())),
    })?;
    let mut domains = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|e| Gap::failed(format!("{}: {e}", dir.display())))?;
        let Some(domain) = entry.file_name().to_str().and_then(parse_domain) else { continue };
        let event = |name: &str| read_counter(&entry.path().join(name));
        let counters = DomainCounters {
            llc_bytes: event("llc_occupancy"),
            total_bytes: event("mbm_total_bytes"),
            local_bytes: event("mbm_local_bytes"),
        };
        domains.insert(domain, counters);
    }
    if domains.is_empty() {
        return Err(Gap::absent(format!("{} has no L3 domain", dir.display())));
    }
    Ok(domains)
}

/// What a group holds and moved, over all domains, since its monitor was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorReading {
    /// Cache held now. Up to `max_threshold_occupancy` of it may be lines of a group that had the
    /// same RMID before.
    pub llc_bytes: Reading<u64>,
    /// All memory traffic.
    pub total_bytes: Reading<u64>,
    /// Traffic with the domain's own memory.
    pub local_bytes: Reading<u64>,
    /// Memory traffic as samples carry it: the total, or the local one on a machine that counts
    /// no other (T-17). Always of the same kind, so that it never goes back.
    pub bandwidth: Reading<BandwidthReading>,
}

impl MonitorReading {
    fn missing(gap: &Gap) -> Self {
        Self {
            llc_bytes: Err(gap.clone()),
            total_bytes: Err(gap.clone()),
            local_bytes: Err(gap.clone()),
            bandwidth: Err(gap.clone()),
        }
    }
}

/// Turns raw counters into a group's own, which begin at 0 and never go back.
///
/// A fresh group may be given an RMID that another used before, with that one's counts still in
/// it: so the first reading of each domain is the baseline. A counter that falls (the group was
/// made anew, the machine slept) starts a new one; that interval's traffic is lost, never
/// invented.
#[derive(Clone, Debug)]
pub struct Monitor {
    group: Group,
    only_local: bool,
    total: BTreeMap<u32, Tally>,
    local: BTreeMap<u32, Tally>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    last_raw: u64,
    sum: u64,
}

impl Tally {
    fn advance(&mut self, raw: u64) -> u64 {
        self.sum = self.sum.saturating_add(raw.saturating_sub(self.last_raw));
        self.last_raw = raw;
        self.sum
    }
}

impl Monitor {
    /// Takes the baseline of a group.
    #[must_use]
    pub fn new(group: Group) -> Self {
        let mut monitor =
            Self { group, only_local: false, total: BTreeMap::new(), local: BTreeMap::new() };
        let first = monitor.read();
        monitor.only_local = first.total_bytes.is_err() && first.local_bytes.is_ok();
        monitor
    }

    /// The group it watches.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Takes a new baseline, after a monitoring group was made or removed within this group: what
    /// its own counters jump by then moved nowhere. Traffic since the last reading is lost.
    pub fn rebase(&mut self) {
        let Ok(counters) = self.group.counters() else { return };
        for (domain, raw) in counters {
            for (tallies, raw) in
                [(&mut self.total, raw.total_bytes), (&mut self.local, raw.local_bytes)]
            {
                if let (Some(tally), Ok(raw)) = (tallies.get_mut(&domain), raw) {
                    tally.last_raw = raw;
                }
            }
        }
    }

    /// Reads all domains. A sum of which one domain is missing is that domain's gap; what it
    /// counted meanwhile is in the next sum.
    pub fn read(&mut self) -> MonitorReading {
        let counters = match self.group.counters() {
            Ok(counters) => counters,
            Err(gap) => return MonitorReading::missing(&gap),
        };
        let (mut llc_bytes, mut total_bytes, mut local_bytes) = (Ok(0), Ok(0), Ok(0));
        for (domain, raw) in counters {
            add(&mut llc_bytes, raw.llc_bytes);
            add(&mut total_bytes, count(&mut self.total, domain, raw.total_bytes));
            add(&mut local_bytes, count(&mut self.local, domain, raw.local_bytes));
        }
        let bytes = if self.only_local { local_bytes.clone() } else { total_bytes.clone() };
        let bandwidth = bytes.map(|bytes| BandwidthReading { bytes });
        MonitorReading { llc_bytes, total_bytes, local_bytes, bandwidth }
    }
}

fn count(tallies: &mut BTreeMap<u32, Tally>, domain: u32, raw: Reading<u64>) -> Reading<u64> {
    let raw = raw?;
    let tally = tallies.entry(domain).or_insert(Tally { last_raw: raw, sum: 0 });
    Ok(tally.advance(raw))
}

fn add(sum: &mut Reading<u64>, part: Reading<u64>) {
    match (sum.as_mut(), part) {
        (Ok(sum), Ok(part)) => *sum = sum.saturating_add(part),
        (Ok(_), Err(gap)) => *sum = Err(gap),
        (Err(_), _) => {}
    }
}
