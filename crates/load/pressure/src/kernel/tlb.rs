//! TLB: one access a page, over a few more pages than the second-level TLB has entries (B-2: 10).
//!
//! On small pages all addresses show the same page of memory, so the accesses fill the TLB and
//! leave the caches alone: what is touched there is one page and the page table. Mapped side by side,
//! distinct pages could share an entry on processors that coalesce neighbours; equal ones cannot.
//! Huge pages cannot be had that way: there the accesses go to different lines of real ones.

use super::latency::Stopwatch;
use super::random::{below, step, streams};
use super::{Kernel, Probe};
use crate::region::{HUGE, LINE, Region};
use crate::{Intensity, PressureError};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size of a small page.
pub(crate) const SMALL: usize = 4096;
/// Independent generators, so that several page walks are under way at once.
const STREAMS: usize = 4;
/// Accesses a burst.
const BURST: usize = 1024;
/// Dependent accesses in a latency sample.
const CHAIN: u32 = 16;

/// Pages at 100 %: a few more than there are entries, so that none is left to others (B-2).
pub(crate) fn pages_for(entries: u64) -> u64 {
    entries + entries.div_ceil(32)
}

/// Pages to touch.
pub(crate) enum Pages {
    /// Many addresses of one small page.
    Small(Alias),
    /// Real huge pages.
    Huge(Region),
}

/// One page of memory, mapped many times side by side.
pub(crate) struct Alias {
    base: NonNull<u8>,
    pages: usize,
}

// SAFETY: an alias owns its mapping; access goes through atomics only.
unsafe impl Send for Alias {}

