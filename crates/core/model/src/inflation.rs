//! Harm without a PMU: CPU time per request with batch running over the same with batch held.
//!
//! # Problem
//! Without cycle and instruction counters there is no CPI. The tail alone cannot tell a
//! neighbour's harm from the service's own load, and a fixed baseline of CPU time per request is
//! worth nothing: host speed drifts, and CPU time per request falls with load (batched wake-ups).
//!
//! # Idea
//! Hold batch for a moment (one chip, ≤ 200 ms) and compare the service's CPU time per request in
//! adjacent chips. Adjacent chips share host speed and load, so what differs is the neighbour. It
//! rises with cache and memory interference, not with queueing. Several experiments are pooled,
//! since one chip holds few requests.
//!
//! What a neighbour does when it runs again after a hold comes back slowly: it has to get a CPU, and to drive out what
//! was read meanwhile. On a machine of two CPUs a third of the harm of who fills a cache was there in the 30 ms after a
//! hold, and seven tenths in the 30 ms after those, while all of it went within 20 ms. So where enough chips come before
//! a hold, the first one after it is not compared: with both of these a fifth of the harm is not seen.
//!
//! # What voids a comparison
//! A changed request mix (bytes per request in or out), unlike rates (batched wake-ups), too few
//! requests, a victim that was not running through the whole chip.
//!
//! Units: seconds of CPU time per request; the result is a ratio, 1 = no harm.

use quell_types::{ChipTrace, ExperimentTrace, Gap, Reading, Tenant};
use std::collections::VecDeque;

/// What makes a comparison good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InflationParams {
    /// Fewest requests on either side.
    pub min_requests: u64,
    /// Largest ratio between the rates of the two sides.
    pub max_rate_ratio: f64,
    /// Largest ratio between the bytes per request of the two sides.
    pub max_mix_ratio: f64,
    /// How many of the latest experiments are pooled.
    pub pooled: usize,
}

impl Default for InflationParams {
    fn default() -> Self {
        Self { min_requests: 40, max_rate_ratio: 1.5, max_mix_ratio: 1.25, pooled: 4 }
    }
}

/// Sums over the chips of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Side {
    seconds: f64,
    pub(crate) cpu_s: f64,
    pub(crate) requests: u64,
    bytes: f64,
}

impl Side {
    /// What one victim did in one chip.
    pub(crate) fn of(victim: &Tenant, chip: &ChipTrace) -> Reading<Self> {
        let missing = || Gap::absent(format!("no trace of {victim}"));
        let cpu = chip.victim_cpu_ns.get(victim).ok_or_else(missing)?.clone()?;
        let requests = chip.victim_requests.get(victim).ok_or_else(missing)?.clone()?;
        Ok(Self {
            seconds: chip.to.since(chip.from).as_secs_f64(),
            cpu_s: cpu as f64 / 1e9,
            requests: requests.requests,
            bytes: requests.bytes_in as f64 + requests.bytes_out as f64,
        })
    }

    fn add(&mut self, other: &Side) {
        self.seconds += other.seconds;
        self.cpu_s += other.cpu_s;
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes += other.bytes;
    }

    pub(crate) fn cpu_per_request(&self) -> f64 {
        self.cpu_s / self.requests as f64
    }

    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    fn bytes_per_request(&self) -> f64 {
        self.bytes / self.requests as f64
    }
}

/// Pools experiments of one victim.
#[derive(Clone, Debug, Default)]
pub struct Inflation {
    past: VecDeque<(Side, Side)>,
}

impl Inflation {
    /// Adds an experiment and answers with the pooled ratio.
    ///
    /// # Errors
    /// A gap that says what voids the comparison.
    pub fn add(
        &mut self,
        victim: &Tenant,
        trace: &ExperimentTrace,
        params: &InflationParams,
    ) -> Reading<f64> {
        self.past.push_back(sides(victim, trace)?);
        while self.past.len() > params.pooled.max(1) {
            self.past.pop_front();
        }
        let (mut running, mut held) = (Side::default(), Side::default());
        for (r, h) in &self.past {
            running.add(r);
            held.add(h);
        }
        ratio(&running, &held, params)
    }

    /// Forgets the past (restart, changed mix, or budgets that changed so much that old
    /// experiments no longer speak of now).
    pub fn reset(&mut self) {
        self.past.clear();
    }
}

/// The ratio from a single experiment.
///
/// # Errors
/// A gap that says what voids the comparison.
pub fn inflation_of(
    victim: &Tenant,
    trace: &ExperimentTrace,
    params: &InflationParams,
) -> Reading<f64> {
    let (running, held) = sides(victim, trace)?;
    ratio(&running, &held, params)
}

pub(crate) fn sides(victim: &Tenant, trace: &ExperimentTrace) -> Reading<(Side, Side)> {
    if let Some(why) = &trace.aborted {
        return Err(Gap::failed(format!("the experiment was cut short: {why}")));
    }
    let (mut running, mut held) = (Side::default(), Side::default());
    for chip in compared(trace) {
        let side = Side::of(victim, chip)?;
        if chip.running { running.add(&side) } else { held.add(&side) }
    }
    Ok((running, held))
}

