//! What is said of suspects without this victim's evidence.

use super::Guilt;
use quell_types::Tenant;
use std::collections::BTreeMap;

impl Guilt {
    /// Others' word about suspects: ln of how many times as likely it makes the guilt of each. It
    /// stands beside what was measured until it is said anew, so nothing of it adds up.
    pub fn hear(&mut self, hearsay_ln: &BTreeMap<Tenant, f64>) {
        let all = self.in_order(hearsay_ln);
        if all != self.hearsay_ln {
            self.hearsay_ln = all;
            self.weights.take();
        }
    }

    /// The same of what was measured of suspects themselves, without this victim: that somebody loads memory
    /// is no word of others', so suspicion may rest on it.
    pub fn heed(&mut self, measured_ln: &BTreeMap<Tenant, f64>) {
        let all = self.in_order(measured_ln);
        if all != self.measured_ln {
            self.measured_ln = all;
            self.weights.take();
        }
    }

    /// In the suspects' order; empty where nothing is said of anybody.
    fn in_order(&self, said_ln: &BTreeMap<Tenant, f64>) -> Vec<f64> {
        let said = |s: &Tenant| said_ln.get(s).copied().unwrap_or(0.0);
        let all: Vec<f64> = self.suspects.iter().map(said).collect();
        if all.iter().all(|ln| *ln == 0.0) { Vec::new() } else { all }
    }

    /// The share of a suspect's guilt that is left without others' word about it; 1 where there is none.
    #[must_use]
    pub fn unheard_frac(&self, suspect: &Tenant) -> f64 {
        let Some(index) = self.index(suspect) else { return 1.0 };
        let Some(ln) = self.hearsay_ln.get(index).filter(|ln| **ln != 0.0) else { return 1.0 };
        let guilt = self.weight_against(index);
        // Every hypothesis that holds it guilty has the same factor, so odds have it too.
        1.0 / (guilt + (1.0 - guilt) * libm::exp(*ln))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blame::GuiltParams;

    fn guilt() -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        guilt.keep(&["a".into(), "b".into()]);
        guilt
    }

    #[test]
    fn both_make_guilt_likelier_and_only_a_word_is_taken_off_suspicion() {
        let said = [("a".into(), 2.0)].into();
        let of = |guilt: &Guilt| guilt.belief(&"a".into()).unwrap().guilt;
        let (mut heard, mut heeded) = (guilt(), guilt());
        heard.hear(&said);
        heeded.heed(&said);
        assert!(of(&heard) > of(&guilt()) && (of(&heard) - of(&heeded)).abs() < 1e-12);
        assert!(heard.unheard_frac(&"a".into()) < 0.5);
        assert_eq!(heeded.unheard_frac(&"a".into()), 1.0);
        // What is said anew takes the place of what was said.
        heeded.heed(&BTreeMap::new());
        assert!((of(&heeded) - of(&guilt())).abs() < 1e-12);
    }

    #[test]
    fn it_moves_with_the_suspects() {
        let mut moved = guilt();
        moved.heed(&[("b".into(), 2.0)].into());
        let before = moved.belief(&"b".into()).unwrap().guilt;
        moved.keep(&["b".into(), "c".into()]);
        assert!((moved.belief(&"b".into()).unwrap().guilt - before).abs() < 1e-9);
        assert!(moved.belief(&"c".into()).unwrap().guilt < before);
    }
}
