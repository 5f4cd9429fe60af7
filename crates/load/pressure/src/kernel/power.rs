//! Power virus: the mix of instructions that draws most on this CPU.
//!
//! Power goes where bits change: multiply-add on the widest vectors, with operands from the first
//! cache whose bits look random, beside stores and multiplications of whole numbers, so that all
//! ports work at once. Which of the mixes draws most is measured where the machine meters its energy
//! (RAPL); elsewhere it is taken to be the one that moves most operand bits in a second.
//!
//! The values settle: each step multiplies by a factor below 1 and adds a number in 1..2.

use super::{Kernel, Probe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Loop rounds a burst: some microseconds.
const ROUNDS: u64 = 1024;
/// Loop rounds of a latency sample.
const SHORT: u64 = 64;
/// How long a mix is tried: meters tick once a millisecond.
const TRIAL: Duration = Duration::from_millis(20);
/// Numbers in the operands: 2 KiB.
const NUMBERS: usize = 256;
/// The energy meter of the first socket, in microjoules.
const METER: &str = "/sys/class/powercap/intel-rapl:0/energy_uj";

/// Operands, read and written.
#[repr(C, align(64))]
struct Operands([f64; NUMBERS]);

/// A mix of instructions.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    /// Computing instructions in one round.
    per_round: u64,
    /// Operand bits that one round moves.
    bits: u64,
    run: fn(&mut Operands, u64),
}

/// The kernel.
pub(crate) struct Power {
    operands: Box<Operands>,
    mixes: Vec<Mix>,
    chosen: usize,
    meter: PathBuf,
    metered: bool,
}

impl Power {
    pub(crate) fn new() -> Self {
        let mut state = 1u64;
        let number = |_| {
            state = super::random::step(state);
            f64::from_bits(1.0f64.to_bits() | state >> 12)
        };
        let operands = Box::new(Operands(std::array::from_fn(number)));
        Power { operands, mixes: mixes(), chosen: 0, meter: METER.into(), metered: false }
    }

    fn rounds(&mut self, rounds: u64) -> u64 {
        let mix = self.mixes[self.chosen];
        (mix.run)(&mut self.operands, rounds);
        rounds * mix.per_round
    }

    /// How much the chosen mix draws: joules where metered, else operand bits; both by second.
    fn draw(&mut self) -> (Option<f64>, f64) {
        let (before, start, mut rounds) = (joules(&self.meter), Instant::now(), 0);
        while start.elapsed() < TRIAL {
            self.rounds(ROUNDS);
            rounds += ROUNDS;
        }
        let seconds = start.elapsed().as_secs_f64();
        let bits = (rounds * self.mixes[self.chosen].bits) as f64 / seconds;
        let spent = before.zip(joules(&self.meter)).map(|(before, after)| after - before);
        // A meter that went round tells nothing.
        (spent.filter(|joules| *joules > 0.0).map(|joules| joules / seconds), bits)
    }

    fn choose(&mut self) {
        let mut draws = Vec::new();
        for i in 0..self.mixes.len() {
            self.chosen = i;
            draws.push(self.draw());
        }
        self.metered = draws.iter().all(|(watts, _)| watts.is_some());
        let key = |i: &usize| if self.metered { draws[*i].0.unwrap_or(0.0) } else { draws[*i].1 };
        let most = (0..draws.len()).max_by(|a, b| key(a).total_cmp(&key(b)));
        self.chosen = most.unwrap_or(0);
    }
}

/// What the meter shows; none if there is none that we may read.
fn joules(meter: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(meter).ok()?;
    text.trim().parse::<f64>().ok().map(|microjoules| microjoules * 1e-6)
}

/// The mixes that this CPU can run, widest vectors first.
fn mixes() -> Vec<Mix> {
    let mut mixes = Vec::new();
    #[cfg(target_arch = "x86_64")]
    x86::add(&mut mixes);
    #[cfg(target_arch = "aarch64")]
    mixes.push(Mix { name: "NEON", per_round: 16, bits: 12 * 128 + 256, run: neon });
    mixes.push(Mix { name: "portable", per_round: 32, bits: 32 * 64, run: portable });
    mixes
}