/// The chips that are compared: all but the first ones in which batch runs again. These count too where fewer chips come
/// before a hold than are held.
pub(crate) fn compared(trace: &ExperimentTrace) -> impl Iterator<Item = &ChipTrace> {
    let chips = &trace.chips;
    let held = chips.iter().filter(|chip| !chip.running).count();
    let before = chips.iter().take_while(|chip| chip.running).count();
    let held_before = [false].into_iter().chain(chips.iter().map(|chip| !chip.running));
    let counts =
        move |held_before: bool, chip: &ChipTrace| before < held || !(held_before && chip.running);
    chips
        .iter()
        .zip(held_before)
        .filter_map(move |(chip, after)| counts(after, chip).then_some(chip))
}

pub(crate) fn ratio(running: &Side, held: &Side, params: &InflationParams) -> Reading<f64> {
    let fewest = running.requests.min(held.requests);
    if fewest < params.min_requests.max(1) || held.cpu_s <= 0.0 {
        return Err(Gap::not_yet(format!("{fewest} requests on the thinner side")));
    }
    if apart(running.rate(), held.rate()) > params.max_rate_ratio {
        return Err(Gap::Ambiguous("the request rate changed between the chips".into()));
    }
    if apart(running.bytes_per_request(), held.bytes_per_request()) > params.max_mix_ratio {
        return Err(Gap::Ambiguous("the request mix changed between the chips".into()));
    }
    Ok(running.cpu_per_request() / held.cpu_per_request())
}

/// How far apart two positive values are, as a ratio ≥ 1.
fn apart(a: f64, b: f64) -> f64 {
    if a <= 0.0 && b <= 0.0 { 1.0 } else { (a / b).max(b / a) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::{RequestReading, Time};
    use std::collections::BTreeMap;

    fn chip(running: bool, cpu_us: u64, requests: u64, bytes: u64) -> ChipTrace {
        let victim = Tenant::from("web");
        let reading = RequestReading {
            requests,
            bytes_in: bytes,
            bytes_out: bytes,
            latency_ns: Err(Gap::not_yet("not traced")),
        };
        ChipTrace {
            from: Time(0),
            to: Time(100_000_000),
            running,
            victim_cpu_ns: BTreeMap::from([(victim.clone(), Ok(cpu_us * 1000))]),
            victim_requests: BTreeMap::from([(victim, Ok(reading))]),
            group_cpu_ns: BTreeMap::new(),
        }
    }

    fn trace(chips: Vec<ChipTrace>) -> ExperimentTrace {
        ExperimentTrace { id: 1, chips, aborted: None }
    }

    fn of(chips: Vec<ChipTrace>) -> Reading<f64> {
        inflation_of(&"web".into(), &trace(chips), &InflationParams::default())
    }

    #[test]
    fn a_neighbour_that_costs_half_as_much_again_shows_as_one_and_a_half() {
        let got = of(vec![chip(true, 15_000, 100, 1000), chip(false, 10_000, 100, 1000)]);
        assert!((got.unwrap() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn the_first_chip_in_which_somebody_runs_again_counts_where_there_is_no_other() {
        // A request costs 300 us beside him, 200 without, and 220 in the chip in which he begins anew.
        let cost = |running: bool, again: bool| match (running, again) {
            (true, false) => 300,
            (true, true) => 220,
            (false, _) => 200,
        };
        let of_code = |code: &[bool]| {
            let held_before = [false].into_iter().chain(code.iter().map(|runs| !runs));
            let chips = code.iter().zip(held_before);
            let chip = |(runs, after): (&bool, bool)| {
                chip(*runs, 100 * cost(*runs, *runs && after), 100, 1000)
            };
            of(chips.map(chip).collect()).unwrap()
        };
        let (run, held) = (true, false);
        for (code, ratio) in [
            (vec![run, run, held, held, run, run], 1.5),
            (vec![run, run, held, held, run], 1.5),
            (vec![run, held, run, held, run], 37.0 / 30.0),
            (vec![run, held, held, run], 1.3),
            (vec![held, held, run, run], 1.3),
        ] {
            assert!((of_code(&code) - ratio).abs() < 1e-9, "{code:?}: {}", of_code(&code));
        }
    }

    #[test]
    fn what_voids_a_comparison() {
        let table = [
            (vec![chip(true, 1, 100, 9), chip(false, 1, 5, 9)], "too few requests"),
            (vec![chip(true, 1, 400, 9), chip(false, 1, 100, 9)], "unlike rates"),
            (vec![chip(true, 1, 100, 9000), chip(false, 1, 100, 1000)], "another mix"),
            (vec![chip(true, 1, 100, 9)], "nothing to compare with"),
        ];
        for (chips, why) in table {
            assert!(of(chips).is_err(), "{why}");
        }
        let mut cut = trace(vec![chip(true, 1, 100, 9), chip(false, 1, 100, 9)]);
        cut.aborted = Some("released".into());
        assert!(inflation_of(&"web".into(), &cut, &InflationParams::default()).is_err());
    }

    #[test]
    fn pooling_lets_thin_experiments_speak_together() {
        let mut pool = Inflation::default();
        let thin = trace(vec![chip(true, 2400, 20, 1000), chip(false, 2000, 20, 1000)]);
        let params = InflationParams::default();
        assert!(pool.add(&"web".into(), &thin, &params).is_err());
        let pooled = pool.add(&"web".into(), &thin, &params).unwrap();
        assert!((pooled - 1.2).abs() < 1e-9);
    }
}
