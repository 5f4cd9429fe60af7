//! Evidence from what was seen: experiments that were played, and use that wandered by itself.
//!
//! How much one look is worth depends on chance: requests differ in cost. Their relative variance
//! is not assumed but learned, from chips of the same kind within one experiment, which should
//! have cost the same.

use super::guilt::Measurement;
use crate::inflation::{InflationParams, Side, compared, ratio, sides};
use quell_types::{ChipTrace, ExperimentTrace, Gap, LogHistogram, Reading, Tenant, Time};
use std::collections::BTreeMap;

/// What of a victim is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// CPU time per request: harm in caches, memory, bus and clock.
    Work,
    /// Latency (its geometric mean): the same, and waiting for a CPU.
    Latency,
}

/// A victim that answered nothing is told apart from one that answered a hundredth no more.
const MOST_LN: f64 = 4.6;

/// How evidence is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureParams {
    /// When the two sides of an experiment may be compared at all.
    pub comparable: InflationParams,
    /// Relative variance of the cost of one request before any was seen: 1 is that of an
    /// exponential distribution.
    pub request_variance: f64,
    /// Weight of that assumption, in pairs of chips.
    pub assumption_pairs: f64,
    /// Standard deviation, in ln, by which a victim's cost drifts from one sample to the next for
    /// reasons of its own (load, host speed). Much, since these reasons are not always independent
    /// of what others use.
    pub drift_sd: f64,
    /// Drift is only looked at where the request rate changed by less than this ratio.
    pub drift_rate_ratio: f64,
    /// Fewest requests in each of the two samples.
    pub drift_requests: f64,
}

impl Default for MeasureParams {
    fn default() -> Self {
        Self {
            comparable: InflationParams { min_requests: 12, ..InflationParams::default() },
            request_variance: 1.0,
            assumption_pairs: 4.0,
            drift_sd: 0.3,
            drift_rate_ratio: 1.15,
            drift_requests: 100.0,
        }
    }
}

/// What each of the two chips showed in which suspects were held; effects are ln of what a request cost while they
/// ran over that while they were held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// In the first chip...
    pub first_ln: f64,
    /// ... and in the one right after it.
    pub second_ln: f64,
    /// Variance of the mean of both.
    pub mean_variance: f64,
    /// Variance of how far they are apart.
    pub apart_variance: f64,
    /// Length of a chip, in seconds.
    pub chip_s: f64,
}

/// One sample of a victim and of all suspects.
#[derive(Clone, Debug, PartialEq)]
struct Moment {
    cost_s: f64,
    requests: f64,
    rate: f64,
    cpus: BTreeMap<Tenant, f64>,
}

/// Makes measurements for one victim.
#[derive(Clone, Debug)]
pub struct Measurer {
    params: MeasureParams,
    victim: Tenant,
    signal: Signal,
    /// Sum of relative variances over pairs of like chips, and how many pairs.
    spread: (f64, f64),
    before: Option<Moment>,
}

impl Measurer {
    /// Begins with what is assumed.
    #[must_use]
    pub fn new(victim: Tenant, signal: Signal, params: MeasureParams) -> Self {
        let pairs = params.assumption_pairs;
        Self {
            spread: (params.request_variance * pairs, pairs),
            params,
            victim,
            signal,
            before: None,
        }
    }

    /// Relative variance of the cost of one request, as far as it is known.
    #[must_use]
    pub fn request_variance(&self) -> f64 {
        self.spread.0 / self.spread.1.max(f64::MIN_POSITIVE)
    }

    /// What an experiment says.
    ///
    /// # Errors
    /// A gap that says what voids it.
    pub fn trace(&mut self, trace: &ExperimentTrace) -> Reading<Measurement> {
        let (running, held) = sides(&self.victim, trace)?;
        self.learn(trace);
        let ln_slowdown = match self.signal {
            Signal::Work => libm::log(ratio(&running, &held, &self.params.comparable)?),
            Signal::Latency => {
                // A victim that is starved answers fewer, and those late.
                let choked = libm::log(held.rate() / running.rate().max(f64::MIN_POSITIVE));
                let late = self.ln_latency(trace, true)? - self.ln_latency(trace, false)?;
                late.max(choked.min(MOST_LN))
            }
        };
        let time = trace.chips.last().map_or(Time(0), |chip| chip.to);
        let doses_cpus = doses(trace);
        if doses_cpus.is_empty() {
            return Err(Gap::absent("no use of CPU is known of those that were held"));
        }
        Ok(Measurement {
            time,
            ln_slowdown,
            variance: self.variance(running.requests as f64, held.requests as f64),
            doses_cpus,
            experiment: true,
            void_frac: 0.0,
        })
    }

