//! Counters of work: written by the threads of a polluter, read by whoever wants to know, in this
//! process or in another.
//!
//! With a feed they lie in a shared file, so the work can be read at any moment, even while the
//! polluter is frozen, throttled or already killed, when no thread of it could report anything.

use crate::{PressureError, Resource};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// First word of a feed, in this machine's byte order.
const MAGIC: u64 = u64::from_ne_bytes(*b"quellfd1");
/// Header and slots are one cache line each, so threads do not disturb one another.
const WORDS: usize = 8;

/// What one thread counts. Only that thread writes it.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Slot {
    work: AtomicU64,
    latency_ns: AtomicU64,
    latency_accesses: AtomicU64,
    busy_ns: AtomicU64,
    cpu_ns: AtomicU64,
    footprint_bytes: AtomicU64,
    /// When the first burst was done and when the last one was, after the start; 0: not yet.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

/// A slot's contents, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) work: u64,
    pub(crate) latency_ns: u64,
    pub(crate) latency_accesses: u64,
    pub(crate) busy_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) footprint_bytes: u64,
}

impl Slot {
    /// A slot has one writer, so load and store do, without the cost of a locked addition.
    fn add(counter: &AtomicU64, amount: u64) {
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    pub(crate) fn add_work(&self, work: u64) {
        Self::add(&self.work, work);
    }

    pub(crate) fn add_busy(&self, time: Duration) {
        Self::add(&self.busy_ns, nanos(time));
    }

    pub(crate) fn add_latency(&self, time: Duration, accesses: u64) {
        Self::add(&self.latency_ns, nanos(time));
        Self::add(&self.latency_accesses, accesses);
    }

    pub(crate) fn set_cpu(&self, time: Duration) {
        self.cpu_ns.store(nanos(time), Relaxed);
    }

    /// Notes when its first burst was done; later calls change nothing.
    pub(crate) fn note_first(&self, after: Duration) {
        if self.first_ns.load(Relaxed) == 0 {
            self.first_ns.store(nanos(after).max(1), Relaxed);
        }
    }

    /// Notes when it stopped pressing.
    pub(crate) fn note_last(&self, after: Duration) {
        self.last_ns.store(nanos(after).max(1), Relaxed);
    }

    /// When the first burst was done and when pressing ended, after the start; none: not yet.
    pub(crate) fn ends(&self) -> (Option<Duration>, Option<Duration>) {
        let read = |ns: &AtomicU64| Some(ns.load(Relaxed)).filter(|ns| *ns > 0);
        let span = |ns: &AtomicU64| read(ns).map(Duration::from_nanos);
        (span(&self.first_ns), span(&self.last_ns))
    }

    pub(crate) fn set_footprint(&self, bytes: u64) {
        self.footprint_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            work: self.work.load(Relaxed),
            latency_ns: self.latency_ns.load(Relaxed),
            latency_accesses: self.latency_accesses.load(Relaxed),
            busy_ns: self.busy_ns.load(Relaxed),
            cpu_ns: self.cpu_ns.load(Relaxed),
            footprint_bytes: self.footprint_bytes.load(Relaxed),
        }
    }
}

impl Counts {
    pub(crate) fn plus(self, other: Counts) -> Counts {
        Counts {
            work: self.work.wrapping_add(other.work),
            latency_ns: self.latency_ns.wrapping_add(other.latency_ns),
            latency_accesses: self.latency_accesses.wrapping_add(other.latency_accesses),
            busy_ns: self.busy_ns.wrapping_add(other.busy_ns),
            cpu_ns: self.cpu_ns.wrapping_add(other.cpu_ns),
            footprint_bytes: self.footprint_bytes.wrapping_add(other.footprint_bytes),
        }
    }

