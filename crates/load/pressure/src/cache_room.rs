//! How much of a shared cache a program can count on.
//!
//! A machine tells the size of its last-level cache. On a shared host, strangers have part of it, and a hypervisor
//! may give a guest some of its ways only; neither is told. So a kernel of cache capacity works on larger and larger
//! parts of the told size, alone, and it is looked at how much of each a cache holds ([`Footprint`]):
//!
//! ```text
//! sizes := the eighths of the told size; half of one, a quarter of one, ... while a core's own caches are outdone
//! kept  := the largest of them of which KEPT_FRAC is held (median of LOOKS looks)
//! ```
//!
//! Less than an eighth is to be had where a guest is told of the whole cache of a large host.
//!
//! Of more than that a cache holds less and less, and that as random lines come to lie: pressure that grows beyond
//! grows on memory. The search takes a fifth of a second or two for 32 MiB, and as many times as long for as many
//! times as much, and drives out what others have there meanwhile, as any program of that size does.

use crate::jobs::last_level;
use crate::kernel::{CacheCapacity, CacheShare, Kernel};
use crate::region::{LINE, Region, available_bytes};
use crate::registers::median;
use crate::{Chase, Footprint, Intensity, Options, PressureError, Stop, bind_all};
use quell_types::{CpuSet, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// Parts of the told size that are told apart.
const PARTS: u64 = 8;
/// Less than so many times what a core has for itself tells of that.
const OUTDO: u64 = 2;
/// So much of a part is held, or it is too large. Not all: random lines fill some sets sooner than others.
const KEPT_FRAC: f64 = 0.95;
/// Looks at a part: what strangers do in one of them does not count.
const LOOKS: usize = 3;

/// A last-level cache, as it is told and as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheRoom {
    /// The size that the machine tells.
    pub told_bytes: u64,
    /// So much of it was to be had: a multiple of an eighth, or part of one. 0 if there is nothing to be had besides a
    /// core's own caches.
    pub kept_bytes: u64,
}

impl CacheRoom {
    /// Looks at the last-level cache of this CPU, which is worked on meanwhile. None where lines from memory cannot
    /// be told from others, as where a program cannot flush them, and where it is asked to stop meanwhile.
    ///
    /// # Errors
    /// The size of the cache is not known, the CPU is not to be had, or no memory.
    pub fn of(
        options: &Options,
        topology: &Topology,
        cpu: u32,
        stop: &Stop,
    ) -> Result<Option<Self>, PressureError> {
        let (told_bytes, nearer_bytes) = last_level(options, topology, cpu)?;
        std::thread::scope(|scope| {
            let look = || -> Result<Option<Self>, PressureError> {
                bind_all(&CpuSet::of(cpu))?;
                let Some(mut lodger) = Lodger::new(told_bytes, nearer_bytes)? else {
                    return Ok(None);
                };
                let sizes = sizes(told_bytes, nearer_bytes);
                let kept = largest(sizes.len(), |which| lodger.keeps(sizes[which - 1], stop));
                let kept_bytes = kept.checked_sub(1).map_or(0, |last| sizes[last]);
                Ok((!stop.requested()).then_some(Self { told_bytes, kept_bytes }))
            };
            scope.spawn(look).join().unwrap_or(Ok(None))
        })
    }
}

/// What is tried, in bytes, the smallest first.
fn sizes(told_bytes: u64, nearer_bytes: u64) -> Vec<u64> {
    let eighth = told_bytes / PARTS;
    let halves = std::iter::successors(Some(eighth / 2), |size| Some(size / 2));
    let mut sizes: Vec<u64> = halves.take_while(|size| *size > OUTDO * nearer_bytes).collect();
    sizes.reverse();
    sizes.extend((1..=PARTS).map(|parts| told_bytes * parts / PARTS));
    sizes
}

/// The largest of 1 to `most` that will do, if all that are smaller do, too; 0 if none does.
fn largest(most: usize, mut will_do: impl FnMut(usize) -> bool) -> usize {
    let (mut does, mut does_not) = (0, most + 1);
    while does_not - does > 1 {
        let tried = usize::midpoint(does, does_not);
        *(if will_do(tried) { &mut does } else { &mut does_not }) = tried;
    }
    does
}

/// Who works on part of a cache, and looks at what it has of it.
struct Lodger {
    kernel: CacheCapacity,
    print: Footprint,
    cache_bytes: u64,
}

