//! The tail of a service in a window of some tens of milliseconds, under load that goes on.
//!
//! ```text
//! work off   what an earlier window left behind is answered first, or it would be counted here
//! window     until enough was asked
//! work off   what was asked in it counts however late it is answered; who takes long is asked nothing more meanwhile
//! ```

use super::{Live, Loaded, PATIENCE};
use quell_profiler::{ProfileError, Subject as _};
use std::time::{Duration, Instant};

/// A window goes on until so many were asked: the 95th percentile is the last but one of them.
pub(super) const LEAST_ASKED: u64 = 20;
/// So many may be open at any time.
const USUALLY_OPEN: u64 = 2;
/// Between two looks at what is open.
const LOOK: Duration = Duration::from_millis(2);
/// Who has worked off nothing for so long is asked no more ...
const SOON: Duration = Duration::from_millis(30);
/// ... and is waited for until this.
const DRAIN: Duration = Duration::from_secs(1);

impl Loaded {
    /// The 95th percentile of how long requests of a window of about this length take, in ms. A window in which
    /// nothing was answered is looked at again.
    pub(super) fn tail_ms(&mut self, length: Duration) -> Result<f64, ProfileError> {
        for _ in 0..PATIENCE {
            let (mut sojourns_ns, open) = self.sojourns(length)?;
            if sojourns_ns.is_empty() {
                continue;
            }
            let given_up = u64::try_from(DRAIN.as_nanos()).unwrap_or(u64::MAX);
            sojourns_ns.extend((0..open).map(|_| given_up));
            return Ok(p95_ns(&mut sojourns_ns) as f64 / 1e6);
        }
        Err(self.overloaded())
    }

    /// What was answered of a window, and how many of it were not.
    fn sojourns(&mut self, length: Duration) -> Result<(Vec<u64>, u64), ProfileError> {
        self.work_off()?;
        self.wake()?;
        let before = self.tally();
        if let Some(live) = &self.live {
            live.keep_sojourns();
        }
        let begun = Instant::now();
        self.pause(length)?;
        while self.tally().since(before).asked < LEAST_ASKED {
            self.check_live()?;
            if begun.elapsed() > self.patience(length, LEAST_ASKED) {
                return Err(self.overloaded());
            }
            self.pause(LOOK)?;
        }
        let open = self.work_off()?;
        let sojourns_ns = self.live.as_ref().map_or_else(Vec::new, Live::take_sojourns);
        Ok((sojourns_ns, open))
    }

    /// Waits until all that was asked so far is answered, as far as it is within [`DRAIN`]; how many are not.
    pub(super) fn work_off(&mut self) -> Result<u64, ProfileError> {
        let (begun, until) = (Instant::now(), self.tally());
        loop {
            let now = self.tally();
            let heard = (now.answered + now.failed).saturating_sub(until.answered + until.failed);
            let left = until.open().saturating_sub(heard);
            if left <= USUALLY_OPEN.min(until.open() / 2) || begun.elapsed() > DRAIN {
                return Ok(left);
            }
            if begun.elapsed() > SOON {
                self.rest()?;
            }
            self.pause(LOOK)?;
        }
    }
}

/// Of at least one.
fn p95_ns(sojourns_ns: &mut [u64]) -> u64 {
    let at = (sojourns_ns.len() * 95).div_ceil(100).saturating_sub(1);
    *sojourns_ns.select_nth_unstable(at).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_twenty_is_the_last_but_one() {
        for (count, tail) in [(1, 1), (2, 2), (20, 19), (100, 95), (101, 96)] {
            let mut sojourns: Vec<u64> = (1..=count).rev().collect();
            assert_eq!(p95_ns(&mut sojourns), tail, "{count}");
        }
    }
}
