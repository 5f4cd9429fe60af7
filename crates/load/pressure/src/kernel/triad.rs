//! Streaming loops: `out[i] = in[i] * in[i + 4]` (B-2) in several forms, of which the fastest is
//! chosen on the machine at hand.
//!
//! All forms read 8 and write 8 bytes for each element. *In place* writes what it has just read, so
//! each line travels once in each direction. *Apart* writes another array; the cache first reads the
//! lines to be written, which costs bandwidth that nobody asked for. *Streaming* stores go past the
//! caches and avoid that.

/// Elements of 8 bytes that a loop handles at once at most; lengths are multiples of it.
pub(crate) const STEP: usize = 32;
/// Elements that a loop reads beyond the block given to it.
pub(crate) const AHEAD: usize = 4;

/// One form of the loop. Arguments: input, output, elements (a multiple of [`STEP`]).
///
/// # Safety
/// `input` must be valid for reads of `n + AHEAD` and `output` for reads and writes of `n` elements,
/// both aligned to 64 bytes. They may be the same address, else the two must not overlap.
type Loop = unsafe fn(input: *const f64, output: *mut f64, n: usize);

/// A loop with its name.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// For the report.
    pub(crate) name: &'static str,
    /// Whether input and output are the same array.
    pub(crate) in_place: bool,
    run: Loop,
}

impl Form {
    /// Runs over `memory[at .. at + n]`; `half` is where the output of the forms that do not work
    /// in place begins. False if the block does not fit; then nothing was done.
    pub(crate) fn run(&self, memory: &mut [f64], at: usize, n: usize) -> bool {
        let half = memory.len() / 2;
        let limit = if self.in_place { memory.len() } else { half };
        let aligned = |index: usize| index.is_multiple_of(STEP);
        if !aligned(at) || !aligned(n) || !aligned(half) || at + n + AHEAD > limit {
            return false;
        }
        let base = memory.as_mut_ptr();
        if !(base as usize).is_multiple_of(64) {
            return false;
        }
        let out = if self.in_place { at } else { half + at };
        // SAFETY: `at + n + AHEAD` lies within the input, `out + n` within the memory (`half + at + n`
        // < 2 * half); base and both indices are aligned to 64 bytes; the two blocks are the same or
        // lie in different halves; [`forms`] lists only loops that this CPU can run.
        unsafe { (self.run)(base.add(at), base.add(out), n) };
        true
    }
}

/// The forms that this CPU can run, widest vectors first.
pub(crate) fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    #[cfg(target_arch = "x86_64")]
    x86::add(&mut forms);
    #[cfg(target_arch = "aarch64")]
    arm::add(&mut forms);
    forms.push(Form { name: "portable in place", in_place: true, run: portable });
    forms.push(Form { name: "portable apart", in_place: false, run: portable });
    forms
}

