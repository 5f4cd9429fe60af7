//! A fleet of nodes, drawn from a table of full simulations (A-E4).
//!
//! # Problem
//! 30,000 nodes for a day are 82 years of machine time: nobody simulates them one by one.
//!
//! # Idea
//! What a polluter does to a victim depends on its kind, on the victim's load and on the law, and
//! soon reaches a steady state. A scenario with the axes `kind`, `load` and `policy` simulates each
//! combination in full; of each, two numbers are kept: the victim's mean latency against that
//! without a polluter, in the first minute of an episode and after it. A node is then a few draws:
//! its load through the day, when polluters turn up, of what kind, for how long. How far the table
//! is from the truth is shown on nodes of that very fleet that are simulated in full, each with its
//! own load, polluter, length and seed.
//!
//! # Units
//! Slowdowns are mean latency over mean latency without a polluter; a node is hurt if one of its
//! episodes slows the victim by more than 5 %.
//!
//! # Pseudo-code
//! ```text
//! table[kind, load, policy] = (slowdown in the first minute, slowdown after it)
//! node: load(h) = middle + swing sin(2 pi (h + phase) / 24); episodes: Poisson in time, exponential
//!       in length, kinds alike
//! episode of D seconds: (first * min(D, 60) + rest * max(D - 60, 0)) / D, at the nearest load
//! ```

use crate::figure::Results;
use crate::play::{Played, play};
use crate::run::{Progress, Work};
use crate::stage::{Stage, stage};
use crate::text::{Point, Scenario, ScenarioErrors, axis_number};
use crate::windows::Window;
use anyhow::{Context, ensure};
use quell_sim::Load;
use std::collections::BTreeMap;

/// The axes that a fleet needs.
pub(crate) const AXES: [&str; 3] = ["kind", "load", "policy"];
/// The kind, and the law, of a node that nothing befalls.
const NONE: &str = "none";
/// Slowed by more than this is hurt.
const HURT: f64 = 1.05;
/// The first part of an episode, in seconds.
const FIRST_S: f64 = 60.0;

/// What a fleet is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fleet {
    pub(crate) nodes: u32,
    pub(crate) hours: f64,
    /// Episodes of polluters on one node in a day.
    pub(crate) episodes_per_day: f64,
    /// Mean length of an episode in seconds.
    pub(crate) episode_s: f64,
    /// Nodes that are simulated in full beside the table.
    pub(crate) checked: u32,
}

/// One visit of a polluter.
#[derive(Clone, Debug, PartialEq)]
struct Episode {
    kind: String,
    /// The victim's load then, 0..1.
    load: f64,
    length_s: f64,
}

/// Slowdowns of a victim: in the first minute of an episode, and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    first: f64,
    rest: f64,
}

impl Cell {
    /// Over the first so many seconds of an episode.
    fn over(self, length_s: f64) -> f64 {
        let first = length_s.min(FIRST_S);
        (self.first * first + self.rest * (length_s - first)) / length_s
    }

    /// Seconds of an episode in which the victim is hurt.
    fn hurt_s(self, length_s: f64) -> f64 {
        let first = length_s.min(FIRST_S);
        let part = |slowdown: f64, seconds: f64| if slowdown > HURT { seconds } else { 0.0 };
        part(self.first, first) + part(self.rest, length_s - first)
    }
}

/// Adds the fleet's figures to the results: those of a law to all points under it.
///
/// # Errors
/// A point or a node cannot be played, or the table has a hole.
pub(crate) fn add(
    fleet: &Fleet,
    scenario: &Scenario,
    (jobs, seed): (usize, u64),
    results: &mut Results,
    progress: Progress<'_>,
) -> anyhow::Result<()> {
    let table = Table::of(results)?;
    let nodes: Vec<Vec<Episode>> =
        (0..fleet.nodes).map(|node| draw(fleet, &table.kinds, seed, node)).collect();
    let sample = checked(fleet, &nodes);
    for policy in table.policies.clone() {
        let (hurt, hours) = table.outcome(fleet, &nodes, &policy)?;
        let work = Work::new(jobs, progress, sample.len());
        let known: &Results = results;
        let found = work.map(&sample, |(node, episode)| {
            let seed = mixed(seed, u64::from(*node) + 1);
            let truth = simulated(scenario, known, episode, &policy, seed);
            truth.with_context(|| format!("node {node} of the fleet"))
        })?;
        let (error, agree) = table.against(&sample, &policy, &found)?;
        for (_, played) in results.points.iter_mut().filter(|(p, _)| p["policy"] == policy) {
            played.put("fleet_hurt_frac", hurt);
            played.put("fleet_hurt_hours", hours);
            played.put("fleet_error_frac", error);
            played.put("fleet_agree_frac", agree);
        }
    }
    Ok(())
}

/// What full simulations say.
struct Table {
    kinds: Vec<String>,
    /// Loads as the axis names them, with their values.
    loads: Vec<(String, f64)>,
    policies: Vec<String>,
    /// By kind, load and policy.
    cells: BTreeMap<(String, String, String), Cell>,
}

