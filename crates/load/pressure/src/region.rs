//! Memory that is mapped for pressure: huge pages where to be had, scaled down where memory is
//! short.

use crate::PressureError;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size and alignment of a huge page on x86-64, and on aarch64 with 4 KiB pages.
pub(crate) const HUGE: usize = 2 << 20;
/// Size of a cache line.
pub(crate) const LINE: usize = 64;

/// A cache line that several threads may touch at once.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Line {
    /// Only the first word is used: one access a line.
    pub(crate) word: AtomicU64,
}

/// A file whose pages are used as memory, and how much of it is taken.
struct Kept {
    file: File,
    taken: AtomicU64,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Takes the memory of the kernels of this process from a file of a file system in memory, whose
/// pages stay when the process ends.
///
/// In a virtual machine memory that nobody used for some seconds is the host's again, and to have
/// it back can take seconds of CPU time for a gigabyte: more than a process that is held back
/// ever gets. What a file holds is neither cleared nor fetched anew.
///
/// # Errors
/// The file cannot be opened for reading and writing.
pub fn keep_memory_in(path: &Path) -> Result<(), PressureError> {
    let failed = |source| PressureError::MemoryFile { path: path.to_owned(), source };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let _ = KEPT.set(Kept { file, taken: AtomicU64::new(0) });
    Ok(())
}

impl Kept {
    /// Maps the next `bytes` of the file there; they must be ours.
    ///
    /// # Safety
    /// The addresses must belong to a mapping of the caller that nothing refers to.
    unsafe fn map_over(&self, base: NonNull<u8>, bytes: usize) -> io::Result<()> {
        let from = self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        let end = from + bytes as u64;
        if self.file.metadata()?.len() < end {
            self.file.set_len(end)?;
        }
        let offset = libc::off_t::try_from(from).map_err(io::Error::other)?;
        let (access, how) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: replaces a mapping of the caller's, who says that nothing refers to it.
        let map = unsafe {
            libc::mmap(base.as_ptr().cast(), bytes, access, how, self.file.as_raw_fd(), offset)
        };
        if map == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Memory, aligned to huge pages: zeroed and of its own, or what an earlier process left in the
/// file of [`keep_memory_in`].
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    map: NonNull<libc::c_void>,
    map_bytes: usize,
}

// SAFETY: a region owns its mapping; shared access goes through atomics only ([`Region::lines`]),
// everything else needs `&mut`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes`, rounded up to whole huge pages, and asks for huge pages.
    pub(crate) fn map(bytes: usize) -> Result<Region, PressureError> {
        let bytes = bytes.max(1).next_multiple_of(HUGE);
        let map_bytes = bytes + HUGE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory that
        // is in use.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let failed = |source| PressureError::Memory { bytes, source };
        if map == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let nothing = || failed(io::Error::from(io::ErrorKind::OutOfMemory));
        let map = NonNull::new(map).ok_or_else(nothing)?;
        let skip = map.as_ptr().align_offset(HUGE);
        // SAFETY: `skip` < HUGE, and HUGE more than `bytes` were mapped.
        let base = unsafe { map.cast::<u8>().add(skip) };
        if let Some(kept) = KEPT.get() {
            // SAFETY: the range lies within the mapping, of which nobody knows yet.
            if let Err(error) = unsafe { kept.map_over(base, bytes) } {
                // SAFETY: unmaps exactly what was mapped above.
                unsafe { libc::munmap(map.as_ptr(), map_bytes) };
                return Err(failed(error));
            }
        }
        // SAFETY: the range lies within the mapping. A refusal is no error: smaller pages serve,
        // and the report says which were had.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        // A child would share these pages until it executes its program, and every page be copied
        // that a kernel writes meanwhile: who only starts programs would seem to hurt it.
        // SAFETY: as above; no child of ours reads a region.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_DONTFORK) };
        Ok(Region { base, bytes, map, map_bytes })
    }