/// Plain Rust for any machine. Blocks of four, since an element is needed again four later.
///
/// # Safety
/// As [`Loop`].
unsafe fn portable(input: *const f64, output: *mut f64, n: usize) {
    for block in 0..n / AHEAD {
        // SAFETY: the caller promises n + AHEAD elements of input and n of output. All eight inputs
        // are read before the four outputs are written, so in place is sound too.
        unsafe {
            let from: [f64; 8] = input.add(block * AHEAD).cast::<[f64; 8]>().read();
            let to = output.add(block * AHEAD).cast::<[f64; 4]>();
            to.write(std::array::from_fn(|i| from[i] * from[i + AHEAD]));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{AHEAD, Form, STEP};
    use std::arch::x86_64::{
        _mm_sfence, _mm256_load_pd, _mm256_mul_pd, _mm256_store_pd, _mm256_stream_pd,
        _mm512_load_pd, _mm512_loadu_pd, _mm512_mul_pd, _mm512_store_pd, _mm512_stream_pd,
    };

    pub(super) fn add(forms: &mut Vec<Form>) {
        if is_x86_feature_detected!("avx512f") {
            forms.extend([
                Form { name: "AVX-512 in place", in_place: true, run: plain512 },
                Form { name: "AVX-512 apart", in_place: false, run: plain512 },
                Form { name: "AVX-512 streaming", in_place: false, run: stream512 },
            ]);
        }
        if is_x86_feature_detected!("avx2") {
            forms.extend([
                Form { name: "AVX2 in place", in_place: true, run: plain256 },
                Form { name: "AVX2 apart", in_place: false, run: plain256 },
                Form { name: "AVX2 streaming", in_place: false, run: stream256 },
            ]);
        }
    }

    /// A loop over STEP elements at a time in vectors of `$width`, each loaded twice (the second
    /// time AHEAD elements on) before it is stored.
    macro_rules! triad {
        ($(#[$doc:meta])* $name:ident, $feature:literal, $width:literal,
         $load:ident, $ahead:ident, $mul:ident, $store:ident $(, $end:ident)?) => {
            $(#[$doc])*
            #[target_feature(enable = $feature)]
            unsafe fn $name(input: *const f64, output: *mut f64, n: usize) {
                for block in (0..n).step_by(STEP) {
                    for i in (block..block + STEP).step_by($width) {
                        // SAFETY: the caller promises n + AHEAD aligned elements of input and n of
                        // output; i + width <= n; the vector is loaded before it is stored, and
                        // stores never reach what a later iteration reads first.
                        unsafe {
                            let now = $load(input.add(i));
                            let next = $ahead(input.add(i + AHEAD));
                            $store(output.add(i), $mul(now, next));
                        }
                    }
                }
                $($end();)?
            }
        };
    }

    triad!(
        /// # Safety
        /// As [`super::Loop`], on a CPU with AVX-512F.
        plain512, "avx512f", 8, _mm512_load_pd, _mm512_loadu_pd, _mm512_mul_pd, _mm512_store_pd);
    triad!(
        /// # Safety
        /// As [`super::Loop`], on a CPU with AVX-512F.
        stream512, "avx512f", 8, _mm512_load_pd, _mm512_loadu_pd, _mm512_mul_pd, _mm512_stream_pd,
        _mm_sfence);
    triad!(
        /// # Safety
        /// As [`super::Loop`], on a CPU with AVX2.
        plain256, "avx2", 4, _mm256_load_pd, _mm256_load_pd, _mm256_mul_pd, _mm256_store_pd);
    triad!(
        /// # Safety
        /// As [`super::Loop`], on a CPU with AVX2.
        stream256, "avx2", 4, _mm256_load_pd, _mm256_load_pd, _mm256_mul_pd, _mm256_stream_pd,
        _mm_sfence);
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{AHEAD, Form};
    use std::arch::aarch64::{float64x2_t, vld1q_f64, vmulq_f64, vst1q_f64};
    use std::arch::asm;

    pub(super) fn add(forms: &mut Vec<Form>) {
        // NEON belongs to every 64-bit ARM.
        forms.extend([
            Form { name: "NEON in place", in_place: true, run: plain },
            Form { name: "NEON apart", in_place: false, run: plain },
            Form { name: "NEON streaming", in_place: false, run: stream },
        ]);
    }

    /// # Safety
    /// As [`super::Loop`].
    unsafe fn four(input: *const f64) -> (float64x2_t, float64x2_t) {
        // SAFETY: the caller promises eight readable elements.
        unsafe {
            let low = vmulq_f64(vld1q_f64(input), vld1q_f64(input.add(AHEAD)));
            let high = vmulq_f64(vld1q_f64(input.add(2)), vld1q_f64(input.add(AHEAD + 2)));
            (low, high)
        }
    }

    /// # Safety
    /// As [`super::Loop`].
    unsafe fn plain(input: *const f64, output: *mut f64, n: usize) {
        for i in (0..n).step_by(4) {
            // SAFETY: the caller promises n + AHEAD elements of input and n of output.
            unsafe {
                let (low, high) = four(input.add(i));
                vst1q_f64(output.add(i), low);
                vst1q_f64(output.add(i + 2), high);
            }
        }
    }

    /// # Safety
    /// As [`super::Loop`].
    unsafe fn stream(input: *const f64, output: *mut f64, n: usize) {
        for i in (0..n).step_by(4) {
            // SAFETY: the caller promises n + AHEAD elements of input and n of output; the
            // instruction stores 32 bytes at the address in its register and nothing else.
            unsafe {
                let (low, high) = four(input.add(i));
                asm!("stnp {l:q}, {h:q}, [{p}]", l = in(vreg) low, h = in(vreg) high,
                     p = in(reg) output.add(i), options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;

    /// All forms, the portable one included, give the same numbers as the definition.
    #[test]
    fn every_form_computes_the_definition() {
        let n = 4 * STEP;
        for form in forms() {
            let mut region = Region::map(1).unwrap();
            let memory = region.doubles();
            let value = |i: usize| 1.0 + (i % 97) as f64;
            for (i, x) in memory.iter_mut().enumerate() {
                *x = value(i);
            }
            assert!(form.run(memory, STEP, n), "{}", form.name);
            let start = if form.in_place { STEP } else { memory.len() / 2 + STEP };
            for i in 0..n {
                let right = value(STEP + i) * value(STEP + i + AHEAD);
                assert_eq!(memory[start + i], right, "{} at {i}", form.name);
            }
            assert_eq!(memory[start + n], value(start + n), "{}: beyond the block", form.name);
            assert_eq!(memory[start - 1], value(start - 1), "{}: before it", form.name);
        }
    }

    #[test]
    fn blocks_that_do_not_fit_are_refused() {
        let mut region = Region::map(1).unwrap();
        let all = region.doubles().len();
        for form in forms() {
            let limit = if form.in_place { all } else { all / 2 };
            let memory = region.doubles();
            assert!(!form.run(memory, 0, limit), "{}: reads ahead", form.name);
            assert!(!form.run(memory, 1, STEP), "{}: not aligned", form.name);
            assert!(!form.run(&mut memory[1..], 0, STEP), "{}: not aligned", form.name);
            assert!(form.run(memory, limit - 2 * STEP, STEP), "{}", form.name);
        }
    }

    #[test]
    fn the_portable_form_is_always_there() {
        assert!(forms().iter().any(|form| form.name == "portable in place"));
    }
}
