//! perf events: counting by the processor's PMU and by the kernel.

mod attr;
mod bus_locks;
mod check;
mod counters;
mod event;
mod probe;
mod scale;
mod traffic;

pub(crate) use bus_locks::kernel_traps;
pub use bus_locks::{BusLocks, kernel_brake};
pub use check::CounterCheck;
pub use counters::{Counters, MAX_HARDWARE, PerfError, Target};
pub use event::Event;
pub use probe::{PmuProbe, open_error};
pub use scale::{Raw, Tally};
pub use traffic::MemoryTraffic;
