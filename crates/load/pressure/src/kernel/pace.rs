//! How fast a flow may send.
//!
//! **Problem.** A share of a link's rate. The kernel paces a slow flow evenly, but at gigabits a second
//! its pacing costs as much CPU time as sending does, and a link that is a copy within one machine is
//! as fast as the CPU has time for: a share of what it once took is no share of what it takes now.
//!
//! **Idea.** Fast flows are held by a token bucket of our own, in whole chunks. Over loopback the full
//! rate is learnt anew whenever nothing holds the flow.
//!
//! **Units.** Bytes, bytes a second. **Source.** B-2 (network: at x % of the link).

use std::time::Duration;

/// Allowance is saved up for so long: a thread that was kept from sending catches up with no more.
const CARRY: Duration = Duration::from_millis(10);
/// Within these a thread sleeps until there is allowance for a chunk: shorter ones are not to be
/// had, and after longer ones it shall look whether the intensity is another.
const SLEEPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));
/// The full rate is told over so long.
const SPAN: Duration = Duration::from_millis(20);

/// A token bucket. It owns no clock: each call brings the time since the start.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    tokens: f64,
    seen: Duration,
}

impl Bucket {
    /// Takes a chunk at `rate` bytes a second.
    ///
    /// # Errors
    /// There is not allowance enough: how long to wait before asking again.
    pub(super) fn take(&mut self, now: Duration, rate: f64, chunk: usize) -> Result<(), Duration> {
        let most = (rate * CARRY.as_secs_f64()).max(chunk as f64);
        let grown = rate * now.saturating_sub(self.seen).as_secs_f64();
        (self.tokens, self.seen) = ((self.tokens + grown).min(most), now);
        if self.tokens >= chunk as f64 {
            self.tokens -= chunk as f64;
            return Ok(());
        }
        let missing_s = (chunk as f64 - self.tokens) / rate.max(1.0);
        Err(Duration::from_secs_f64(missing_s.min(1.0)).clamp(SLEEPS.0, SLEEPS.1))
    }

    /// Gives back what was taken and not sent.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.tokens += bytes as f64;
    }
}

/// What a flow sends that nothing holds.
#[derive(Debug, Default)]
pub(super) struct Unheld {
    /// Since when, the count then, and whether it is the first span: that one begins with queues
    /// that are empty or not as before.
    since: Option<(Duration, u64, bool)>,
}

impl Unheld {
    /// The rate over the last span, when one ends.
    pub(super) fn rate(&mut self, now: Duration, acknowledged: u64) -> Option<f64> {
        let Some((then, count, first)) = self.since else {
            self.since = Some((now, acknowledged, true));
            return None;
        };
        let took = now.saturating_sub(then);
        if took < SPAN {
            return None;
        }
        self.since = Some((now, acknowledged, false));
        let rate = acknowledged.saturating_sub(count) as f64 / took.as_secs_f64();
        (!first && rate > 0.0).then_some(rate)
    }

    /// Something holds it again.
    pub(super) fn end(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNK: usize = 128 << 10;
    const MS: Duration = Duration::from_millis(1);

    /// Bytes let through in `all`, asking every so many microseconds by turns.
    fn let_through(rate: f64, every_us: &[u64], all: Duration) -> f64 {
        let (mut bucket, mut now, mut bytes) = (Bucket::default(), Duration::ZERO, 0.0);
        let mut turns = every_us.iter().cycle();
        while now < all {
            while bucket.take(now, rate, CHUNK).is_ok() {
                bytes += CHUNK as f64;
            }
            now += Duration::from_micros(*turns.next().unwrap());
        }
        bytes
    }

    proptest! {
        #[test]
        fn the_rate_is_kept_however_often_it_is_asked(
            rate in 1e8f64..5e9,
            every_us in proptest::collection::vec(20u64..1500, 1..20),
        ) {
            let found = let_through(rate, &every_us, Duration::from_secs(2));
            prop_assert!((found / (2.0 * rate) - 1.0).abs() < 0.01, "{found} at {rate}");
        }
    }

    #[test]
    fn who_was_kept_from_sending_catches_up_with_little() {
        let mut bucket = Bucket::default();
        let mut chunks = 0;
        while bucket.take(Duration::from_secs(60), 1e9, CHUNK).is_ok() {
            chunks += 1;
        }
        assert_eq!(chunks, (1e9 * CARRY.as_secs_f64()) as usize / CHUNK);
        let wait = bucket.take(Duration::from_secs(60), 1e9, CHUNK).unwrap_err();
        assert!((SLEEPS.0..=SLEEPS.1).contains(&wait), "{wait:?}");
        bucket.give_back(CHUNK);
        assert!(bucket.take(Duration::from_secs(60), 1e9, CHUNK).is_ok());
    }

    #[test]
    fn nothing_may_be_sent_at_no_rate() {
        assert_eq!(Bucket::default().take(Duration::from_secs(1), 0.0, CHUNK), Err(SLEEPS.1));
    }

    #[test]
    fn the_full_rate_is_that_of_a_whole_span() {
        let mut unheld = Unheld::default();
        assert_eq!(unheld.rate(10 * MS, 5_000_000), None, "the count at the begin");
        assert_eq!(unheld.rate(20 * MS, 6_000_000), None, "no span yet");
        assert_eq!(unheld.rate(30 * MS, 30_000_000), None, "the first does not count");
        let rate = unheld.rate(50 * MS, 32_000_000).unwrap();
        assert!((rate - 1e8).abs() < 1.0, "2 MB in 20 ms: {rate}");
        unheld.end();
        assert_eq!(unheld.rate(90 * MS, 40_000_000), None, "begun anew");
    }
}
