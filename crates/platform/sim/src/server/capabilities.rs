//! What a simulated machine lets one measure and control.

use crate::machine::Machine;
use quell_types::{Capability, CapabilityKind, CapabilityReport};

/// One line for each kind that the simulation speaks of.
pub(crate) fn of(machine: &Machine, has_links: bool) -> Vec<CapabilityReport> {
    use CapabilityKind as Kind;
    let yes = |kind| report(kind, Ok("simulated"), "");
    let if_there = |kind, there: bool, why: &str, without: &str| {
        report(kind, if there { Ok("simulated") } else { Err(why) }, without)
    };
    let mut all: Vec<CapabilityReport> = [
        Kind::Topology,
        Kind::NumaNodes,
        Kind::CacheGeometry,
        Kind::CpuBandwidth,
        Kind::CpuWeight,
        Kind::CpuIdle,
        Kind::CpuSets,
        Kind::Freezer,
        Kind::Psi,
        Kind::RequestLatency,
        Kind::RunQueueLatency,
        Kind::CpuContention,
        Kind::CpuTimePerRequest,
        Kind::EgressMeter,
    ]
    .map(yes)
    .into();
    let rdt = "the simulated processor has no such feature";
    let ways = machine.allocation.is_some();
    all.extend([
        if_there(Kind::Smt, machine.threads_per_core > 1, "one thread a core", "nothing is lost"),
        if_there(Kind::ResctrlCat, ways, rdt, "caches are protected by CPU budgets alone"),
        if_there(Kind::ResctrlMba, machine.throttle.is_some(), rdt, "batch is limited by CPUs"),
        if_there(Kind::ResctrlMonitoring, machine.monitoring, rdt, "harm is told by experiments"),
        if_there(Kind::MemoryBandwidth, machine.monitoring, rdt, "no limit on memory traffic"),
        if_there(Kind::PowerReading, machine.power_sensor, rdt, "no law acts on power"),
        if_there(
            Kind::FrequencyScaling,
            machine.clock.controllable,
            rdt,
            "clocks stay as they are",
        ),
        if_there(Kind::EgressShaper, has_links, "no link was named", "egress is left alone"),
        report(Kind::PerfHardwareEvents, Err(NO_PMU), "harm is told by CPU time per request"),
        if_there(Kind::Msr, machine.duty_parts.is_some(), rdt, "no duty cycle is set"),
        if_there(
            Kind::BusLocks,
            machine.lock_counter,
            "nothing counts them here",
            "nobody is held back for them",
        ),
        if_there(
            Kind::LockTraps,
            machine.bus_lock_limit.is_some(),
            "the simulated kernel traps no bus locks",
            "nobody is suspected for them beforehand",
        ),
        if_there(Kind::Thermal, machine.power_sensor, rdt, "no law acts on it"),
    ]);
    all.extend(gauges(machine));
    all
}

/// What the kernel's gauge tells, all of it or nothing.
fn gauges(machine: &Machine) -> [CapabilityReport; 3] {
    let there =
        if machine.lock_gauge { Ok("simulated") } else { Err("the simulated kernel has none") };
    let one = |kind, without| report(kind, there, without);
    [
        one(
            CapabilityKind::BusLockGauge,
            "who locks the bus is told by counters or by experiments",
        ),
        one(
            CapabilityKind::CacheGauge,
            "who drives out what lies in the caches is told by experiments",
        ),
        one(
            CapabilityKind::HiddenSteal,
            "time that the hypervisor takes and does not tell is not seen",
        ),
    ]
}

const NO_PMU: &str = "samples carry no hardware counters";

fn report(kind: CapabilityKind, there: Result<&str, &str>, without: &str) -> CapabilityReport {
    let capability = match there {
        Ok(what) => Capability::Native(what.into()),
        Err(why) => Capability::Absent(why.into()),
    };
    let without = if there.is_ok() { "" } else { without };
    CapabilityReport { kind, capability, without: without.into() }
}
