//! Memory traffic of a service as a function of load, cores and ways: the offline model that Heracles
//! wants.
//!
//! **Problem.** What a service moves cannot be told from what batch moves on machines that count only
//! the sum, and by the time that it is seen batch has already grown too far. Heracles looks it up.
//!
//! **Idea.** Alone on the machine the sum is the service's. It is loaded step by step, at each number
//! of cores and cache ways that can be set, and what the memory counters say is written down.
//!
//! ```text
//! for each step (load, cores, ways), there and back again:
//!     set it; let it settle; bytes counted over a window / its length
//! point = median of the looks, with its interval
//! ```
//!
//! There and back, so that what drifts with time is not taken for load. **Units.** Load as a share of
//! the peak rate; bytes per second. **Degradation.** Where nothing counts memory traffic there is no
//! model, and its reason is kept in its place; where cores or ways cannot be set the points have none.
//! **Sources.** H-3 (LC_bw_model = offline table over load, cores, LLC).

use crate::stats::{Estimate, estimate};
use quell_types::Reading;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is set before a look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandwidthStep {
    /// The share of the peak rate.
    pub load_frac: f64,
    /// CPUs of the service; none: as they are.
    pub cores: Option<u32>,
    /// Cache ways of the service; none: as they are.
    pub ways: Option<u32>,
}

/// What a service moves at one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BandwidthPoint {
    /// The share of the peak rate.
    pub load_frac: f64,
    /// CPUs that it had; null if they were not set.
    pub cores: Option<u32>,
    /// Cache ways that it had; null if they were not set.
    pub ways: Option<u32>,
    /// Memory traffic.
    pub bytes_per_s: Estimate,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BandwidthModel {
    /// Requests per second at a load of 1.
    pub peak_qps: f64,
    /// Who counted.
    pub counted_by: String,
    /// By cores, ways and load, rising.
    pub points: Vec<BandwidthPoint>,
}

/// A service on a machine whose memory traffic is counted.
pub trait Rig {
    /// Loads it so, and waits until it has settled.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    fn set(&mut self, step: &BandwidthStep) -> Result<(), String>;

    /// Memory traffic of a window, in bytes per second.
    fn bytes_per_s(&mut self) -> Reading<f64>;

    /// Who counts.
    fn counted_by(&self) -> String;
}

/// All combinations of these; empty lists of cores or ways leave them as they are.
#[must_use]
pub fn bandwidth_steps(loads: &[f64], cores: &[u32], ways: &[u32]) -> Vec<BandwidthStep> {
    let or_none = |list: &[u32]| match list {
        [] => vec![None],
        list => list.iter().copied().map(Some).collect(),
    };
    let mut steps = Vec::new();
    for cores in or_none(cores) {
        for ways in or_none(ways) {
            steps.extend(loads.iter().map(|&load_frac| BandwidthStep { load_frac, cores, ways }));
        }
    }
    steps
}

/// Measures the model; `rounds` looks at each step, at least two.
///
/// # Errors
/// Why there is none: a step cannot be set, or nothing counts.
pub fn bandwidth(
    rig: &mut dyn Rig,
    peak_qps: f64,
    steps: &[BandwidthStep],
    rounds: usize,
) -> Result<BandwidthModel, String> {
    let mut looks = vec![Vec::new(); steps.len()];
    for round in 0..rounds.max(2) {
        let there = 0..steps.len();
        let turns: Vec<usize> =
            if round % 2 == 0 { there.collect() } else { there.rev().collect() };
        for i in turns {
            rig.set(&steps[i])?;
            looks[i].push(rig.bytes_per_s().map_err(|gap| gap.to_string())?);
        }
    }
    let point = |(step, looks): (&BandwidthStep, &Vec<f64>)| {
        let bytes_per_s = estimate(looks).ok_or("no look at a step was a number")?;
        let BandwidthStep { load_frac, cores, ways } = *step;
        Ok(BandwidthPoint { load_frac, cores, ways, bytes_per_s })
    };
    let mut points =
        steps.iter().zip(&looks).map(point).collect::<Result<Vec<BandwidthPoint>, String>>()?;
    let by = |a: &BandwidthPoint, b: &BandwidthPoint| {
        (a.cores, a.ways).cmp(&(b.cores, b.ways)).then(a.load_frac.total_cmp(&b.load_frac))
    };
    points.sort_by(by);
    Ok(BandwidthModel { peak_qps, counted_by: rig.counted_by(), points })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Gap;

    /// 10 GB/s at full load on one core; more ways need less. It drifts upwards with every look.
    struct Made {
        step: BandwidthStep,
        looks: f64,
        counts: bool,
    }

    impl Rig for Made {
        fn set(&mut self, step: &BandwidthStep) -> Result<(), String> {
            self.step = *step;
            Ok(())
        }

        fn bytes_per_s(&mut self) -> Reading<f64> {
            if !self.counts {
                return Err(Gap::absent("no counter"));
            }
            self.looks += 1.0;
            let ways = f64::from(self.step.ways.unwrap_or(1));
            Ok(1e10 * self.step.load_frac / ways + 1e6 * self.looks)
        }

        fn counted_by(&self) -> String {
            "made up".to_owned()
        }
    }

    fn rig(counts: bool) -> Made {
        Made { step: bandwidth_steps(&[0.0], &[], &[])[0], looks: 0.0, counts }
    }

    #[test]
    fn every_step_is_a_point_and_drift_is_not_taken_for_load() {
        let steps = bandwidth_steps(&[0.8, 0.2, 0.5], &[], &[2, 1]);
        let model = bandwidth(&mut rig(true), 1000.0, &steps, 4).unwrap();
        assert_eq!(model.points.len(), 6);
        // Four looks at each of six steps, there and back: each step's mean look is the middle one.
        for point in &model.points {
            let truth = 1e10 * point.load_frac / f64::from(point.ways.unwrap()) + 12.5e6;
            assert!((point.bytes_per_s.value - truth).abs() < 1e-3, "{point:?}");
        }
        let order: Vec<(Option<u32>, f64)> =
            model.points.iter().map(|p| (p.ways, p.load_frac)).collect();
        assert_eq!(order[0], (Some(1), 0.2));
        assert_eq!(order[5], (Some(2), 0.8));
    }

    #[test]
    fn without_a_counter_there_is_a_reason() {
        let steps = bandwidth_steps(&[0.5], &[], &[]);
        let why = bandwidth(&mut rig(false), 1000.0, &steps, 2).unwrap_err();
        assert!(why.contains("no counter"), "{why}");
    }
}
