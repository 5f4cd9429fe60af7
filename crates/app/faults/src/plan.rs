//! What happens in one episode: drawn from its seed alone.

use crate::dice::Dice;
use crate::drawing::{Drawing, aim};
use crate::{Cell, FaultKind, Site, scenes};
use quell_agent::known_laws;
use quell_config::{Checked, Laws, Raw};
use quell_policy::Law;
use quell_sim::Scene;
use quell_types::{Knob, Setting, Tenant};
use std::sync::OnceLock;

/// At the end of an episode nothing befalls it for so long, so that everything must come right.
pub(crate) const CALM_S: f64 = 45.0;
/// Longest time between two faults, in seconds.
const LONGEST_GAP_S: u64 = 9;

/// Faults that come about at one write.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    /// Its place in the plan, by which its details are drawn.
    pub(crate) number: u64,
    /// Not before this moment.
    pub(crate) from_s: f64,
    /// At a write of this site; none = at the next of any.
    pub(crate) site: Option<Site>,
    /// One fault, or two at once.
    pub(crate) kinds: Vec<FaultKind>,
}

/// How an episode ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The agent is asked to stop.
    Stop,
    /// It is killed, and `quell restore` puts everything back.
    Kill,
}

/// One episode.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) law: Law,
    /// Laws beside it.
    pub(crate) beside: Vec<Law>,
    /// Whom laws that hold polluters back may hold back.
    pub(crate) limitable: Vec<Tenant>,
    /// How knobs stand before the agent begins, where that is not as the kernel makes them.
    pub(crate) pins: Vec<(Knob, Setting)>,
    pub(crate) config: Checked,
    pub(crate) scene: Scene,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) length_s: f64,
    /// When tasks join the queue.
    pub(crate) tasks_s: Vec<f64>,
    /// When the configuration is read anew.
    pub(crate) reload_s: Option<f64>,
    pub(crate) end: End,
}

impl Plan {
    /// The episode of a seed.
    ///
    /// # Errors
    /// A configuration of the drawing does not check, which would be a mistake in this crate.
    pub(crate) fn new(seed: u64) -> Result<Self, String> {
        let aim = aim(seed);
        let mut dice = Dice::new(seed, 1);
        let way = Drawing::of(seed);
        let drawn = scenes::draw(&mut dice, seed, aim, way);
        let length_s = dice.between(90, 260) as f64;
        let reload_s = dice.one_in(4).then(|| dice.between(20, length_s as u64) as f64);
        // Tasks that shall be stopped must be there when batch goes off.
        let stops = aim.is_some_and(|cell| cell.site == Site::StopTask);
        let tasks = if stops { 8 } else { dice.between(0, 8) };
        let latest = if stops { 10 } else { length_s as u64 / 2 };
        let tasks_s = (0..tasks).map(|_| dice.below(latest) as f64).collect();
        let end = if dice.one_in(3) { End::Kill } else { End::Stop };
        Ok(Self {
            seed,
            law: drawn.law,
            beside: drawn.beside,
            limitable: drawn.limitable,
            pins: drawn.pins,
            config: check(&drawn.config)?,
            scene: drawn.scene,
            triggers: triggers(&mut dice, way, aim, length_s),
            length_s,
            tasks_s,
            reload_s,
            end,
        })
    }
}

fn check(text: &str) -> Result<Checked, String> {
    static LAWS: OnceLock<Laws> = OnceLock::new();
    let laws = LAWS.get_or_init(known_laws);
    Raw::from_toml("quell.toml", text).check(laws).map_err(|errors| format!("{text}\n{errors}"))
}

fn triggers(dice: &mut Dice, way: Drawing, aim: Option<Cell>, length_s: f64) -> Vec<Trigger> {
    let calm_from = length_s - CALM_S;
    let mut all = Vec::new();
    if let Some(aim) = aim {
        // Some sites are written at the start alone.
        let early = dice.one_in(2) || matches!(aim.site, Site::Reserve);
        let at_s = if early { 0.0 } else { dice.below(calm_from as u64) as f64 };
        if matches!(aim.site, Site::Hold | Site::Free | Site::Recover) {
            let ways = [FaultKind::DiskFull, FaultKind::RefusedWrite];
            let kind = ways[usize::from(aim.site == Site::Recover)];
            let later_s = at_s.max(dice.between(8, 25) as f64);
            all.push((later_s, Some(Site::Decision), vec![kind]));
        }
        let kinds = match aim.kind {
            FaultKind::Two => way.two(dice),
            kind => vec![kind],
        };
        all.push((at_s, Some(aim.site), kinds));
        if matches!(aim.site, Site::Restore(_) | Site::JournalReplace) {
            all.push((length_s, Some(aim.site), vec![way.one(dice)]));
        }
    }
    let mut at_s = 1.0 + dice.below(LONGEST_GAP_S) as f64;
    while at_s < calm_from {
        let kinds = if dice.one_in(6) { way.two(dice) } else { vec![way.one(dice)] };
        let sites = way.sites();
        let site = if dice.one_in(3) { dice.pick(&sites).copied() } else { None };
        all.push((at_s, site, kinds));
        at_s += 0.5 + dice.below(LONGEST_GAP_S) as f64;
    }
    // And one while everything is put back.
    if dice.one_in(2) {
        all.push((length_s, None, vec![way.one(dice)]));
    }
    let number = |(number, (from_s, site, kinds))| Trigger { number, from_s, site, kinds };
    (0..).zip(all).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{AIM_BITS, seed_at};

    #[test]
    fn a_seed_names_its_cell_and_every_cell_has_a_plan() {
        for (index, cell) in Cell::all().into_iter().enumerate() {
            let seed = seed_at(7, index);
            assert_eq!(aim(seed), Some(cell));
            let plan = Plan::new(seed).unwrap_or_else(|error| panic!("{cell}: {error}"));
            let aimed = |t: &Trigger| t.site == Some(cell.site);
            assert!(plan.triggers.iter().any(aimed), "{cell}");
            plan.scene.validate().unwrap_or_else(|error| panic!("{cell}: {error}"));
        }
        assert!(Cell::all().len() < 1 << AIM_BITS);
    }

    #[test]
    fn all_laws_are_drawn_now_and_those_of_then_from_seeds_of_then() {
        let laws = |first: u64, count: u64| {
            let law = |n| Plan::new(first + n).map(|plan| plan.law.name());
            (0..count).map(law).collect::<Result<std::collections::BTreeSet<_>, _>>().unwrap()
        };
        assert_eq!(laws(seed_at(1 << 24, 0), 1023).len(), Law::ALL.len());
        let second = laws((1 << 48) | (1 << 34), 1023);
        assert_eq!(second.len(), 10, "{second:?}");
        let first = laws(1 << 34, 1023);
        assert!(!first.contains("parties") && !first.contains("culprit"), "{first:?}");
    }
}
