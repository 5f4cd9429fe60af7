//! Page faults and the kernel's locks: memory mapped anew and touched, again and again.
//!
//! Each mapping takes the lock of the address space for writing, each fault for reading, and pages go
//! through the kernel's allocator, whose locks and counters all processes share.

use super::{Kernel, Probe};
use crate::region::{LINE, Region};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Pages mapped and touched in a burst.
const PAGES: usize = 32;
const PAGE: usize = 4096;
/// Memory that the kernel needs.
pub(crate) const BYTES: usize = PAGES * PAGE;

/// The kernel. Intensity is its share of the time.
pub(crate) struct PageFaults {
    region: Region,
    /// Time of the faults since the last sample, and how many.
    faults: (Duration, u64),
}

impl PageFaults {
    pub(crate) fn new(region: Region) -> Self {
        PageFaults { region, faults: (Duration::ZERO, 0) }
    }
}

impl Kernel for PageFaults {
    fn burst(&mut self) -> Result<u64, String> {
        self.region.renew(BYTES).map_err(|e| format!("cannot map memory anew: {e}"))?;
        let start = Instant::now();
        for line in self.region.lines()[..BYTES / LINE].iter().step_by(PAGE / LINE) {
            line.word.store(1, Relaxed);
        }
        self.faults.0 += start.elapsed();
        self.faults.1 += PAGES as u64;
        Ok(PAGES as u64)
    }

    /// The mean time of the faults since the last sample.
    fn probe(&mut self) -> Option<Probe> {
        let (took, accesses) = std::mem::take(&mut self.faults);
        (accesses > 0).then_some(Probe { took, accesses })
    }

    fn footprint_bytes(&self) -> u64 {
        BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minor faults of this thread so far.
    fn faults() -> i64 {
        // SAFETY: all zeroes are a valid rusage, and getrusage writes to it only.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_minflt
        }
    }

    #[test]
    fn what_is_counted_are_faults_as_the_kernel_counts_them() {
        let mut kernel = PageFaults::new(Region::map(BYTES).unwrap());
        let before = faults();
        let work: u64 = (0..100).map(|_| kernel.burst().unwrap()).sum();
        let seen = u64::try_from(faults() - before).unwrap();
        assert_eq!(work, 3200);
        assert!((work..work + work / 10).contains(&seen), "{seen} faults for {work}");
        assert_eq!(kernel.probe().unwrap().accesses, 3200);
        assert_eq!(kernel.probe(), None);
    }
}