/// Plain Rust: multiplications and additions over the operands, and whole numbers beside them.
fn portable(operands: &mut Operands, rounds: u64) {
    let mut whole = [0x5555_5555_5555_5555u64; 8];
    for round in 0..rounds.max(1) as usize {
        let at = round * 16 % (NUMBERS / 2);
        let (from, to) = operands.0.split_at_mut(NUMBERS / 2);
        for i in 0..8 {
            to[at + i] = to[at + i] * -0.5 + from[at + i];
            whole[i] = whole[i].wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ whole[(i + 1) % 8];
        }
        whole = std::hint::black_box(whole);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Mix, Operands};
    use std::arch::asm;

    pub(super) fn add(mixes: &mut Vec<Mix>) {
        if is_x86_feature_detected!("avx512f") {
            let bits = 14 * 512 + 4 * 64;
            mixes.push(Mix { name: "AVX-512", per_round: 18, bits, run: safe512 });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let bits = 14 * 256 + 4 * 64;
            mixes.push(Mix { name: "AVX2", per_round: 18, bits, run: safe256 });
        }
    }

    fn safe512(operands: &mut Operands, rounds: u64) {
        // SAFETY: `add` lists this only where AVX-512F was detected.
        unsafe { burn512(operands, rounds) }
    }

    fn safe256(operands: &mut Operands, rounds: u64) {
        // SAFETY: `add` lists this only where AVX2 and FMA were detected.
        unsafe { burn256(operands, rounds) }
    }

    /// A round: twelve multiply-adds with an operand from memory, two stores, four integer
    /// operations. `$v` is the vector, `$step` its bytes.
    macro_rules! burn {
        ($name:ident, $feature:literal, $v:literal, $step:literal, $factor:literal) => {
            #[target_feature(enable = $feature)]
            fn $name(operands: &mut Operands, rounds: u64) {
                // SAFETY: reads the first 12 vectors (at most 768 bytes) and writes the two after
                // 1024 (at most 128), all within the 2048 aligned bytes of the operands; works on
                // named registers else; the loop ends since the counter starts at 1 or more and
                // goes down to 0; the CPU has the features.
                unsafe {
                    asm!(
                        concat!("vbroadcastsd ", $v, $factor, ", xmm15"),
                        "2:",
                        concat!("vfmadd213pd ", $v, "0, ", $v, $factor, ", [{p}]"),
                        concat!("vfmadd213pd ", $v, "1, ", $v, $factor, ", [{p} + ", $step, "]"),
                        "imul {a}, {k}",
                        concat!("vfmadd213pd ", $v, "2, ", $v, $factor, ", [{p} + 2*", $step, "]"),
                        concat!("vfmadd213pd ", $v, "3, ", $v, $factor, ", [{p} + 3*", $step, "]"),
                        "xor {b}, {k}",
                        concat!("vfmadd213pd ", $v, "4, ", $v, $factor, ", [{p} + 4*", $step, "]"),
                        concat!("vfmadd213pd ", $v, "5, ", $v, $factor, ", [{p} + 5*", $step, "]"),
                        concat!("vmovapd [{p} + 1024], ", $v, "0"),
                        concat!("vfmadd213pd ", $v, "6, ", $v, $factor, ", [{p} + 6*", $step, "]"),
                        concat!("vfmadd213pd ", $v, "7, ", $v, $factor, ", [{p} + 7*", $step, "]"),
                        "rol {a}, 13",
                        concat!("vfmadd213pd ", $v, "8, ", $v, $factor, ", [{p} + 8*", $step, "]"),
                        concat!("vfmadd213pd ", $v, "9, ", $v, $factor, ", [{p} + 9*", $step, "]"),
                        "add {b}, {a}",
                        concat!("vfmadd213pd ", $v, "10, ", $v, $factor, ", [{p} + 10*", $step, "]"),
                        concat!("vfmadd213pd ", $v, "11, ", $v, $factor, ", [{p} + 11*", $step, "]"),
                        concat!("vmovapd [{p} + 1024 + ", $step, "], ", $v, "6"),
                        "dec {n}",
                        "jnz 2b",
                        "vzeroupper",
                        p = in(reg) operands.0.as_mut_ptr(),
                        n = inout(reg) rounds.max(1) => _,
                        a = inout(reg) 0x0123_4567_89AB_CDEFu64 => _,
                        b = inout(reg) 0xAAAA_AAAA_5555_5555u64 => _,
                        k = in(reg) 0x9E37_79B9_7F4A_7C15u64,
                        inout("xmm15") -0.97f64 => _,
                        inout("xmm0") 1.5f64 => _, inout("xmm1") 1.5f64 => _,
                        inout("xmm2") 1.5f64 => _, inout("xmm3") 1.5f64 => _,
                        inout("xmm4") 1.5f64 => _, inout("xmm5") 1.5f64 => _,
                        inout("xmm6") 1.5f64 => _, inout("xmm7") 1.5f64 => _,
                        inout("xmm8") 1.5f64 => _, inout("xmm9") 1.5f64 => _,
                        inout("xmm10") 1.5f64 => _, inout("xmm11") 1.5f64 => _,
                        options(nostack)
                    );
                }
            }
        };
    }

    burn!(burn512, "avx512f", "zmm", "64", "15");
    burn!(burn256, "avx2,fma", "ymm", "32", "15");
}

