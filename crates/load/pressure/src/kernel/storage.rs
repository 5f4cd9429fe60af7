//! Storage: files without a name, read and written past the page cache (B-2: 3, 4).
//!
//! The file is unlinked before anything is written to it: whatever ends the process, the kernel
//! takes it away with it.

use super::random::{below, step, streams};
use super::{Kernel, Probe};
use crate::region::Region;
use crate::room::{self, Room};
use crate::{Intensity, PressureError};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The unit of all sizes and offsets: direct access wants whole blocks of the device.
pub(crate) const BLOCK: u64 = 64 << 10;
/// Bytes in one access of a stream.
pub(crate) const STREAM: u64 = 256 << 10;
/// A footprint grows by so much in a burst.
const GROWTH: u64 = 64 << 20;

/// A file that leaves nothing behind.
pub(crate) struct Scratch {
    file: File,
    /// Whether accesses go past the page cache.
    pub(crate) direct: bool,
    /// Whether the file system keeps its files in memory.
    pub(crate) in_memory: bool,
    pub(crate) room: Room,
}

impl Scratch {
    /// A new file in `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Scratch, PressureError> {
        let failed = |e| PressureError::system("cannot make a file in", folder, e);
        let (file, direct) = match nameless(folder, OFlags::DIRECT) {
            Ok(file) => (file, true),
            Err(rustix::io::Errno::INVAL) => {
                (nameless(folder, OFlags::empty()).map_err(failed)?, false)
            }
            Err(e) => return Err(failed(e)),
        };
        let (room, in_memory) = room::disk(&file, folder)?;
        Ok(Scratch { file, direct, in_memory, room })
    }

    fn write(&self, buffer: &[u8], at: u64) -> Result<(), String> {
        self.file.write_all_at(buffer, at).map_err(|e| format!("cannot write to storage: {e}"))
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> Result<(), String> {
        self.file.read_exact_at(buffer, at).map_err(|e| format!("cannot read from storage: {e}"))
    }
}

/// Opens a file that has no name, or loses it at once where the file system needs one.
fn nameless(folder: &Path, more: OFlags) -> rustix::io::Result<File> {
    let (how, mode) = (OFlags::RDWR | OFlags::CLOEXEC | more, Mode::RUSR | Mode::WUSR);
    match open(folder, how | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(file.into()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {}
        Err(e) => return Err(e),
    }
    let ticks = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_nsec;
    let path = folder.join(format!(".quell-{}-{ticks}", std::process::id()));
    let file = open(&path, how | OFlags::CREATE | OFlags::EXCL, mode)?;
    rustix::fs::unlink(&path)?;
    Ok(file.into())
}

/// Time of the accesses since the last sample, and how many.
#[derive(Default)]
struct Waits(Duration, u64);

impl Waits {
    fn time<T>(&mut self, access: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let answer = access();
        self.0 += start.elapsed();
        self.1 += 1;
        answer
    }

    fn take(&mut self) -> Option<Probe> {
        let Waits(took, accesses) = std::mem::take(self);
        (accesses > 0).then_some(Probe { took, accesses })
    }
}

fn notes_of(scratch: &Scratch) -> Vec<String> {
    let mut notes = Vec::new();
    if !scratch.direct {
        notes.push("no direct access here: the page cache lies between".to_owned());
    }
    if scratch.in_memory {
        notes.push("this folder is kept in memory: the pressure is on memory".to_owned());
    }
    notes
}

/// Capacity: blocks are taken for x % of what may be taken, and written at random.
pub(crate) struct StorageCapacity {
    scratch: Scratch,
    buffer: Region,
    whole: u64,
    taken: u64,
    target: u64,
    first: Intensity,
    state: u64,
    waits: Waits,
}

impl StorageCapacity {
    /// `whole` bytes are 100 %; `first` is what prepare takes.
    pub(crate) fn new(scratch: Scratch, buffer: Region, whole: u64, first: Intensity) -> Self {
        let ([state], waits) = (streams(0), Waits::default());
        StorageCapacity { scratch, buffer, whole, taken: 0, target: 0, first, state, waits }
    }

    /// One step nearer to the target; false if there.
    fn approach(&mut self) -> Result<bool, String> {
        let failed = |e| format!("cannot take {} MiB of storage: {e}", self.target >> 20);
        if self.taken > self.target {
            ftruncate(&self.scratch.file, self.target).map_err(failed)?;
            self.taken = self.target;
        }
        let more = GROWTH.min(self.target - self.taken);
        if more == 0 {
            return Ok(false);
        }
        match fallocate(&self.scratch.file, FallocateFlags::empty(), self.taken, more) {
            Ok(()) => self.taken += more,
            // Blocks can only be had by writing them.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                self.scratch.write(&self.buffer.bytes_mut()[..BLOCK as usize], self.taken)?;
                self.taken += BLOCK;
            }
            Err(e) => return Err(failed(e)),
        }
        Ok(true)
    }
}

impl Kernel for StorageCapacity {
    fn prepare(&mut self) {
        self.set_intensity(self.first);
        // An error comes again in the first burst, which can tell it.
        while self.approach() == Ok(true) {}
    }

    fn set_intensity(&mut self, intensity: Intensity) {
        self.target = intensity.of(self.whole) / BLOCK * BLOCK;
    }

