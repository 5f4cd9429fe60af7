//! Bus locks: atomic additions across the border of two cache lines. Each stops the memory accesses
//! of the whole socket, of all its tenants, for about a microsecond.
//!
//! So there are bounds that nobody can lift: half a second at a stretch, then as long a rest, and
//! five seconds in all for a process, whatever its runs and threads.

use super::{Kernel, Probe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Locked additions a burst, between two looks at the clock. Each takes about a microsecond, but
/// up to 10 ms where the host traps it: of more at once a stretch would be overshot.
const BURST: u64 = 1;
/// The longest stretch, and the rest after it.
const STRETCH: Duration = Duration::from_millis(500);
/// Time for which this process may lock the bus, all runs and threads together.
pub(crate) const MOST: Duration = Duration::from_secs(5);

/// Nanoseconds that this process spent with it.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Two cache lines.
#[repr(C, align(128))]
struct Lines([u32; 32]);

/// The kernel. Intensity is its share of the time.
pub(crate) struct BusLock {
    lines: Box<Lines>,
    spent: &'static AtomicU64,
    stretch: Duration,
    began: Option<Instant>,
    locked: (Duration, u64),
}

impl BusLock {
    pub(crate) fn new() -> Self {
        let lines = Box::new(Lines([0; 32]));
        let none = (Duration::ZERO, 0);
        BusLock { lines, spent: &SPENT, stretch: STRETCH, began: None, locked: none }
    }

    /// Whether it is time to rest: after each stretch for as long again.
    fn rests(&mut self, now: Instant) -> bool {
        let age = now - *self.began.get_or_insert(now);
        if age >= 2 * self.stretch {
            self.began = Some(now);
            return false;
        }
        age >= self.stretch
    }
}

/// Adds 1 to the four bytes on both sides of the border between the lines, so many times.
#[cfg(target_arch = "x86_64")]
fn lock(lines: &mut Lines, times: u64) {
    // SAFETY: bytes 62 to 65 lie within the 128 that are borrowed for writing. The address is not
    // aligned, which `lock add` allows; no reference to it is made.
    unsafe {
        std::arch::asm!("2:", "lock add dword ptr [{p}], 1", "dec {n}", "jnz 2b",
            p = in(reg) lines.0.as_mut_ptr().cast::<u8>().add(62),
            n = inout(reg) times.max(1) => _, options(nostack));
    }
}

/// Other processors have no bus lock; [`crate::arm`] refuses before it comes to this.
#[cfg(not(target_arch = "x86_64"))]
fn lock(_lines: &mut Lines, _times: u64) {}

impl Kernel for BusLock {
    fn burst(&mut self) -> Result<u64, String> {
        let start = Instant::now();
        if u128::from(self.spent.load(Relaxed)) >= MOST.as_nanos() {
            return Err("bus locks ended: this process had its five seconds of them".to_owned());
        }
        if self.rests(start) {
            for _ in 0..100 {
                std::hint::spin_loop();
            }
            return Ok(0);
        }
        lock(&mut self.lines, BURST);
        let took = start.elapsed();
        self.spent.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.locked = (self.locked.0 + took, self.locked.1 + BURST);
        Ok(BURST)
    }

    /// The mean time of a locked addition since the last sample.
    fn probe(&mut self) -> Option<Probe> {
        let (took, accesses) = std::mem::take(&mut self.locked);
        (accesses > 0).then_some(Probe { took, accesses })
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "bus locks hurt all tenants of this socket: 0.5 s on, 0.5 s off, 5 s in all".to_owned(),
        ]
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// The counter across the border.
    fn counter(kernel: &BusLock) -> u32 {
        kernel.lines.0[15] >> 16 | kernel.lines.0[16] << 16
    }

    #[test]
    fn each_addition_crosses_the_border() {
        let mut kernel = BusLock::new();
        assert!((std::ptr::from_ref(kernel.lines.as_ref()) as usize).is_multiple_of(128));
        assert_eq!(kernel.burst().unwrap() + kernel.burst().unwrap(), 2 * BURST);
        assert_eq!(u64::from(counter(&kernel)), 2 * BURST);
        assert_eq!(kernel.probe().unwrap().accesses, 2 * BURST);
    }

    #[test]
    fn rests_after_a_stretch_as_long_again() {
        let mut kernel = BusLock::new();
        kernel.stretch = Duration::from_millis(10);
        let start = Instant::now();
        for (ms, rests) in
            [(0, false), (9, false), (10, true), (19, true), (20, false), (29, false)]
        {
            assert_eq!(kernel.rests(start + Duration::from_millis(ms)), rests, "{ms} ms");
        }
        assert!(kernel.rests(start + Duration::from_millis(31)));
    }

    #[test]
    fn all_runs_together_are_bounded() {
        static OVER: AtomicU64 = AtomicU64::new(5_000_000_000);
        let mut kernel = BusLock::new();
        kernel.spent = &OVER;
        assert!(kernel.burst().unwrap_err().contains("five seconds"));
        assert_eq!(counter(&kernel), 0, "nothing was locked");
    }
}
