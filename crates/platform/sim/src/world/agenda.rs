//! What is due when: the next of many moments, kept as a tournament.
//!
//! Every slot holds one moment; each node of a binary tree over the slots holds the earlier one of
//! its two halves. The next moment is then at the root, and a slot that changes costs as many
//! comparisons as the tree is deep, often fewer. Among slots due at one moment the lowest number
//! comes first, so the order never depends on history.

use super::NEVER;

/// One moment to each slot.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    /// Each node beside the other half of its parent: node n is number n % 2 of pair n / 2. The
    /// root is node 1, slots begin at node `first_slot`.
    pairs: Vec<[u64; 2]>,
    first_slot: usize,
    slots: usize,
    /// The root's moment, looked at far more often than all others.
    next: u64,
}

impl Agenda {
    /// So many slots with nothing due.
    pub(super) fn new(slots: usize) -> Self {
        let first_slot = slots.next_power_of_two().max(1);
        Self { pairs: vec![[NEVER; 2]; first_slot], first_slot, slots, next: NEVER }
    }

    /// One more slot, with nothing due.
    pub(super) fn push(&mut self) {
        self.slots += 1;
        if self.slots > self.first_slot {
            let moments: Vec<u64> = (0..self.first_slot).map(|slot| self.at(slot)).collect();
            *self = Self::new(self.slots);
            moments.iter().enumerate().for_each(|(slot, at)| self.set(slot, *at));
        }
    }

    /// The next moment.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// When a slot is due.
    fn at(&self, slot: usize) -> u64 {
        self.earliest(self.first_slot + slot)
    }

    /// The moment of a node.
    fn earliest(&self, node: usize) -> u64 {
        self.pairs[node / 2][node % 2]
    }

    /// Another moment for a slot.
    pub(super) fn set(&mut self, slot: usize, at: u64) {
        let (mut node, mut earliest) = (self.first_slot + slot, at);
        while node > 0 {
            let pair = &mut self.pairs[node / 2];
            if pair[node % 2] == earliest {
                return;
            }
            pair[node % 2] = earliest;
            // The other half of the root's pair is never due.
            earliest = pair[0].min(pair[1]);
            node /= 2;
        }
        self.next = earliest;
    }

    /// The lowest slot from `from` on that is due at a moment.
    #[inline]
    pub(super) fn due(&self, now: u64, from: usize) -> Option<usize> {
        if self.next > now || from >= self.slots { None } else { self.due_from(now, from) }
    }

    fn due_from(&self, now: u64, from: usize) -> Option<usize> {
        let mut node = self.first_slot + from;
        // Up to the first node on the right that holds something due, then down to its left.
        while self.earliest(node) > now {
            while node & 1 == 1 {
                node /= 2;
                if node <= 1 {
                    return None;
                }
            }
            node += 1;
        }
        while node < self.first_slot {
            node = 2 * node + usize::from(self.pairs[node][0] > now);
        }
        Some(node - self.first_slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_answers_as_a_list_would(
            slots in 1usize..70,
            more in 0usize..9,
            changes in proptest::collection::vec((0usize..79, 0u64..50), 0..200),
            now in 0u64..60,
            from in 0usize..79,
        ) {
            let (mut agenda, mut list) = (Agenda::new(slots), vec![NEVER; slots]);
            for (number, (slot, at)) in changes.iter().enumerate() {
                if number % 20 == 19 && list.len() < slots + more {
                    agenda.push();
                    list.push(NEVER);
                }
                let slot = slot % list.len();
                let at = if *at == 0 { NEVER } else { *at };
                agenda.set(slot, at);
                list[slot] = at;
            }
            prop_assert_eq!(agenda.next(), *list.iter().min().unwrap());
            let due = (from..list.len()).find(|s| list[*s] <= now);
            prop_assert_eq!(agenda.due(now, from), due);
            prop_assert!((0..list.len()).all(|s| agenda.at(s) == list[s]));
        }
    }
}
