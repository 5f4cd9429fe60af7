//! Weights of all hypotheses about who hurts one victim.

mod beside;
mod crew;
mod heard;
mod leave;
mod looked;
mod places;
mod sizes;

use super::hypothesis::{Hypothesis, Noisy, Seen};
use crew::Band;
use quell_types::{Tenant, Time};
use sizes::Size;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// What is assumed before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuiltParams {
    /// Probability that nobody is guilty.
    pub nobody_frac: f64,
    /// Of the rest, the share of two at once.
    pub two_frac: f64,
    /// Mean of the harm of a guilty one, in ln for each CPU, or for each [unit](Guilt::size) of more than one.
    pub harm_mean: f64,
    /// Its standard deviation.
    pub harm_sd: f64,
    /// Standard deviation of what an innocent one does all the same, in the same.
    pub innocent_sd: f64,
    /// After so many seconds a third of the evidence is left.
    pub memory_s: f64,
    /// Share of measurements that go wrong.
    pub outlier_frac: f64,
    /// How many times wider those scatter.
    pub outlier_ratio: f64,
    /// Fewer CPUs than this that somebody lost by an experiment tell nothing of it: it does not count as
    /// held. Else who sleeps in looks, and only moves together with harm, would soon have been held enough.
    pub least_dose_cpus: f64,
    /// With more suspects than this two at once are not thought of.
    pub most_for_pairs: usize,
}

impl Default for GuiltParams {
    fn default() -> Self {
        Self {
            nobody_frac: 0.5,
            two_frac: 0.1,
            harm_mean: 0.5,
            harm_sd: 0.4,
            innocent_sd: 0.03,
            memory_s: 300.0,
            outlier_frac: 0.05,
            outlier_ratio: 6.0,
            least_dose_cpus: 0.01,
            most_for_pairs: 100,
        }
    }
}

/// One piece of evidence: `ln_slowdown = sum of dose * harm`, within its variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// When it was taken.
    pub time: Time,
    /// ln of the victim's cost with the doses over its cost without.
    pub ln_slowdown: f64,
    /// Variance of that by chance alone.
    pub variance: f64,
    /// CPUs by which each suspect worked more on the one side than on the other.
    pub doses_cpus: BTreeMap<Tenant, f64>,
    /// Whether it was made on purpose: then it can name somebody.
    pub experiment: bool,
    /// Probability that what it was made for was over by then, so that nobody could show in it.
    pub void_frac: f64,
}

/// What is believed of one suspect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Probability that it is guilty.
    pub guilt: f64,
    /// Mean of its harm if it is, in ln per CPU.
    pub harm: f64,
    /// Standard deviation of that.
    pub harm_sd: f64,
    /// Experiments in which it was held.
    pub experiments: u32,
}

/// Who is guilty of slowing one victim, as far as it is known.
#[derive(Clone, Debug)]
pub struct Guilt {
    params: GuiltParams,
    suspects: Vec<Tenant>,
    /// Where each is in that list: they are looked up by name far more often than they change.
    places: BTreeMap<Tenant, usize>,
    experiments: Vec<u32>,
    /// One of them that stands for several, if there is one.
    band: Band,
    /// How large each is.
    sizes: Vec<Size>,
    /// Nobody, then each suspect alone, then pairs in the order of their members.
    hypotheses: Vec<Hypothesis>,
    /// Whether anything was measured: else there is nothing that could grow old.
    learned: bool,
    /// Of the hypotheses, summing to 1: reckoned once after they changed, when it is asked for, since asking
    /// about every suspect is what is done most.
    weights: OnceCell<Vec<f64>>,
    /// ln of how many times as likely others' word makes a suspect's guilt, in the suspects' order;
    /// empty where nobody said anything.
    hearsay_ln: Vec<f64>,
    /// The same of what was measured of suspects themselves, without this victim.
    measured_ln: Vec<f64>,
    /// What company tells of each: harm in ln per CPU, and its variance; empty where it tells of nobody.
    company: Vec<Option<(f64, f64)>>,
    /// The share of a harm that looks see, and the most that it may be.
    seen_frac: f64,
    most_seen_frac: f64,
    time: Option<Time>,
}