impl Table {
    fn of(results: &Results) -> anyhow::Result<Self> {
        let values = |axis: &str| {
            let mut seen: Vec<String> = Vec::new();
            for (point, _) in &results.points {
                if !seen.contains(&point[axis]) {
                    seen.push(point[axis].clone());
                }
            }
            seen
        };
        let kinds: Vec<String> = values("kind").into_iter().filter(|kind| kind != NONE).collect();
        let load = |name: String| axis_number(&name).map(|value| (name, value));
        let loads: Vec<(String, f64)> = values("load").into_iter().filter_map(load).collect();
        ensure!(!kinds.is_empty() && !loads.is_empty(), "the fleet's table is empty");
        let mut table = Self { kinds, loads, policies: values("policy"), cells: BTreeMap::new() };
        for (point, played) in &results.points {
            let [kind, load, policy] = AXES.map(|axis| point[axis].clone());
            if kind == NONE {
                continue;
            }
            let alone = results.at(&point_of(NONE, &load, NONE)).and_then(|p| mean(&p.windows));
            let alone = alone.context("no run without a polluter to compare with")?;
            let cell = cell(played, alone).context("a run of the table answered nothing")?;
            table.cells.insert((kind, load, policy), cell);
        }
        Ok(table)
    }

    /// The name of the load that is nearest.
    fn nearest(&self, load: f64) -> &str {
        let far = |(_, value): &&(String, f64)| (value - load).abs();
        let best = self.loads.iter().min_by(|a, b| far(a).total_cmp(&far(b)));
        best.map_or("", |(name, _)| name)
    }

    fn cell(&self, episode: &Episode, policy: &str) -> anyhow::Result<Cell> {
        let load = self.nearest(episode.load).to_owned();
        let key = (episode.kind.clone(), load, policy.to_owned());
        let found = self.cells.get(&key).copied();
        found.with_context(|| format!("the table has no cell for {key:?}"))
    }

    /// The share of nodes that are hurt, and hurt hours for 1000 nodes.
    fn outcome(
        &self,
        fleet: &Fleet,
        nodes: &[Vec<Episode>],
        policy: &str,
    ) -> anyhow::Result<(f64, f64)> {
        let (mut hurt, mut seconds) = (0.0, 0.0);
        for episodes in nodes {
            let mut is_hurt = false;
            for episode in episodes {
                let cell = self.cell(episode, policy)?;
                is_hurt |= cell.over(episode.length_s) > HURT;
                seconds += cell.hurt_s(episode.length_s);
            }
            hurt += f64::from(u8::from(is_hurt));
        }
        let all = f64::from(fleet.nodes.max(1));
        Ok((hurt / all, seconds / 3600.0 * 1000.0 / all))
    }

    /// Mean error of the table, and the share of nodes of which it rightly says whether they are
    /// hurt, against nodes simulated in full.
    fn against(
        &self,
        sample: &[(u32, Episode)],
        policy: &str,
        found: &[f64],
    ) -> anyhow::Result<(f64, f64)> {
        let (mut error, mut agree) = (0.0, 0.0);
        for ((_, episode), truth) in sample.iter().zip(found) {
            let told = self.cell(episode, policy)?.over(episode.length_s);
            error += (told / truth - 1.0).abs();
            agree += f64::from(u8::from((told > HURT) == (*truth > HURT)));
        }
        let all = sample.len().max(1) as f64;
        Ok((error / all, agree / all))
    }
}

fn point_of(kind: &str, load: &str, policy: &str) -> Point {
    AXES.into_iter().zip([kind, load, policy]).map(|(a, v)| (a.to_owned(), v.to_owned())).collect()
}

/// Mean latency of the first service over these windows, each weighed with its requests.
fn mean<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Option<f64> {
    let (mut sum, mut requests) = (0.0, 0.0);
    for window in windows {
        if let (Some(Some(mean)), Some(qps)) = (window.mean_s.first(), window.qps.first()) {
            sum += mean * qps;
            requests += qps;
        }
    }
    (requests > 0.0).then(|| sum / requests)
}

fn cell(played: &Played, alone_s: f64) -> Option<Cell> {
    let begin_s = played.windows.first()?.end_s - 1.0;
    let early = |w: &&Window| w.end_s - begin_s <= FIRST_S;
    let first = mean(played.windows.iter().filter(early))? / alone_s;
    let rest = mean(played.windows.iter().filter(|w| !early(w))).map_or(first, |s| s / alone_s);
    Some(Cell { first, rest })
}

/// The nodes that are simulated in full, each with its first episode, no longer than the table's
/// runs: those that have one come in the order of their numbers, which are drawn at random anyway.
fn checked(fleet: &Fleet, nodes: &[Vec<Episode>]) -> Vec<(u32, Episode)> {
    let first = |(node, episodes): (u32, &Vec<Episode>)| {
        let mut episode = episodes.first()?.clone();
        episode.length_s = libm::round(episode.length_s.clamp(10.0, 2.0 * FIRST_S));
        Some((node, episode))
    };
    (0..).zip(nodes).filter_map(first).take(fleet.checked as usize).collect()
}

