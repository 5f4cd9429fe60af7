//! How long threads of this process were ready to run and had no CPU.

use std::time::Duration;

/// Time that the thread `tid` of this process has waited for a CPU so far; none if it is gone or the kernel does not
/// tell (`schedstat`). A wait counts when it is over.
pub(crate) fn queued_time(tid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    parse(&text).map(Duration::from_nanos)
}

/// The second of `ran waited times`, in nanoseconds.
fn parse(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_counts() {
        for (text, ns) in [
            ("1843 27 9\n", Some(27)),
            ("0 0 0", Some(0)),
            ("1843", None),
            ("", None),
            ("1 x 3", None),
            ("1 -2 3", None),
        ] {
            assert_eq!(parse(text), ns, "{text:?}");
        }
    }

    #[test]
    fn who_is_gone_tells_nothing() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(queued_time(own).is_some(), "the kernels that this is for have it");
        assert_eq!(queued_time(i32::MAX), None);
    }
}
