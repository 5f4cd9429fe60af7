//! `quell pressure validate`: whether the kernels do what they say, on the machine at hand (B-E1 to
//! B-E3).
//!
//! 1. **Linearity**: what an observer sees that shares nothing with the kernel but the resource grows in
//!    proportion to the intensity.
//! 2. **Impact**: applications get slower as intensity grows, where they need the resource.
//! 3. **Cross-talk**: a kernel costs a neighbour that works on another resource next to nothing.

mod bench;
mod crosstalk;
mod disk_seat;
mod impact;
mod linearity;
mod observer;
mod prober;
mod report;
mod sources;
mod timing;

pub use report::{
    Crosstalk, Impact, ImpactPoint, KernelLinearity, KernelTiming, LevelValue, Unseen,
    VALIDATE_SCHEMA, Validation,
};
pub use sources::{SourcesProgram, serve_sources};

use crate::{Machine, ProfileError, Seats, Subject};
use quell_pressure::{CacheRoom, Options, Resource, Stop};
use quell_types::Topology;
use std::time::{Duration, Instant};

/// What to validate, and how thoroughly.
pub struct ValidateOptions {
    /// These resources; empty: all but bus locks.
    pub only: Vec<Resource>,
    /// Rounds over all levels and pairs.
    pub rounds: usize,
    /// The length of a window.
    pub window: Duration,
    /// linearity and impact: how long it is waited in all, for each kernel, or level, until the host runs the
    /// CPUs on cores of one cache again, where it says that they are.
    pub patience: Duration,
    /// Whether linearity is measured.
    pub linearity: bool,
    /// Whether it is measured how fast pressure comes and goes.
    pub timing: bool,
    /// Whether applications are measured.
    pub impact: bool,
    /// Whether cross-talk is measured.
    pub crosstalk: bool,
    /// Observer and victims sit at the workload's seat.
    pub seats: Seats,
    /// Settings of all kernels.
    pub pressure: Options,
    /// cross-talk: starts the program that presses, as a process that calls [`serve_sources`]; in this
    /// process if left out, where both sides share an address space.
    pub sources: Option<SourcesProgram>,
}

/// No kernel runs longer than this.
pub(crate) const LONGEST_S: f64 = 900.0;
/// What a capacity of memory is taken to be, so that a validation does not fill the machine.
const MEMORY_BYTES: u64 = 1 << 30;
/// The same for disks.
const DISK_BYTES: u64 = 256 << 20;

impl ValidateOptions {
    /// Those validated. Bus locks never are: they hurt strangers. Hardware threads are where they are.
    #[must_use]
    pub fn resources(&self, topology: &Topology) -> Vec<Resource> {
        let here = |r: &Resource| match r {
            Resource::BusLock => false,
            Resource::SmtSibling => topology.has_smt(),
            _ => self.only.is_empty() || self.only.contains(r),
        };
        Resource::ALL.into_iter().filter(here).collect()
    }

    /// A kernel's settings on the CPUs of a seat.
    pub(crate) fn options(&self, resource: Resource, cpus: &quell_types::CpuSet) -> Options {
        let mut options = self.pressure.clone();
        options.resource = resource;
        options.seconds = LONGEST_S;
        options.cpus = cpus.clone();
        match resource {
            Resource::Interconnect => options.cpus = quell_types::CpuSet::new(),
            Resource::MemoryCapacity if options.region_bytes.is_none() => {
                options.region_bytes = Some(MEMORY_BYTES);
            }
            Resource::StorageCapacity if options.storage.bytes.is_none() => {
                options.storage.bytes = Some(DISK_BYTES);
            }
            _ => {}
        }
        options
    }
}

/// Validates. Called at the desk ([`crate::at_desk`]); `applications` are further workloads whose
/// curves are wanted, on the workload's CPUs. `tell` hears a line at each step.
///
/// A validation that ends before its end (somebody asked, an application failed) is what was measured
/// until then, and says why.
///
/// # Errors
/// It ended before anything was measured. A kernel that cannot run is named with the reason.
pub fn validate(
    options: &ValidateOptions,
    applications: &mut [Box<dyn Subject>],
    topology: &Topology,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<Validation, ProfileError> {
    let begun = Instant::now();
    let mut found = Validation::new(Machine::of(topology));
    let ended = parts(options, applications, topology, stop, &mut found, tell);
    found.seconds = begun.elapsed().as_secs_f64();
    match ended {
        Ok(()) => Ok(found),
        Err(error) if found.is_empty() => Err(error),
        Err(error) => {
            found.ended_early = Some(error.to_string());
            Ok(found)
        }
    }
}

fn parts(
    options: &ValidateOptions,
    applications: &mut [Box<dyn Subject>],
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    for application in applications.iter_mut() {
        application.rest()?;
    }
    for resource in options.resources(topology).into_iter().filter(|_| options.linearity) {
        match linearity::measure(resource, options, topology, stop) {
            Ok(kernel) => {
                tell(&kernel.words());
                found.kernels.push(kernel);
            }
            Err(ProfileError::Resource { source, .. }) => {
                found.absent.insert(resource, source.to_string());
            }
            Err(e) => return Err(e),
        }
    }
    if options.timing {
        timing::measure(options, topology, stop, found, tell)?;
    }
    if options.impact {
        impact::measure(options, applications, topology, stop, found, tell)?;
    }
    if options.crosstalk {
        crosstalk::measure(options, topology, stop, found, tell)?;
    }
    Ok(())
}

/// Makes what is to be had of a shared cache the 100 % of a kernel that is to take it, if nobody said what to take:
/// beyond that it takes no more of it, and this is no matter of its intensity. Gives it if so.
fn fit_cache(
    pressure: &mut Options,
    topology: &Topology,
    stop: &Stop,
) -> Result<Option<CacheRoom>, ProfileError> {
    let cpu = pressure.cpus.iter().next();
    let (Resource::LlcCapacity, None, Some(cpu)) = (pressure.resource, pressure.llc_bytes, cpu)
    else {
        return Ok(None);
    };
    let room = CacheRoom::of(pressure, topology, cpu, stop)?.filter(|room| room.kept_bytes > 0);
    pressure.llc_bytes = room.map(|room| room.kept_bytes);
    Ok(room)
}
