//! CPI² (R-3): who was busy when the victim was slow.
//!
//! # Problem
//! Where nobody may be held, correlation is all there is.
//!
//! # Idea
//! Over ten minutes, each sample in which the victim's cost is above its threshold speaks against
//! those who used CPU then, in proportion to how much worse it was; each sample below it speaks
//! for them. A suspect's use is scaled to sum to 1, so only its course counts, not its size:
//!
//! ```text
//! corr(s) = sum over samples: u * (1 - threshold / c)   if c > threshold
//!                             u * (c / threshold - 1)   otherwise
//! ```
//!
//! The threshold is the victim's usual cost plus two standard deviations, with the past fading.
//! 0.35 and more is a suspicion. It is never more than that here: what moves together need not
//! cause each other.
//!
//! Source: R-3. Costs: CPI or CPU time per request, any unit; only ratios count.

use quell_types::{Tenant, Time};
use std::collections::{BTreeMap, VecDeque};

/// The published settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpi2Params {
    /// Length of the window in seconds.
    pub window_s: f64,
    /// How many standard deviations above the usual cost a sample is an outlier.
    pub outlier_sd: f64,
    /// Outliers within `anomaly_window_s` that make an anomaly.
    pub anomaly_outliers: usize,
    /// Length of that window in seconds.
    pub anomaly_window_s: f64,
    /// Below this use of CPU a victim's cost says nothing.
    pub least_cpus: f64,
    /// From this correlation on somebody is suspected.
    pub suspicion: f64,
    /// Weight of the past in the usual cost, for each sample.
    pub memory: f64,
}

impl Default for Cpi2Params {
    fn default() -> Self {
        Self {
            window_s: 600.0,
            outlier_sd: 2.0,
            anomaly_outliers: 3,
            anomaly_window_s: 300.0,
            least_cpus: 0.25,
            suspicion: 0.35,
            memory: 0.99,
        }
    }
}

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpi2Sample {
    /// When.
    pub time: Time,
    /// The victim's cost.
    pub cost: f64,
    /// The victim's use of CPU.
    pub victim_cpus: f64,
    /// Use of CPU by suspect.
    pub suspects_cpus: BTreeMap<Tenant, f64>,
}

/// The correlation of one victim with all others.
#[derive(Clone, Debug)]
pub struct Cpi2 {
    params: Cpi2Params,
    /// Weight, mean and mean square of the usual cost.
    usual: (f64, f64, f64),
    window: VecDeque<(Cpi2Sample, bool)>,
    /// Those whose correlation was suspicious when it was last reckoned, and when that was.
    suspected: Vec<(Tenant, f64)>,
    reckoned: Option<Time>,
}

/// It is reckoned once in so many seconds: windows are minutes long.
const RECKONED_S: f64 = 1.0;

impl Cpi2 {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(params: Cpi2Params) -> Self {
        let (window, suspected) = (VecDeque::new(), Vec::new());
        Self { params, usual: (0.0, 0.0, 0.0), window, suspected, reckoned: None }
    }

    /// Takes in a sample; those in which the victim hardly ran are passed over.
    pub fn add(&mut self, sample: Cpi2Sample) {
        if sample.victim_cpus < self.params.least_cpus || sample.cost <= 0.0 {
            return;
        }
        let outlier = self.threshold().is_some_and(|threshold| sample.cost > threshold);
        if !outlier {
            self.learn(sample.cost);
        }
        let now = sample.time;
        self.window.push_back((sample, outlier));
        let old = |s: &Cpi2Sample| now.since(s.time).as_secs_f64() > self.params.window_s;
        while self.window.front().is_some_and(|(sample, _)| old(sample)) {
            self.window.pop_front();
        }
        self.reckon(now);
    }

    /// Nobody is suspected without an anomaly; else the worst comes first.
    fn reckon(&mut self, now: Time) {
        if !self.anomaly() {
            self.suspected.clear();
            self.reckoned = None;
            return;
        }
        if self.reckoned.is_some_and(|then| now.since(then).as_secs_f64() < RECKONED_S) {
            return;
        }
        self.reckoned = Some(now);
        let all = self.correlations().into_iter();
        self.suspected = all.filter(|(_, c)| *c >= self.params.suspicion).collect();
        self.suspected.sort_by(|a, b| b.1.total_cmp(&a.1));
    }

    /// The cost above which a sample is an outlier; none before the usual cost is known.
    #[must_use]
    pub fn threshold(&self) -> Option<f64> {
        const FEWEST: f64 = 10.0;
        let (weight, mean, square) = self.usual;
        let sd = libm::sqrt((square - mean * mean).max(0.0));
        (weight >= FEWEST).then_some(mean + self.params.outlier_sd * sd)
    }

