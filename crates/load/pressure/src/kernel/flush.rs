//! Taking lines out of all caches.

use crate::region::Line;

/// Writes lines back and takes them out of every cache of the machine, and waits until that is done.
#[cfg(target_arch = "x86_64")]
pub(crate) fn flush<'a>(lines: impl Iterator<Item = &'a Line>) {
    for line in lines {
        // SAFETY: flushing changes no value and may be done to any address that can be read;
        // the instruction belongs to SSE2, which every x86-64 has.
        unsafe { std::arch::x86_64::_mm_clflush(std::ptr::from_ref(line).cast()) };
    }
    // SAFETY: a fence touches no memory; it belongs to SSE2 as well.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

/// Elsewhere a program may not, or not surely: nothing is done.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn flush<'a>(lines: impl Iterator<Item = &'a Line>) {
    drop(lines);
}
