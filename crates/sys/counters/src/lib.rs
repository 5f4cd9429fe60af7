//! Hardware counters and what else tells of power, heat and frequency: perf events (task, CPU and
//! cgroup), RAPL energy, cpufreq, thermal sensors, MSR devices, and the kernel's log of split locks.
//!
//! All but perf events, which are a system call, are read below a root directory, so that fixture
//! trees work. What a machine lacks is a gap with its reason: nothing here fails for that.

mod capability;
mod clock;
mod cpufreq;
mod file;
mod idle;
mod kernel_log;
mod msr;
mod perf;
mod rapl;
mod thermal;

pub use capability::capabilities;
pub use clock::{ClockError, ClockKnob, ClockModulation, RawRegister};
pub use cpufreq::{Cpufreq, CpufreqError, FrequencyKnob, Policy};
pub use file::RawFile;
pub use idle::{AwakeKnob, IdleError, IdleStates};
pub use kernel_log::{KernelLog, LockTrap, LockTrapKind};
pub use msr::{msr_cpus, read_msr};
pub use perf::{
    BusLocks, CounterCheck, Counters, Event, MAX_HARDWARE, MemoryTraffic, PerfError, PmuProbe, Raw,
    Tally, Target, kernel_brake, open_error,
};
pub use rapl::{EnergyMeter, PowerLimits, PowerReading, Rapl, Zone, ZoneKind};
pub use thermal::{Place, Sensor, Thermal};
