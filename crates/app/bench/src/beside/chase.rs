//! A pointer chase on one CPU, pressure on the other: how much slower an access becomes.

use super::report::{BesideRow, Part, Rows};
use super::{Ground, Neighbour};
use crate::machine::on_cpu;
use quell_calibrate::Twin;
use quell_pressure::Chase;
use std::time::Duration;

/// What the caches of a core do not hold; and more.
const SIZES_MIB: [usize; 3] = [4, 16, 64];
/// A neighbour has filled its part of the caches by then.
const SETTLE: Duration = Duration::from_millis(500);
/// A chase has its lines where they stay.
const WARM: Duration = Duration::from_millis(100);
/// Of one number.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn run(ground: &Ground<'_>) -> anyhow::Result<Vec<BesideRow>> {
    let chases = SIZES_MIB.iter().map(|mib| Chase::new(mib << 20));
    let mut chases = chases.collect::<Result<Vec<_>, _>>()?;
    let pressure = ground.pressure()?;
    let mut rows = Rows::default();
    ground.rounds(&mut rows, |rows| {
        let alone = on_cpu(ground.seats.first, || look(&mut chases))?;
        for neighbour in Neighbour::ALL {
            pressure.wake(neighbour)?;
            std::thread::sleep(SETTLE);
            let beside = on_cpu(ground.seats.first, || look(&mut chases))?;
            pressure.sleep();
            for ((mib, alone), beside) in SIZES_MIB.iter().zip(&alone).zip(&beside) {
                let fitted = neighbour.percent >= 100.0;
                rows.see(&words(*mib, neighbour), "times as long", fitted, beside / alone);
            }
        }
        Ok(())
    })?;
    Ok(rows.of(Part::Chase))
}

/// What the preset says of a figure of this part.
pub(super) fn simulated(twin: &Twin, what: &str) -> Option<f64> {
    let all = SIZES_MIB.iter().flat_map(|mib| Neighbour::ALL.map(|n| (*mib, n)));
    let (mib, neighbour) = all.into_iter().find(|(mib, n)| words(*mib, *n) == what)?;
    let bytes = (mib << 20) as f64;
    let beside = neighbour.program(twin);
    Some(twin.chase_ns(bytes, Some(&beside)) / twin.chase_ns(bytes, None))
}

fn words(mib: usize, neighbour: Neighbour) -> String {
    format!("access over {mib} MiB beside {neighbour}")
}

/// Nanoseconds of an access of each, on the calling thread.
fn look(chases: &mut [Chase]) -> Vec<f64> {
    let mut one = |chase: &mut Chase| {
        chase.touch();
        chase.access_ns(WARM);
        chase.access_ns(LOOK).unwrap_or(f64::NAN)
    };
    chases.iter_mut().map(&mut one).collect()
}
