//! Vector units: fused multiply-add on the widest vectors that the CPU has, and additions of whole
//! numbers beside it, all in registers (B-2: 15).
//!
//! There are more independent chains than the units have stages. Each step multiplies by 1 and adds
//! 1, so values stay exact, never denormal and never infinite.

use super::units::Loop;

/// The loops that this CPU can run, widest vectors first; the last one runs anywhere.
pub(crate) fn forms() -> Vec<Loop> {
    let mut forms = Vec::new();
    #[cfg(target_arch = "x86_64")]
    x86::add(&mut forms);
    #[cfg(target_arch = "aarch64")]
    arm::add(&mut forms);
    forms.push(Loop { name: "portable, 4 lanes", per_round: 8, run: portable, steps: 1 });
    forms
}

/// The widest.
pub(crate) fn form() -> Loop {
    forms()[0]
}

/// Plain Rust, in vectors as far as the compiler makes them. The chains pass through `black_box`,
/// since it would otherwise compute them in advance.
fn portable(start: f64, rounds: u64) -> f64 {
    let one = std::hint::black_box(1.0);
    let mut chains = [[start; 4]; 4];
    for _ in 0..rounds.max(1) {
        for lane in chains.as_flattened_mut() {
            *lane = *lane * one + one;
        }
        chains = std::hint::black_box(chains);
    }
    chains[0][0]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Loop;
    use std::arch::asm;

    pub(super) fn add(forms: &mut Vec<Loop>) {
        if is_x86_feature_detected!("avx512f") {
            forms.push(Loop { name: "AVX-512", per_round: 20, run: safe512, steps: 1 });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            forms.push(Loop { name: "AVX2", per_round: 14, run: safe256, steps: 1 });
        }
    }

    fn safe512(start: f64, rounds: u64) -> f64 {
        // SAFETY: `add` lists this only where AVX-512F was detected.
        unsafe { crunch512(start, rounds) }
    }

    fn safe256(start: f64, rounds: u64) -> f64 {
        // SAFETY: `add` lists this only where AVX2 and FMA were detected.
        unsafe { crunch256(start, rounds) }
    }

    /// Sixteen chains of multiply-add, four of integers.
    #[target_feature(enable = "avx512f")]
    fn crunch512(start: f64, rounds: u64) -> f64 {
        let mut sum = start;
        // SAFETY: works on registers only, all of them named; the loop ends since the counter
        // starts at 1 or more and goes down to 0; the CPU has AVX-512F.
        unsafe {
            asm!(
                "vbroadcastsd zmm30, xmm30",
                "vpternlogd zmm31, zmm31, zmm31, 0xff",
                "vbroadcastsd zmm0, xmm0",
                "vmovapd zmm1, zmm0", "vmovapd zmm2, zmm0", "vmovapd zmm3, zmm0",
                "vmovapd zmm4, zmm0", "vmovapd zmm5, zmm0", "vmovapd zmm6, zmm0",
                "vmovapd zmm7, zmm0", "vmovapd zmm8, zmm0", "vmovapd zmm9, zmm0",
                "vmovapd zmm10, zmm0", "vmovapd zmm11, zmm0", "vmovapd zmm12, zmm0",
                "vmovapd zmm13, zmm0", "vmovapd zmm14, zmm0", "vmovapd zmm15, zmm0",
                "2:",
                "vfmadd213pd zmm0, zmm30, zmm30", "vfmadd213pd zmm1, zmm30, zmm30",
                "vfmadd213pd zmm2, zmm30, zmm30", "vfmadd213pd zmm3, zmm30, zmm30",
                "vpaddq zmm16, zmm16, zmm31",
                "vfmadd213pd zmm4, zmm30, zmm30", "vfmadd213pd zmm5, zmm30, zmm30",
                "vfmadd213pd zmm6, zmm30, zmm30", "vfmadd213pd zmm7, zmm30, zmm30",
                "vpaddq zmm17, zmm17, zmm31",
                "vfmadd213pd zmm8, zmm30, zmm30", "vfmadd213pd zmm9, zmm30, zmm30",
                "vfmadd213pd zmm10, zmm30, zmm30", "vfmadd213pd zmm11, zmm30, zmm30",
                "vpaddq zmm18, zmm18, zmm31",
                "vfmadd213pd zmm12, zmm30, zmm30", "vfmadd213pd zmm13, zmm30, zmm30",
                "vfmadd213pd zmm14, zmm30, zmm30", "vfmadd213pd zmm15, zmm30, zmm30",
                "vpaddq zmm19, zmm19, zmm31",
                "dec {n}",
                "jnz 2b",
                "vzeroupper",
                n = inout(reg) rounds.max(1) => _,
                inout("xmm0") sum, inout("xmm30") 1.0f64 => _,
                out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _,
                out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _, out("xmm31") _,
                options(pure, nomem, nostack)
            );
        }
        sum
    }

    /// Ten chains of multiply-add, four of integers.
    #[target_feature(enable = "avx2,fma")]
    fn crunch256(start: f64, rounds: u64) -> f64 {
        let mut sum = start;
        // SAFETY: works on registers only, all of them named; the loop ends since the counter
        // starts at 1 or more and goes down to 0; the CPU has AVX2 and FMA.
        unsafe {
            asm!(
                "vbroadcastsd ymm14, xmm14",
                "vpcmpeqd ymm15, ymm15, ymm15",
                "vbroadcastsd ymm0, xmm0",
                "vmovapd ymm1, ymm0", "vmovapd ymm2, ymm0", "vmovapd ymm3, ymm0",
                "vmovapd ymm4, ymm0", "vmovapd ymm5, ymm0", "vmovapd ymm6, ymm0",
                "vmovapd ymm7, ymm0", "vmovapd ymm8, ymm0", "vmovapd ymm9, ymm0",
                "2:",
                "vfmadd213pd ymm0, ymm14, ymm14", "vfmadd213pd ymm1, ymm14, ymm14",
                "vpaddq ymm10, ymm10, ymm15",
                "vfmadd213pd ymm2, ymm14, ymm14", "vfmadd213pd ymm3, ymm14, ymm14",
                "vpaddq ymm11, ymm11, ymm15",
                "vfmadd213pd ymm4, ymm14, ymm14", "vfmadd213pd ymm5, ymm14, ymm14",
                "vpaddq ymm12, ymm12, ymm15",
                "vfmadd213pd ymm6, ymm14, ymm14", "vfmadd213pd ymm7, ymm14, ymm14",
                "vpaddq ymm13, ymm13, ymm15",
                "vfmadd213pd ymm8, ymm14, ymm14", "vfmadd213pd ymm9, ymm14, ymm14",
                "dec {n}",
                "jnz 2b",
                "vzeroupper",
                n = inout(reg) rounds.max(1) => _,
                inout("xmm0") sum, inout("xmm14") 1.0f64 => _,
                out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _,
                out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm15") _,
                options(pure, nomem, nostack)
            );
        }
        sum
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Loop;
    use std::arch::asm;

    pub(super) fn add(forms: &mut Vec<Loop>) {
        // NEON belongs to every 64-bit ARM that Linux runs on; asked for all the same.
        if std::arch::is_aarch64_feature_detected!("neon") {
            forms.push(Loop { name: "NEON", per_round: 20, run: crunch, steps: 1 });
        }
    }

    /// Sixteen chains of multiply-add, four of integers.
    fn crunch(start: f64, rounds: u64) -> f64 {
        let mut sum = start;
        // SAFETY: works on registers only, all of them named; the loop ends since the counter
        // starts at 1 or more and goes down to 0.
        unsafe {
            asm!(
                "dup v30.2d, v30.d[0]", "dup v0.2d, v0.d[0]",
                "2:",
                "fmla v0.2d, v30.2d, v30.2d", "fmla v1.2d, v30.2d, v30.2d",
                "fmla v2.2d, v30.2d, v30.2d", "fmla v3.2d, v30.2d, v30.2d",
                "add v24.2d, v24.2d, v30.2d",
                "fmla v4.2d, v30.2d, v30.2d", "fmla v5.2d, v30.2d, v30.2d",
                "fmla v6.2d, v30.2d, v30.2d", "fmla v7.2d, v30.2d, v30.2d",
                "add v25.2d, v25.2d, v30.2d",
                "fmla v16.2d, v30.2d, v30.2d", "fmla v17.2d, v30.2d, v30.2d",
                "fmla v18.2d, v30.2d, v30.2d", "fmla v19.2d, v30.2d, v30.2d",
                "add v26.2d, v26.2d, v30.2d",
                "fmla v20.2d, v30.2d, v30.2d", "fmla v21.2d, v30.2d, v30.2d",
                "fmla v22.2d, v30.2d, v30.2d", "fmla v23.2d, v30.2d, v30.2d",
                "add v27.2d, v27.2d, v30.2d",
                "subs {n}, {n}, 1",
                "b.ne 2b",
                n = inout(reg) rounds.max(1) => _,
                inout("v0") sum, inout("v30") 1.0f64 => _,
                inout("v1") 1.0f64 => _, inout("v2") 1.0f64 => _, inout("v3") 1.0f64 => _,
                inout("v4") 1.0f64 => _, inout("v5") 1.0f64 => _, inout("v6") 1.0f64 => _,
                inout("v7") 1.0f64 => _, inout("v16") 1.0f64 => _, inout("v17") 1.0f64 => _,
                inout("v18") 1.0f64 => _, inout("v19") 1.0f64 => _, inout("v20") 1.0f64 => _,
                inout("v21") 1.0f64 => _, inout("v22") 1.0f64 => _, inout("v23") 1.0f64 => _,
                out("v24") _, out("v25") _, out("v26") _, out("v27") _,
                options(pure, nomem, nostack)
            );
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::units::keeps_its_word;

    #[test]
    fn every_round_counts_in_every_form() {
        forms().into_iter().for_each(keeps_its_word);
    }

    #[test]
    fn the_portable_form_is_always_there() {
        assert_eq!(forms().last().unwrap().name, "portable, 4 lanes");
    }
}