    /// Whether the victim suffers now: enough outliers lately.
    #[must_use]
    pub fn anomaly(&self) -> bool {
        let Some((last, _)) = self.window.back() else { return false };
        let lately =
            |s: &Cpi2Sample| last.time.since(s.time).as_secs_f64() <= self.params.anomaly_window_s;
        let outliers = self.window.iter().filter(|(sample, out)| *out && lately(sample)).count();
        outliers >= self.params.anomaly_outliers
    }

    /// Correlation by suspect, -1..1; empty before the usual cost is known.
    #[must_use]
    pub fn correlations(&self) -> BTreeMap<Tenant, f64> {
        let Some(threshold) = self.threshold() else { return BTreeMap::new() };
        let mut sums: Vec<(&Tenant, (f64, f64))> = Vec::new();
        for (sample, _) in &self.window {
            let blame = if sample.cost > threshold {
                1.0 - threshold / sample.cost
            } else {
                sample.cost / threshold - 1.0
            };
            let mut at = 0;
            for (tenant, cpus) in &sample.suspects_cpus {
                at = place(&mut sums, tenant, at);
                let (weighted, used) = &mut sums[at].1;
                *weighted += cpus * blame;
                *used += cpus;
                at += 1;
            }
        }
        let scaled = |(tenant, (weighted, used)): (&Tenant, (f64, f64))| {
            (used > 0.0).then(|| (tenant.clone(), weighted / used))
        };
        sums.into_iter().filter_map(scaled).collect()
    }

    /// Those who are suspected: their correlation, worst first. Nobody without an anomaly.
    #[must_use]
    pub fn suspected(&self) -> &[(Tenant, f64)] {
        &self.suspected
    }

    fn learn(&mut self, cost: f64) {
        let (weight, mean, square) = self.usual;
        let total = weight * self.params.memory + 1.0;
        let mixed = |old: f64, new: f64| old + (new - old) / total;
        self.usual = (total, mixed(mean, cost), mixed(square, cost * cost));
    }
}

/// Where somebody is in a list that rises, or is put into it. Samples have the same names in the same order,
/// but for those who come and go: so it is looked at first where the one after the last would be.
fn place<'a>(sums: &mut Vec<(&'a Tenant, (f64, f64))>, tenant: &'a Tenant, guess: usize) -> usize {
    if sums.get(guess).is_some_and(|(known, _)| *known == tenant) {
        return guess;
    }
    let found = sums.binary_search_by(|(known, _)| (*known).cmp(tenant));
    found.unwrap_or_else(|at| {
        sums.insert(at, (tenant, (0.0, 0.0)));
        at
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A minute of each: calm, then the antagonist works and the victim takes three times as long.
    fn played(cost_then: f64) -> Cpi2 {
        let mut cpi2 = Cpi2::new(Cpi2Params::default());
        for second in 0..120_u64 {
            let works = second >= 60;
            let cost = if works { cost_then } else { 1.0 + 0.02 * (second % 5) as f64 };
            cpi2.add(Cpi2Sample {
                time: Time(0) + Duration::from_secs(second),
                cost,
                victim_cpus: 0.5,
                suspects_cpus: BTreeMap::from([
                    ("antagonist".into(), if works { 1.0 } else { 0.0 }),
                    ("steady".into(), 0.5),
                    ("before".into(), if works { 0.0 } else { 1.0 }),
                ]),
            });
        }
        cpi2
    }

    #[test]
    fn who_was_busy_when_it_was_slow_is_suspected() {
        let cpi2 = played(3.0);
        assert!(cpi2.anomaly());
        let of = cpi2.correlations();
        assert!(of[&"antagonist".into()] > 0.6, "{of:?}");
        assert!(of[&"steady".into()] < 0.35 && of[&"before".into()] < 0.0, "{of:?}");
        let suspected = cpi2.suspected();
        assert_eq!(suspected.len(), 1);
        assert_eq!(suspected[0].0, "antagonist".into());
    }

    #[test]
    fn nobody_is_suspected_where_nothing_is_slow_or_nothing_is_known() {
        assert!(played(1.04).suspected().is_empty());
        let mut idle = Cpi2::new(Cpi2Params::default());
        for second in 0..100 {
            idle.add(Cpi2Sample {
                time: Time(0) + Duration::from_secs(second),
                cost: if second > 50 { 9.0 } else { 1.0 },
                victim_cpus: 0.1,
                suspects_cpus: BTreeMap::from([("a".into(), 1.0)]),
            });
        }
        assert!(idle.threshold().is_none() && idle.suspected().is_empty());
    }
}
