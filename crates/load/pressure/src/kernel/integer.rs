//! Integer units: register-only operations with as much parallelism as the core can take (B-2).

use super::{Kernel, Probe};
use std::time::Instant;

/// Loop rounds a burst.
const ROUNDS: u64 = 2048;
/// Computing instructions in one round.
pub(crate) const PER_ROUND: u64 = 32;

/// The kernel.
pub(crate) struct Integer {
    seed: u64,
}

impl Integer {
    pub(crate) fn new() -> Self {
        Integer { seed: 1 }
    }
}

/// `rounds` rounds of 32 operations on eight independent chains of registers: additions,
/// exclusive-ors, rotations, address arithmetic and multiplications. Gives a mix of all chains, so
/// that nothing can be left out.
#[cfg(target_arch = "x86_64")]
pub(crate) fn crunch(seed: u64, rounds: u64) -> u64 {
    let [mut a, mut b, mut c, mut d]: [u64; 4] = std::array::from_fn(|i| seed ^ i as u64);
    let [mut e, mut f, mut g, mut h] = [!a, !b, !c, !d];
    // SAFETY: works on the named registers only, neither memory nor stack; the loop ends since the
    // counter starts at 1 or more and goes down to 0.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {a}, 7", "xor {b}, 0x55", "lea {c}, [{c} + {c}*2 + 1]", "imul {d}, {d}, 0x2d",
            "add {e}, 9", "rol {f}, 5", "sub {g}, 3", "lea {h}, [{h} + {h}*4 + 3]",
            "xor {a}, 0x33", "add {b}, 11", "add {c}, 5", "add {d}, 13",
            "imul {e}, {e}, 0x35", "add {f}, 17", "xor {g}, 0x0f", "add {h}, 19",
            "rol {a}, 7", "add {b}, 23", "imul {c}, {c}, 0x2b", "xor {d}, 0x71",
            "add {e}, 29", "xor {f}, 0x1d", "add {g}, 31", "sub {h}, 37",
            "add {a}, 41", "lea {b}, [{b} + {b}*8 + 5]", "xor {c}, 0x3c", "add {d}, 43",
            "sub {e}, 47", "add {f}, 53", "imul {g}, {g}, 0x39", "xor {h}, 0x5a",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d,
            e = inout(reg) e, f = inout(reg) f, g = inout(reg) g, h = inout(reg) h,
            n = inout(reg) rounds.max(1) => _,
            options(pure, nomem, nostack)
        );
    }
    mix([a, b, c, d, e, f, g, h])
}

/// As on x86-64, in the instructions of 64-bit ARM.
#[cfg(target_arch = "aarch64")]
pub(crate) fn crunch(seed: u64, rounds: u64) -> u64 {
    let [mut a, mut b, mut c, mut d]: [u64; 4] = std::array::from_fn(|i| seed ^ i as u64);
    let [mut e, mut f, mut g, mut h] = [!a, !b, !c, !d];
    // SAFETY: works on the named registers only, neither memory nor stack; the loop ends since the
    // counter starts at 1 or more and goes down to 0.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {a}, {a}, 7", "eor {b}, {b}, 0x3f", "add {c}, {c}, {c}, lsl 1", "mul {d}, {d}, {k}",
            "add {e}, {e}, 9", "ror {f}, {f}, 5", "sub {g}, {g}, 3", "add {h}, {h}, {h}, lsl 2",
            "eor {a}, {a}, 0x3f", "add {b}, {b}, 11", "add {c}, {c}, 5", "add {d}, {d}, 13",
            "mul {e}, {e}, {k}", "add {f}, {f}, 17", "eor {g}, {g}, 0x0f", "add {h}, {h}, 19",
            "ror {a}, {a}, 7", "add {b}, {b}, 23", "mul {c}, {c}, {k}", "eor {d}, {d}, 0x3f",
            "add {e}, {e}, 29", "eor {f}, {f}, 0x1f", "add {g}, {g}, 31", "sub {h}, {h}, 37",
            "add {a}, {a}, 41", "add {b}, {b}, {b}, lsl 3", "eor {c}, {c}, 0x3c", "add {d}, {d}, 43",
            "sub {e}, {e}, 47", "add {f}, {f}, 53", "mul {g}, {g}, {k}", "eor {h}, {h}, 0x0f",
            "subs {n}, {n}, 1",
            "b.ne 2b",
            a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d,
            e = inout(reg) e, f = inout(reg) f, g = inout(reg) g, h = inout(reg) h,
            n = inout(reg) rounds.max(1) => _, k = in(reg) 0x2du64,
            options(pure, nomem, nostack)
        );
    }
    mix([a, b, c, d, e, f, g, h])
}

/// Any other processor: the portable loop.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn crunch(seed: u64, rounds: u64) -> u64 {
    portable(seed, rounds)
}

/// The same amount of work in plain Rust; the chains pass through `black_box`, since the compiler
/// would otherwise compute the whole loop in advance.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn portable(seed: u64, rounds: u64) -> u64 {
    let mut chains: [u64; 8] = std::array::from_fn(|i| seed ^ i as u64);
    for _ in 0..rounds.max(1) {
        for chain in &mut chains {
            *chain = chain.wrapping_mul(0x2d).wrapping_add(7).rotate_left(5) ^ 0x55;
        }
        chains = std::hint::black_box(chains);
    }
    mix(chains)
}

fn mix(chains: [u64; 8]) -> u64 {
    chains.into_iter().fold(0, |mixed, chain| mixed.rotate_left(9) ^ chain)
}

impl Kernel for Integer {
    fn burst(&mut self) -> Result<u64, String> {
        self.seed = std::hint::black_box(crunch(self.seed, ROUNDS));
        Ok(ROUNDS * PER_ROUND)
    }

    /// Mean time of an operation over a short run: it grows when an SMT sibling takes its units.
    fn probe(&mut self) -> Option<Probe> {
        const SHORT: u64 = 256;
        let start = Instant::now();
        self.seed = std::hint::black_box(crunch(self.seed, SHORT));
        Some(Probe { took: start.elapsed(), accesses: SHORT * PER_ROUND })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_rounds_times_operations() {
        assert_eq!(Integer::new().burst().unwrap(), ROUNDS * 32);
    }

    #[test]
    fn every_round_counts() {
        for run in [crunch as fn(u64, u64) -> u64, portable] {
            assert_eq!(run(5, 1000), run(5, 1000));
            assert_ne!(run(5, 1000), run(5, 1001));
            assert_ne!(run(5, 1000), run(6, 1000));
            assert_eq!(run(5, 0), run(5, 1), "no rounds are one round, not 2^64");
        }
    }
}
