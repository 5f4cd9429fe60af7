//! Alita's LLC polluter: `cachebench -m 29 -e 1 -x 2 -d 5 -w`.

use super::library::{of, sweep};
use super::{Phase, Program};

/// Exponents of the smallest and the largest array: 256 B and 512 MiB (`-m 29`).
const EXPONENTS: std::ops::RangeInclusive<u32> = 8..=29;
/// How long each array is written to (`-d 5`).
const SECONDS: f64 = 5.0;
/// What the private caches of A-4's processor hold; a smaller array never leaves them.
const PRIVATE_BYTES: f64 = 1_048_576.0;

/// One process. It has one thread, writes to every line of an array, over and over, and takes the
/// next larger array after five seconds, two to an octave; after the largest it begins anew.
pub(super) fn cachebench() -> Program {
    let phases: Vec<Phase> = sizes().map(writing).collect();
    Program { phases, ..of("cachebench", 512.0 * PRIVATE_BYTES, Phase::default()) }
}

/// Bytes of its arrays: powers of two and what lies halfway to the next (`-x 2`).
fn sizes() -> impl Iterator<Item = f64> {
    let last = f64::from(1u32 << EXPONENTS.end());
    EXPONENTS
        .flat_map(|exponent| [1.0, 1.5].map(|part| part * f64::from(1u32 << exponent)))
        .take_while(move |bytes| *bytes <= last)
}

/// A write to each line of so many bytes (`-w`): all that is evicted is written back.
fn writing(bytes: f64) -> Phase {
    let swept = sweep(bytes);
    let phase = match bytes <= PRIVATE_BYTES {
        true => Phase { base_cpi: swept.base_cpi, activity: swept.activity, ..Phase::default() },
        false => Phase { written_frac: 1.0, ..swept },
    };
    Phase { least_s: SECONDS, most_s: SECONDS, ..phase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_steps_through_the_sizes_of_its_command_line() {
        let program = cachebench();
        assert_eq!(program.validate(1), Ok(()));
        assert_eq!(program.phases.len(), 43, "two to each of 21 octaves, and the last");
        let bytes: Vec<f64> = sizes().collect();
        assert_eq!((bytes[0], bytes[1], bytes[2]), (256.0, 384.0, 512.0));
        assert_eq!(bytes[42], f64::from(512 << 20));
        assert!(program.phases.iter().all(|p| p.least_s == 5.0 && p.most_s == 5.0));
    }

    #[test]
    fn only_what_leaves_the_private_caches_is_written_back() {
        for (bytes, phase) in sizes().zip(cachebench().phases) {
            let beyond = bytes > PRIVATE_BYTES;
            assert_eq!(phase.llc_apki > 0.0, beyond, "{bytes}");
            assert_eq!(phase.lines_per_miss(), if beyond { 2.0 } else { 1.0 }, "{bytes}");
        }
    }
}
