//! What looks have shown, without what is said.
//!
//! Company and others' word accuse, each in ways of its own that may be wrong: whoever has the other CPU while a service
//! wakes is in its company without doing anything. To hold somebody and see what becomes of the service cannot be
//! wrong so. Who is named on all of it together must have been shown by what was measured alone to be more likely guilty
//! than before: by at least two looks in which it was held, and with them by how the service's cost went with what
//! suspects did of themselves in between ([`Measurement::experiment`](super::Measurement) tells these apart), of which
//! each is worth little.
//!
//! Source: issue "Name the polluter and limit only it" (who is named must be right).

use super::super::finding::FindingParams;
use super::super::hypothesis::Hypothesis;
use super::Guilt;
use quell_types::Tenant;

impl Guilt {
    /// ln of how many times as likely what was measured makes a suspect's guilt, without company, others' word, and
    /// what is known of suspects themselves.
    #[must_use]
    pub fn looked_ln(&self, suspect: &Tenant) -> f64 {
        let Some(index) = self.index(suspect) else { return 0.0 };
        let odds_ln = |ln: fn(&Hypothesis) -> f64| {
            let weight = |hypothesis: &Hypothesis| libm::exp(ln(hypothesis));
            let guilty: f64 = self.against(index).map(|at| weight(&self.hypotheses[at])).sum();
            let all: f64 = self.hypotheses.iter().map(weight).sum();
            let free = (all - guilty).max(f64::MIN_POSITIVE);
            libm::log(guilty.max(f64::MIN_POSITIVE) / free)
        };
        odds_ln(|hypothesis| hypothesis.weight_ln) - odds_ln(|hypothesis| hypothesis.prior_ln)
    }

    /// Whether there are looks at a suspect that show what naming it needs of them.
    #[must_use]
    pub fn is_shown_by_looks(&self, suspect: &Tenant, params: &FindingParams) -> bool {
        self.experiments(suspect) >= params.named_experiments
            && self.looked_ln(suspect) >= params.named_looked_ln
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::company::Told;
    use super::super::{GuiltParams, Measurement};
    use super::*;
    use quell_types::Time;

    /// After company that is as good as certain, and two looks in which the service was so many times slower, in ln.
    fn after(seen: [f64; 2]) -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        guilt.keep(&["a", "b", "c", "d", "e"].map(Tenant::from));
        for ln_slowdown in seen {
            guilt.measure(&Measurement {
                time: Time(1),
                ln_slowdown,
                variance: 0.15 * 0.15,
                doses_cpus: [("b".into(), 0.5)].into(),
                experiment: true,
                void_frac: 0.0,
            });
        }
        let told = Told { harm_ln: 0.6, variance: 0.06 * 0.06, sends: 1000.0 };
        guilt.accompany(&[("b".into(), told)].into());
        guilt
    }

    #[test]
    fn bad_company_is_named_only_if_looks_say_the_same() {
        let params = FindingParams::default();
        for (seen, shown) in [
            ([0.3, 0.3], true),
            ([0.3, 0.2], true),
            ([0.1, 0.1], false),
            ([0.0, 0.0], false),
            ([0.2, -0.2], false),
        ] {
            let guilt = after(seen);
            let (b, likely) = ("b".into(), guilt.guilt(&"b".into()));
            assert_eq!(guilt.is_shown_by_looks(&b, &params), shown, "{seen:?}, {likely}");
            assert!(!shown || likely > params.named_frac, "{seen:?}: {likely}");
            let (looked, company) = (guilt.looked_ln(&b), guilt.company_ln(&b));
            let all = guilt.evidence_ln(&b);
            assert!(company > 1.0 && all > looked, "{seen:?}: {looked} and {company} in {all}");
        }
    }

    #[test]
    fn who_was_not_looked_at_or_is_no_suspect_is_shown_by_nothing() {
        let guilt = after([0.3, 0.3]);
        assert_eq!(guilt.looked_ln(&"stranger".into()), 0.0);
        assert!(guilt.looked_ln(&"a".into()) < 0.0, "b is guilty");
        let fresh = {
            let mut guilt = Guilt::new(GuiltParams::default());
            guilt.keep(&["a".into(), "b".into()]);
            guilt
        };
        assert!(fresh.looked_ln(&"a".into()).abs() < 1e-9);
        assert!(!fresh.is_shown_by_looks(&"a".into(), &FindingParams::default()));
    }
}