impl Lodger {
    fn new(cache_bytes: u64, nearer_bytes: u64) -> Result<Option<Self>, PressureError> {
        let (region, _) = Region::map_within(cache_bytes, available_bytes())?;
        let region = Arc::new(region);
        let lines = cache_bytes as usize / LINE;
        let mut print = Footprint::new(Arc::clone(&region), lines, nearer_bytes as usize);
        let share = CacheShare { region, cache_bytes, nearer_bytes, part: (0, 1), last: true };
        let mut kernel = CacheCapacity::new(share);
        kernel.prepare();
        let tells = Chase::FLUSHES && print.learn()?;
        Ok(tells.then_some(Self { kernel, print, cache_bytes }))
    }

    /// Whether a cache holds so much of the footprint, when this is all that is used.
    fn keeps(&mut self, bytes: u64, stop: &Stop) -> bool {
        let percent = 100.0 * bytes as f64 / self.cache_bytes as f64;
        let Ok(intensity) = Intensity::new(percent) else { return false };
        self.kernel.set_intensity(intensity);
        let lines = u32::try_from(bytes / LINE as u64).unwrap_or(u32::MAX);
        let held: Vec<f64> = (0..LOOKS).filter_map(|_| self.held_of(lines, stop)).collect();
        !held.is_empty() && median(held) >= KEPT_FRAC
    }

    /// The share of these lines that a cache holds after the kernel worked anew on them; none if that was stopped.
    fn held_of(&mut self, lines: u32, stop: &Stop) -> Option<f64> {
        self.print.clear_of(lines as usize);
        let end = Instant::now() + Footprint::FILL_A_LINE * lines;
        while Instant::now() < end {
            if stop.requested() {
                return None;
            }
            self.kernel.burst().ok()?;
        }
        self.print.held_of(lines as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Resource, allowed_cpus};

    fn first_cpu() -> u32 {
        allowed_cpus().unwrap().iter().next().unwrap()
    }

    fn room(bytes: u64, stop: &Stop) -> Result<Option<CacheRoom>, PressureError> {
        let options = Options { llc_bytes: Some(bytes), ..Options::new(Resource::LlcCapacity) };
        CacheRoom::of(&options, &Topology::default(), first_cpu(), stop)
    }

    #[test]
    fn the_largest_is_found_in_few_steps() {
        for room in 0..=12 {
            let mut steps = 0;
            let found = largest(12, |which| {
                steps += 1;
                which <= room
            });
            assert_eq!(found, room);
            assert!(steps <= 4, "{room}: {steps}");
        }
    }

    #[test]
    fn parts_of_an_eighth_are_tried_while_they_outdo_what_a_core_has_for_itself() {
        let tried = |told: u64, nearer: u64| sizes(told << 10, nearer << 10);
        let first =
            |told, nearer| tried(told, nearer).iter().map(|b| b >> 10).take(5).collect::<Vec<_>>();
        assert_eq!(first(266_240, 2048), [4160, 8320, 16_640, 33_280, 66_560]);
        assert_eq!(
            first(32_768, 1024),
            [4096, 8192, 12_288, 16_384, 20_480],
            "2 MiB are no more than twice"
        );
        assert_eq!(first(32_768, 512), [2048, 4096, 8192, 12_288, 16_384]);
        assert_eq!(tried(32_768, 512).last(), Some(&(32 << 20)), "all of it is the largest");
    }

    #[test]
    fn a_small_part_of_a_cache_is_to_be_had_and_more_than_any_cache_has_is_not() {
        let stop = Stop::new().unwrap();
        let room = |bytes: u64| room(bytes, &stop).unwrap();
        if !Chase::FLUSHES {
            return assert_eq!(room(1 << 20), None, "nothing is told from memory");
        }
        // Other tests may use all of the cache for a while.
        let small = (0..20).find_map(|_| room(1 << 20).filter(|room| room.kept_bytes > 0));
        let small = small.expect("a mebibyte is never held");
        assert_eq!(small.told_bytes, 1 << 20);
        let large = room(512 << 20).unwrap();
        assert!(large.kept_bytes <= 384 << 20, "{large:?}");
        let options = Options::new(Resource::LlcCapacity);
        let unknown = CacheRoom::of(&options, &Topology::default(), first_cpu(), &stop);
        assert!(unknown.is_err());
    }

    #[test]
    fn a_search_that_is_to_stop_tells_nothing() {
        let stop = Stop::new().unwrap();
        stop.request();
        assert_eq!(room(1 << 20, &stop).unwrap(), None);
    }
}
