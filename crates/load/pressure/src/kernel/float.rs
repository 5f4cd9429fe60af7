//! Floating-point units: scalar additions and multiplications on more independent chains than the
//! units have stages, so that each unit starts an operation in each cycle (B-2: 12).
//!
//! Additions are of 1 and multiplications by -1: values stay exact, never denormal and never
//! infinite, however long it runs.

use super::units::Loop;

/// The loop of this processor.
pub(crate) fn form() -> Loop {
    #[cfg(target_arch = "x86_64")]
    let form = Loop { name: "scalar SSE2", per_round: 28, run: crunch, steps: 2 };
    #[cfg(target_arch = "aarch64")]
    let form = Loop { name: "scalar AArch64", per_round: 28, run: crunch, steps: 2 };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let form = portable_form();
    form
}

/// Seven chains of additions and seven of multiplications, two steps of each a round.
#[cfg(target_arch = "x86_64")]
fn crunch(start: f64, rounds: u64) -> f64 {
    let (mut sum, one) = (start, 1.0f64);
    // SAFETY: works on the named registers only, neither memory nor stack; the loop ends since the
    // counter starts at 1 or more and goes down to 0. SSE2 belongs to every x86-64.
    unsafe {
        std::arch::asm!(
            "2:",
            "addsd {s}, {one}", "mulsd xmm7, {neg}", "addsd xmm1, {one}", "mulsd xmm8, {neg}",
            "addsd xmm2, {one}", "mulsd xmm9, {neg}", "addsd xmm3, {one}", "mulsd xmm10, {neg}",
            "addsd xmm4, {one}", "mulsd xmm11, {neg}", "addsd xmm5, {one}", "mulsd xmm12, {neg}",
            "addsd xmm6, {one}", "mulsd xmm13, {neg}",
            "addsd {s}, {one}", "mulsd xmm7, {neg}", "addsd xmm1, {one}", "mulsd xmm8, {neg}",
            "addsd xmm2, {one}", "mulsd xmm9, {neg}", "addsd xmm3, {one}", "mulsd xmm10, {neg}",
            "addsd xmm4, {one}", "mulsd xmm11, {neg}", "addsd xmm5, {one}", "mulsd xmm12, {neg}",
            "addsd xmm6, {one}", "mulsd xmm13, {neg}",
            "dec {n}",
            "jnz 2b",
            s = inout(xmm_reg) sum, one = in(xmm_reg) one, neg = in(xmm_reg) -1.0f64,
            inout("xmm1") one => _, inout("xmm2") one => _, inout("xmm3") one => _,
            inout("xmm4") one => _, inout("xmm5") one => _, inout("xmm6") one => _,
            inout("xmm7") one => _, inout("xmm8") one => _, inout("xmm9") one => _,
            inout("xmm10") one => _, inout("xmm11") one => _, inout("xmm12") one => _,
            inout("xmm13") one => _,
            n = inout(reg) rounds.max(1) => _,
            options(pure, nomem, nostack)
        );
    }
    sum
}

/// As on x86-64, in the instructions of 64-bit ARM.
#[cfg(target_arch = "aarch64")]
fn crunch(start: f64, rounds: u64) -> f64 {
    let (mut sum, one) = (start, 1.0f64);
    // SAFETY: works on the named registers only, neither memory nor stack; the loop ends since the
    // counter starts at 1 or more and goes down to 0.
    unsafe {
        std::arch::asm!(
            "2:",
            "fadd {s:d}, {s:d}, {one:d}", "fmul d7, d7, {neg:d}",
            "fadd d1, d1, {one:d}", "fmul d16, d16, {neg:d}",
            "fadd d2, d2, {one:d}", "fmul d17, d17, {neg:d}",
            "fadd d3, d3, {one:d}", "fmul d18, d18, {neg:d}",
            "fadd d4, d4, {one:d}", "fmul d19, d19, {neg:d}",
            "fadd d5, d5, {one:d}", "fmul d20, d20, {neg:d}",
            "fadd d6, d6, {one:d}", "fmul d21, d21, {neg:d}",
            "fadd {s:d}, {s:d}, {one:d}", "fmul d7, d7, {neg:d}",
            "fadd d1, d1, {one:d}", "fmul d16, d16, {neg:d}",
            "fadd d2, d2, {one:d}", "fmul d17, d17, {neg:d}",
            "fadd d3, d3, {one:d}", "fmul d18, d18, {neg:d}",
            "fadd d4, d4, {one:d}", "fmul d19, d19, {neg:d}",
            "fadd d5, d5, {one:d}", "fmul d20, d20, {neg:d}",
            "fadd d6, d6, {one:d}", "fmul d21, d21, {neg:d}",
            "subs {n}, {n}, 1",
            "b.ne 2b",
            s = inout(vreg) sum, one = in(vreg) one, neg = in(vreg) -1.0f64,
            inout("v1") one => _, inout("v2") one => _, inout("v3") one => _,
            inout("v4") one => _, inout("v5") one => _, inout("v6") one => _,
            inout("v7") one => _, inout("v16") one => _, inout("v17") one => _,
            inout("v18") one => _, inout("v19") one => _, inout("v20") one => _,
            inout("v21") one => _,
            n = inout(reg) rounds.max(1) => _,
            options(pure, nomem, nostack)
        );
    }
    sum
}

/// Any other processor: plain Rust.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn portable_form() -> Loop {
    Loop { name: "portable", per_round: 16, run: portable, steps: 1 }
}

/// The chains pass through `black_box`, since the compiler would otherwise compute them in advance.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn portable(start: f64, rounds: u64) -> f64 {
    let (mut sums, mut products) = ([start; 8], [1.0; 8]);
    for _ in 0..rounds.max(1) {
        sums.iter_mut().for_each(|sum| *sum += 1.0);
        products.iter_mut().for_each(|product| *product *= -1.0);
        (sums, products) = std::hint::black_box((sums, products));
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::units::keeps_its_word;

    #[test]
    fn every_round_counts() {
        keeps_its_word(form());
        keeps_its_word(portable_form());
    }
}
