//! Whose harm is surely worth a limit.
//!
//! # Problem
//! With each look more is known of a harm, and of many looks one goes too far: at that moment it is surely worth a
//! limit, and a second later it is not. Who is limited for such a moment serves a term for nothing. Who does much more
//! is to be limited at once: each term begins with what it took to be named anew.
//!
//! # Idea
//! Harm that looks show has to be serious in several samples running, unless it is plainly far more. But who works in
//! bursts does not work for so long: it is limited once its burst is over, by what it used in it, so that the next one
//! finds it limited. What waits for CPUs show is no matter of single looks.
//!
//! # Units
//! CPUs; samples of the law.
//!
//! # Pseudo-code
//! ```text
//! each sample, for each that serves no term:
//!   its harm is serious: one sample more; remember the charge by which it used most
//!   it is not, and it works as before (half of that, or more): begin anew
//!   4 samples, or plainly so, or it uses next to nothing now, or waits showed it: limit it, if it used more than it may
//! ```
//!
//! # Degradation
//! A look may hold it for most of a sample: that counts neither way. Of whom nobody sees what it uses nothing is
//! concluded from its rest.
//!
//! Source: A-36; issue "Name the polluter and limit only it" (throttled under 1.1: none).

use super::terms::{Charge, IDLE_FRAC};
use quell_types::Tenant;
use std::collections::BTreeMap;

/// In so many samples running.
const SAMPLES: u32 = 4;
/// Who uses less than this share of what it used has ended a burst.
const RESTS_FRAC: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
struct Row {
    samples: u32,
    plain: bool,
    most: Charge,
}

/// All whose harm was serious of late.
#[derive(Debug, Default)]
pub(super) struct Serious {
    rows: BTreeMap<Tenant, Row>,
}

impl Serious {
    /// Follows a sample, with what all used in it; answers with those who are to be limited, each with the charge by which
    /// it used most. Who `serves` a term already begins anew.
    pub(super) fn follow(
        &mut self,
        charges: &BTreeMap<Tenant, Charge>,
        used_cpus: &BTreeMap<Tenant, f64>,
        serves: impl Fn(&Tenant) -> bool,
    ) -> BTreeMap<Tenant, Charge> {
        for (name, charge) in charges.iter().filter(|(_, charge)| charge.serious) {
            let new = Row { samples: 0, plain: false, most: *charge };
            let row = self.rows.entry(name.clone()).or_insert(new);
            row.samples += 1;
            row.plain |= charge.plain;
            if charge.used_cpus >= row.most.used_cpus {
                row.most = *charge;
            }
        }
        let used = |name: &Tenant, row: &Row| {
            used_cpus.get(name).map_or(1.0, |used| used / row.most.used_cpus.max(f64::MIN_POSITIVE))
        };
        let is_serious = |name: &Tenant| charges.get(name).is_some_and(|charge| charge.serious);
        self.rows
            .retain(|name, row| !serves(name) && (is_serious(name) || used(name, row) < IDLE_FRAC));
        let to_limit = self.rows.iter().filter(|(name, row)| {
            let Row { samples, plain, most } = row;
            let shown = *samples >= SAMPLES || *plain || !most.by_looks;
            let sure = shown || used(name, row) < RESTS_FRAC;
            sure && most.used_cpus > most.budget_cpus
        });
        to_limit.map(|(name, row)| (name.clone(), row.most)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: Charge = Charge {
        budget_cpus: 0.1,
        used_cpus: 0.8,
        apart_s: 0.0,
        by_looks: true,
        serious: true,
        plain: false,
    };

    /// After how many samples it is limited, of each of which it is told whether the harm was serious and what it used;
    /// and by which charge. Who is not named has no charge.
    fn limited(like: Charge, samples: &[(Option<bool>, f64)]) -> Option<(usize, Charge)> {
        let (mut serious, jobs) = (Serious::default(), Tenant::from("jobs"));
        samples.iter().enumerate().find_map(|(after, (is_serious, used_cpus))| {
            let charge = |serious| Charge { serious, used_cpus: *used_cpus, ..like };
            let charges = is_serious.map(|is| (jobs.clone(), charge(is))).into_iter().collect();
            let used = [(jobs.clone(), *used_cpus)].into();
            Some((after, *serious.follow(&charges, &used, |_| false).get(&jobs)?))
        })
    }

    fn after(like: Charge, samples: &[(Option<bool>, f64)]) -> Option<usize> {
        limited(like, samples).map(|(after, _)| after)
    }

    #[test]
    fn the_next_looks_have_to_show_it_too() {
        let (on, off) = ((Some(true), 0.8), (Some(false), 0.8));
        assert_eq!(after(JOBS, &[on; 6]), Some(3));
        assert_eq!(after(JOBS, &[on, on, on, off, on, on, on, on]), Some(7));
        assert_eq!(after(JOBS, &[on, on, on, (None, 0.8), on, on]), None, "not named any more");
        assert_eq!(after(JOBS, &[(Some(true), 0.05); 9]), None, "no more than it may use");
        let by_waits = Charge { by_looks: false, ..JOBS };
        assert_eq!(after(by_waits, &[off, on]), Some(1), "waits are all there is to see");
        let plain = Charge { plain: true, ..JOBS };
        assert_eq!(after(plain, &[off, on]), Some(1), "so much is not made of little by chance");
    }

    #[test]
    fn a_burst_that_is_over_is_answered_at_once() {
        let burst = [(Some(true), 0.8), (Some(false), 0.3), (None, 0.0)];
        let (after_samples, by) = limited(JOBS, &burst).unwrap();
        assert_eq!((after_samples, by.used_cpus), (2, 0.8), "by what it used in it");
        let chance = [(Some(true), 0.8), (Some(false), 0.8), (None, 0.0)];
        assert_eq!(after(JOBS, &chance), None);
    }

    #[test]
    fn who_is_held_for_a_look_has_not_ended_a_burst() {
        let held = [(Some(true), 0.8), (Some(false), 0.2), (Some(true), 0.8), (Some(true), 0.3)];
        assert_eq!(after(JOBS, &held), None);
        assert_eq!(after(JOBS, &[&held[..], &[(Some(true), 0.8)]].concat()), Some(4));
    }

    #[test]
    fn of_whom_nobody_sees_what_it_uses_nothing_is_concluded_and_who_serves_begins_anew() {
        let (mut serious, jobs) = (Serious::default(), Tenant::from("jobs"));
        let charges: BTreeMap<Tenant, Charge> = [(jobs.clone(), JOBS)].into();
        let (unseen, none) = (BTreeMap::new(), BTreeMap::new());
        assert!(serious.follow(&charges, &unseen, |_| false).is_empty());
        assert!(serious.follow(&none, &unseen, |_| false).is_empty());
        assert!(serious.rows.is_empty());
        for _ in 0..3 {
            assert!(serious.follow(&charges, &unseen, |_| false).is_empty());
        }
        assert!(serious.follow(&charges, &unseen, |_| true).is_empty());
        assert!(serious.follow(&charges, &unseen, |_| false).is_empty(), "the first of four");
    }
}
