//! Who is forgotten takes along what he was guilty of.
//!
//! What was seen while he was there remains evidence about the others, and he remains its explanation, although
//! nobody asks about him any more. So the hypotheses about the others are those from before, each with the weight of
//! all that differ only in whom they say of those that are gone. To drop the hypotheses that name him instead
//! would leave the harm that he did to whoever was ever held together with him: once a culprit had served its
//! term, an innocent one was limited for what that had done.

use super::super::hypothesis::Hypothesis;
use super::Guilt;
use std::collections::BTreeMap;

impl Guilt {
    /// What is believed of all others once these are gone, by where the hypothesis about the others alone is.
    pub(super) fn without(&self, is_gone: impl Fn(usize) -> bool) -> BTreeMap<usize, Hypothesis> {
        let mut left: BTreeMap<usize, Hypothesis> = BTreeMap::new();
        // Those that name nobody who is gone come before any that would be added to them.
        let (others, gone): (Vec<_>, Vec<_>) = self
            .hypotheses
            .iter()
            .enumerate()
            .partition(|(_, h)| !h.members().iter().any(|m| is_gone(*m)));
        left.extend(others.into_iter().map(|(place, hypothesis)| (place, *hypothesis)));
        for (_, hypothesis) in gone {
            let rest: Vec<usize> =
                hypothesis.members().iter().copied().filter(|m| !is_gone(*m)).collect();
            if let Some(known) = self.place(&rest).and_then(|place| left.get_mut(&place)) {
                known.absorb(hypothesis);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GuiltParams, Measurement};
    use super::*;
    use proptest::prelude::*;
    use quell_types::{Tenant, Time};

    fn tenants(names: &str) -> Vec<Tenant> {
        names.split(' ').map(Tenant::from).collect()
    }

    fn look(held: &str, ln_slowdown: f64) -> Measurement {
        Measurement {
            time: Time(0),
            ln_slowdown,
            variance: 0.02 * 0.02,
            doses_cpus: tenants(held).into_iter().map(|t| (t, 0.5)).collect(),
            experiment: true,
            void_frac: 0.0,
        }
    }

    fn among(suspects: &str, looks: &[(&str, f64)]) -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        guilt.keep(&tenants(suspects));
        looks.iter().for_each(|(held, seen)| guilt.measure(&look(held, *seen)));
        guilt
    }

    fn of(guilt: &Guilt, name: &str) -> f64 {
        guilt.guilt(&name.into())
    }

    #[test]
    fn nobody_is_guilty_of_what_somebody_did_who_is_forgotten() {
        // Each was held together with b, and b alone once: it is b.
        let looks = [("a b", 0.3), ("b c", 0.29), ("b", 0.31), ("a", 0.0)];
        let mut guilt = among("a b c d", &looks);
        assert!(of(&guilt, "b") > 0.99 && of(&guilt, "c") < 0.05, "{}", of(&guilt, "c"));
        guilt.forget(&"b".into());
        for name in ["a", "c", "d"] {
            assert!(of(&guilt, name) < 0.12, "{name}: {}", of(&guilt, name));
        }
        assert!((0.05..0.5).contains(&of(&guilt, "b")), "anew: {}", of(&guilt, "b"));
        // Nor of what one did who is gone.
        let mut gone = among("a b c d", &looks);
        gone.keep(&tenants("a c d"));
        assert!(of(&gone, "a") < 0.05 && of(&gone, "c") < 0.12 && gone.nobody() > 0.6);
    }

    #[test]
    fn who_is_guilty_besides_stays_so_with_the_harm_that_it_does() {
        let looks = [("a", 0.2), ("c", 0.31), ("a c", 0.5), ("b", 0.0)];
        let mut guilt = among("a b c", &looks);
        let before = guilt.belief(&"c".into()).unwrap();
        guilt.forget(&"a".into());
        let after = guilt.belief(&"c".into()).unwrap();
        assert!(
            after.guilt > 0.99 && (after.harm - before.harm).abs() < 0.02,
            "{before:?} {after:?}"
        );
        assert!(of(&guilt, "b") < 0.1);
    }

    proptest! {
        /// Who comes and goes and was in no look changes nothing for anybody else.
        #[test]
        fn guests_leave_no_trace(seen in proptest::collection::vec((0_usize..4, -0.1f64..0.5), 0..8)) {
            let held = ["a", "b", "a b", "b c"];
            let looks: Vec<(&str, f64)> = seen.iter().map(|(at, ln)| (held[*at], *ln)).collect();
            let mut guilt = among("a b c", &looks);
            let before: Vec<_> = ["a", "b", "c"].map(|n| guilt.belief(&n.into()).unwrap()).into();
            let nobody = guilt.nobody();
            guilt.keep(&tenants("a b c guest"));
            guilt.keep(&tenants("a b c"));
            prop_assert!((guilt.nobody() - nobody).abs() < 0.1, "{} {nobody}", guilt.nobody());
            for (name, before) in ["a", "b", "c"].into_iter().zip(before) {
                let after = guilt.belief(&name.into()).unwrap();
                prop_assert!((after.guilt - before.guilt).abs() < 0.1, "{name}: {after:?} {before:?}");
            }
        }
    }
}