    /// Maps up to `wanted` bytes but at most half of the memory that is available, and says so in
    /// the second value if that is less.
    pub(crate) fn map_within(
        wanted: u64,
        available: Option<u64>,
    ) -> Result<(Region, Option<String>), PressureError> {
        let limit = available.map_or(wanted, |bytes| (bytes / 2).max(HUGE as u64));
        let bytes = wanted.min(limit);
        let region = Region::map(usize::try_from(bytes).unwrap_or(usize::MAX / 4))?;
        let note = (bytes < wanted).then(|| {
            format!(
                "footprint scaled down from {} to {} MiB: half of the memory that is available",
                wanted >> 20,
                bytes >> 20
            )
        });
        Ok((region, note))
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The addresses that it covers.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let base = self.base.as_ptr() as usize;
        base..base + self.bytes
    }

    /// All of it as cache lines.
    pub(crate) fn lines(&self) -> &[Line] {
        // SAFETY: base is aligned to HUGE and `bytes` long; all bits are valid atomics; the
        // mapping lives as long as `self`; exclusive views need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.bytes / LINE) }
    }

    /// All of it as numbers.
    pub(crate) fn doubles(&mut self) -> &mut [f64] {
        // SAFETY: as above, and `&mut self` excludes every other view; all bits are valid f64.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.bytes / 8) }
    }

    /// All of it as bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; all bits are valid bytes.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    /// Gives the memory beyond the first `keep` bytes, rounded up to whole huge pages, back to the
    /// system. It reads as zeroes from then on. Returns where that begins.
    pub(crate) fn give_back(&mut self, keep: usize) -> usize {
        let from = keep.next_multiple_of(HUGE).min(self.bytes);
        // SAFETY: the range lies within the mapping, and `&mut self` excludes every view.
        unsafe {
            let start = self.base.as_ptr().add(from).cast();
            libc::madvise(start, self.bytes - from, libc::MADV_DONTNEED);
        }
        from
    }

    /// Maps the first `bytes` (whole pages) anew, on small pages: nothing of it is there afterwards.
    pub(crate) fn renew(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = bytes.min(self.bytes);
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: replaces a part of our own mapping by one of the same kind, which stays ours;
        // `&mut self` excludes every view. If it fails the old one may be gone: then the error ends
        // the kernel, and dropping unmaps what is left.
        unsafe {
            let base = self.base.as_ptr().cast();
            if libc::mmap(base, bytes, read_write, how, -1, 0) == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE);
        }
        Ok(())
    }

    /// Bytes of it that are in memory.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let mut pages = vec![0u8; self.bytes / 4096];
        // SAFETY: mincore writes one byte for each page of the range to `pages`.
        let answer =
            unsafe { libc::mincore(self.base.as_ptr().cast(), self.bytes, pages.as_mut_ptr()) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64 * 4096)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped; views borrow `self`, so none is left.
        unsafe { libc::munmap(self.map.as_ptr(), self.map_bytes) };
    }
}

/// MemAvailable of this machine, if `/proc/meminfo` can be read.
pub(crate) fn available_bytes() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

pub(crate) fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn is_aligned_zeroed_and_whole() {
        let mut region = Region::map(3 << 20).unwrap();
        assert_eq!(region.bytes(), 4 << 20);
        assert_eq!(region.addresses().start % HUGE, 0);
        assert_eq!(region.lines().len(), (4 << 20) / LINE);
        assert!(region.lines().iter().all(|line| line.word.load(Ordering::Relaxed) == 0));
        region.doubles().fill(1.0);
        assert_eq!(region.lines()[7].word.load(Ordering::Relaxed), 1.0f64.to_bits());
    }

    #[test]
    fn scales_down_and_says_so() {
        let (region, note) = Region::map_within(64 << 20, Some(16 << 20)).unwrap();
        assert_eq!(region.bytes(), 8 << 20);
        assert!(note.unwrap().contains("from 64 to 8 MiB"));
        let (region, note) = Region::map_within(4 << 20, None).unwrap();
        assert_eq!((region.bytes(), note), (4 << 20, None));
        assert!(Region::map(usize::MAX / 4).is_err());
    }

    #[test]
    fn reads_meminfo() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(parse_available(text), Some(23_000_000 * 1024));
        assert_eq!(parse_available("MemAvailable: many\n"), None);
        assert_eq!(parse_available("MemAvailable: 18446744073709551615 kB\n"), None);
        assert!(available_bytes().unwrap() > 0);
    }
}