/// The slowdown of one episode, simulated in full with and without its polluter.
fn simulated(
    scenario: &Scenario,
    results: &Results,
    episode: &Episode,
    policy: &str,
    seed: u64,
) -> anyhow::Result<f64> {
    let axis = scenario.axes.iter().find(|axis| axis.name == "load");
    let load = axis.and_then(|axis| axis.values.first()).context("no load")?;
    let run = |kind: &str, policy: &str| -> anyhow::Result<f64> {
        let point = point_of(kind, load, policy);
        let mut stage = stage(scenario, &point, seed)
            .map_err(|errors| ScenarioErrors::new(&scenario.name, errors))?;
        set_load(&mut stage, results, episode)?;
        let played = play(&stage, None, false)?;
        mean(&played.windows).context("no request was answered")
    };
    Ok(run(&episode.kind, policy)? / run(NONE, NONE)?)
}

/// Gives the victim the load of an episode, and the run its length.
fn set_load(stage: &mut Stage, results: &Results, episode: &Episode) -> anyhow::Result<()> {
    let peak = results.points.iter().find_map(|(_, p)| p.services.first()?.peak_qps);
    let peak = peak.context("the victim has no peak rate")?;
    let service = stage.scene.services.first_mut().context("the fleet has no victim")?;
    service.load = Load::Constant(episode.load * peak);
    service.spec.peak_qps = Some(peak);
    stage.timing.span = std::time::Duration::from_secs(episode.length_s as u64);
    Ok(())
}

/// What befalls a node.
fn draw(fleet: &Fleet, kinds: &[String], seed: u64, node: u32) -> Vec<Episode> {
    let mut dice = Dice(mixed(seed, (u64::from(node) << 1) | 1));
    let middle = 0.3 + 0.3 * dice.share();
    let swing = 0.1 + 0.2 * dice.share();
    let phase_h = 24.0 * dice.share();
    let per_hour = fleet.episodes_per_day / 24.0;
    let (mut episodes, mut hour) = (Vec::new(), 0.0);
    loop {
        hour += dice.exponential() / per_hour.max(1e-12);
        if hour >= fleet.hours {
            return episodes;
        }
        let turn = 2.0 * std::f64::consts::PI * (hour + phase_h) / 24.0;
        let load = (middle + swing * libm::sin(turn)).clamp(0.05, 0.9);
        let kind = kinds[(dice.share() * kinds.len() as f64) as usize % kinds.len()].clone();
        let length_s = fleet.episode_s * dice.exponential();
        episodes.push(Episode { kind, load, length_s: length_s.max(1.0) });
        hour += length_s / 3600.0;
    }
}

/// SplitMix64: the same draws everywhere from the same seed (X-8).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of mean 1.
    fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.share())
    }
}

/// A seed of its own for each number.
fn mixed(seed: u64, number: u64) -> u64 {
    Dice(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        Fleet { nodes: 20_000, hours: 24.0, episodes_per_day: 0.1, episode_s: 600.0, checked: 10 }
    }

    #[test]
    fn episodes_come_as_often_as_told_and_last_as_long_and_repeat_with_the_seed() {
        let kinds = ["a".to_owned(), "b".to_owned()];
        let all = |seed| -> Vec<Vec<Episode>> {
            (0..fleet().nodes).map(|node| draw(&fleet(), &kinds, seed, node)).collect()
        };
        let drawn = all(7);
        let episodes: Vec<&Episode> = drawn.iter().flatten().collect();
        let (count, all_nodes) = (episodes.len() as f64, f64::from(fleet().nodes));
        assert!((count / all_nodes - 0.1).abs() < 0.01, "{count}");
        let mean = episodes.iter().map(|e| e.length_s).sum::<f64>() / count;
        assert!((mean / 600.0 - 1.0).abs() < 0.1, "{mean}");
        let of_a = episodes.iter().filter(|e| e.kind == "a").count() as f64 / count;
        assert!((of_a - 0.5).abs() < 0.05, "{of_a}");
        assert!(episodes.iter().all(|e| (0.05..=0.9).contains(&e.load)));
        assert!(drawn == all(7) && drawn != all(8));
    }

    #[test]
    fn an_episode_is_weighed_by_its_parts() {
        let cell = Cell { first: 1.5, rest: 1.0 };
        for (length_s, over, hurt_s) in [(30.0, 1.5, 30.0), (60.0, 1.5, 60.0), (600.0, 1.05, 60.0)]
        {
            assert!((cell.over(length_s) - over).abs() < 1e-12, "{length_s}");
            assert_eq!(cell.hurt_s(length_s), hurt_s);
        }
    }

    #[test]
    fn nodes_that_are_checked_have_an_episode_of_the_tables_length() {
        let kinds = ["a".to_owned()];
        let nodes: Vec<Vec<Episode>> =
            (0..1000).map(|node| draw(&fleet(), &kinds, 1, node)).collect();
        let sample = checked(&fleet(), &nodes);
        assert_eq!(sample.len(), 10);
        assert!(sample.iter().all(|(_, e)| (10.0..=120.0).contains(&e.length_s)));
        assert!(sample.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
