//! Quantities as people write them: `3ms`, `1.5 s`, `100Mbit`, `12.5MB/s`, `64KiB`, `40 %`.
//!
//! Every reader is exact: digits are scaled as integers, so `3ms` is 3,000,000 ns and not a
//! neighbour of it.

use quell_types::{Bytes, BytesPerSecond};
use std::time::Duration;
use thiserror::Error;

/// A text that is no quantity of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct QuantityError {
    /// What is wrong with the text.
    pub problem: String,
    /// What would be right.
    pub help: String,
}

/// A unit by its name and its size in the smallest unit of its kind.
type Unit = (&'static str, u128);

const NANOS: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const BITS: &[Unit] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
    ("Tbit", 1_000_000_000_000),
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
];

const BYTES: &[Unit] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a span of time with its unit: `250us`, `3ms`, `1.5 s`, `2min`, `1h`.
///
/// # Errors
/// If there is no number, no unit or an unknown one, or the span exceeds 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let help = "a number with one of the units ns, us, ms, s, min, h, as in \"3ms\"";
    let nanos = scaled(text, NANOS, "duration", help)?;
    let nanos = u64::try_from(nanos).map_err(|_| wrong(text, "is too long a duration", help))?;
    Ok(Duration::from_nanos(nanos))
}

/// Reads a rate: `100Mbit`, `1 Gbit/s`, `100Mbps`, `12.5MB/s`, `64KiB/s`.
///
/// # Errors
/// If there is no number or the unit is missing, unknown or ambiguous (`Mb/s`), or it is a size
/// (`12MB`).
pub fn parse_rate(text: &str) -> Result<BytesPerSecond, QuantityError> {
    let help = "a number with a unit of bits (kbit, Mbit, Gbit) or bytes (kB/s, MB/s, GB/s) \
                per second, as in \"100Mbit\"";
    let bare = text.trim();
    if let Some(size) = bare.strip_suffix("/s")
        && let Ok(bytes) = scaled(size, BYTES, "rate", help)
    {
        return Ok(BytesPerSecond(bytes as f64));
    }
    if scaled(bare, BYTES, "rate", help).is_ok() {
        return Err(wrong(text, "is a size, not a rate", &format!("\"{}/s\"", clip(bare))));
    }
    let bits = scaled(bare.strip_suffix("/s").unwrap_or(bare), BITS, "rate", help)?;
    Ok(BytesPerSecond::from_bits(bits as f64))
}

/// Reads a size: `512B`, `64KiB`, `1.5GB`.
///
/// # Errors
/// If there is no number, or no unit or an unknown one, or it exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<Bytes, QuantityError> {
    let help = "a number with one of the units B, kB, MB, GB, KiB, MiB, GiB, as in \"64KiB\"";
    let bytes = scaled(text, BYTES, "size", help)?;
    u64::try_from(bytes).map(Bytes).map_err(|_| wrong(text, "is too large a size", help))
}

/// Reads a share of a whole: `0.4` or `40 %`, both 0.4.
///
/// # Errors
/// If it is neither.
pub fn parse_fraction(text: &str) -> Result<f64, QuantityError> {
    let help = "a share such as 0.4 or \"40 %\"";
    let (number, whole) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    let plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    match number.parse::<f64>() {
        Ok(value) if plain && value.is_finite() => Ok(value / whole),
        _ => Err(wrong(text, "is not a share", help)),
    }
}

/// Writes a span in the largest unit that keeps it whole: `3ms`, `1500us`, `0s`.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    let whole = |unit: &&Unit| unit.0.is_ascii() && nanos.is_multiple_of(unit.1);
    match NANOS.iter().rev().skip(2).find(whole) {
        Some((name, size)) => format!("{}{name}", nanos / size),
        None => format!("{nanos}ns"),
    }
}

/// Digits × unit, rounded down to the smallest unit.
fn scaled(text: &str, units: &[Unit], kind: &str, help: &str) -> Result<u128, QuantityError> {
    let bare = text.trim();
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let (number, unit) = (&bare[..end], bare[end..].trim_start());
    if number.is_empty() {
        return Err(wrong(text, &format!("is not a {kind}"), help));
    }
    if unit.is_empty() {
        return Err(wrong(text, "has no unit", help));
    }
    let size = unit_size(unit, units).ok_or_else(|| {
        wrong(text, &format!("has a unit that is not one of a {kind}: `{}`", clip(unit)), help)
    })?;
    multiplied(number, size).ok_or_else(|| wrong(text, "does not begin with a number", help))
}

