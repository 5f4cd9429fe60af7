//! Where a measurement is made from: a thread on the CPUs of the pressure, so that neither it nor what it
//! starts there disturbs the workload.

use crate::ProfileError;
use quell_pressure::{Intensity, Options, Plan, Running, Stop, allowed_cpus, arm, bind_all};
use quell_types::{CpuSet, Topology};
use std::time::Duration;

/// The CPUs of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seats {
    /// The workload's.
    pub workload: CpuSet,
    /// The pressure's, and the measurement's own.
    pub pressure: CpuSet,
    /// Whether they are the same, and shared by time.
    pub same_core: bool,
}

impl Seats {
    /// The last CPU that may be used for the pressure and the others for the workload, unless they
    /// are named. With `same_core` both sit on the workload's.
    ///
    /// # Errors
    /// There is one CPU only, or CPUs were named that may not be used.
    pub fn choose(
        workload: Option<&CpuSet>,
        pressure: Option<&CpuSet>,
        same_core: bool,
    ) -> Result<Seats, ProfileError> {
        Seats::within(&allowed_cpus()?, workload, pressure, same_core)
    }

    fn within(
        allowed: &CpuSet,
        workload: Option<&CpuSet>,
        pressure: Option<&CpuSet>,
        same_core: bool,
    ) -> Result<Seats, ProfileError> {
        for named in [workload, pressure].into_iter().flatten() {
            let unusable = named.difference(allowed);
            if !unusable.is_empty() || named.is_empty() {
                let (unusable, allowed) = (unusable.to_string(), allowed.to_string());
                return Err(quell_pressure::PressureError::Cpus { unusable, allowed }.into());
            }
        }
        if same_core {
            let seat = workload.or(pressure).cloned().unwrap_or_else(|| allowed.first(1)).first(1);
            return Ok(Seats { workload: seat.clone(), pressure: seat, same_core });
        }
        let rest = |taken: Option<&CpuSet>| allowed.difference(&taken.cloned().unwrap_or_default());
        let pressure = pressure.cloned().unwrap_or_else(|| rest(workload).last(1));
        let workload = workload.cloned().unwrap_or_else(|| rest(Some(&pressure)));
        if pressure.is_empty() || workload.is_empty() {
            return Err(ProfileError::OneCpu { allowed: allowed.to_string() });
        }
        Ok(Seats { workload, pressure, same_core })
    }
}

/// Does something on a thread that is bound to these CPUs, with all that it starts.
///
/// # Errors
/// The CPUs may not be used; what was done failed.
pub fn at_desk<T: Send>(
    cpus: &CpuSet,
    work: impl FnOnce() -> Result<T, ProfileError> + Send,
) -> Result<T, ProfileError> {
    let bound = || {
        bind_all(cpus)?;
        work()
    };
    std::thread::scope(|scope| match scope.spawn(bound).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Arms pressure and starts it muted, ready to be turned.
pub(crate) fn ready(
    options: &Options,
    topology: &Topology,
    stop: &Stop,
) -> Result<Running, ProfileError> {
    let mut options = options.clone();
    options.plan = Plan::Hold(Intensity::ZERO);
    let resource = options.resource;
    // The kernel's threads take the priority of whoever starts them.
    prioritise(0);
    let armed = arm(&options, topology, stop);
    prioritise(DESK_NICE);
    let armed = armed.map_err(|source| ProfileError::Resource { resource, source })?;
    let running = armed.start();
    running.mute();
    Ok(running)
}

/// Before the kernels that it shares a CPU with, so that it hears and starts things in time.
pub(crate) const DESK_NICE: i32 = -15;

/// Sets the nice value of the calling thread, where that is permitted; without it windows are a
/// little less exact.
pub(crate) fn prioritise(nice: i32) {
    let _ = rustix::process::setpriority_process(None, nice);
}

/// Waits, unless somebody asked to stop.
pub(crate) fn pause(length: Duration, stop: &Stop) -> Result<(), ProfileError> {
    if stop.wait(length) { Err(ProfileError::Stopped) } else { Ok(()) }
}

/// Full intensity or a share of it.
pub(crate) fn percent(value: f64) -> Intensity {
    Intensity::new(value.clamp(0.0, 100.0)).unwrap_or(Intensity::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn seats_part_the_machine() {
        let all = cpus("0-3");
        for (workload, pressure, same, seats) in [
            (None, None, false, ("0-2", "3")),
            (Some("0"), None, false, ("0", "3")),
            (None, Some("0-1"), false, ("2-3", "0-1")),
            (Some("3"), None, false, ("3", "2")),
            (Some("2"), None, true, ("2", "2")),
            (None, None, true, ("0", "0")),
        ] {
            let (workload, pressure) = (workload.map(cpus), pressure.map(cpus));
            let found = Seats::within(&all, workload.as_ref(), pressure.as_ref(), same).unwrap();
            let expected = (cpus(seats.0), cpus(seats.1));
            assert_eq!((found.workload, found.pressure), expected, "{seats:?}");
        }
    }

    #[test]
    fn what_cannot_be_seated_says_why() {
        let one = Seats::within(&cpus("0"), None, None, false).unwrap_err().to_string();
        assert!(one.contains("--same-core"), "{one}");
        assert!(Seats::within(&cpus("0"), None, None, true).is_ok());
        let absent = Seats::within(&cpus("0-1"), Some(&cpus("7")), None, false).unwrap_err();
        assert!(absent.to_string().contains('7'), "{absent}");
    }

    #[test]
    fn the_desk_has_its_cpus() {
        let first = allowed_cpus().unwrap().first(1);
        assert_eq!(at_desk(&first, || Ok(7)).unwrap(), 7);
        assert!(at_desk(&CpuSet::of(60_000), || Ok(7)).is_err());
    }
}