    /// What an experiment says chip by chip, in which they were held for two on end; none if it does not tell that.
    #[must_use]
    pub fn steps(&self, trace: &ExperimentTrace) -> Option<Steps> {
        let (running, held) = sides(&self.victim, trace).ok()?;
        ratio(&running, &held, &self.params.comparable).ok()?;
        let begin = trace.chips.iter().position(|chip| !chip.running)?;
        let second = trace.chips.get(begin + 1).filter(|chip| !chip.running)?;
        if trace.chips.iter().filter(|chip| !chip.running).count() != 2 {
            return None;
        }
        let (one_ln, one) = self.ln_cost(&trace.chips[begin])?;
        let (two_ln, two) = self.ln_cost(second)?;
        let running_ln = libm::log(running.cpu_per_request());
        Some(Steps {
            first_ln: running_ln - one_ln,
            second_ln: running_ln - two_ln,
            mean_variance: self.variance(running.requests as f64, one + two),
            apart_variance: self.variance(one, two),
            chip_s: second.to.since(second.from).as_secs_f64(),
        })
    }

    /// What two samples on end say, if anything: who worked more in the second, and did the
    /// victim's requests cost more? Each sample is used once, so that no error counts twice.
    pub fn drift(
        &mut self,
        time: Time,
        (cost_s, rate): (f64, f64),
        interval_s: f64,
        cpus: &BTreeMap<Tenant, f64>,
    ) -> Option<Measurement> {
        let now = Moment { cost_s, requests: rate * interval_s, rate, cpus: cpus.clone() };
        let Some(before) = self.before.take() else {
            self.before = Some(now);
            return None;
        };
        let params = &self.params;
        let few = before.requests.min(now.requests) < params.drift_requests;
        let apart = (before.rate / now.rate).max(now.rate / before.rate);
        let comparable = !few && apart <= params.drift_rate_ratio && cost_s > 0.0;
        if !comparable || before.cost_s <= 0.0 {
            self.before = Some(now);
            return None;
        }
        let more = |(tenant, cpus): (&Tenant, &f64)| {
            let then = before.cpus.get(tenant)?;
            Some((tenant.clone(), cpus - then))
        };
        let chance = self.variance(before.requests, now.requests);
        Some(Measurement {
            time,
            ln_slowdown: libm::log(cost_s / before.cost_s),
            variance: chance + params.drift_sd * params.drift_sd,
            doses_cpus: now.cpus.iter().filter_map(more).collect(),
            experiment: false,
            void_frac: 0.0,
        })
    }

    /// Forgets the sample before: something other than use changed.
    pub fn interrupt(&mut self) {
        self.before = None;
    }

    /// Variance of ln of the ratio of two costs with so many requests each, by chance alone.
    #[must_use]
    pub fn variance(&self, requests: f64, others: f64) -> f64 {
        self.request_variance() * (1.0 / requests + 1.0 / others)
    }

    /// Chips of the same kind should cost the same: how far they are apart is chance.
    fn learn(&mut self, trace: &ExperimentTrace) {
        const FORGET: f64 = 0.97;
        for running in [true, false] {
            let alike = compared(trace).filter(|chip| chip.running == running);
            let costs: Vec<(f64, f64)> = alike.filter_map(|chip| self.ln_cost(chip)).collect();
            for pair in costs.windows(2) {
                let [(a, requests_a), (b, requests_b)] = pair else { continue };
                let chance = 1.0 / requests_a + 1.0 / requests_b;
                let (sum, pairs) = self.spread;
                self.spread = (sum * FORGET + (a - b) * (a - b) / chance, pairs * FORGET + 1.0);
            }
        }
    }

