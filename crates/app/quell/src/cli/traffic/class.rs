//! A class of service of resctrl around one process: its ways of the cache, and its own traffic.

use quell_resctrl::{Group, Monitor, Resctrl, SchemataKnob, mask};
use quell_types::{Gap, KnobRange, Reading, Setting};
use std::path::Path;

/// Removed when dropped; its threads are back in the class that all share then.
pub(super) struct Class {
    resctrl: Resctrl,
    name: String,
    monitor: Monitor,
    /// One for each last-level cache; none where its ways cannot be set.
    ways: Vec<SchemataKnob>,
}

impl Class {
    /// Puts a process with all its threads into a class of its own, which has all ways.
    ///
    /// # Errors
    /// Absent where resctrl is not mounted, counts no traffic or has no class left.
    pub(super) fn around(process: u32) -> Reading<Self> {
        let resctrl = Resctrl::open(Path::new("/"))?;
        let name = format!("quell-profile-{}", std::process::id());
        let group = resctrl.create(&name).map_err(|error| Gap::from(&error))?;
        let ways = ways_of(&resctrl, &group).unwrap_or_default();
        let monitor = Monitor::new(group);
        let mut class = Self { resctrl, name, monitor, ways };
        class.take_in(process)?;
        class.bytes()?;
        Ok(class)
    }

    /// Threads that are made later inherit the class.
    fn take_in(&self, process: u32) -> Reading<()> {
        let gone = |error: std::io::Error| Gap::failed(format!("process {process}: {error}"));
        for entry in std::fs::read_dir(format!("/proc/{process}/task")).map_err(gone)? {
            let thread = entry.map_err(gone)?.file_name().to_string_lossy().parse();
            let thread = thread.map_err(|_| Gap::failed("a thread without a number"))?;
            self.monitor.group().add_task(thread).map_err(|error| Gap::from(&error))?;
        }
        Ok(())
    }

    /// Numbers of ways to try: a quarter, half and all of the cache, or what of these it takes;
    /// none where ways cannot be set.
    pub(super) fn counts(&self) -> Vec<u32> {
        let Some(Ok(KnobRange::Ways { full, min_bits, .. })) =
            self.ways.first().map(SchemataKnob::range)
        else {
            return Vec::new();
        };
        let all = full.count_ones();
        let mut counts: Vec<u32> =
            [all / 4, all / 2, all].iter().map(|n| (*n).clamp(min_bits.max(1), all)).collect();
        counts.dedup();
        counts
    }

    /// Lets it fill so many ways of each cache, from the lowest.
    ///
    /// # Errors
    /// With the kernel's reason.
    pub(super) fn set_ways(&self, count: u32) -> Result<(), String> {
        let wanted = Setting::Ways(mask::ways(0, count));
        self.ways.iter().try_for_each(|knob| knob.write(&wanted)).map_err(|e| e.to_string())
    }

    /// Memory traffic since it was made.
    pub(super) fn bytes(&mut self) -> Reading<u64> {
        Ok(self.monitor.read().bandwidth?.bytes)
    }
}

fn ways_of(resctrl: &Resctrl, group: &Group) -> Reading<Vec<SchemataKnob>> {
    let domains = resctrl.domains(*resctrl.info().llc_resources().first().ok_or_else(none)?)?;
    domains.into_iter().map(|domain| resctrl.llc_ways(group, domain)).collect()
}

fn none() -> Gap {
    Gap::absent("no last-level cache whose ways can be set")
}

impl Drop for Class {
    fn drop(&mut self) {
        if let Err(error) = self.resctrl.remove(&self.name) {
            eprintln!("quell: group {} of resctrl stays: {error}", self.name);
        }
    }
}
