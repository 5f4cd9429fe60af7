//! What can go wrong.

use std::fmt;

/// A kind of fault. Each can come about at each [`crate::Site`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A write is lost without a word; a record is not made durable.
    LostWrite,
    /// A write arrives some samples late; a record is written, but the medium says that it failed.
    LateWrite,
    /// A write is refused.
    RefusedWrite,
    /// The agent dies just before a write; another one takes over.
    DeathBefore,
    /// The agent dies just after a write; another one takes over.
    DeathAfter,
    /// Another program sets a knob.
    ForeignWrite,
    /// A tenant's sensors give nothing for a while.
    SensorSilent,
    /// All sensors show what they showed before, for a while.
    SensorStall,
    /// A tenant's counters show a multiple of what they are, for a while.
    SensorLie,
    /// A tenant's counters jump ahead.
    SensorJump,
    /// A tenant is missing from the samples for a while.
    SensorVanish,
    /// A tenant's counters come to the end of their range and begin anew.
    CounterWrap,
    /// A CPU is unplugged, and back later.
    CpuUnplugged,
    /// A workload ends; it is started again later.
    WorkloadDies,
    /// A workload forks another program.
    WorkloadForks,
    /// A workload moves to another group.
    WorkloadMoves,
    /// A workload's group goes, and comes back under a new id with its knobs as the kernel makes
    /// them.
    WorkloadReturns,
    /// The disk is full for a while.
    DiskFull,
    /// The machine's clock jumps ahead, as after a sleep.
    ClockJump,
    /// Somebody sets the clock that people read, ahead or back.
    ClockSet,
    /// The machine's sensors (bus locks, temperatures, power) show what they showed before, for a
    /// while.
    HardwareStall,
    /// The machine's sensors show a multiple of what is, for a while.
    HardwareLie,
    /// The machine's sensors, or some CPUs of theirs, are gone for a while.
    HardwareVanish,
    /// Two of the others at once.
    Two,
}

use FaultKind::{
    ClockJump, ClockSet, CounterWrap, CpuUnplugged, DeathAfter, DeathBefore, DiskFull,
    ForeignWrite, HardwareLie, HardwareStall, HardwareVanish, LateWrite, LostWrite, RefusedWrite,
    SensorJump, SensorLie, SensorSilent, SensorStall, SensorVanish, Two, WorkloadDies,
    WorkloadForks, WorkloadMoves, WorkloadReturns,
};

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 24] = [
        LostWrite,
        LateWrite,
        RefusedWrite,
        DeathBefore,
        DeathAfter,
        ForeignWrite,
        SensorSilent,
        SensorStall,
        SensorLie,
        SensorJump,
        SensorVanish,
        CounterWrap,
        CpuUnplugged,
        WorkloadDies,
        WorkloadForks,
        WorkloadMoves,
        WorkloadReturns,
        DiskFull,
        ClockJump,
        ClockSet,
        HardwareStall,
        HardwareLie,
        HardwareVanish,
        Two,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LostWrite => "lost write",
            LateWrite => "late write",
            RefusedWrite => "refused write",
            DeathBefore => "death before a write",
            DeathAfter => "death after a write",
            ForeignWrite => "foreign write",
            SensorSilent => "sensor silent",
            SensorStall => "sensor stalls",
            SensorLie => "sensor lies",
            SensorJump => "sensor jumps",
            SensorVanish => "sensor vanishes",
            CounterWrap => "counter wraps",
            CpuUnplugged => "CPU unplugged",
            WorkloadDies => "workload dies",
            WorkloadForks => "workload forks",
            WorkloadMoves => "workload moves",
            WorkloadReturns => "workload returns under a new id",
            DiskFull => "disk full",
            ClockJump => "clock jumps",
            ClockSet => "clock set by others",
            HardwareStall => "machine's sensors stall",
            HardwareLie => "machine's sensors lie",
            HardwareVanish => "machine's sensors vanish",
            Two => "two at once",
        }
    }

    /// Whether it befalls the write itself: a write has at most one of these.
    #[must_use]
    pub fn is_of_write(self) -> bool {
        matches!(self, LostWrite | LateWrite | RefusedWrite | DeathBefore | DeathAfter)
    }

    /// Whether it befalls the sensors of the machine itself.
    #[must_use]
    pub fn is_of_hardware(self) -> bool {
        matches!(self, HardwareStall | HardwareLie | HardwareVanish)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