    fn ln_cost(&self, chip: &ChipTrace) -> Option<(f64, f64)> {
        let side = Side::of(&self.victim, chip).ok()?;
        let counts = side.requests > 0 && side.cpu_per_request() > 0.0;
        let ln_cost = match self.signal {
            Signal::Work => libm::log(side.cpu_per_request()),
            Signal::Latency => mean_ln(&self.latency(chip).ok()?)?,
        };
        counts.then_some((ln_cost, side.requests as f64))
    }

    fn latency(&self, chip: &ChipTrace) -> Reading<LogHistogram> {
        let missing = || Gap::absent(format!("no trace of {}", self.victim));
        let requests = chip.victim_requests.get(&self.victim).ok_or_else(missing)?;
        requests.clone()?.latency_ns
    }

    /// ln of the latency over all chips of one kind.
    fn ln_latency(&self, trace: &ExperimentTrace, running: bool) -> Reading<f64> {
        let mut all = LogHistogram::new();
        for chip in compared(trace).filter(|chip| chip.running == running) {
            all.merge(&self.latency(chip)?);
        }
        mean_ln(&all).ok_or_else(|| Gap::not_yet("no latency was seen"))
    }
}

/// Mean of ln of what was recorded, up to a constant that is the same for all histograms.
fn mean_ln(histogram: &LogHistogram) -> Option<f64> {
    let ln = |(slot, count): (usize, &u64)| {
        let value = LogHistogram::lower_bound(slot).max(1) as f64;
        *count as f64 * libm::log(value)
    };
    let used = histogram.counts().iter().enumerate().filter(|(_, count)| **count > 0);
    let sum: f64 = used.map(ln).sum();
    (histogram.count() > 0).then(|| sum / histogram.count() as f64)
}

