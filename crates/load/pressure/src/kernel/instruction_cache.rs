//! First-level instruction cache: straight-line code of one cache line each (B-2: 8).
//!
//! Each line does a few operations, counts down, and jumps to the next or returns. A pass is told how
//! many lines to run, so the same code presses on any share of the cache. The lines are filled with
//! the smallest instructions there are: a decoded-instruction cache, which would keep the fetches from
//! the cache under pressure, has no room for so many of one line.
//!
//! Any number of lines from the first on covers one stretch of addresses, within which they are run
//! in no order, block by block. A processor fetches the line after the one that it runs too, ahead of
//! need or because it learns too late of the jump. Were the lines strewn over all of the code, half of
//! them would bring in the most of the other half; in one stretch only the line after the last is
//! too many. A stretch also fills the sets of a cache evenly, however many there are.
//!
//! The code is written to a fresh mapping, which is then made executable and is writable no more.

use super::random::{below, step};
use super::{Kernel, Probe};
use crate::region::LINE;
use crate::{Intensity, PressureError};
use std::io;
use std::ptr::NonNull;
use std::time::Instant;

/// Lines run in a burst, about: one pass of most first-level caches.
const BURST: usize = 512;

/// Lines that are run in a random order among themselves.
const BLOCK: usize = 16;

/// A function that runs so many lines, at least one.
type Pass = unsafe extern "C" fn(lines: u64);

/// Generated code: so many lines, chained, each with its way out.
pub(crate) struct Code {
    base: NonNull<u8>,
    bytes: usize,
    first: usize,
    lines: usize,
}

// SAFETY: the mapping is owned, and nobody writes to it after it was made.
unsafe impl Send for Code {}

