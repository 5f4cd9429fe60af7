//! What an experiment may cost: each group is held for at most a share of its time.
//!
//! A bank for each group fills at that rate, up to half a second, and pays for each look. It
//! begins full, so that the first looks come quickly. What it is asked to pay beyond that it owes, and earns first.

use quell_types::{Setup, Tenant, Time};
use std::collections::BTreeMap;

/// Most held time that a usual bank can save, in seconds.
const MOST_S: f64 = 0.5;

/// The banks of all groups.
#[derive(Clone, Debug)]
pub(crate) struct HeldTime {
    share_frac: f64,
    most_s: f64,
    saved_s: BTreeMap<Tenant, f64>,
    filled: Option<Time>,
}

impl HeldTime {
    /// Banks from which each group is held for at most this share of its time.
    pub(crate) fn new(share_frac: f64) -> Self {
        Self::saving(share_frac, MOST_S)
    }

    /// The same, that save so many seconds.
    pub(crate) fn saving(share_frac: f64, most_s: f64) -> Self {
        Self { share_frac, most_s, saved_s: BTreeMap::new(), filled: None }
    }

    /// Lets the banks fill.
    pub(crate) fn fill(&mut self, setup: &Setup, now: Time) {
        self.fill_in_part(setup, now, 1.0);
    }

    /// Lets the banks fill with this part of their share.
    pub(crate) fn fill_in_part(&mut self, setup: &Setup, now: Time, part_frac: f64) {
        let earned = match self.filled.replace(now) {
            Some(then) => now.since(then).as_secs_f64() * self.share_frac * part_frac,
            None => self.most_s,
        };
        for batch in &setup.batch {
            let saved = self.saved_s.entry(batch.name.clone()).or_default();
            *saved = (*saved + earned).min(self.most_s);
        }
    }

    /// Whether a group can pay for so many seconds. Who asks for more than a bank holds, to leave
    /// some of it for later, has it once that is full.
    pub(crate) fn pays(&self, group: &Tenant, seconds: f64) -> bool {
        self.saved_s.get(group).is_some_and(|saved| *saved >= seconds.min(self.most_s))
    }

    /// Takes so many seconds from a group's bank.
    pub(crate) fn spend(&mut self, group: &Tenant, seconds: f64) {
        if let Some(saved) = self.saved_s.get_mut(group) {
            *saved -= seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, setup};

    #[test]
    fn a_group_is_held_for_its_share_and_no_longer() {
        let setup = setup(2).service("web", 10.0, 1000.0).batch("jobs").build();
        let jobs = Tenant::from("jobs");
        let mut banks = HeldTime::new(0.01);
        assert!(!banks.pays(&jobs, 0.1), "nothing saved yet");
        let mut held_s = 0.0;
        for second in 0..600 {
            banks.fill(&setup, at(f64::from(second)));
            while banks.pays(&jobs, 0.05) {
                banks.spend(&jobs, 0.05);
                held_s += 0.05;
            }
        }
        assert!((5.5..=6.5).contains(&held_s), "{held_s}: 1 % of ten minutes and the first bank");
        assert!(!banks.pays(&"stranger".into(), 0.0));
    }
}
