//! What a kernel takes of what a core has for itself, seen from the same core.
//!
//! Two threads of one core take turns, and with each turn comes the scheduler, whose own work drives
//! a good part of a first-level cache out: beside it the kernel hardly shows. So here kernel and
//! probe share a thread. In turns, the cache (or TLB) is primed, the kernel works until it has
//! touched all it wants, and a probe tells how much of what was primed is left. Nothing else runs in
//! between but for interrupts.
//!
//! Every look lasts as long, whatever the intensity: a core's caches are not its thread's alone. The
//! other hardware thread, which may be another tenant's, drives lines out in proportion to time, and
//! looks without pressure that ended at once saw none of that: of instructions four of five then
//! seemed lost by 10 %. And between prime and probe no clock of the system is read, whose code would
//! drive out lines too.

use crate::jobs;
use crate::kernel::{Code, Kernel, below, step};
use crate::page_probe::PageProbe;
use crate::prime_probe::{Look, PrimeProbe, Watch, sample_of, timed};
use crate::ticks::ticks;
use crate::tlb::Entries;
use crate::{Intensity, Options, PressureError, Resource, Stop};
use quell_types::Topology;

/// A kernel touches so many times what fits, at random: all but one line in three thousand then.
const TOUCHES: u64 = 8;
/// A kernel that goes through its lines in turn needs no more than this: whatever it runs drives out
/// a line of the probe's as long as there is one, and the shorter a look, the less the other hardware
/// thread of the core comes between.
const ROUNDS: u64 = 1;
/// Full work is timed so many times, and the shortest counts.
const TIMED: usize = 5;

/// A kernel and a probe on the thread that calls. Bind it to one CPU before making it.
pub struct InPlace {
    kernel: Box<dyn Kernel>,
    mine: Mine,
    words: String,
    /// What the kernel's work takes at full intensity, in ticks.
    lasts_ticks: u64,
}

/// What is primed and probed.
enum Mine {
    Data(PrimeProbe),
    Pages(PageProbe),
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
        let mut made = InPlace { kernel, mine, words, lasts_ticks: 0 };
        made.lasts_ticks = made.full_work()?;
        Ok(Some(made))
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
        let watch = Watch::start();
        self.mine.prime();
        self.work()?;
        let access = self.mine.access();
        Ok(watch.look(access))
    }

    /// The kernel's work, and then nothing until the time that it takes at most is over.
    fn work(&mut self) -> Result<(), PressureError> {
        let begun = ticks();
        let (wanted, mut done) = (self.mine.touches(), 0);
        while done < wanted {
            let failed = |why| PressureError::Worker { index: 0, why };
            match self.kernel.burst().map_err(failed)? {
                0 => break,
                work => done += work,
            }
        }
        while ticks().wrapping_sub(begun) < self.lasts_ticks {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// How long its work takes where nothing comes between.
    fn full_work(&mut self) -> Result<u64, PressureError> {
        self.kernel.set_intensity(Intensity::FULL);
        let mut shortest = u64::MAX;
        for _ in 0..TIMED {
            self.mine.prime();
            let begun = ticks();
            self.work()?;
            shortest = shortest.min(ticks().wrapping_sub(begun));
        }
        Ok(shortest)
    }
}

fn mine(
    options: &Options,
    topology: &Topology,
    cpu: u32,
) -> Result<Option<(Mine, String)>, PressureError> {
    if options.resource == Resource::Tlb {
        let Entries { count, source } = Entries::of(options.tlb_entries, Some(cpu));
        let words =
            format!("timed prime and probe of {count} pages, {}, same thread", source.words());
        return Ok(Some((Mine::Pages(PageProbe::new(count as usize)?), words)));
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
    fn prime(&mut self) {
        match self {
            Mine::Data(lines) => lines.prime(),
            Mine::Pages(pages) => pages.prime(),
            Mine::Code(lines) => (0..2).for_each(|_| lines.code.run(lines.code.lines())),
        }
    }

    /// How much the kernel has to work at most until it has touched all that it wants.
    fn touches(&self) -> u64 {
        match self {
            Mine::Data(lines) => TOUCHES * lines.count() as u64,
            Mine::Pages(pages) => TOUCHES * pages.count() as u64,
            Mine::Code(lines) => ROUNDS * lines.code.lines() as u64,
        }
    }

    /// The mean ticks of an access.
    fn access(&mut self) -> f64 {
        match self {
            Mine::Data(lines) => lines.access(),
            Mine::Pages(pages) => pages.access(),
            Mine::Code(lines) => lines.access(),
        }
    }
}

impl CodeProbe {
    /// Runs some lines, each by itself, in no order.
    fn access(&mut self) -> f64 {
        let (all, some) = (self.code.lines(), sample_of(self.code.lines()));
        let mut state = self.state;
        let mean = timed(some, || {
            for _ in 0..some {
                state = step(state);
                self.code.run_from(below(state, all as u64), 1);
            }
        });
        self.state = state;
        mean
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
        // By turns, and the fastest ones: others on the same core's other thread empty that cache as well.
        let mut seen = [Vec::new(), Vec::new()];
        for _ in 0..501 {
            for (seen, intensity) in seen.iter_mut().zip([Intensity::ZERO, Intensity::FULL]) {
                seen.push(probe.look(intensity).unwrap().access_ns);
            }
        }
        let [none, all] = seen.map(|mut seen| {
            seen.sort_by(f64::total_cmp);
            seen[10]
        });
        println!("{none} ns and {all} ns");
        assert!(all > 1.2 * none, "{none} ns and {all} ns");
    }
}