    /// Mean latency of the sampled accesses since `earlier`; none if there were none.
    pub(crate) fn latency_since(&self, earlier: &Counts) -> Option<f64> {
        let accesses = self.latency_accesses.wrapping_sub(earlier.latency_accesses);
        let ns = self.latency_ns.wrapping_sub(earlier.latency_ns);
        (accesses > 0).then(|| ns as f64 / accesses as f64)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The slots of all threads of a polluter, after a header.
pub(crate) struct Meter {
    base: NonNull<Slot>,
    threads: usize,
    bytes: usize,
}

// SAFETY: everything behind `base` is atomic, and the mapping lives as long as the meter.
unsafe impl Send for Meter {}
// SAFETY: as above.
unsafe impl Sync for Meter {}

impl Meter {
    /// Counters for `threads`; shared through the file `feed` if one is given. It is made anew and
    /// put in the place of an older one, which whoever still maps it keeps.
    pub(crate) fn new(
        resource: Resource,
        threads: usize,
        feed: Option<&Path>,
    ) -> Result<Meter, PressureError> {
        let bytes = (threads + 1) * size_of::<Slot>();
        let new = feed.map(|path| create(path, bytes)).transpose()?;
        let fd = new.as_ref().map_or(-1, |(file, _)| file.as_raw_fd());
        let flags = libc::MAP_SHARED | if fd < 0 { libc::MAP_ANONYMOUS } else { 0 };
        let (read_write, null) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
        // SAFETY: a new mapping at an address of the kernel's choice; the file is `bytes` long.
        let map = unsafe { libc::mmap(null, bytes, read_write, flags, fd, 0) };
        let failed = |source| PressureError::Memory { bytes, source };
        if map == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let nothing = || failed(io::Error::from(io::ErrorKind::OutOfMemory));
        let base = NonNull::new(map.cast::<Slot>()).ok_or_else(nothing)?;
        let meter = Meter { base, threads, bytes };
        let header = meter.header();
        let pid = u64::from(std::process::id());
        for (word, value) in header.iter().skip(1).zip([threads as u64, resource.number(), pid]) {
            word.store(value, Relaxed);
        }
        header[0].store(MAGIC, Relaxed);
        if let (Some((_, temporary)), Some(path)) = (&new, feed) {
            std::fs::rename(temporary, path)
                .map_err(|e| PressureError::system("cannot make the feed", path, e))?;
        }
        Ok(meter)
    }

    fn header(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the first WORDS words of the mapping are the header; zeroed or not, all bits are
        // valid atomics.
        unsafe { self.base.cast().as_ref() }
    }

    /// The slots, one a thread.
    pub(crate) fn slots(&self) -> &[Slot] {
        // SAFETY: `threads` slots follow the header, which is one slot long, in the mapping.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(1), self.threads) }
    }

    /// All threads together.
    pub(crate) fn total(&self) -> Counts {
        self.slots().iter().map(Slot::counts).fold(Counts::default(), Counts::plus)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // SAFETY: unmaps what was mapped; all views borrow `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A file of this size beside `path`, with its blocks: a hole that a full file system cannot fill
/// later would end the process.
fn create(path: &Path, bytes: usize) -> Result<(File, PathBuf), PressureError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let failed = |e| PressureError::system("cannot make the feed", path, e);
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(true);
    let file = how.open(&temporary).map_err(failed)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes as u64) {
        Ok(()) => Ok((file, temporary)),
        Err(e) => {
            let _ = std::fs::remove_file(&temporary);
            Err(failed(e.into()))
        }
    }
}

/// A look at another process's feed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedReading {
    /// What that process presses on.
    pub resource: Resource,
    /// Its process id.
    pub pid: u32,
    /// Work so far, in the resource's unit.
    pub work: u64,
    /// Mean latency of its sampled accesses so far, in nanoseconds; none before the first sample.
    pub latency_ns: Option<f64>,
    /// Time spent working so far, all threads together.
    pub busy: Duration,
}

/// Reads a feed that a polluter keeps ([`crate::Options::feed`]).
#[derive(Clone, Debug)]
pub struct FeedReader {
    path: PathBuf,
}

impl FeedReader {
    /// Names the feed; it is opened at each reading, so it may come later or be made anew.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FeedReader { path: path.into() }
    }

