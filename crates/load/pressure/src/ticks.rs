//! The processor's own steady counter, read without a call: a clock that is a function of the system
//! or of a library occupies lines of the instruction cache that is being looked at.

/// Its present value; what a tick is has to be learnt from a clock.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both exist on every x86-64 processor and touch no memory. The fence waits for what came
    // before to be done.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Its present value; what a tick is has to be learnt from a clock.
#[cfg(target_arch = "aarch64")]
pub(crate) fn ticks() -> u64 {
    let now;
    // SAFETY: the kernel lets programs read the virtual counter; no memory is touched. The barrier
    // waits for what came before to be done.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) now,
            options(nostack, preserves_flags));
    }
    now
}

/// Nanoseconds of a clock, where no counter is known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn ticks() -> u64 {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_grows_in_proportion_to_time() {
        let rate = |span: Duration| {
            let (begun, from) = (Instant::now(), ticks());
            while begun.elapsed() < span {}
            let grown = ticks() - from;
            grown as f64 / begun.elapsed().as_secs_f64()
        };
        let alike = |_| {
            let (short, long) = (rate(Duration::from_millis(2)), rate(Duration::from_millis(6)));
            short > 1e6 && (short / long - 1.0).abs() < 0.05
        };
        // Whoever loses the CPU between the two clocks measures nonsense: that is not each time so.
        assert!((0..50).any(alike));
    }
}
