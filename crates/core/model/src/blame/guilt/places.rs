//! Where hypotheses are in their list, by whom they hold guilty.

use super::Guilt;
use quell_types::Tenant;

impl Guilt {
    pub(super) fn weight_against(&self, suspect: usize) -> f64 {
        self.against(suspect).map(|place| self.weights()[place]).sum()
    }

    /// Places of the hypotheses that hold a suspect guilty, rising.
    pub(in super::super) fn against(&self, suspect: usize) -> impl Iterator<Item = usize> + '_ {
        let others = (0..self.suspects.len()).filter(move |other| *other != suspect);
        let pair = move |other: usize| self.place(&[other.min(suspect), other.max(suspect)]);
        std::iter::once(1 + suspect).chain(others.filter_map(pair))
    }

    /// The place of the hypothesis that names just these, who rise; none if it is not thought of.
    pub(super) fn place(&self, members: &[usize]) -> Option<usize> {
        let suspects = self.suspects.len();
        let place = match members {
            [] => 0,
            [one] => 1 + one,
            [a, b] => suspects + a * (2 * suspects - a - 1) / 2 + (b - a),
            _ => return None,
        };
        (place < self.hypotheses.len()).then_some(place)
    }

    pub(in super::super) fn index(&self, suspect: &Tenant) -> Option<usize> {
        self.places.get(suspect).copied()
    }

    /// The same, in whatever order they are.
    pub(super) fn place_of(&self, members: &[usize]) -> Option<usize> {
        let mut rising = members.to_vec();
        rising.sort_unstable();
        self.place(&rising)
    }
}