impl Alias {
    /// Maps one page `pages` times.
    pub(crate) fn map(pages: usize) -> Result<Alias, PressureError> {
        let bytes = pages.max(1).saturating_mul(SMALL);
        let failed = |source| PressureError::Memory { bytes, source };
        let page = rustix::fs::memfd_create("quell-tlb", rustix::fs::MemfdFlags::CLOEXEC)
            .and_then(|page| rustix::fs::ftruncate(&page, SMALL as u64).map(|()| page))
            .map_err(|e| failed(e.into()))?;
        let (none, whole) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let map = unsafe { libc::mmap(none, bytes, libc::PROT_NONE, whole, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let nothing = || failed(io::Error::from(io::ErrorKind::OutOfMemory));
        let base = NonNull::new(map.cast::<u8>()).ok_or_else(nothing)?;
        let alias = Alias { base, pages: pages.max(1) };
        let shared = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        for i in 0..alias.pages {
            // SAFETY: replaces a page of the mapping just made, which nobody else knows of.
            let map = unsafe {
                let at = base.as_ptr().add(i * SMALL).cast();
                let read_write = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(at, SMALL, read_write, shared, page.as_raw_fd(), 0)
            };
            if map == libc::MAP_FAILED {
                return Err(failed(io::Error::last_os_error()));
            }
        }
        Ok(alias)
    }

    /// The word of a page that is touched: another line in each, so that they do not meet in one set
    /// of the caches.
    pub(crate) fn word(&self, page: usize) -> &AtomicU64 {
        let at = (page % self.pages) * SMALL + page % (SMALL / LINE) * LINE;
        // SAFETY: lies within the alias, aligned to a line; memory of a file is zeroed and a valid
        // atomic; it is only touched as atomics.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped; words are borrowed from `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.pages * SMALL) };
    }
}

impl Pages {
    /// How many.
    fn count(&self) -> usize {
        match self {
            Pages::Small(alias) => alias.pages,
            Pages::Huge(region) => region.bytes() / HUGE,
        }
    }

    /// Bytes that one of them covers.
    fn size(&self) -> usize {
        if matches!(self, Pages::Small(_)) { SMALL } else { HUGE }
    }

    /// The word of a page that is touched, a line of its own here too.
    fn word(&self, page: usize) -> &AtomicU64 {
        match self {
            Pages::Small(alias) => alias.word(page),
            Pages::Huge(region) => {
                let lines = HUGE / LINE;
                let all = region.lines();
                &all[(page * lines + page * 67 % lines) % all.len()].word
            }
        }
    }
}

/// The kernel.
pub(crate) struct Tlb {
    pages: Pages,
    used: usize,
    states: [u64; STREAMS],
    watch: Stopwatch,
}

impl Tlb {
    pub(crate) fn new(pages: Pages, thread: usize) -> Self {
        Tlb { pages, used: 0, states: streams(thread), watch: Stopwatch::new() }
    }
}

impl Kernel for Tlb {
    fn prepare(&mut self) {
        for page in 0..self.pages.count() {
            self.pages.word(page).store(1, Relaxed);
        }
    }

    fn set_intensity(&mut self, intensity: Intensity) {
        self.used = intensity.of(self.pages.count() as u64) as usize;
    }

    fn burst(&mut self) -> Result<u64, String> {
        if self.used == 0 {
            return Ok(0);
        }
        let mut sums = [0u64; STREAMS];
        for _ in 0..BURST / STREAMS {
            for (state, sum) in self.states.iter_mut().zip(&mut sums) {
                *state = step(*state);
                let page = below(*state, self.used as u64);
                *sum = sum.wrapping_add(self.pages.word(page).load(Relaxed));
            }
        }
        std::hint::black_box(sums);
        Ok(BURST as u64)
    }

    fn probe(&mut self) -> Option<Probe> {
        if self.used == 0 {
            return None;
        }
        let (mut state, pages, used) = (self.states[0], &self.pages, self.used as u64);
        let probe = self.watch.time(CHAIN, || {
            for _ in 0..CHAIN {
                // The word is 1, but only memory says so: each access waits for the one before.
                let arrived = pages.word(below(state, used)).load(Relaxed);
                state = step(state).wrapping_add(arrived >> 63);
            }
        });
        self.states[0] = std::hint::black_box(state);
        probe
    }

    /// Addresses covered, not memory taken.
    fn footprint_bytes(&self) -> u64 {
        (self.used * self.pages.size()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_show_one_page() {
        let pages = Pages::Small(Alias::map(300).unwrap());
        pages.word(0).store(7, Relaxed);
        assert_eq!(pages.word(64).load(Relaxed), 7, "64 lines on, the same line again");
        assert_eq!(pages.word(1).load(Relaxed), 0, "the next page is touched in another line");
        assert_ne!(std::ptr::from_ref(pages.word(0)), std::ptr::from_ref(pages.word(64)));
    }

    #[test]
    fn the_share_is_one_of_pages() {
        let small = Pages::Small(Alias::map(200).unwrap());
        let huge = Pages::Huge(Region::map(8 * HUGE).unwrap());
        for (pages, count, size) in [(small, 200, SMALL), (huge, 8, HUGE)] {
            let mut kernel = Tlb::new(pages, 0);
            kernel.prepare();
            assert_eq!((kernel.burst().unwrap(), kernel.probe()), (0, None));
            for percent in [25, 50, 100] {
                kernel.set_intensity(Intensity::new(f64::from(percent)).unwrap());
                let used = count * percent as usize / 100;
                assert_eq!(kernel.footprint_bytes(), (used * size) as u64);
                assert_eq!(kernel.burst().unwrap(), BURST as u64);
                assert!((0..10_000).find_map(|_| kernel.probe()).is_some());
            }
        }
    }

    #[test]
    fn nothing_stays_mapped() {
        let mapped =
            || std::fs::read_to_string("/proc/self/maps").unwrap().matches("quell-tlb").count();
        let alias = Alias::map(50).unwrap();
        let at = alias.base.as_ptr() as usize;
        assert!(mapped() > 0);
        drop(alias);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let ours =
            |line: &&str| line.starts_with(&format!("{at:x}-")) && line.contains("quell-tlb");
        assert!(!maps.lines().any(|line| ours(&line)), "{maps}");
    }

    #[test]
    fn there_are_more_pages_than_entries() {
        assert_eq!((pages_for(2048), pages_for(1)), (2112, 2));
    }
}