/// The unit of this name; bit units in any case (as `tc` has them), all others as written.
fn unit_size(name: &str, units: &[Unit]) -> Option<u128> {
    let exact = units.iter().find(|(unit, _)| *unit == name);
    let bits = || units.iter().find(|(u, _)| u.ends_with("bit") && u.eq_ignore_ascii_case(name));
    exact.or_else(bits).map(|(_, size)| *size)
}

/// `number` (digits, at most one point) × `size`; none if it is no number or has over 24 digits.
fn multiplied(number: &str, size: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.contains('.') || (whole.is_empty() && part.is_empty()) || whole.len() > 20 {
        return None;
    }
    let part = &part[..part.len().min(18)];
    let digits = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u128>().ok() };
    let fraction = digits(part)? * size / 10u128.pow(u32::try_from(part.len()).ok()?);
    digits(whole)?.checked_mul(size)?.checked_add(fraction)
}

fn wrong(text: &str, problem: &str, help: &str) -> QuantityError {
    QuantityError { problem: format!("\"{}\" {problem}", clip(text)), help: help.to_owned() }
}

/// At most 60 characters, none of them a control character: fit to be quoted in a message.
pub(crate) fn clip(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("3ms", 3_000_000),
            ("250us", 250_000),
            ("250 µs", 250_000),
            ("1.5 s", 1_500_000_000),
            (" 0.000000001s ", 1),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0s", 0),
            (".5ms", 500_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_nanos(nanos), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        for (text, problem) in [
            ("3", "has no unit"),
            ("", "is not a duration"),
            ("ms", "is not a duration"),
            ("-3ms", "is not a duration"),
            ("3 parsecs", "unit that is not one of a duration"),
            ("1.2.3s", "does not begin with a number"),
            ("99999999999999999999h", "is too long"),
            ("1e3ms", "unit that is not"),
            ("3MS", "unit that is not"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.problem.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn rates_and_sizes() {
        for (text, bytes) in [
            ("100Mbit", 12.5e6),
            ("100 mbit/s", 12.5e6),
            ("1Gbit", 125e6),
            ("100Mbps", 12.5e6),
            ("12.5MB/s", 12.5e6),
            ("40000 MB/s", 40e9),
            ("1KiB/s", 1024.0),
        ] {
            assert_eq!(parse_rate(text).unwrap().0, bytes, "{text:?}");
        }
        for (text, bytes) in [("512B", 512), ("64KiB", 65_536), ("1.5 GB", 1_500_000_000)] {
            assert_eq!(parse_size(text).unwrap(), Bytes(bytes), "{text:?}");
        }
    }

    #[test]
    fn ambiguous_rates_are_refused() {
        for text in ["12MB", "100Mb/s", "100", "fast", "100M", "-1Mbit"] {
            assert!(parse_rate(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_rate("12MB").unwrap_err().help, "\"12MB/s\"");
        assert_eq!(parse_rate("12\nMB").unwrap_err().help, "\"12\\nMB/s\"");
    }

    #[test]
    fn shares() {
        for (text, share) in [("0.4", 0.4), ("40 %", 0.4), ("1", 1.0), ("2.5%", 0.025)] {
            assert!((parse_fraction(text).unwrap() - share).abs() < 1e-12, "{text:?}");
        }
        for text in ["", "%", "a", "inf", "NaN", "-1", "1e1", "1,5"] {
            assert!(parse_fraction(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_survives_its_text(nanos in 0..u64::MAX) {
            let span = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&format_duration(span)).unwrap(), span);
        }

        #[test]
        fn a_rate_in_bits_is_the_rate_in_bytes_times_eight(n in 0u64..1_000_000_000) {
            let bytes = parse_rate(&format!("{n}B/s")).unwrap();
            prop_assert_eq!(parse_rate(&format!("{}bit", n * 8)).unwrap(), bytes);
        }

        #[test]
        fn a_size_survives_its_text(n in any::<u64>()) {
            prop_assert_eq!(parse_size(&format!("{n}B")).unwrap(), Bytes(n));
        }

        #[test]
        fn any_text_is_answered(text in "[0-9.kKMGi µbitBs/%-]{0,12}|.{0,30}") {
            let _ = parse_duration(&text);
            let _ = parse_rate(&text);
            let _ = parse_size(&text);
            let _ = parse_fraction(&text);
        }
    }
}
