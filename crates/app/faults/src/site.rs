//! Where an agent writes.

use quell_types::Knob;
use std::fmt;

/// A kind of knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnobKind {
    /// CPU sets.
    Cpus,
    /// CPU time limits.
    Bandwidth,
    /// CPU weights.
    Weight,
    /// The idle class.
    Idle,
    /// The freezer.
    Freezer,
    /// Egress ceilings.
    Egress,
    /// Cache ways.
    Ways,
    /// Memory bandwidth throttles.
    Memory,
    /// Top frequencies.
    Frequency,
    /// Clock modulation.
    Duty,
}

impl KnobKind {
    /// All that laws set and the simulated server has.
    pub const ALL: [KnobKind; 10] = [
        KnobKind::Cpus,
        KnobKind::Bandwidth,
        KnobKind::Weight,
        KnobKind::Idle,
        KnobKind::Freezer,
        KnobKind::Egress,
        KnobKind::Ways,
        KnobKind::Memory,
        KnobKind::Frequency,
        KnobKind::Duty,
    ];

    /// The kind of a knob; none for one that the laws of fault runs never set, or that the simulated
    /// server does not have.
    #[must_use]
    pub fn of(knob: &Knob) -> Option<Self> {
        Some(match knob {
            Knob::Cpus { .. } => KnobKind::Cpus,
            Knob::CpuBandwidth { .. } => KnobKind::Bandwidth,
            Knob::CpuWeight { .. } => KnobKind::Weight,
            Knob::CpuIdle { .. } => KnobKind::Idle,
            Knob::Frozen { .. } => KnobKind::Freezer,
            Knob::EgressCeiling { .. } => KnobKind::Egress,
            Knob::LlcWays { .. } => KnobKind::Ways,
            Knob::MemoryBandwidth { .. } => KnobKind::Memory,
            Knob::FrequencyMax { .. } => KnobKind::Frequency,
            Knob::DutyCycle { .. } => KnobKind::Duty,
            Knob::StayAwake { .. } | Knob::MemoryNodes { .. } => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            KnobKind::Cpus => "CPU set",
            KnobKind::Bandwidth => "CPU time limit",
            KnobKind::Weight => "CPU weight",
            KnobKind::Idle => "idle class",
            KnobKind::Freezer => "freezer",
            KnobKind::Egress => "egress ceiling",
            KnobKind::Ways => "cache ways",
            KnobKind::Memory => "memory throttle",
            KnobKind::Frequency => "top frequency",
            KnobKind::Duty => "duty cycle",
        }
    }
}

/// A place in the agent where something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// A knob, by a law.
    Set(KnobKind),
    /// A knob, put back.
    Restore(KnobKind),
    /// A brake, reserved at the start by a write that changes nothing.
    Reserve,
    /// A brake, on the way to the safe side or on it.
    Hold,
    /// A service's CPU set, freed on the way to the safe side.
    Free,
    /// On the way back from the safe side.
    Recover,
    /// An experiment.
    Play,
    /// A task of the queue, started.
    StartTask,
    /// A task of the queue, stopped.
    StopTask,
    /// A record of the knob journal.
    JournalAppend,
    /// The knob journal, rewritten or emptied.
    JournalReplace,
    /// A record of the decision journal.
    Decision,
    /// A record of the queue.
    Queue,
}

const OTHERS: [Site; 11] = [
    Site::Reserve,
    Site::Hold,
    Site::Free,
    Site::Recover,
    Site::Play,
    Site::StartTask,
    Site::StopTask,
    Site::JournalAppend,
    Site::JournalReplace,
    Site::Decision,
    Site::Queue,
];

impl Site {
    /// All sites.
    #[must_use]
    pub fn all() -> Vec<Site> {
        let set = KnobKind::ALL.into_iter().map(Site::Set);
        set.chain(KnobKind::ALL.into_iter().map(Site::Restore)).chain(OTHERS).collect()
    }

    /// Whether it is a place where records are written, not knobs.
    #[must_use]
    pub fn is_of_store(self) -> bool {
        matches!(self, Site::JournalAppend | Site::JournalReplace | Site::Decision | Site::Queue)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Site::Set(kind) => format!("set {}", kind.name()),
            Site::Restore(kind) => format!("put back {}", kind.name()),
            Site::Reserve => "reserve brake".into(),
            Site::Hold => "safe side: hold".into(),
            Site::Free => "safe side: free".into(),
            Site::Recover => "safe side: go on".into(),
            Site::Play => "experiment".into(),
            Site::StartTask => "start task".into(),
            Site::StopTask => "stop task".into(),
            Site::JournalAppend => "knob journal: append".into(),
            Site::JournalReplace => "knob journal: replace".into(),
            Site::Decision => "decision journal".into(),
            Site::Queue => "queue".into(),
        };
        f.pad(&text)
    }
}
