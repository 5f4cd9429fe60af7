//! Which CPU answers the disk, and who sits where for that.
//!
//! **Problem.** Many disks of virtual machines have one queue, whose interrupts one CPU answers, whoever asked. A kernel
//! that works on the disk from another CPU then costs that one time, and what keeps that one busy in the kernel keeps the
//! disk's answers waiting: a fifth of the disk's work was lost beside a link, and as much of a cache's beside the disk.
//! That is neither disk nor link nor cache, but the seat.
//!
//! **Idea.** Whoever works on the disk sits on the CPU that answers it, victim or source. Which one that is is tried: the
//! disk's kernel works on either seat, and it is counted whom that interrupts.
//!
//! ```text
//! of a seat: the device whose count grows most, and the CPU that answered nine tenths of that
//! the disk's CPU: the same device and CPU from both seats, else each CPU is answered for itself
//! answered by the source's CPU:   others as seated;                     the disk's victims with both seats changed
//! answered by the victim's CPU:   others with both seats changed;       the disk's victims as seated
//! ```
//!
//! Degradation: where it cannot be tried (no room on a disk, no `/proc/interrupts`) all are as seated.

use super::ValidateOptions;
use super::crosstalk::Group;
use crate::desk::{pause, percent, ready};
use crate::{ProfileError, Seats};
use quell_pressure::{Resource, Stop};
use quell_topology::{Interrupts, Machine};
use quell_types::{CpuSet, Topology};
use std::time::Duration;

/// For so long the disk works on each seat.
const TRIED: Duration = Duration::from_millis(150);
/// Who answered so much of a device's interrupts answers all.
const ALL: f64 = 0.9;
/// Fewer interrupts may be anybody's.
const LEAST: u64 = 8;

/// Seats, and which victims are looked at from them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arrangement {
    pub(super) seats: Seats,
    of_disk: Option<bool>,
}

impl Arrangement {
    /// Whether a victim is looked at from these seats.
    pub(super) fn holds(&self, victim: Resource) -> bool {
        self.of_disk.is_none_or(|of_disk| of_disk == (Group::of(victim) == Group::Disk))
    }
}

/// From which seats all victims are looked at, where this CPU answers the disk.
pub(super) fn arrangements(seats: &Seats, disk_cpu: Option<u32>) -> Vec<Arrangement> {
    let changed = Seats {
        workload: seats.pressure.clone(),
        pressure: seats.workload.clone(),
        same_core: seats.same_core,
    };
    let (source, victim) = (seats.pressure.first(1), seats.workload.first(1));
    let of = |seats: &Seats, of_disk| Arrangement { seats: seats.clone(), of_disk };
    match disk_cpu {
        Some(cpu) if source.contains(cpu) => {
            vec![of(seats, Some(false)), of(&changed, Some(true))]
        }
        Some(cpu) if victim.contains(cpu) => {
            vec![of(&changed, Some(false)), of(seats, Some(true))]
        }
        _ => vec![of(seats, None)],
    }
}

/// The CPU that answers the disk, whichever of both seats asks it; none where each is answered for itself, or that
/// cannot be tried.
pub(super) fn disk_cpu(
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
) -> Result<Option<u32>, ProfileError> {
    let (first, second) = (options.seats.workload.first(1), options.seats.pressure.first(1));
    let disk = options.resources(topology).into_iter().any(|r| Group::of(r) == Group::Disk);
    if !disk || first == second {
        return Ok(None);
    }
    let Some(one) = answered(options, &first, topology, stop)? else { return Ok(None) };
    let other = answered(options, &second, topology, stop)?;
    Ok(other.filter(|other| *other == one).map(|(_, cpu)| cpu))
}

/// Device and CPU while the disk's kernel works on these CPUs.
fn answered(
    options: &ValidateOptions,
    cpus: &CpuSet,
    topology: &Topology,
    stop: &Stop,
) -> Result<Option<(u32, u32)>, ProfileError> {
    let kernel = match ready(&options.options(Resource::StorageBandwidth, cpus), topology, stop) {
        Ok(kernel) => kernel,
        Err(ProfileError::Resource { .. }) => return Ok(None),
        Err(e) => return Err(e),
    };
    let machine = Machine::new("/");
    let before = machine.interrupts();
    kernel.turn_to(percent(100.0));
    pause(TRIED, stop)?;
    let after = machine.interrupts();
    kernel.mute();
    Ok(before.ok().zip(after.ok()).and_then(|(before, after)| busiest(&before, &after)))
}

/// The device whose interrupts grew most, and the CPU that answered them, if one did.
fn busiest(before: &[Interrupts], after: &[Interrupts]) -> Option<(u32, u32)> {
    let grown = |now: &Interrupts| {
        let then = before.iter().find(|then| then.line == now.line)?;
        let pairs = now.by_cpu.iter().zip(&then.by_cpu);
        let by_cpu = pairs.map(|((cpu, now), (_, then))| (*cpu, now.saturating_sub(*then)));
        let by_cpu: Vec<(u32, u64)> = by_cpu.collect();
        let all = by_cpu.iter().map(|(_, count)| count).sum::<u64>();
        let most = by_cpu.into_iter().max_by_key(|(_, count)| *count)?;
        Some((now.line, all, most))
    };
    let (line, all, (cpu, most)) = after.iter().filter_map(grown).max_by_key(|(_, all, _)| *all)?;
    (all >= LEAST && most as f64 >= ALL * all as f64).then_some((line, cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lines: &[(u32, [u64; 2])]) -> Vec<Interrupts> {
        let one = |(line, [zero, one]): &(u32, [u64; 2])| Interrupts {
            line: *line,
            by_cpu: vec![(0, *zero), (1, *one)],
        };
        lines.iter().map(one).collect()
    }

    #[test]
    fn whoever_answers_the_device_that_worked_is_told() {
        let before = counts(&[(36, [5, 1000]), (38, [7, 0])]);
        for (after, told) in [
            (counts(&[(36, [5, 1900]), (38, [40, 0])]), Some((36, 1))),
            (counts(&[(36, [500, 1900]), (38, [7, 0])]), None),
            (counts(&[(36, [5, 1003]), (38, [7, 0])]), None),
            (counts(&[(40, [0, 9999])]), None),
        ] {
            assert_eq!(busiest(&before, &after), told, "{after:?}");
        }
    }

    #[test]
    fn whoever_works_on_the_disk_sits_where_it_is_answered() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let seats = Seats { workload: cpus("0"), pressure: cpus("1"), same_core: false };
        let all = [Resource::StorageBandwidth, Resource::StorageCapacity, Resource::Integer];
        for (disk_cpu, victims_on) in [
            (Some(1), ["1", "1", "0"]),
            (Some(0), ["0", "0", "1"]),
            (None, ["0"; 3]),
            (Some(7), ["0"; 3]),
        ] {
            let found = arrangements(&seats, disk_cpu);
            for (victim, on) in all.into_iter().zip(victims_on) {
                let held: Vec<_> = found.iter().filter(|one| one.holds(victim)).collect();
                assert_eq!(held.len(), 1, "{disk_cpu:?} {victim}");
                assert_eq!(held[0].seats.workload, cpus(on), "{disk_cpu:?} {victim}");
                assert!(held[0].seats.workload.is_disjoint(&held[0].seats.pressure));
            }
        }
    }
}
