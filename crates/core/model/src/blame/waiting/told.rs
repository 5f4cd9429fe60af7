//! What is told of where a victim's threads stood.

use super::super::normal::probability_below;
use super::{Crowding, Tried, Waiting, effect_ln};
use quell_types::Tenant;

impl Waiting {
    /// Share of the time in which its threads could run for which they stood behind each other.
    #[must_use]
    pub fn own_frac(&self) -> f64 {
        self.mean(self.own) / (1.0 + self.all())
    }

    /// ln of the factor by which standing behind its own threads lengthens its requests, and the
    /// same of standing behind all others.
    #[must_use]
    pub fn own_and_others_ln(&self) -> (f64, f64) {
        let own = self.mean(self.own).min(0.99);
        (-libm::log(1.0 - own), libm::log(1.0 + self.all()))
    }

    /// What those do of whom nobody is suspected: the effect, and the share of the time in which the
    /// victim's threads could run for which they stood behind them.
    #[must_use]
    pub fn others_ln_and_frac(&self) -> (f64, f64) {
        let (x, all) = (self.mean(self.others), self.all());
        (effect_ln(x, all), x / (1.0 + all))
    }

    /// CPUs that a suspect uses; none if it is not one or nothing was seen.
    #[must_use]
    pub fn used_cpus(&self, suspect: &Tenant) -> Option<f64> {
        let sums = self.suspects.get(suspect).filter(|_| self.weight > 0.0)?;
        Some(sums.mean_demand(sums.used_cpus))
    }

    /// What a suspect does; none if it is not one or nothing was seen.
    #[must_use]
    pub fn crowding(&self, suspect: &Tenant, least_ln: f64) -> Option<Crowding> {
        self.crowding_of(suspect, least_ln, self.all())
    }

    /// The same of all these; what is stood behind all together is added up once.
    pub(in crate::blame) fn crowdings<'a>(
        &self,
        suspects: impl Iterator<Item = &'a Tenant>,
        least_ln: f64,
    ) -> Vec<(&'a Tenant, Crowding)> {
        let all = self.all();
        let of = |suspect: &'a Tenant| Some((suspect, self.crowding_of(suspect, least_ln, all)?));
        suspects.filter_map(of).collect()
    }

    /// Where so much was stood behind others in all.
    fn crowding_of(&self, suspect: &Tenant, least_ln: f64, all: f64) -> Option<Crowding> {
        let sums = self.suspects.get(suspect).filter(|_| self.weight > 0.0)?;
        let (x, stood) = (self.mean(sums.ratio), self.mean(sums.stood));
        let nothing = Crowding {
            effect_ln: 0.0,
            confidence: 0.0,
            stood_frac: 0.0,
            elsewhere_frac: 0.0,
            used_cpus: sums.mean_demand(sums.used_cpus),
            asked_cpus: sums.mean_demand(sums.asked_cpus),
            awake_frac: sums.mean_demand(sums.awake),
            known_windows: sums.known,
            relieved_cpus: sums.relieved.filter(|r| r.tells).map(|r| r.asked_cpus),
            slept: sums.relieved.is_some_and(|r| r.slept),
            tried: sums.relieved.filter(|r| !r.tells).map(|r| Tried {
                seconds_ago: r.age_s,
                in_vain: r.in_vain,
                asked_cpus: r.asked_cpus,
                used_cpus: r.used_cpus,
            }),
        };
        if x <= 0.0 {
            return Some(nothing);
        }
        // As many windows of equal weight would say as much.
        let windows = self.weight * self.weight / self.weight_square + self.params.assumed_windows;
        let usual_ln = self.mean(sums.effect_ln);
        let variance = (self.mean(sums.effect_square) - usual_ln * usual_ln).max(0.0) / windows;
        let sd = libm::sqrt(variance).max(f64::MIN_POSITIVE);
        Some(Crowding {
            effect_ln: effect_ln(x, all),
            confidence: probability_below((usual_ln - least_ln) / sd),
            stood_frac: stood / (1.0 + all),
            elsewhere_frac: (x - stood) / (1.0 + all),
            ..nothing
        })
    }

    /// All that was stood behind others.
    fn all(&self) -> f64 {
        let suspects: f64 = self.suspects.values().map(|sums| self.mean(sums.stood)).sum();
        suspects + self.mean(self.others)
    }

    /// Mean over windows, the assumed ones among them.
    fn mean(&self, sum: f64) -> f64 {
        sum / (self.weight + self.params.assumed_windows)
    }
}
