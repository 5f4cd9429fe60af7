//! The simulated machine beside the measured one: the same programs on the same CPUs.

use super::{MachineCell, MachineFigure, Neighbour};
use quell_sim::calibrated::{ACCESSES_PER_KI, CHASE_INSTRUCTIONS, MachineNumbers};
use quell_sim::{Machine, Program, Scene, SimBatch, SimServer, preset};
use quell_types::{BatchSpec, Knob, Setting};
use std::time::Duration;

const SEED: u64 = 7;
/// Caches have settled by then, and this long is looked.
const SETTLED: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_secs(1);
const LINE: f64 = 64.0;

/// A machine by its numbers, and the kernels that it was measured with.
#[derive(Clone, Debug)]
pub struct Twin {
    machine: Machine,
    numbers: MachineNumbers,
    l2_bytes: f64,
    scatter_bytes: f64,
}

impl Twin {
    /// The preset `vm2-xeon` with these numbers; private caches and the size over which is scattered
    /// are those that were measured with, in bytes.
    #[must_use]
    pub fn new(numbers: MachineNumbers, l2_bytes: f64, scatter_bytes: f64) -> Self {
        let base = preset("vm2-xeon").unwrap_or_else(|| unreachable!("a preset of ours"));
        Self { machine: numbers.on(base), numbers, l2_bytes, scatter_bytes }
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What one measured number is here.
    #[must_use]
    pub fn cell(&self, cell: &MachineCell) -> f64 {
        let beside = match cell.beside {
            Neighbour::Nobody => None,
            Neighbour::Stream => Some(self.stream(1.0)),
            Neighbour::Scatter => Some(self.scatter(1.0)),
        };
        match cell.figure {
            MachineFigure::ChaseNs => {
                self.chase_ns(cell.size_bytes.unwrap_or(0) as f64, beside.as_ref())
            }
            MachineFigure::StreamBytesPerS => {
                self.rate(&self.stream(1.0), beside.as_ref()) * ACCESSES_PER_KI / 1e3 * LINE
            }
            MachineFigure::ScatterPerS => {
                self.rate(&self.scatter(1.0), beside.as_ref()) * ACCESSES_PER_KI / 1e3
            }
        }
    }

    /// Nanoseconds of an access of a chase over so many bytes on the first CPU.
    #[must_use]
    pub fn chase_ns(&self, bytes: f64, beside: Option<&Program>) -> f64 {
        let chase = self.numbers.chase(bytes, self.l2_bytes);
        1e9 * CHASE_INSTRUCTIONS / self.rate(&chase, beside)
    }

    /// The service `search` of `quell load`.
    #[must_use]
    pub fn search(&self) -> Program {
        self.numbers.search()
    }

    /// The stream through memory for a share of the time.
    #[must_use]
    pub fn stream(&self, share: f64) -> Program {
        self.numbers.stream(share)
    }

    /// The kernel that presses on a share of the last-level cache.
    #[must_use]
    pub fn scatter(&self, share: f64) -> Program {
        self.numbers.scatter(share * self.scatter_bytes, self.l2_bytes)
    }

    fn rate(&self, program: &Program, beside: Option<&Program>) -> f64 {
        pair_rate(&self.machine, program, beside).unwrap_or(f64::NAN)
    }
}

/// Instructions/s of a program on CPU 0, with another one on CPU 1 if there is one; none if the
/// machine or a program cannot be.
#[must_use]
pub fn pair_rate(machine: &Machine, program: &Program, beside: Option<&Program>) -> Option<f64> {
    let batch = |name: &str, program: &Program| SimBatch {
        spec: BatchSpec { name: name.into(), links: vec![], takes_tasks: false, max_tasks: 0 },
        programs: vec![program.clone()],
    };
    let mut scene = Scene::new(machine.clone(), SEED);
    scene.batch = vec![batch("first", program)];
    scene.batch.extend(beside.map(|other| batch("second", other)));
    let mut server = SimServer::new(&scene).ok()?;
    for (tenant, cpu) in [("first", 0u32), ("second", 1)].into_iter().take(scene.batch.len()) {
        let knob = Knob::Cpus { tenant: tenant.into() };
        server.change_behind(&knob, &Setting::Cpus([cpu].into_iter().collect())).ok()?;
    }
    server.advance(SETTLED);
    let done = |server: &mut SimServer| server.truth().instructions.get(&"first".into()).copied();
    let before = done(&mut server)?;
    server.advance(LOOK);
    Some((done(&mut server)? - before) / LOOK.as_secs_f64())
}
