//! What the fourth way of drawing adds: programs of a real-time class, whom CPU bandwidth does not hold, so that
//! law `culprit` has somebody to hold by the freezer.

use super::{Drawn, concerns, named, polluters};
use crate::dice::Dice;
use crate::{KnobKind, Site};
use quell_policy::Law;

/// The laws that write there: one writes freezers more than before.
pub(super) fn laws(site: Option<Site>) -> Vec<Law> {
    let mut laws = polluters::laws(site);
    if concerns(site, KnobKind::Freezer) {
        laws.extend([Law::Culprit, Law::Culprit]);
    }
    laws
}

/// Adds it to what was drawn in the manner of the third way.
pub(super) fn add(dice: &mut Dice, mut drawn: Drawn) -> Drawn {
    if drawn.law == Law::Culprit && !dice.one_in(4) {
        let last = drawn.scene.batch.len().saturating_sub(1) as u64;
        let whose = dice.between(0, last) as usize;
        if let Some(batch) = drawn.scene.batch.get_mut(whose) {
            batch.programs.push(named("real-time"));
        }
    }
    drawn
}