    fn burst(&mut self) -> Result<u64, String> {
        self.approach()?;
        if self.taken == 0 {
            return Ok(0);
        }
        self.state = step(self.state);
        let at = below(self.state, self.taken / BLOCK) as u64 * BLOCK;
        let buffer = &self.buffer.bytes_mut()[..BLOCK as usize];
        self.waits.time(|| self.scratch.write(buffer, at))?;
        Ok(BLOCK)
    }

    fn probe(&mut self) -> Option<Probe> {
        self.waits.take()
    }

    fn footprint_bytes(&self) -> u64 {
        self.taken
    }

    fn notes(&self) -> Vec<String> {
        notes_of(&self.scratch)
    }
}

/// Bandwidth: blocks in order, written and read in turns, during x % of the time.
pub(crate) struct StorageBandwidth {
    scratch: Scratch,
    buffer: Region,
    bytes: u64,
    next: u64,
    laid: Result<(), String>,
    waits: Waits,
}

impl StorageBandwidth {
    /// A stream over a file of `bytes`, rounded to whole accesses.
    pub(crate) fn new(scratch: Scratch, buffer: Region, bytes: u64) -> Self {
        let bytes = (bytes / STREAM * STREAM).max(2 * STREAM);
        StorageBandwidth { scratch, buffer, bytes, next: 0, laid: Ok(()), waits: Waits::default() }
    }

    /// Writes all of the file once: what is read has to be there.
    fn lay(&mut self) -> Result<(), String> {
        let buffer = &self.buffer.bytes_mut()[..STREAM as usize];
        (0..self.bytes / STREAM).try_for_each(|i| self.scratch.write(buffer, i * STREAM))
    }
}

impl Kernel for StorageBandwidth {
    fn prepare(&mut self) {
        // What does not compress and is not all zeroes, in case somebody below looks.
        let mut state = 1;
        for word in self.buffer.bytes_mut().as_chunks_mut::<8>().0 {
            state = step(state);
            *word = state.to_ne_bytes();
        }
        self.laid = self.lay();
    }

    fn burst(&mut self) -> Result<u64, String> {
        self.laid.clone()?;
        let at = self.next;
        self.next = (at + STREAM) % self.bytes;
        let (scratch, buffer) = (&self.scratch, &mut self.buffer.bytes_mut()[..STREAM as usize]);
        let writes = (at / STREAM).is_multiple_of(2);
        let access = || if writes { scratch.write(buffer, at) } else { scratch.read(buffer, at) };
        self.waits.time(access)?;
        Ok(STREAM)
    }

    fn probe(&mut self) -> Option<Probe> {
        self.waits.take()
    }

    fn footprint_bytes(&self) -> u64 {
        self.bytes
    }

    fn notes(&self) -> Vec<String> {
        notes_of(&self.scratch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    const MIB: u64 = 1 << 20;

    fn scratch(folder: &Path) -> (Scratch, Region) {
        (Scratch::new(folder).unwrap(), Region::map(1).unwrap())
    }

    fn is_empty(folder: &Path) -> bool {
        std::fs::read_dir(folder).unwrap().next().is_none()
    }

    #[test]
    fn takes_its_share_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let (scratch, buffer) = scratch(folder.path());
        let half = Intensity::new(50.0).unwrap();
        let mut kernel = StorageCapacity::new(scratch, buffer, 8 * MIB, half);
        kernel.prepare();
        assert_eq!(kernel.footprint_bytes(), 4 * MIB);
        assert!(is_empty(folder.path()), "the file has no name");
        let blocks = |kernel: &StorageCapacity| {
            kernel.scratch.file.metadata().map(|file| file.blocks() * 512).unwrap()
        };
        assert!(blocks(&kernel) >= 4 * MIB, "blocks are taken, not only promised");
        kernel.set_intensity(Intensity::FULL);
        assert_eq!(kernel.burst().unwrap(), BLOCK);
        assert_eq!(kernel.probe().unwrap().accesses, 1);
        assert_eq!(kernel.footprint_bytes(), 8 * MIB);
        kernel.set_intensity(Intensity::ZERO);
        assert_eq!((kernel.burst().unwrap(), kernel.probe()), (0, None));
        assert!(blocks(&kernel) < MIB);
    }

    #[test]
    fn a_stream_writes_and_reads_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (scratch, buffer) = scratch(folder.path());
        let mut kernel = StorageBandwidth::new(scratch, buffer, 2 * MIB);
        kernel.prepare();
        assert_eq!(kernel.scratch.file.metadata().unwrap().len(), 2 * MIB, "laid while arming");
        let work: u64 = (0..20).map(|_| kernel.burst().unwrap()).sum();
        assert_eq!(work, 20 * STREAM);
        assert_eq!(kernel.next, 20 % 8 * STREAM);
        assert_eq!(kernel.probe().unwrap().accesses, 20);
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let none = Scratch::new(Path::new("/proc/self/quell")).err().unwrap();
        assert!(none.to_string().contains("/proc/self/quell"), "{none}");
        let folder = tempfile::tempdir().unwrap();
        let (scratch, buffer) = scratch(folder.path());
        let far = 1 << 61;
        let mut kernel = StorageCapacity::new(scratch, buffer, far, Intensity::FULL);
        kernel.set_intensity(Intensity::FULL);
        kernel.taken = far - GROWTH;
        assert!(kernel.burst().unwrap_err().contains("cannot take"), "more than any disk has");
    }
}