impl Code {
    /// Code that covers `bytes` of the cache. An error where memory cannot be made executable, or
    /// on a processor for which no code can be generated here.
    pub(crate) fn generate(bytes: usize) -> Result<Code, PressureError> {
        let lines = (bytes / LINE).max(1);
        let order = in_blocks(lines);
        let bytes = (lines * LINE).next_multiple_of(4096);
        let text = encode::text(&order).ok_or_else(|| {
            let why = io::Error::from(io::ErrorKind::Unsupported);
            PressureError::system("cannot generate code for", std::env::consts::ARCH, why)
        })?;
        let (none, how) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let failed = |source| PressureError::Memory { bytes, source };
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let map =
            unsafe { libc::mmap(none, bytes, libc::PROT_READ | libc::PROT_WRITE, how, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let nothing = || failed(io::Error::from(io::ErrorKind::OutOfMemory));
        let base = NonNull::new(map.cast::<u8>()).ok_or_else(nothing)?;
        let code = Code { base, bytes, first: order[0], lines };
        // SAFETY: the mapping is `bytes` long, which holds `text`, and is not executable yet.
        unsafe { base.as_ptr().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: changes the protection of our own mapping: from now on nobody writes to it.
        let sealed = unsafe { libc::mprotect(map, bytes, libc::PROT_READ | libc::PROT_EXEC) };
        if sealed != 0 {
            let why = io::Error::last_os_error();
            return Err(PressureError::system("cannot make code executable in", "memory", why));
        }
        encode::publish(base.as_ptr(), text.len());
        Ok(code)
    }

    /// Runs the first `lines` of the order.
    pub(crate) fn run(&self, lines: usize) {
        self.run_from(self.first, lines);
    }

    /// Runs `lines` from this line (of [`Code::lines`]) on, in the order.
    pub(crate) fn run_from(&self, line: usize, lines: usize) {
        let (line, lines) = (line % self.lines, lines.clamp(1, self.lines) as u64);
        // SAFETY: `line` is one of the lines, which lie side by side from `base` on; entered at
        // any of them they are a function in the C convention that changes only its argument's
        // register, one scratch register and the flags, and ends after `lines` lines, of which
        // there are as many, since the last leads to the first.
        unsafe {
            let entry = self.base.as_ptr().add(line * LINE);
            std::mem::transmute::<*mut u8, Pass>(entry)(lines);
        }
    }

    /// How many lines there are.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped; no pass is under way, since each borrows `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The order of `0..lines`: block by block, each in a random order (Fisher and Yates).
fn in_blocks(lines: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 1;
    for block in order.chunks_mut(BLOCK) {
        for i in (1..block.len()).rev() {
            state = step(state);
            block.swap(i, below(state, i as u64 + 1));
        }
    }
    order
}

#[cfg(target_arch = "x86_64")]
mod encode {
    use super::LINE;

    /// Counts down, and leaves when nothing is left: dec rdi (3 bytes), jz rel8 (2), jmp rel32 (5),
    /// ret (1).
    const TAIL: usize = 11;

    /// The lines in this order.
    pub(super) fn text(order: &[usize]) -> Option<Vec<u8>> {
        const NOP: u8 = 0x90;
        const RET: u8 = 0xc3;
        let mut text = vec![NOP; order.len() * LINE];
        for (i, &line) in order.iter().enumerate() {
            let at = line * LINE + LINE - TAIL;
            let next = order[(i + 1) % order.len()] * LINE;
            text[at..at + 3].copy_from_slice(&[0x48, 0xff, 0xcf]);
            // Over the jump of five bytes.
            text[at + 3..at + 5].copy_from_slice(&[0x74, 5]);
            text[at + 5] = 0xe9;
            text[at + 6..at + 10].copy_from_slice(&offset(at + 10, next)?);
            text[at + 10] = RET;
        }
        Some(text)
    }

    /// The way from the end of a jump to its target.
    fn offset(from: usize, to: usize) -> Option<[u8; 4]> {
        let way = i64::try_from(to).ok()? - i64::try_from(from).ok()?;
        i32::try_from(way).ok().map(i32::to_le_bytes)
    }

    /// Instruction and data caches agree by themselves on x86.
    pub(super) fn publish(_base: *mut u8, _bytes: usize) {}
}

#[cfg(target_arch = "aarch64")]
mod encode {
    use super::LINE;

    /// The lines in this order.
    pub(super) fn text(order: &[usize]) -> Option<Vec<u8>> {
        const NOP: u32 = 0xd503_201f;
        const RET: u32 = 0xd65f_03c0;
        let words = LINE / 4;
        let mut text = vec![NOP; order.len() * words];
        for (i, &line) in order.iter().enumerate() {
            let at = line * words + words - 4;
            let next = order[(i + 1) % order.len()] * words;
            // subs x0, x0, #1; b.eq over the next; b next; ret.
            text[at] = 0xf100_0400;
            text[at + 1] = 0x5400_0000 | (way(at + 1, at + 3, 19)? << 5);
            text[at + 2] = 0x1400_0000 | way(at + 2, next, 26)?;
            text[at + 3] = RET;
        }
        Some(text.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    /// A jump of so many instructions as a field of so many bits.
    fn way(from: usize, to: usize, bits: u32) -> Option<u32> {
        let way = i32::try_from(to).ok()? - i32::try_from(from).ok()?;
        let half = 1 << (bits - 1);
        (-half..half).contains(&way).then(|| way.cast_unsigned() & ((1 << bits) - 1))
    }

    /// Writes data lines back and drops stale instructions: ARM does not do that by itself.
    pub(super) fn publish(base: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(16) {
            // SAFETY: cache maintenance by address on our own mapping; changes no contents.
            unsafe {
                std::arch::asm!("dc cvau, {0}", "ic ivau, {0}", in(reg) base.add(at),
                    options(nostack, preserves_flags));
            }
        }
        // SAFETY: barriers.
        unsafe { std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod encode {
    pub(super) fn text(_order: &[usize]) -> Option<Vec<u8>> {
        None
    }

    pub(super) fn publish(_base: *mut u8, _bytes: usize) {}
}

/// The kernel.
pub(crate) struct InstructionCache {
    code: Code,
    used: usize,
}

impl InstructionCache {
    pub(crate) fn new(code: Code) -> Self {
        InstructionCache { code, used: 0 }
    }
}

impl Kernel for InstructionCache {
    fn prepare(&mut self) {
        self.code.run(self.code.lines);
    }

    fn set_intensity(&mut self, intensity: Intensity) {
        self.used = intensity.of(self.code.lines as u64) as usize;
    }

    fn burst(&mut self) -> Result<u64, String> {
        if self.used == 0 {
            return Ok(0);
        }
        let passes = (BURST / self.used).max(1);
        for _ in 0..passes {
            self.code.run(self.used);
        }
        Ok((passes * self.used) as u64)
    }

    /// The mean time of a line: it grows when its instructions have to be fetched from farther.
    fn probe(&mut self) -> Option<Probe> {
        if self.used == 0 {
            return None;
        }
        let start = Instant::now();
        self.code.run(self.used);
        Some(Probe { took: start.elapsed(), accesses: self.used as u64 })
    }

    fn footprint_bytes(&self) -> u64 {
        (self.used * LINE) as u64
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    /// The line of /proc/self/maps that covers this address.
    // Clippy knows test functions only, not what they call under more than `cfg(test)`.
    #[allow(clippy::unwrap_used)]
    fn mapping(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let covers = |line: &&str| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address)
        };
        maps.lines().find(covers).map(str::to_owned)
    }

    #[test]
    fn the_share_is_one_of_lines() {
        let mut kernel = InstructionCache::new(Code::generate(32 << 10).unwrap());
        kernel.prepare();
        assert_eq!((kernel.burst().unwrap(), kernel.probe()), (0, None));
        for (percent, lines) in [(1.0, 5), (50.0, 256), (100.0, 512)] {
            kernel.set_intensity(Intensity::new(percent).unwrap());
            assert_eq!(kernel.footprint_bytes(), lines * 64);
            let work = kernel.burst().unwrap();
            assert!(work > 0 && work.is_multiple_of(lines), "{work}");
            assert_eq!(kernel.probe().unwrap().accesses, lines);
        }
    }

    #[test]
    fn it_can_be_entered_anywhere() {
        let code = Code::generate(4 << 10).unwrap();
        assert_eq!(code.lines(), 64);
        // Whoever did not come back would not get here.
        for line in 0..70 {
            code.run_from(line, 1);
            code.run_from(line, 1000);
        }
    }

    #[test]
    fn more_lines_take_longer() {
        let code = Code::generate(32 << 10).unwrap();
        let time = |lines: usize| {
            let once = || {
                let start = Instant::now();
                code.run(lines);
                start.elapsed()
            };
            (0..200).map(|_| once()).min().unwrap()
        };
        let longer = (0..20).any(|_| time(512) > 4 * time(16));
        assert!(longer, "512 lines in {:?}, 16 in {:?}", time(512), time(16));
    }

    #[test]
    fn code_is_never_writable_and_executable_and_goes_away() {
        let code = Code::generate(8 << 10).unwrap();
        let at = code.base.as_ptr() as usize;
        assert!(mapping(at).unwrap().contains(" r-xp "), "{:?}", mapping(at));
        drop(code);
        assert!(mapping(at).is_none_or(|line| !line.contains(" r-xp 00000000 00:00")));
    }

    #[test]
    fn any_number_of_lines_is_one_stretch_but_for_a_block() {
        let order = in_blocks(500);
        for lines in 1..=500 {
            let mut first = order[..lines].to_vec();
            first.sort_unstable();
            first.dedup();
            assert_eq!(first.len(), lines, "each once");
            let whole = lines / BLOCK * BLOCK;
            assert_eq!(first[..whole], (0..whole).collect::<Vec<_>>());
            assert!(first[lines - 1] < whole + BLOCK);
        }
        assert_ne!(order[..BLOCK], (0..BLOCK).collect::<Vec<_>>(), "in no order within");
    }
}
