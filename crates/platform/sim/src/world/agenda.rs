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
    /// The root is at 1, the slots begin in the middle.
    tree: Vec<u64>,
    slots: usize,
}

impl Agenda {
    /// So many slots with nothing due.
    pub(super) fn new(slots: usize) -> Self {
        Self { tree: vec![NEVER; 2 * slots.next_power_of_two().max(1)], slots }
    }

    /// One more slot, with nothing due.
    pub(super) fn push(&mut self) {
        self.slots += 1;
        let half = self.tree.len() / 2;
        if self.slots > half {
            let moments = self.tree[half..].to_vec();
            *self = Self::new(self.slots);
            moments.iter().enumerate().for_each(|(slot, at)| self.set(slot, *at));
        }
    }

    /// The next moment.
    pub(super) fn next(&self) -> u64 {
        self.tree[1]
    }

    /// When a slot is due.
    #[cfg(test)]
    fn at(&self, slot: usize) -> u64 {
        self.tree[self.tree.len() / 2 + slot]
    }

    /// Another moment for a slot.
    pub(super) fn set(&mut self, slot: usize, at: u64) {
        let mut node = self.tree.len() / 2 + slot;
        if self.tree[node] == at {
            return;
        }
        self.tree[node] = at;
        while node > 1 {
            let earlier = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            if self.tree[node] == earlier {
                return;
            }
            self.tree[node] = earlier;
        }
    }

    /// The lowest slot from `from` on that is due at a moment.
    pub(super) fn due(&self, now: u64, from: usize) -> Option<usize> {
        if self.tree[1] > now {
            return None;
        }
        let half = self.tree.len() / 2;
        let mut node = half + from;
        if from >= self.slots {
            return None;
        }
        // Up to the first node on the right that holds something due, then down to its left.
        while self.tree[node] > now {
            while node & 1 == 1 {
                node /= 2;
                if node <= 1 {
                    return None;
                }
            }
            node += 1;
        }
        while node < half {
            node *= 2;
            if self.tree[node] > now {
                node += 1;
            }
        }
        Some(node - half)
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