/// CPUs that each shifted group used more while it ran than while it was held.
#[must_use]
pub fn doses(trace: &ExperimentTrace) -> BTreeMap<Tenant, f64> {
    let use_of = |running: bool, tenant: &Tenant| {
        let chips = || compared(trace).filter(|chip| chip.running == running);
        let seconds: f64 = chips().map(|chip| chip.to.since(chip.from).as_secs_f64()).sum();
        let used = chips().filter_map(|chip| chip.group_cpu_ns.get(tenant)?.clone().ok());
        let cpu_s = used.sum::<u64>() as f64 / 1e9;
        (seconds > 0.0).then(|| cpu_s / seconds)
    };
    let groups = trace.chips.first().into_iter().flat_map(|chip| chip.group_cpu_ns.keys());
    let dose = |tenant: &Tenant| Some(use_of(true, tenant)? - use_of(false, tenant)?);
    groups.filter_map(|tenant| Some((tenant.clone(), dose(tenant)?.max(0.0)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::RequestReading;

    fn web() -> Tenant {
        "web".into()
    }

    /// A chip of 100 ms in which the groups used half a CPU each, or nothing.
    fn chip(running: bool, us_per_request: u64, requests: u64) -> ChipTrace {
        let latency_ns = Err(Gap::not_yet("not traced"));
        let reading =
            RequestReading { requests, bytes_in: requests * 100, bytes_out: 0, latency_ns };
        let used = if running { 50_000_000 } else { 0 };
        ChipTrace {
            from: Time(0),
            to: Time(100_000_000),
            running,
            victim_cpu_ns: BTreeMap::from([(web(), Ok(us_per_request * requests * 1000))]),
            victim_requests: BTreeMap::from([(web(), Ok(reading))]),
            group_cpu_ns: ["a", "b"].map(|g| (Tenant::from(g), Ok(used))).into(),
        }
    }

    fn trace(costs: [u64; 4]) -> ExperimentTrace {
        let kinds = [true, false, false, true];
        let chips = kinds.iter().zip(costs).map(|(running, cost)| chip(*running, cost, 100));
        ExperimentTrace { id: 1, chips: chips.collect(), aborted: None }
    }

    #[test]
    fn an_experiment_says_what_all_that_were_held_do_together() {
        let mut measurer = Measurer::new(web(), Signal::Work, MeasureParams::default());
        let seen = measurer.trace(&trace([120, 100, 100, 120])).unwrap();
        assert!((seen.ln_slowdown - libm::log(1.2)).abs() < 1e-9);
        assert!(seen.experiment);
        let doses: Vec<(&str, f64)> =
            seen.doses_cpus.iter().map(|(t, d)| (t.as_str(), *d)).collect();
        assert_eq!(doses, [("a", 0.5), ("b", 0.5)]);
        let mut cut = trace([120, 100, 100, 120]);
        cut.aborted = Some("released".into());
        assert!(measurer.trace(&cut).is_err());
    }

    #[test]
    fn chips_on_end_are_told_one_by_one() {
        let measurer = Measurer::new(web(), Signal::Work, MeasureParams::default());
        let steps = measurer.steps(&trace([150, 120, 100, 150])).unwrap();
        assert!((steps.first_ln - libm::log(1.25)).abs() < 1e-9, "{steps:?}");
        assert!((steps.second_ln - libm::log(1.5)).abs() < 1e-9, "{steps:?}");
        assert!((steps.chip_s - 0.1).abs() < 1e-9);
        assert!(steps.apart_variance > steps.mean_variance);
        let held = |kinds: &[bool]| {
            let chips = kinds.iter().map(|running| chip(*running, 100, 100)).collect();
            measurer.steps(&ExperimentTrace { id: 1, chips, aborted: None })
        };
        assert!(held(&[true, false, false, true]).is_some());
        assert_eq!(held(&[true, false, true, true]), None, "one chip");
        assert_eq!(held(&[true, false, false, false, true]), None, "three");
        assert_eq!(held(&[true, false, false, true, false]), None, "and once more");
        assert_eq!(held(&[true, true]), None);
    }

    #[test]
    fn latency_shows_waiting_that_the_cost_of_requests_does_not() {
        let with_latency = |mut trace: ExperimentTrace| {
            for chip in &mut trace.chips {
                let ns = if chip.running { 3_000_000 } else { 1_000_000 };
                let reading = chip.victim_requests.get_mut(&web()).unwrap().as_mut().unwrap();
                let mut latency = LogHistogram::new();
                latency.record_many(ns, reading.requests);
                reading.latency_ns = Ok(latency);
            }
            trace
        };
        let trace = with_latency(trace([100, 100, 100, 100]));
        let seen = |signal| {
            let mut measurer = Measurer::new(web(), signal, MeasureParams::default());
            measurer.trace(&trace).unwrap().ln_slowdown
        };
        assert!(seen(Signal::Work).abs() < 1e-9);
        assert!((seen(Signal::Latency) - libm::log(3.0)).abs() < 0.1, "{}", seen(Signal::Latency));
    }

    #[test]
    fn chance_is_learned_from_chips_that_should_be_alike() {
        let mut steady = Measurer::new(web(), Signal::Work, MeasureParams::default());
        let mut rough = Measurer::new(web(), Signal::Work, MeasureParams::default());
        for _ in 0..200 {
            steady.trace(&trace([101, 100, 101, 100])).unwrap();
            rough.trace(&trace([130, 90, 110, 100])).unwrap();
        }
        let variances = (steady.request_variance(), rough.request_variance());
        assert!(variances.0 < 0.02 && variances.1 > 1.0, "{variances:?}");
        let of = |m: &mut Measurer| m.trace(&trace([120, 100, 100, 120])).unwrap().variance;
        assert!(of(&mut rough) > 20.0 * of(&mut steady));
    }

    #[test]
    fn drift_is_weak_evidence_and_each_sample_counts_once() {
        let mut measurer = Measurer::new(web(), Signal::Work, MeasureParams::default());
        let cpus = |a: f64| BTreeMap::from([(Tenant::from("a"), a)]);
        let mut seen = Vec::new();
        for (cost_us, rate, a) in
            [(100.0, 1000.0, 0.2), (110.0, 1000.0, 0.6), (100.0, 1000.0, 0.2), (90.0, 500.0, 0.1)]
        {
            seen.push(measurer.drift(Time(1), (cost_us * 1e-6, rate), 1.0, &cpus(a)));
        }
        let [None, Some(drift), None, None] = &seen[..] else { panic!("{seen:?}") };
        assert!((drift.ln_slowdown - libm::log(1.1)).abs() < 1e-9 && !drift.experiment);
        assert!((drift.doses_cpus[&Tenant::from("a")] - 0.4).abs() < 1e-9);
        assert!(drift.variance >= 0.01);
        assert!(measurer.before.is_some(), "the load changed: begin anew from there");
    }
}