/// A round: eight multiply-adds of four operands from memory, two stores, four integer operations.
#[cfg(target_arch = "aarch64")]
fn neon(operands: &mut Operands, rounds: u64) {
    // SAFETY: reads the first 64 bytes and writes 32 after 1024, all within the operands; works on
    // named registers else; the loop ends since the counter starts at 1 or more and goes down to 0.
    unsafe {
        std::arch::asm!(
            "dup v30.2d, v30.d[0]",
            "2:",
            "ldp q20, q21, [{p}]", "ldp q22, q23, [{p}, 32]",
            "fmul v0.2d, v0.2d, v30.2d", "fmul v1.2d, v1.2d, v30.2d",
            "fmul v2.2d, v2.2d, v30.2d", "fmul v3.2d, v3.2d, v30.2d",
            "mul {a}, {a}, {k}", "eor {b}, {b}, {k}",
            "fadd v0.2d, v0.2d, v20.2d", "fadd v1.2d, v1.2d, v21.2d",
            "fadd v2.2d, v2.2d, v22.2d", "fadd v3.2d, v3.2d, v23.2d",
            "ror {a}, {a}, 13", "add {b}, {b}, {a}",
            "stp q0, q1, [{s}]",
            "subs {n}, {n}, 1",
            "b.ne 2b",
            p = in(reg) operands.0.as_ptr(),
            s = in(reg) operands.0.as_mut_ptr().add(NUMBERS / 2),
            n = inout(reg) rounds.max(1) => _,
            a = inout(reg) 0x0123_4567_89AB_CDEFu64 => _,
            b = inout(reg) 0xAAAA_AAAA_5555_5555u64 => _,
            k = in(reg) 0x9E37_79B9_7F4A_7C15u64,
            inout("v30") -0.97f64 => _,
            inout("v0") 1.5f64 => _, inout("v1") 1.5f64 => _,
            inout("v2") 1.5f64 => _, inout("v3") 1.5f64 => _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            options(nostack)
        );
    }
}

impl Kernel for Power {
    fn prepare(&mut self) {
        self.choose();
    }

    fn burst(&mut self) -> Result<u64, String> {
        Ok(self.rounds(ROUNDS))
    }

    /// Mean time of an operation over a short run: it grows when the socket lowers its clock.
    fn probe(&mut self) -> Option<Probe> {
        let start = Instant::now();
        let accesses = self.rounds(SHORT);
        Some(Probe { took: start.elapsed(), accesses })
    }

    fn notes(&self) -> Vec<String> {
        let how = if self.metered { "by the energy meter" } else { "by operand bits: no meter" };
        vec![format!("mix that draws most: {} ({how})", self.mixes[self.chosen].name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_runs_and_its_values_stay_ordinary() {
        let mut power = Power::new();
        for chosen in 0..power.mixes.len() {
            power.chosen = chosen;
            let before = power.operands.0;
            assert_eq!(power.burst().unwrap(), ROUNDS * power.mixes[chosen].per_round);
            let changed = power.operands.0.iter().zip(&before).filter(|(a, b)| a != b).count();
            assert!(changed >= 4, "{} stores", power.mixes[chosen].name);
            let ordinary = |x: &f64| x.is_normal() && x.abs() < 100.0;
            assert!(power.operands.0.iter().all(ordinary), "{:?}", power.operands.0);
        }
    }

    #[test]
    fn chooses_one_and_says_how() {
        let mut power = Power::new();
        power.meter = "/proc/none/energy_uj".into();
        power.prepare();
        assert!(!power.metered);
        let note = power.notes().remove(0);
        assert!(note.contains(power.mixes[power.chosen].name) && note.contains("no meter"));
        assert!(power.probe().is_some_and(|probe| probe.took > Duration::ZERO));
    }

    #[test]
    fn a_meter_counts_microjoules() {
        let folder = tempfile::tempdir().unwrap();
        let meter = folder.path().join("energy_uj");
        std::fs::write(&meter, "2500000\n").unwrap();
        assert_eq!(joules(&meter), Some(2.5));
        std::fs::write(&meter, "no\n").unwrap();
        assert_eq!(joules(&meter), None);
    }
}
