//! A crew among the suspects ([`Crew`](super::super::Crew)): what its members use and lose is its own.

use super::super::hypothesis::Hypothesis;
use super::{Guilt, Measurement};
use quell_types::Tenant;
use std::collections::BTreeMap;

/// A look was at the crew if so much of it was held.
const HELD_FRAC: f64 = 0.75;
/// Looks fit a crew clearly better than anybody else if they are so many times as likely, in ln.
const CLEARLY_LN: f64 = core::f64::consts::LN_10;

/// A suspect that stands for several.
#[derive(Clone, Debug, Default)]
pub(super) struct Band {
    name: Option<Tenant>,
    members: Vec<Tenant>,
}

impl Guilt {
    /// From now on the suspect of this name stands for these; it is one of those that are [kept](Guilt::keep).
    pub fn band(&mut self, name: Option<Tenant>, members: &[Tenant]) {
        if self.band.name != name {
            self.band = Band { name, members: members.to_vec() };
        }
    }

    /// What a suspect has of what is told of each; of a crew that of its members together.
    pub(super) fn part_of(&self, cpus: &BTreeMap<Tenant, f64>, suspect: &Tenant) -> Option<f64> {
        if self.band.name.as_ref() != Some(suspect) {
            return cpus.get(suspect).copied();
        }
        let each: Vec<f64> =
            self.band.members.iter().filter_map(|m| cpus.get(m).copied()).collect();
        (!each.is_empty()).then(|| each.iter().sum())
    }

    /// Whether this suspect was held in a measurement in which it lost so much.
    pub(super) fn is_held(&self, suspect: usize, dose: f64, measurement: &Measurement) -> bool {
        let lost = dose >= self.params.least_dose_cpus;
        if self.band.name.as_ref() != self.suspects.get(suspect) {
            return lost;
        }
        let members = &self.band.members;
        let held = members.iter().filter(|m| measurement.doses_cpus.contains_key(*m)).count();
        lost && held as f64 >= HELD_FRAC * members.len() as f64
    }

    /// Whether what was measured fits that a suspect is guilty clearly better than that any others are. Of one that
    /// stands for several that is asked: else all would be blamed for what one of them does.
    #[must_use]
    pub fn fits_clearly(&self, suspect: &Tenant) -> bool {
        let Some(index) = self.index(suspect).filter(|_| self.band.name.as_ref() == Some(suspect))
        else {
            return true;
        };
        let best = |of: bool| {
            let all = self.hypotheses.iter().filter(|h| h.members().contains(&index) == of);
            all.map(|h: &Hypothesis| h.weight_ln - h.prior_ln).fold(f64::MIN, f64::max)
        };
        best(true) >= best(false) + CLEARLY_LN
    }
}

#[cfg(test)]
mod tests {
    use super::super::GuiltParams;
    use super::*;
    use quell_types::Time;

    const PARTS: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];

    fn tenants(names: &[&str]) -> Vec<Tenant> {
        names.iter().map(|name| Tenant::from(*name)).collect()
    }

    /// Six of a crew and two others, after looks at these, in which the service was so many times slower, in ln.
    fn after(looks: &[(&[&str], f64)]) -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        let mut all = tenants(&PARTS);
        all.extend(tenants(&["a", "b", "crew"]));
        guilt.band(Some("crew".into()), &tenants(&PARTS));
        guilt.keep(&all);
        for (held, ln_slowdown) in looks {
            guilt.measure(&Measurement {
                time: Time(1),
                ln_slowdown: *ln_slowdown,
                variance: 0.05 * 0.05,
                doses_cpus: tenants(held).into_iter().map(|t| (t, 0.1)).collect(),
                experiment: true,
                void_frac: 0.0,
            });
        }
        guilt
    }

    #[test]
    fn all_who_hurt_together_are_guilty_and_none_of_them_alone() {
        let guilt =
            after(&[(&PARTS, 0.3), (&PARTS[..3], 0.15), (&["p0"], 0.05), (&["a", "b"], 0.0)]);
        let crew = guilt.belief(&"crew".into()).unwrap();
        assert!(crew.guilt > 0.9 && crew.experiments == 1, "{crew:?}");
        assert!((crew.harm - 0.5).abs() < 0.1, "for each CPU: {crew:?}");
        assert!(guilt.guilt(&"p0".into()) < 0.1 && guilt.guilt(&"a".into()) < 0.1);
        assert!(guilt.fits_clearly(&"crew".into()));
        let used = PARTS.map(|part| (part.into(), 0.1)).into();
        assert!((guilt.foretell(&used) - 0.3).abs() < 0.06, "{}", guilt.foretell(&used));
    }

    #[test]
    fn what_one_of_them_does_is_not_blamed_on_all() {
        // Any of its looks could be at a crew of great harm; that at the others shows none.
        let guilt = after(&[(&PARTS, 0.09), (&["p0"], 0.09), (&PARTS[1..], 0.0)]);
        assert!(guilt.guilt(&"crew".into()) < 0.1, "{}", guilt.guilt(&"crew".into()));
        let open = after(&[(&PARTS, 0.09)]);
        assert!(!open.fits_clearly(&"crew".into()), "one may have done it");
    }

    #[test]
    fn of_others_nothing_is_asked() {
        let guilt = after(&[]);
        assert!(guilt.fits_clearly(&"p0".into()));
    }
}
