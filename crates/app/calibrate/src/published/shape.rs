//! The shape of the thesis' figure 4.1 (H-7): the highest load of websearch that keeps its
//! objective, by cores and by last-level cache. No parameter is fitted on it.

use super::heracles::{Room, websearch_tail_s};
use crate::Prediction;

/// Steps of the search for the highest load: to a two-hundredth.
const STEPS: u32 = 8;

/// Nearly linear in cores, saturating early in the cache, never falling.
pub(crate) fn shape() -> Vec<Prediction> {
    let whole = Room { cores_percent: 100, ways: None };
    let Some(target_s) = websearch_tail_s(whole, 1.0) else { return Vec::new() };
    let highest = |room: Room| 100.0 * highest_load(room, target_s);
    let cores = [25, 50, 75].map(|percent| {
        let room = Room { cores_percent: percent, ways: None };
        let what = format!("websearch on {percent} % of the cores: load in % of that on all");
        let share = f64::from(percent);
        prediction(&what, 0.8 * share, Some(1.2 * share), highest(room))
    });
    let by_ways: Vec<(u32, f64)> = [2, 5, 10, 20]
        .map(|ways| (ways, highest(Room { cores_percent: 100, ways: Some(ways) })))
        .to_vec();
    let early = by_ways.iter().find(|(ways, _)| *ways == 5).map_or(f64::NAN, |(_, load)| *load);
    let falls = by_ways.windows(2).map(|w| w[0].1 - w[1].1).fold(0.0, f64::max);
    let mut all = cores.to_vec();
    let what = "websearch with a quarter of the cache: load in % of that with all";
    all.push(prediction(what, 80.0, None, early));
    let what = "websearch with more of the cache: most that the load falls, points";
    all.push(prediction(what, 0.0, Some(1.0), falls));
    all
}

/// The highest load that keeps the objective, as a share of that of the whole machine.
fn highest_load(room: Room, target_s: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.2);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        match websearch_tail_s(room, middle) {
            Some(tail) if tail <= target_s => low = middle,
            _ => high = middle,
        }
    }
    low
}

fn prediction(what: &str, at_least: f64, at_most: Option<f64>, simulated: f64) -> Prediction {
    let held = simulated >= at_least && at_most.is_none_or(|most| simulated <= most);
    Prediction {
        source: "H-7".into(),
        what: what.into(),
        at_least,
        at_most,
        simulated: simulated.is_finite().then_some(simulated),
        held,
    }
}