impl Guilt {
    /// Nothing is known of anybody.
    #[must_use]
    pub fn new(params: GuiltParams) -> Self {
        let mut guilt = Self {
            params,
            suspects: Vec::new(),
            places: BTreeMap::new(),
            experiments: Vec::new(),
            band: Band::default(),
            sizes: Vec::new(),
            hypotheses: Vec::new(),
            learned: false,
            weights: OnceCell::new(),
            hearsay_ln: Vec::new(),
            measured_ln: Vec::new(),
            company: Vec::new(),
            seen_frac: 1.0,
            most_seen_frac: 1.0,
            time: None,
        };
        guilt.hypotheses = guilt.assumed(0);
        guilt
    }

    /// From now on these are the suspects: those that are gone are forgotten, and what they were guilty of is
    /// nobody else's; of new ones nothing is known.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        if self.suspects == suspects {
            return;
        }
        let places: BTreeMap<Tenant, usize> =
            suspects.iter().cloned().enumerate().map(|(at, s)| (s, at)).collect();
        let before: Vec<Option<usize>> = suspects.iter().map(|s| self.index(s)).collect();
        let after: Vec<Option<usize>> =
            self.suspects.iter().map(|s| places.get(s).copied()).collect();
        let mut hypotheses = self.assumed(suspects.len());
        let left = self.without(|m| after[m].is_none());
        for new in &mut hypotheses {
            let old: Vec<usize> = new.members().iter().filter_map(|m| before[*m]).collect();
            if let Some(from) = self.place_of(&old).and_then(|place| left.get(&place)) {
                new.inherit(from, |m| after[m]);
            }
        }
        let seen = |s: &Tenant| self.index(s).map_or(0, |index| self.experiments[index]);
        self.experiments = suspects.iter().map(seen).collect();
        let size = |s: &Tenant| self.index(s).map_or(Size::default(), |index| self.sizes[index]);
        self.sizes = suspects.iter().map(size).collect();
        let moved = |ln: &[f64]| -> Vec<f64> {
            let of = |s: &Tenant| self.index(s).and_then(|index| ln.get(index)).copied();
            let all = suspects.iter().map(|s| of(s).unwrap_or(0.0));
            if ln.is_empty() { Vec::new() } else { all.collect() }
        };
        (self.hearsay_ln, self.measured_ln) = (moved(&self.hearsay_ln), moved(&self.measured_ln));
        self.company.clear();
        self.hypotheses = hypotheses;
        self.suspects = suspects.to_vec();
        self.places = places;
        self.level();
    }

    /// Forgets what is known of one suspect, as when it is another workload than before.
    pub fn forget(&mut self, suspect: &Tenant) {
        let all = self.suspects.clone();
        let others: Vec<Tenant> = all.iter().filter(|s| *s != suspect).cloned().collect();
        self.keep(&others);
        self.keep(&all);
    }

    /// Lets time pass: evidence grows old.
    pub fn fade(&mut self, now: Time) {
        if self.time.is_none_or(|then| then < now) {
            self.grow_old(now);
        }
    }

    fn grow_old(&mut self, now: Time) {
        // A measurement may speak of a moment before the last sample.
        let then = self.time.unwrap_or(now);
        self.time = Some(then.max(now));
        if !self.learned {
            return;
        }
        self.weights.take();
        let share = libm::exp(-now.since(then).as_secs_f64() / self.params.memory_s);
        for hypothesis in &mut self.hypotheses {
            hypothesis.fade(share, &self.params);
        }
    }

    /// Takes in one measurement. Doses of those who are no suspects make it weaker, by what they
    /// could have done.
    pub fn measure(&mut self, measurement: &Measurement) {
        self.grow_old(measurement.time);
        let (doses, strangers) = self.doses(measurement);
        if doses.iter().all(|dose| *dose == 0.0) || !measurement.ln_slowdown.is_finite() {
            return;
        }
        self.learned = true;
        let params = &self.params;
        let innocent = params.innocent_sd * params.innocent_sd;
        let small: f64 = doses.iter().map(|dose| dose * dose * innocent).sum();
        let noise = measurement.variance + small + strangers * params.harm_sd * params.harm_sd;
        let seen = Seen { ln: measurement.ln_slowdown, void_frac: measurement.void_frac };
        let noisy = Noisy::new(seen, noise, params);
        for hypothesis in &mut self.hypotheses {
            hypothesis.measure(&doses, &noisy);
        }
        self.level();
        for (suspect, dose) in doses.into_iter().enumerate().filter(|_| measurement.experiment) {
            let held = self.is_held(suspect, dose, measurement);
            self.experiments[suspect] = self.experiments[suspect].saturating_add(u32::from(held));
        }
    }

    /// What is believed of a suspect; none if it is not one.
    #[must_use]
    pub fn belief(&self, suspect: &Tenant) -> Option<Belief> {
        let index = self.index(suspect)?;
        let (mut guilt, mut mean, mut square) = (0.0, 0.0, 0.0);
        for place in self.against(index) {
            let weight = self.weights()[place];
            let Some((harm, variance)) = self.harm(place, index) else { continue };
            guilt += weight;
            mean += weight * harm;
            square += weight * (harm * harm + variance);
        }
        let scale = guilt.max(f64::MIN_POSITIVE);
        let (harm, square) = (mean / scale, square / scale);
        let unit_cpus = self.sizes[index].unit_cpus();
        let harm_sd = libm::sqrt((square - harm * harm).max(0.0)) / unit_cpus;
        let harm = harm / unit_cpus;
        Some(Belief { guilt, harm, harm_sd, experiments: self.experiments[index] })
    }

    /// Probability that a suspect is guilty; 0 if it is not one.
    #[must_use]
    pub fn guilt(&self, suspect: &Tenant) -> f64 {
        self.index(suspect).map_or(0.0, |index| self.weight_against(index))
    }

    /// In how many experiments a suspect was held that count.
    #[must_use]
    pub fn experiments(&self, suspect: &Tenant) -> u32 {
        self.index(suspect).map_or(0, |index| self.experiments[index])
    }

    /// ln of how many times as likely all that was measured makes a suspect's guilt.
    #[must_use]
    pub fn evidence_ln(&self, suspect: &Tenant) -> f64 {
        let Some(index) = self.index(suspect) else { return 0.0 };
        // There are but three kinds of them.
        let mut last = (f64::NAN, f64::NAN);
        let mut prior = |h: &Hypothesis| {
            if h.prior_ln != last.0 {
                last = (h.prior_ln, libm::exp(h.prior_ln));
            }
            last.1
        };
        let at_first: f64 = self.against(index).map(|place| prior(&self.hypotheses[place])).sum();
        let all: f64 = self.hypotheses.iter().map(&mut prior).sum();
        let now = self.weight_against(index);
        let odds = |guilt: f64, all: f64| guilt / (all - guilt).max(f64::MIN_POSITIVE);
        libm::log(odds(now, 1.0).max(f64::MIN_POSITIVE) / odds(at_first, all))
    }

    /// Probability that a suspect which uses so many CPUs slows the victim by more than this, in
    /// ln. Guilt alone is not enough: a suspect that was held without effect may still be called
    /// guilty of a harm near zero.
    #[must_use]
    pub fn harmful(&self, suspect: &Tenant, cpus: f64, least_ln: f64) -> f64 {
        let Some(index) = self.index(suspect).filter(|_| cpus > 0.0) else { return 0.0 };
        let least = least_ln / self.dose(index, cpus);
        let more = self.against(index).filter_map(|place| {
            Some(self.weights()[place] * self.harm_above(place, index, least)?)
        });
        more.sum()
    }

    /// Probability that nobody is guilty.
    #[must_use]
    pub fn nobody(&self) -> f64 {
        self.weights().first().copied().unwrap_or(1.0)
    }

    /// ln of the slowdown that such doses cause, by all hypotheses together.
    #[must_use]
    pub fn foretell(&self, doses_cpus: &BTreeMap<Tenant, f64>) -> f64 {
        let dose = |(index, s): (usize, &Tenant)| {
            self.part_of(doses_cpus, s).map_or(0.0, |cpus| self.dose(index, cpus))
        };
        let doses: Vec<f64> = self.suspects.iter().enumerate().map(dose).collect();
        let each = self.hypotheses.iter().zip(self.weights());
        let seen: f64 = each.map(|(hypothesis, weight)| weight * hypothesis.foretell(&doses)).sum();
        seen / self.seen_frac
    }

    /// Those of whom something is believed, in a fixed order.
    #[must_use]
    pub fn suspects(&self) -> &[Tenant] {
        &self.suspects
    }

    pub(super) fn hypotheses(&self) -> &[Hypothesis] {
        &self.hypotheses
    }

    /// Weights that sum to 1, in the order of the hypotheses; the first is that of nobody.
    pub(super) fn weights(&self) -> &[f64] {
        self.weights.get_or_init(|| self.weigh())
    }

    fn weigh(&self) -> Vec<f64> {
        let lists = [&self.hearsay_ln, &self.measured_ln];
        let of = |at: usize| lists.iter().filter_map(|ln| ln.get(at)).sum::<f64>();
        let said_ln: Vec<f64> = (0..self.suspects.len()).map(of).collect();
        let said = |h: &Hypothesis| h.members().iter().map(|at| said_ln[*at]).sum::<f64>();
        let ln = |h: &Hypothesis| h.weight_ln + said(h) + self.accused_ln(h);
        let mut weights: Vec<f64> = self.hypotheses.iter().map(|h| libm::exp(ln(h))).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        weights
    }

    /// All hypotheses about so many suspects as they are before any evidence.
    fn assumed(&self, suspects: usize) -> Vec<Hypothesis> {
        let params = &self.params;
        let pairs = if suspects > params.most_for_pairs { 0 } else { count_of_pairs(suspects) };
        let two_frac = if pairs == 0 { 0.0 } else { params.two_frac };
        let somebody = 1.0 - params.nobody_frac;
        let single = libm::log(somebody * (1.0 - two_frac) / suspects.max(1) as f64);
        let pair = libm::log((somebody * two_frac / pairs.max(1) as f64).max(f64::MIN_POSITIVE));
        let mut all = vec![Hypothesis::new(&[], libm::log(params.nobody_frac), params)];
        all.extend((0..suspects).map(|s| Hypothesis::new(&[s], single, params)));
        if pairs > 0 {
            let two = (0..suspects).flat_map(|a| (a + 1..suspects).map(move |b| [a, b]));
            all.extend(two.map(|two| Hypothesis::new(&two, pair, params)));
        }
        all
    }

    /// Doses in order, in units, and the sum of squares of those of strangers.
    fn doses(&self, measurement: &Measurement) -> (Vec<f64>, f64) {
        let lost = &measurement.doses_cpus;
        let dose = |(index, s): (usize, &Tenant)| {
            self.part_of(lost, s).map_or(0.0, |cpus| self.dose(index, cpus))
        };
        let strange = lost.iter().filter(|(tenant, _)| self.index(tenant).is_none());
        let strangers = strange.map(|(_, dose)| dose * dose).sum();
        (self.suspects.iter().enumerate().map(dose).collect(), strangers)
    }

    /// Keeps the greatest weight at 1, so that none leaves the range of numbers.
    fn level(&mut self) {
        let greatest = self.hypotheses.iter().map(|h| h.weight_ln).fold(f64::MIN, f64::max);
        for hypothesis in &mut self.hypotheses {
            hypothesis.weight_ln -= greatest;
        }
        self.weights.take();
    }
}

fn count_of_pairs(suspects: usize) -> usize {
    suspects * suspects.saturating_sub(1) / 2
}

#[cfg(test)]
mod tests;