    /// The counters now. The file is read, not mapped: a polluter that cuts it short cannot hurt.
    pub fn read(&self) -> Result<FeedReading, PressureError> {
        let mut bytes = Vec::new();
        let failed = |e| PressureError::system("cannot read the feed", &self.path, e);
        let longest = ((1024 + 1) * size_of::<Slot>()) as u64;
        File::open(&self.path)
            .map_err(failed)?
            .take(longest)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        decode(&bytes).map_err(|why| PressureError::NotAFeed { path: self.path.clone(), why })
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<FeedReading, &'static str> {
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let (header, slots) = words.split_at_checked(WORDS).ok_or("it is too short")?;
    if header[0] != MAGIC {
        return Err("it does not begin like one");
    }
    let threads = usize::try_from(header[1]).map_err(|_| "its thread count is absurd")?;
    let slots = threads.checked_mul(WORDS).and_then(|n| slots.get(..n)).ok_or("it is cut short")?;
    let resource = Resource::of_number(header[2]).ok_or("its resource is unknown")?;
    let sum = |field: usize| {
        slots.chunks_exact(WORDS).fold(0u64, |sum, slot| sum.wrapping_add(slot[field]))
    };
    let accesses = sum(2);
    Ok(FeedReading {
        resource,
        pid: u32::try_from(header[3]).map_err(|_| "its process id is absurd")?,
        work: sum(0),
        latency_ns: (accesses > 0).then(|| sum(1) as f64 / accesses as f64),
        busy: Duration::from_nanos(sum(3)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn another_reader_sees_the_sum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feed");
        let reader = FeedReader::new(&path);
        assert!(reader.read().is_err(), "not there yet");
        let meter = Meter::new(Resource::Integer, 3, Some(&path)).unwrap();
        assert_eq!(reader.read().unwrap().latency_ns, None);
        for (i, slot) in meter.slots().iter().enumerate() {
            slot.add_work(10 + i as u64);
            slot.add_latency(Duration::from_nanos(300), 10);
            slot.add_busy(Duration::from_micros(5));
        }
        let seen = reader.read().unwrap();
        assert_eq!((seen.resource, seen.work), (Resource::Integer, 33));
        assert_eq!((seen.latency_ns, seen.busy), (Some(30.0), Duration::from_micros(15)));
        assert_eq!(seen.pid, std::process::id());
        drop(meter);
        assert_eq!(reader.read().unwrap().work, 33, "what is counted stays");
        let _next = Meter::new(Resource::Integer, 1, Some(&path)).unwrap();
        assert_eq!(reader.read().unwrap().work, 0, "a new one takes its place");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn damaged_feeds_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feed");
        drop(Meter::new(Resource::LlcCapacity, 2, Some(&path)).unwrap());
        let whole = std::fs::read(&path).unwrap();
        assert!(decode(&whole).is_ok());
        for cut in [0, 7, 63, 64, 130, whole.len() - 1] {
            assert!(decode(&whole[..cut]).is_err(), "cut at {cut}");
        }
        let mut other = whole.clone();
        other[16] = 99;
        assert_eq!(decode(&other), Err("its resource is unknown"));
    }

    #[test]
    fn latency_is_that_of_the_window() {
        let meter = Meter::new(Resource::LlcCapacity, 1, None).unwrap();
        let slot = &meter.slots()[0];
        slot.add_latency(Duration::from_nanos(100), 10);
        let before = meter.total();
        slot.add_latency(Duration::from_nanos(400), 10);
        assert_eq!(meter.total().latency_since(&before), Some(40.0));
        assert_eq!(before.latency_since(&before), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut feed = MAGIC.to_ne_bytes().to_vec();
            feed.extend_from_slice(&bytes);
            let _ = decode(&bytes);
            let _ = decode(&feed);
        }
    }
}
