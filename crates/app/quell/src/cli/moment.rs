//! Times for people, in the machine's own time zone.

use time::{OffsetDateTime, UtcOffset, macros::format_description};

/// `2026-03-01 14:03:12`, local time; with `UTC` behind it where the zone is not known.
pub(crate) fn local(unix_ms: u64) -> String {
    let Ok(seconds) = i64::try_from(unix_ms / 1000) else { return "?".into() };
    let Ok(utc) = OffsetDateTime::from_unix_timestamp(seconds) else { return "?".into() };
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let (moment, zone) = match UtcOffset::local_offset_at(utc) {
        Ok(offset) => (utc.to_offset(offset), ""),
        Err(_) => (utc, " UTC"),
    };
    moment.format(&format).map_or("?".into(), |text| text + zone)
}

/// `2 min`, the time since then.
pub(crate) fn ago(unix_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(unix_ms) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    u64::try_from(now).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_unit_that_fits() {
        for (ms, text) in [
            (500, "0 s"),
            (90_000, "90 s"),
            (180_000, "3 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(ago(0, ms), text);
        }
        assert_eq!(ago(5000, 1000), "0 s", "a clock that was set back");
    }

    #[test]
    fn moments_are_dates() {
        let text = local(1_700_000_000_000);
        assert!(text.starts_with("2023-11-1") && text.contains(':'), "{text}");
        assert_eq!(local(u64::MAX), "?");
    }
}
