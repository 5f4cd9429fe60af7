//! Lines of `quell doctor`.

use crate::kernel_log;
use crate::{
    BusLocks, ClockModulation, Cpufreq, IdleStates, PmuProbe, Rapl, Thermal, kernel_brake, msr_cpus,
};
use quell_types::{Capability, CapabilityKind, CapabilityReport, Gap, Reading};
use std::collections::BTreeSet;
use std::path::Path;

/// What can be counted and read on the machine below `root` (perf events: on this machine
/// itself). Never fails.
#[must_use]
pub fn capabilities(root: &Path) -> Vec<CapabilityReport> {
    use CapabilityKind as Kind;
    let probe = PmuProbe::run(root);
    vec![
        report(
            Kind::PerfHardwareEvents,
            hardware(&probe),
            "no cycles, instructions or cache misses; CPU time per request stands in for them",
        ),
        report(
            Kind::PerfSoftwareEvents,
            names(&probe, false),
            "faults and switches come from cgroup files alone",
        ),
        report(Kind::BusLocks, bus_locks(root), "law bus-lock sees no locks and holds nobody back"),
        report(
            Kind::LockTraps,
            kernel_log::told(root),
            "who makes split locks at all is told by looks alone",
        ),
        report(
            Kind::PowerReading,
            power(root),
            "the power loop is off: no socket's power is known",
        ),
        report(
            Kind::FrequencyScaling,
            frequency(root),
            "the power loop is off: no frequency can be lowered",
        ),
        report(
            Kind::IdleStates,
            idle(root),
            "idle CPUs cannot be kept awake: the host or a sleep state may answer late",
        ),
        report(Kind::Thermal, thermal(root), "temperatures are not shown"),
        report(
            Kind::Msr,
            registers(root),
            "no clock modulation; CPU bandwidth limits stand in for it",
        ),
    ]
}

fn report(kind: CapabilityKind, found: Reading<String>, without: &str) -> CapabilityReport {
    match found {
        Ok(detail) => CapabilityReport {
            kind,
            capability: Capability::Native(detail),
            without: String::new(),
        },
        Err(gap) => {
            let why = match gap {
                Gap::Absent(why) => why,
                other => other.to_string(),
            };
            CapabilityReport {
                kind,
                capability: Capability::Absent(why),
                without: without.to_owned(),
            }
        }
    }
}

fn hardware(probe: &PmuProbe) -> Reading<String> {
    let names = names(probe, true)?;
    let check = probe.check.as_ref().map_err(Gap::clone)?;
    Ok(match check.offered - check.agreeing {
        0 => format!("{names}; {} at once", check.offered),
        bad => format!("{names}; {} at once ({bad} more offered that miscount)", check.agreeing),
    })
}

fn names(probe: &PmuProbe, hardware: bool) -> Reading<String> {
    let names: Vec<String> = probe.countable(hardware)?.iter().map(ToString::to_string).collect();
    Ok(names.join(", "))
}

fn bus_locks(root: &Path) -> Reading<String> {
    if root != Path::new("/") {
        return Err(Gap::absent("not the running machine: nothing is counted"));
    }
    let (event, check) = BusLocks::usable(root)?;
    Ok(format!("{event}, {} counters; {}", check.agreeing, kernel_brake(root)))
}

fn registers(root: &Path) -> Reading<String> {
    let cpus = msr_cpus(root)?;
    let clocks = match ClockModulation::discover(root) {
        Ok(clocks) => format!("clocks run in 1 to {} parts of the time", clocks.parts()),
        Err(gap) => gap.to_string(),
    };
    Ok(format!("readable on CPUs {cpus}; {clocks}"))
}

fn power(root: &Path) -> Reading<String> {
    let rapl = Rapl::discover(root)?;
    for zone in rapl.zones() {
        zone.energy_uj()?;
    }
    let names: Vec<&str> = rapl.zones().iter().map(|zone| zone.name.as_str()).collect();
    let design = match rapl.design_power() {
        Ok(sockets) => {
            let each = sockets.iter().map(|(s, watts)| format!("socket {s}: {:.0} W", watts.0));
            each.collect::<Vec<_>>().join(", ")
        }
        Err(_) => "design power not told, name it in the configuration".to_owned(),
    };
    Ok(format!("RAPL {} ({design})", names.join(", ")))
}

fn frequency(root: &Path) -> Reading<String> {
    let cpufreq = Cpufreq::discover(root)?;
    let drivers: BTreeSet<&str> =
        cpufreq.policies().iter().filter_map(|p| p.driver.as_deref().ok()).collect();
    let drivers = Vec::from_iter(drivers).join(", ");
    let (mut low, mut high) = (u64::MAX, 0);
    for policy in cpufreq.policies() {
        let (min, max) = policy.hardware_range()?;
        (low, high) = (low.min(min.0), high.max(max.0));
    }
    Ok(format!(
        "{drivers}: {} policies, {:.2} to {:.2} GHz",
        cpufreq.policies().len(),
        low as f64 / 1e6,
        high as f64 / 1e6
    ))
}

fn idle(root: &Path) -> Reading<String> {
    let states = IdleStates::discover(root)?;
    states.awake_knob(0)?;
    Ok(format!("{}: idle CPUs can be kept awake", states.driver()))
}

fn thermal(root: &Path) -> Reading<String> {
    let thermal = Thermal::discover(root)?;
    let sources: BTreeSet<&str> = thermal.sensors().iter().map(|s| s.source.as_str()).collect();
    Ok(format!("{} sensors: {}", thermal.sensors().len(), Vec::from_iter(sources).join(", ")))
}
