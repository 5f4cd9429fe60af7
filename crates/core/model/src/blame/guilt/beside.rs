//! What company says of guilt: it stands beside what was measured, until it is told anew.
//!
//! # Problem
//! Company tells what is over when a turn is: what a request costs beside a group, against beside the others.
//! That is all of a harm by bandwidth or by bus locks. What a group leaves in a cache does harm beside all the
//! others as well, so of such a harm company tells a part, which may be small. Looks, which hold a group for long
//! enough, tell all of it, and say less the fewer requests there are. To weigh both as if they told of the same
//! would take what looks have shown back.
//!
//! # Idea
//! Either the harm h is over with the turn, or it lasts, and then any share of it may be seen:
//!
//! ```text
//! over:   told ~ Normal(h, noise)                  as likely, at first, as
//! lasts:  told ~ Normal(share * h, noise),         share uniform from 0 to 1
//! ```
//!
//! Which it is says how well each would have foretold what is told. If it is over, the harm is what both say
//! together; if it lasts, it is what looks say, and no less than what is surely told. With few looks both foretell
//! it, and with many one of them does.
//!
//! # Units
//! Harm in ln for each CPU that is told, for each unit of them within.
//!
//! # Degradation
//! Of whom company tells nothing, what looks say stands.
//!
//! Source: issue "Name the polluter and limit only it" (the scheduler's own randomness as a free experiment).

use super::super::company::Told;
use super::super::hypothesis::Hypothesis;
use super::super::normal::{density, probability_below};
use super::{Guilt, GuiltParams};
use quell_types::Tenant;
use std::collections::BTreeMap;

/// ln of how many times as likely company makes anybody's guilt at most: what is not by chance in it
/// may be more than was ever seen.
const MOST_LN: f64 = 7.0;
/// Probability that harm is over with the turn of whoever does it, before anything was told.
const OVER_FRAC: f64 = 0.5;
/// What company tells is surely no more than so many standard deviations too much.
const SURELY_SD: f64 = 2.0;
/// Less of a normal distribution than that is not told to enough digits.
const LEAST_LEFT: f64 = 1e-3;

impl Guilt {
    /// What company tells of suspects now. It accuses, and acquits nobody.
    pub fn accompany(&mut self, told: &BTreeMap<Tenant, Told>) {
        let of = |(index, s): (usize, &Tenant)| {
            let unit_cpus = self.sizes[index].unit_cpus();
            told.get(s)
                .map(|told| (unit_cpus * told.harm_ln, unit_cpus * unit_cpus * told.variance))
        };
        let all: Vec<Option<(f64, f64)>> = self.suspects.iter().enumerate().map(of).collect();
        let all = if all.iter().all(Option::is_none) { Vec::new() } else { all };
        if all != self.company {
            self.company = all;
            self.weights.take();
        }
    }

    /// ln of how many times as likely its company makes that one suspect alone is guilty.
    #[must_use]
    pub fn company_ln(&self, suspect: &Tenant) -> f64 {
        let alone = self.index(suspect).and_then(|index| self.hypotheses.get(1 + index));
        alone.map_or(0.0, |hypothesis| self.accused_ln(hypothesis))
    }

    /// The same for all whom a hypothesis holds guilty.
    pub(super) fn accused_ln(&self, hypothesis: &Hypothesis) -> f64 {
        let each = hypothesis.members().iter().filter_map(|member| {
            let told = (*self.company.get(*member)?)?;
            Some(factor_ln(hypothesis.harm(*member)?, told, &self.params))
        });
        each.sum()
    }

    /// From now on looks are taken to see this share of a harm ([`super::super::Settling`]), and at most this one:
    /// how sure a harm is to be more than something is reckoned with that.
    pub fn settle(&mut self, seen_frac: f64, most_seen_frac: f64) {
        self.seen_frac = seen_frac;
        self.most_seen_frac = most_seen_frac;
    }

    /// The share of a harm that looks are taken to see.
    #[must_use]
    pub fn seen_frac(&self) -> f64 {
        self.seen_frac
    }

    /// Mean and variance of all of a suspect's harm for each unit, by looks alone that see such a share of it.
    fn believed(&self, place: usize, suspect: usize, seen_frac: f64) -> Option<(f64, f64)> {
        let (mean, variance) = self.hypotheses[place].harm(suspect)?;
        Some((mean / seen_frac, variance / (seen_frac * seen_frac)))
    }

