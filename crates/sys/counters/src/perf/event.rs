//! What can be counted.

use std::fmt;

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// One perf event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Core clock cycles.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Accesses to the last-level cache, as the kernel maps the generic event.
    CacheReferences,
    /// Misses of the last-level cache, as the kernel maps the generic event.
    CacheMisses,
    /// Load misses of the last-level cache alone.
    LlcLoadMisses,
    /// Cycles in which the front end delivered nothing.
    StalledFrontend,
    /// Cycles in which the back end took nothing.
    StalledBackend,
    /// Cycles at the reference clock.
    RefCycles,
    /// An event of this very PMU: umask << 8 | event number (A-9: 0x10f4 = SQ_MISC.SPLIT_LOCK).
    Raw(u64),
    /// Nanoseconds of CPU time by the CPU's clock.
    CpuClock,
    /// Nanoseconds of CPU time by the tasks' clocks.
    TaskClock,
    /// Page faults of all kinds.
    PageFaults,
    /// Page faults without disk.
    MinorFaults,
    /// Page faults with disk.
    MajorFaults,
    /// Context switches.
    ContextSwitches,
    /// Moves from one CPU to another.
    CpuMigrations,
    /// Switches from one cgroup to another.
    CgroupSwitches,
}

impl Event {
    /// Those that need a PMU (but for raw ones).
    pub const HARDWARE: [Event; 8] = [
        Event::Cycles,
        Event::Instructions,
        Event::CacheReferences,
        Event::CacheMisses,
        Event::LlcLoadMisses,
        Event::StalledFrontend,
        Event::StalledBackend,
        Event::RefCycles,
    ];

    /// Those that the kernel counts itself.
    pub const SOFTWARE: [Event; 8] = [
        Event::CpuClock,
        Event::TaskClock,
        Event::PageFaults,
        Event::MinorFaults,
        Event::MajorFaults,
        Event::ContextSwitches,
        Event::CpuMigrations,
        Event::CgroupSwitches,
    ];

    /// Whether it needs a PMU.
    #[must_use]
    pub fn is_hardware(self) -> bool {
        self.code().0 != SOFTWARE
    }

    /// Type and config of `perf_event_attr`.
    pub(crate) fn code(self) -> (u32, u64) {
        match self {
            Event::Cycles => (HARDWARE, 0),
            Event::Instructions => (HARDWARE, 1),
            Event::CacheReferences => (HARDWARE, 2),
            Event::CacheMisses => (HARDWARE, 3),
            Event::StalledFrontend => (HARDWARE, 7),
            Event::StalledBackend => (HARDWARE, 8),
            Event::RefCycles => (HARDWARE, 9),
            // Last level | read << 8 | miss << 16.
            Event::LlcLoadMisses => (CACHE, 0x10002),
            Event::Raw(config) => (RAW, config),
            Event::CpuClock => (SOFTWARE, 0),
            Event::TaskClock => (SOFTWARE, 1),
            Event::PageFaults => (SOFTWARE, 2),
            Event::ContextSwitches => (SOFTWARE, 3),
            Event::CpuMigrations => (SOFTWARE, 4),
            Event::MinorFaults => (SOFTWARE, 5),
            Event::MajorFaults => (SOFTWARE, 6),
            Event::CgroupSwitches => (SOFTWARE, 11),
        }
    }
}

impl fmt::Display for Event {
    /// The name that perf(1) uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Event::Cycles => "cycles",
            Event::Instructions => "instructions",
            Event::CacheReferences => "cache-references",
            Event::CacheMisses => "cache-misses",
            Event::LlcLoadMisses => "LLC-load-misses",
            Event::StalledFrontend => "stalled-cycles-frontend",
            Event::StalledBackend => "stalled-cycles-backend",
            Event::RefCycles => "ref-cycles",
            Event::Raw(config) => return write!(f, "r{config:x}"),
            Event::CpuClock => "cpu-clock",
            Event::TaskClock => "task-clock",
            Event::PageFaults => "page-faults",
            Event::MinorFaults => "minor-faults",
            Event::MajorFaults => "major-faults",
            Event::ContextSwitches => "context-switches",
            Event::CpuMigrations => "cpu-migrations",
            Event::CgroupSwitches => "cgroup-switches",
        };
        f.write_str(name)
    }
}
