//! What happens in one episode: drawn from its seed alone.

use crate::dice::Dice;
use crate::{Cell, FaultKind, Site, scenes};
use quell_agent::known_laws;
use quell_config::{Checked, Laws, Raw};
use quell_policy::Law;
use quell_sim::Scene;
use std::sync::OnceLock;

/// Bits of a seed that name the cell at which it aims.
const AIM_BITS: u32 = 10;
/// The bits from here on name the way of drawing.
const DRAWING_BIT: u32 = 48;
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

/// How an episode is drawn from its seed. Seeds of former ways go on meaning what they meant, so
/// that an episode that once broke something is always played as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// Six laws, all services slow.
    First,
    /// All laws; requests are frequent enough for those that look who slows a service.
    AllLaws,
}

impl Drawing {
    /// The present way.
    pub(crate) const NOW: Self = Self::AllLaws;

    fn of(seed: u64) -> Self {
        match seed >> DRAWING_BIT {
            0 => Self::First,
            _ => Self::AllLaws,
        }
    }
}

/// The seed number `number` that aims at a cell, as episodes are drawn at present.
#[must_use]
pub(crate) fn seed_at(number: u64, cell: usize) -> u64 {
    let within = (1 << (DRAWING_BIT - AIM_BITS)) - 1;
    ((Drawing::NOW as u64) << DRAWING_BIT) | ((number & within) << AIM_BITS) | cell as u64
}

fn aim(seed: u64) -> Option<Cell> {
    let cell = seed & ((1 << AIM_BITS) - 1);
    Cell::all().get(cell as usize).copied()
}

impl Plan {
    /// The episode of a seed.
    ///
    /// # Errors
    /// A configuration of the drawing does not check, which would be a mistake in this crate.
    pub(crate) fn new(seed: u64) -> Result<Self, String> {
        let aim = aim(seed);
        let mut dice = Dice::new(seed, 1);
        let site = aim.map(|cell| cell.site);
        let drawn = scenes::draw(&mut dice, seed, site, Drawing::of(seed));
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
            config: check(&drawn.config)?,
            scene: drawn.scene,
            triggers: triggers(&mut dice, aim, length_s),
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

fn triggers(dice: &mut Dice, aim: Option<Cell>, length_s: f64) -> Vec<Trigger> {
    let calm_from = length_s - CALM_S;
    let mut all = Vec::new();
    if let Some(aim) = aim {
        // Some sites are written at the start alone.
        let early = dice.one_in(2) || matches!(aim.site, Site::Reserve);
        let at_s = if early { 0.0 } else { dice.below(calm_from as u64) as f64 };
        if matches!(aim.site, Site::Hold | Site::Free | Site::Recover) {
            let way = [FaultKind::DiskFull, FaultKind::RefusedWrite];
            let kind = way[usize::from(aim.site == Site::Recover)];
            let later_s = at_s.max(dice.between(8, 25) as f64);
            all.push((later_s, Some(Site::Decision), vec![kind]));
        }
        let kinds = match aim.kind {
            FaultKind::Two => two(dice),
            kind => vec![kind],
        };
        all.push((at_s, Some(aim.site), kinds));
        if matches!(aim.site, Site::Restore(_) | Site::JournalReplace) {
            all.push((length_s, Some(aim.site), vec![one(dice)]));
        }
    }
    let mut at_s = 1.0 + dice.below(LONGEST_GAP_S) as f64;
    while at_s < calm_from {
        let kinds = if dice.one_in(6) { two(dice) } else { vec![one(dice)] };
        let sites = Site::all();
        let site = if dice.one_in(3) { dice.pick(&sites).copied() } else { None };
        all.push((at_s, site, kinds));
        at_s += 0.5 + dice.below(LONGEST_GAP_S) as f64;
    }
    // And one while everything is put back.
    if dice.one_in(2) {
        all.push((length_s, None, vec![one(dice)]));
    }
    let number = |(number, (from_s, site, kinds))| Trigger { number, from_s, site, kinds };
    (0..).zip(all).map(number).collect()
}

fn one(dice: &mut Dice) -> FaultKind {
    let all = FaultKind::ALL;
    // The last is "two at once".
    all[dice.below(all.len() as u64 - 1) as usize]
}

fn two(dice: &mut Dice) -> Vec<FaultKind> {
    let first = one(dice);
    loop {
        let second = one(dice);
        if second != first {
            return vec![first, second];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_seed_names_its_way_of_drawing_whatever_the_number_of_the_run() {
        for run in [0, 1, 3, (1 << 14) - 1, 1 << 20] {
            let seed = seed_at(run << 24, 5);
            assert_eq!(Drawing::of(seed), Drawing::NOW, "{run}");
            assert!(seed < 1 << 53, "readers of JSON must not round it");
        }
        assert_eq!(Drawing::of(17_181_611_021), Drawing::First);
    }

    #[test]
    fn all_laws_are_drawn_now_and_those_of_then_from_seeds_of_then() {
        let laws = |first: u64, count: u64| {
            let law = |n| Plan::new(first + n).map(|plan| plan.law.name());
            (0..count).map(law).collect::<Result<std::collections::BTreeSet<_>, _>>().unwrap()
        };
        // Not drawn: laws that slow clocks, which no site of a fault is yet, and the three together.
        let undrawn = [Law::BusLock, Law::Power, Law::Alita];
        assert_eq!(laws(seed_at(1 << 24, 0), 1023).len(), Law::ALL.len() - undrawn.len());
        let former = laws(1 << 34, 1023);
        assert!(!former.contains("parties") && !former.contains("culprit"), "{former:?}");
    }
}