    /// Mean and variance of a suspect's harm for each unit in a hypothesis that holds it guilty, company heard.
    pub(in super::super) fn harm(&self, place: usize, suspect: usize) -> Option<(f64, f64)> {
        let believed = self.believed(place, suspect, self.seen_frac)?;
        let told = self.company.get(suspect).copied().flatten();
        Some(told.map_or(believed, |told| Heard::of(believed, told).moments()))
    }

    /// Probability that it is more than so much there.
    pub(super) fn harm_above(&self, place: usize, suspect: usize, least: f64) -> Option<f64> {
        let believed = self.believed(place, suspect, self.most_seen_frac)?;
        let told = self.company.get(suspect).copied().flatten();
        Some(
            told.map_or_else(
                || beyond(least, believed),
                |told| Heard::of(believed, told).above(least),
            ),
        )
    }
}

/// What is believed of a harm once company told of it; means and variances.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Probability that it is over with its turn.
    over_frac: f64,
    over: (f64, f64),
    /// If it lasts, before it is cut off...
    lasts: (f64, f64),
    /// ... below what is told, give or take.
    least: f64,
}

impl Heard {
    fn of((mean, variance): (f64, f64), told: (f64, f64)) -> Self {
        let (over, lasts) = foretold((mean, variance), told);
        let gain = variance / (variance + told.1);
        Self {
            over_frac: over / (over + lasts).max(f64::MIN_POSITIVE),
            over: (mean + gain * (told.0 - mean), variance * (1.0 - gain)),
            lasts: (mean, variance),
            least: told.0 - SURELY_SD * libm::sqrt(told.1),
        }
    }

    /// Its mean and variance.
    fn moments(self) -> (f64, f64) {
        let (over, lasts) = (self.over, cut(self.least, self.lasts));
        let mix = |over: f64, lasts: f64| self.over_frac * over + (1.0 - self.over_frac) * lasts;
        let apart = over.0 - lasts.0;
        let between = self.over_frac * (1.0 - self.over_frac) * apart * apart;
        (mix(over.0, lasts.0), mix(over.1, lasts.1) + between)
    }

    /// Probability that it is more than so much.
    fn above(self, least: f64) -> f64 {
        let left = beyond(self.least, self.lasts);
        let lasts = match left < LEAST_LEFT {
            true => beyond(least, self.lasts),
            false => beyond(least.max(self.least), self.lasts) / left,
        };
        self.over_frac * beyond(least, self.over) + (1.0 - self.over_frac) * lasts
    }
}

/// Probability of more than so much, by a normal distribution.
fn beyond(least: f64, (mean, variance): (f64, f64)) -> f64 {
    probability_below((mean - least) / libm::sqrt(variance).max(f64::MIN_POSITIVE))
}

/// Mean and variance of a normal distribution of which only what is above `least` is left.
fn cut(least: f64, (mean, variance): (f64, f64)) -> (f64, f64) {
    let left = beyond(least, (mean, variance));
    if left < LEAST_LEFT {
        // What is believed is foretold by nothing that lasts, so that this hardly counts.
        return (mean, variance);
    }
    let sd = libm::sqrt(variance);
    let at = (least - mean) / sd;
    let rise = density(at, 1.0) / left;
    (mean + sd * rise, variance * (1.0 + at * rise - rise * rise))
}

/// Densities of what is told, where the harm of which so much is believed is over with a turn, and where it lasts.
fn foretold((mean, variance): (f64, f64), (told_ln, noise): (f64, f64)) -> (f64, f64) {
    let total = variance + noise;
    let over = density(told_ln - mean, total);
    // Any share of the harm that is believed, about as much of which is told: less than its scatter is no harm.
    let sd = libm::sqrt(noise);
    let harm = mean.max(sd);
    let lasts = probability_below(told_ln / sd) - probability_below((told_ln - harm) / sd);
    (OVER_FRAC * over, (1.0 - OVER_FRAC) * (lasts / harm).max(0.0))
}

