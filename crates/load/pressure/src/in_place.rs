//! What a kernel takes of what a core has for itself, seen from the same core.
//!
//! Two threads of one core take turns, and with each turn comes the scheduler, whose own work drives
//! a good part of a first-level cache out: beside it the kernel hardly shows. So here kernel and
//! probe share a thread. In turns, the cache (or TLB) is primed, the kernel works until it has
//! touched all it wants, and a probe tells how much of what was primed is left. Nothing else runs in
//! between but for interrupts.

use crate::jobs;
use crate::kernel::{Code, Kernel, below, step};
use crate::prime_probe::{Look, PrimeProbe, sample_of, timed};
use crate::{Intensity, Options, PressureError, Resource, Stop, tlb};
use quell_types::Topology;

/// A kernel touches so many times what fits, at random: all but one line in three thousand then.
const TOUCHES: u64 = 8;

/// A kernel and a probe on the thread that calls. Bind it to one CPU before making it.
pub struct InPlace {
    kernel: Box<dyn Kernel>,
    mine: Mine,
    words: String,
}

/// What is primed and probed.
enum Mine {
    Data(PrimeProbe),
    Code(CodeProbe),
}

/// Lines of code in place of data.
struct CodeProbe {
    code: Code,
    state: u64,
}

impl InPlace {
    /// For a resource that a core has for itself: capacity of the first level (data, instructions)
    /// or the second, address translations. None for every other, or if its size is unknown.
    ///
    /// # Errors
    /// Options out of their range, no memory.
    pub fn of(
        options: &Options,
        topology: &Topology,
        stop: &Stop,
    ) -> Result<Option<InPlace>, PressureError> {
        options.check(topology)?;
        let cpu = options.cpus.iter().next().unwrap_or(0);
        let Some((mine, words)) = mine(options, topology, cpu)? else { return Ok(None) };
        let mut plan = jobs::plan(options, topology, &[Some(cpu)], stop)?;
        let Some(job) = plan.jobs.pop() else { return Ok(None) };
        let mut kernel = job();
        kernel.prepare();
        Ok(Some(InPlace { kernel, mine, words }))
    }

    /// What it is, for people.
    #[must_use]
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Primes, lets the kernel work at this intensity, and probes.
    ///
    /// # Errors
    /// The kernel cannot go on.
    pub fn look(&mut self, intensity: Intensity) -> Result<Look, PressureError> {
        self.kernel.set_intensity(intensity);
        self.mine.prime();
        let (wanted, mut done) = (TOUCHES * self.mine.count() as u64, 0);
        while done < wanted {
            let failed = |why| PressureError::Worker { index: 0, why };
            match self.kernel.burst().map_err(failed)? {
                0 => break,
                work => done += work,
            }
        }
        Ok(self.mine.probe())
    }
}

fn mine(
    options: &Options,
    topology: &Topology,
    cpu: u32,
) -> Result<Option<(Mine, String)>, PressureError> {
    if options.resource == Resource::Tlb {
        let told = options.tlb_entries.or_else(tlb::entries);
        let pages = told.unwrap_or(tlb::LIKELY_ENTRIES) as usize;
        let words = format!("timed prime and probe of {pages} pages, same thread");
        return Ok(Some((Mine::Data(PrimeProbe::pages(pages)?), words)));
    }
    let Some(bytes) = jobs::own_bytes(options, topology, cpu) else { return Ok(None) };
    let code = options.resource == Resource::L1Instruction;
    let what = if code { "KiB of code" } else { "KiB" };
    let words = format!("timed prime and probe of {} {what}, same thread", bytes >> 10);
    let mine = if code {
        Mine::Code(CodeProbe { code: Code::generate(bytes as usize)?, state: 1 })
    } else {
        Mine::Data(PrimeProbe::lines(bytes as usize)?)
    };
    Ok(Some((mine, words)))
}

impl Mine {
    fn count(&self) -> usize {
        match self {
            Mine::Data(lines) => lines.count(),
            Mine::Code(lines) => lines.code.lines(),
        }
    }

    fn prime(&mut self) {
        match self {
            Mine::Data(lines) => lines.prime(),
            Mine::Code(lines) => (0..2).for_each(|_| lines.code.run(lines.code.lines())),
        }
    }

    fn probe(&mut self) -> Look {
        match self {
            Mine::Data(lines) => lines.probe(),
            Mine::Code(lines) => lines.probe(),
        }
    }
}

impl CodeProbe {
    /// Runs some lines, each by itself, in no order.
    fn probe(&mut self) -> Look {
        let (all, some) = (self.code.lines(), sample_of(self.code.lines()));
        let mut state = self.state;
        let look = timed(some, || {
            for _ in 0..some {
                state = step(state);
                self.code.run_from(below(state, all as u64), 1);
            }
        });
        self.state = state;
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::CpuSet;

    fn in_place(resource: Resource) -> Option<InPlace> {
        let mut options = Options::new(resource);
        options.cpus = CpuSet::of(0);
        options.cache_bytes = Some(32 << 10);
        InPlace::of(&options, &Topology::default(), &Stop::new().unwrap()).unwrap()
    }

    #[test]
    fn what_a_core_has_for_itself_is_probed_and_nothing_else() {
        for resource in Resource::ALL {
            let own =
                [Resource::L1Data, Resource::L1Instruction, Resource::L2Capacity, Resource::Tlb];
            if resource == Resource::L1Instruction && Code::generate(4096).is_err() {
                continue;
            }
            if !own.contains(&resource) {
                continue;
            }
            let mut probe = in_place(resource).unwrap();
            assert!(probe.words().ends_with("same thread"), "{}", probe.words());
            for percent in [0.0, 50.0, 100.0] {
                let look = probe.look(Intensity::new(percent).unwrap()).unwrap();
                assert!(look.access_ns > 0.0, "{resource} at {percent} %");
            }
        }
        assert!(in_place(Resource::Integer).is_none());
    }

    #[test]
    fn a_full_kernel_leaves_nothing_of_a_first_level_cache() {
        let mut probe = in_place(Resource::L1Data).unwrap();
        let mut median = |intensity: Intensity| {
            let mut seen: Vec<f64> =
                (0..101).map(|_| probe.look(intensity).unwrap().access_ns).collect();
            seen.sort_by(f64::total_cmp);
            seen[50]
        };
        let (none, all) = (median(Intensity::ZERO), median(Intensity::FULL));
        assert!(all > 1.2 * none, "{none} ns and {all} ns");
    }
}
