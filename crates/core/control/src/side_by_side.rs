//! Look-ups in the order of what is looked up in: each knob is compared about once.

use quell_types::Knob;
use std::iter::Peekable;

/// Values by knob, in order, that are looked up in the same order.
pub(crate) struct SideBySide<'a, V: 'a, I: Iterator<Item = (&'a Knob, &'a V)>>(Peekable<I>);

impl<'a, V, I: Iterator<Item = (&'a Knob, &'a V)>> SideBySide<'a, V, I> {
    /// These values, none of which was passed yet.
    pub(crate) fn of(values: I) -> Self {
        Self(values.peekable())
    }

    /// The value of a knob, which comes after all that were looked up before.
    pub(crate) fn at(&mut self, knob: &Knob) -> Option<&'a V> {
        while self.0.next_if(|(other, _)| *other < knob).is_some() {}
        self.0.peek().filter(|(other, _)| *other == knob).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn knobs_are_found_in_order_and_others_are_not() {
        let knob = |cpu: u32| Knob::StayAwake { cpu };
        let map: BTreeMap<Knob, u32> = [1, 3, 4, 9].map(|cpu| (knob(cpu), 10 * cpu)).into();
        let mut values = SideBySide::of(map.iter());
        let found = [0, 1, 1, 2, 4, 8, 9, 10].map(|cpu| values.at(&knob(cpu)).copied());
        assert_eq!(found, [None, Some(10), Some(10), None, Some(40), None, Some(90), None]);
    }
}
