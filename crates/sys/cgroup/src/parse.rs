//! The few text formats of cgroup files.

use quell_types::Throttling;

/// A flat keyed file's value: the number in the line `KEY NUMBER`.
pub(crate) fn field(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

/// A file that holds one number.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A flag file: `0` or `1`.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Microseconds as nanoseconds.
pub(crate) fn micros(us: u64) -> u64 {
    us.saturating_mul(1000)
}

/// Throttling of `cpu.stat`, whose last field v1 gives in nanoseconds and v2 in microseconds.
pub(crate) fn throttling(text: &str) -> Option<Throttling> {
    let v2 = || field(text, "throttled_usec").map(micros);
    Some(Throttling {
        periods: field(text, "nr_periods")?,
        throttled_periods: field(text, "nr_throttled")?,
        throttled_ns: field(text, "throttled_time").or_else(v2)?,
    })
}

/// The total of PSI's line `some avg10=… total=MICROSECONDS`, in nanoseconds.
pub(crate) fn some_total_ns(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok().map(micros)
}

/// `cpu.max`: quota (none for `max`) and period in microseconds.
pub(crate) fn cpu_max(text: &str) -> Option<(Option<u64>, u64)> {
    let mut parts = text.split_ascii_whitespace();
    let quota = match parts.next()? {
        "max" => None,
        number => Some(number.parse().ok()?),
    };
    Some((quota, parts.next()?.parse().ok()?))
}

/// One line of `/proc/PID/cgroup`: controllers (empty for v2) and path, which may hold colons.
pub(crate) fn membership(line: &str) -> Option<(Vec<&str>, &str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let controllers = parts.next()?.split(',').filter(|c| !c.is_empty()).collect();
    Some((controllers, parts.next().filter(|path| path.starts_with('/'))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_match_as_a_whole() {
        let text = "usage_usec 12\nuser_usec 5\nnr_periods 3\nnr_throttled 1\nthrottled_usec 9\n";
        assert_eq!(field(text, "usage_usec"), Some(12));
        assert_eq!(field(text, "usage"), None);
        assert_eq!(field(text, "usec"), None);
        let wanted = Throttling { periods: 3, throttled_periods: 1, throttled_ns: 9000 };
        assert_eq!(throttling(text), Some(wanted));
    }

    #[test]
    fn v1_counts_throttled_time_in_nanoseconds() {
        let text = "nr_periods 3\nnr_throttled 1\nthrottled_time 9\nnr_bursts 0\nburst_time 0\n";
        assert_eq!(throttling(text).map(|t| t.throttled_ns), Some(9));
        assert_eq!(throttling("usage_usec 1\n"), None, "no cpu controller in this v2 group");
    }

    #[test]
    fn limits_and_flags() {
        assert_eq!(cpu_max("max 100000\n"), Some((None, 100_000)));
        assert_eq!(cpu_max("5000 10000\n"), Some((Some(5000), 10_000)));
        assert_eq!(cpu_max("5000\n"), None);
        assert_eq!((flag("1\n"), flag("0\n"), flag("2\n")), (Some(true), Some(false), None));
    }

    #[test]
    fn memberships() {
        assert_eq!(membership("4:cpu,cpuacct:/a:b"), Some((vec!["cpu", "cpuacct"], "/a:b")));
        assert_eq!(membership("0::/"), Some((vec![], "/")));
        assert_eq!(membership("0:"), None);
        assert_eq!(membership("1:cpu:relative"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(
            text in "(some|total=|max|nr_periods|throttled_usec| |:|,|/|\n|[0-9]{1,21}|-){0,40}",
        ) {
            let _ = (throttling(&text), some_total_ns(&text), cpu_max(&text), flag(&text));
            let _ = (number(&text), membership(&text), field(&text, "max"));
        }
    }
}