/// ln of how many times as likely what is told is of a guilty one, of whose harm so much is believed,
/// as of an innocent one.
fn factor_ln(believed: (f64, f64), told: (f64, f64), params: &GuiltParams) -> f64 {
    let (harm_ln, noise) = told;
    let innocent = density(harm_ln, noise + params.innocent_sd * params.innocent_sd);
    let (over, lasts) = foretold(believed, told);
    let factor = (over + lasts) / innocent.max(f64::MIN_POSITIVE);
    libm::log(factor.max(1.0)).min(MOST_LN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEAST: f64 = 0.04;

    fn moments(believed: (f64, f64), told: (f64, f64)) -> (f64, f64) {
        Heard::of(believed, told).moments()
    }

    fn five() -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        guilt.keep(&["a", "b", "c", "d", "e"].map(Tenant::from));
        guilt
    }

    fn told(name: &str, harm_ln: f64, sd: f64) -> BTreeMap<Tenant, Told> {
        [(name.into(), Told { harm_ln, variance: sd * sd, sends: 1000.0 })].into()
    }

    #[test]
    fn who_is_bad_company_is_likely_guilty_and_his_harm_is_no_less_than_that() {
        let mut guilt = five();
        guilt.accompany(&told("b", 0.35, 0.06));
        let belief = guilt.belief(&"b".into()).unwrap();
        assert!(belief.guilt > 0.9 && belief.experiments == 0, "{belief:?}");
        // That much is over with its turn; more may last.
        assert!((0.35..0.7).contains(&belief.harm) && belief.harm_sd < 0.35, "{belief:?}");
        assert!(guilt.harmful(&"b".into(), 0.5, LEAST) > 0.9);
        assert!(guilt.harmful(&"a".into(), 0.5, LEAST) < 0.05);
        assert!(guilt.company_ln(&"b".into()) > 4.0 && guilt.company_ln(&"a".into()) == 0.0);
    }

    #[test]
    fn what_lasts_beside_others_takes_nothing_back_that_looks_have_shown() {
        // Looks: 0.28, give or take 0.05. Company sees a part, or all of it.
        let looked = (0.28, 0.05 * 0.05);
        for seen in [0.0, 0.04, 0.08, 0.12] {
            let (mean, variance) = moments(looked, (seen, 0.03 * 0.03));
            assert!(mean > 0.26 && variance < 0.06 * 0.06, "{seen}: {mean} {variance}");
        }
        let (mean, variance) = moments(looked, (0.25, 0.02 * 0.02));
        assert!(mean < 0.272 && variance < looked.1, "what agrees makes surer: {mean} {variance}");
        // More than looks have shown is heard: nothing that lasts could tell it.
        let (mean, _) = moments(looked, (0.4, 0.02 * 0.02));
        assert!(mean > 0.37, "{mean}");
        // Before a look company alone says how much it may be.
        let (mean, _) = moments((0.5, 0.4 * 0.4), (0.3, 0.05 * 0.05));
        assert!((0.3..0.7).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn what_is_believed_stays_finite_and_its_variance_positive(
            mean in -2.0f64..2.0, sd in 0.001f64..1.0, told in 0.0f64..3.0, noise in 0.001f64..0.5
        ) {
            let (harm, variance) = moments((mean, sd * sd), (told, noise * noise));
            prop_assert!(harm.is_finite() && variance > 0.0 && variance.is_finite(), "{harm} {variance}");
            prop_assert!(harm >= mean.min(told) - 1e-9, "{harm}");
        }

        #[test]
        fn more_is_never_likelier_than_less(
            mean in -2.0f64..2.0, sd in 0.001f64..1.0, told in 0.0f64..3.0, noise in 0.001f64..0.5,
            least in -1.0f64..3.0, more in 0.0f64..1.0
        ) {
            let heard = Heard::of((mean, sd * sd), (told, noise * noise));
            let (less, greater) = (heard.above(least), heard.above(least + more));
            prop_assert!((-1e-6..=1.0 + 1e-6).contains(&less) && greater <= less + 1e-6, "{less} {greater}");
        }
    }

    #[test]
    fn what_may_be_chance_accuses_and_acquits_nobody() {
        let before = five().belief(&"b".into()).unwrap().guilt;
        for harm_ln in [0.01, 0.05, 0.1] {
            let mut guilt = five();
            guilt.accompany(&told("b", harm_ln, 0.06));
            let now = guilt.belief(&"b".into()).unwrap().guilt;
            assert!((now - before).abs() < 0.02, "{harm_ln}: {before} {now}");
        }
    }

    #[test]
    fn it_is_told_anew_and_never_adds_up() {
        let mut guilt = five();
        let once = told("b", 0.25, 0.06);
        guilt.accompany(&once);
        let first = guilt.belief(&"b".into()).unwrap();
        (0..100).for_each(|_| guilt.accompany(&once));
        assert_eq!(guilt.belief(&"b".into()).unwrap(), first);
        guilt.accompany(&BTreeMap::new());
        assert_eq!(guilt.belief(&"b".into()), five().belief(&"b".into()));
    }

    #[test]
    fn however_clear_it_is_it_does_not_name_alone() {
        let mut guilt = five();
        guilt.accompany(&told("b", 1.5, 0.06));
        assert!(guilt.company_ln(&"b".into()) <= MOST_LN);
        assert_eq!(guilt.belief(&"b".into()).unwrap().experiments, 0);
    }
}
