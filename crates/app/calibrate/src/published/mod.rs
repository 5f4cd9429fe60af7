//! Fits on other sources' cells: iBench (B-E2), Virtual Platforms (V-5, V-E3), Heracles (H-4, H-6).

mod heracles;
mod ibench;
mod platforms;
mod shape;

pub(crate) use heracles::heracles;
pub(crate) use ibench::{mcf, memcached};
pub(crate) use platforms::states;
pub(crate) use shape::shape;

use quell_sim::{Machine, Program, SimBatch, SimServer, preset};
use quell_types::{BatchSpec, CpuSet, Knob, Setting};
use std::time::Duration;

const SEED: u64 = 7;
const MIB: f64 = 1_048_576.0;
const LINE: f64 = 64.0;

/// What a program did over a span.
#[derive(Clone, Copy, Debug)]
struct Progress {
    instructions_per_s: f64,
    /// Misses of the last-level cache for 1000 instructions.
    mpki: f64,
}

/// A preset, which is there.
fn machine(name: &str) -> Machine {
    preset(name).unwrap_or_else(|| unreachable!("a preset of ours"))
}

/// A program on CPU 0, with others on the CPUs after it; none if that cannot be played.
fn beside(
    machine: &Machine,
    program: &Program,
    others: &[Program],
    (settle, span): (Duration, Duration),
) -> Option<Progress> {
    let batch = |name: &str, programs: Vec<Program>| SimBatch {
        spec: BatchSpec { name: name.into(), links: vec![], takes_tasks: false, max_tasks: 0 },
        programs,
    };
    let mut scene = crate::exact(machine.clone(), SEED);
    scene.batch = vec![batch("one", vec![program.clone()]), batch("others", others.to_vec())];
    let threads: u32 = others.iter().map(|p| p.threads).sum();
    let mut server = SimServer::new(&scene).ok()?;
    let seats = [("one", CpuSet::of(0)), ("others", (1..=threads.max(1)).collect())];
    for (tenant, cpus) in seats {
        let knob = Knob::Cpus { tenant: tenant.into() };
        server.change_behind(&knob, &Setting::Cpus(cpus)).ok()?;
    }
    let look = |server: &mut SimServer| {
        let truth = server.truth();
        let name = "one".into();
        Some((*truth.instructions.get(&name)?, *truth.traffic_bytes.get(&name)?))
    };
    server.advance(settle);
    let before = look(&mut server)?;
    server.advance(span);
    let after = look(&mut server)?;
    let (instructions, bytes) = (after.0 - before.0, after.1 - before.1);
    Some(Progress {
        instructions_per_s: instructions / span.as_secs_f64(),
        mpki: 1e3 * bytes / LINE / instructions,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn parameters_are_at_most_a_third_of_the_cells() {
        for fit in [super::mcf(), super::memcached(), super::states()] {
            let (parameters, cells) = (fit.parameters.len(), fit.cells.len());
            assert!(3 * parameters <= cells, "{}: {parameters} for {cells}", fit.name);
            assert_eq!((fit.simulate)(&fit.shipped).len(), cells, "{}", fit.name);
        }
    }
}
