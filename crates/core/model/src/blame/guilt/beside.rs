//! What company says of guilt: it stands beside what was measured, until it is told anew.

use super::super::company::Told;
use super::super::hypothesis::Hypothesis;
use super::{Guilt, GuiltParams};
use quell_types::Tenant;
use std::collections::BTreeMap;

/// ln of how many times as likely company makes anybody's guilt at most: what is not by chance in it
/// may be more than was ever seen.
const MOST_LN: f64 = 7.0;

impl Guilt {
    /// What company tells of suspects now. It accuses, and acquits nobody.
    pub fn accompany(&mut self, told: &BTreeMap<Tenant, Told>) {
        let of = |s: &Tenant| told.get(s).map(|told| (told.harm_ln, told.variance));
        let all: Vec<Option<(f64, f64)>> = self.suspects.iter().map(of).collect();
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

    /// Mean and variance of a suspect's harm in a hypothesis that holds it guilty, company heard.
    pub(in super::super) fn harm(&self, place: usize, suspect: usize) -> Option<(f64, f64)> {
        let (mean, variance) = self.hypotheses[place].harm(suspect)?;
        let Some(Some((harm_ln, noise))) = self.company.get(suspect).copied() else {
            return Some((mean, variance));
        };
        let gain = variance / (variance + noise);
        Some((mean + gain * (harm_ln - mean), variance * (1.0 - gain)))
    }
}

/// ln of how many times as likely what is told is of a guilty one, of whose harm so much is believed,
/// as of an innocent one.
fn factor_ln((mean, variance): (f64, f64), told: (f64, f64), params: &GuiltParams) -> f64 {
    let (harm_ln, noise) = told;
    let density_ln = |off: f64, variance: f64| -0.5 * (off * off / variance + libm::log(variance));
    let innocent = noise + params.innocent_sd * params.innocent_sd;
    let guilty = density_ln(harm_ln - mean, variance + noise);
    (guilty - density_ln(harm_ln, innocent)).clamp(0.0, MOST_LN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: f64 = 0.04;

    fn five() -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        guilt.keep(&["a", "b", "c", "d", "e"].map(Tenant::from));
        guilt
    }

    fn told(name: &str, harm_ln: f64, sd: f64) -> BTreeMap<Tenant, Told> {
        [(name.into(), Told { harm_ln, variance: sd * sd, sends: 1000.0 })].into()
    }

    #[test]
    fn who_is_bad_company_is_likely_guilty_and_his_harm_is_known() {
        let mut guilt = five();
        guilt.accompany(&told("b", 0.35, 0.06));
        let belief = guilt.belief(&"b".into()).unwrap();
        assert!(belief.guilt > 0.9 && belief.experiments == 0, "{belief:?}");
        assert!((belief.harm - 0.35).abs() < 0.03 && belief.harm_sd < 0.1, "{belief:?}");
        assert!(guilt.harmful(&"b".into(), 0.5, LEAST) > 0.9);
        assert!(guilt.harmful(&"a".into(), 0.5, LEAST) < 0.05);
        assert!(guilt.company_ln(&"b".into()) > 4.0 && guilt.company_ln(&"a".into()) == 0.0);
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
