//! Asking for lines before they are written.

use crate::region::Line;

/// Asks for a line, to be written soon: it comes without anybody waiting for it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn fetch_to_write(line: &Line) {
    // SAFETY: a hint, of any address, that changes no value and raises no fault; processors that do not
    // know it do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{line}]", line = in(reg) std::ptr::from_ref(line),
            options(nostack, preserves_flags, readonly));
    }
}

/// The same on 64-bit ARM.
#[cfg(target_arch = "aarch64")]
pub(crate) fn fetch_to_write(line: &Line) {
    // SAFETY: a hint, of any address, that changes no value and raises no fault.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{line}]", line = in(reg) std::ptr::from_ref(line),
            options(nostack, preserves_flags, readonly));
    }
}

/// Elsewhere nothing is asked for.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn fetch_to_write(_: &Line) {}
