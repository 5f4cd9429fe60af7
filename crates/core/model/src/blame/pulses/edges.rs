//! Whether a victim is slow by turns that are shorter than a sample.
//!
//! Such turns make no moments: all samples are alike. But now and then one begins or ends in the midst of a look,
//! and then its two ends, both with everybody at work, differ by more than chance. One such look in many is enough:
//! chance makes one in some hundreds.

use super::Pulses;
use quell_types::ExperimentTrace;
use std::collections::VecDeque;

/// Looks that are remembered.
const LOOKS: usize = 16;

/// Of the last looks, in which the victim's cost changed while everybody was at work.
#[derive(Clone, Debug, Default)]
pub(super) struct Edges(VecDeque<bool>);

impl Edges {
    fn add(&mut self, changed: bool) {
        self.0.push_back(changed);
        if self.0.len() > LOOKS {
            self.0.pop_front();
        }
    }

    fn any(&self) -> bool {
        self.0.iter().any(|changed| *changed)
    }
}

impl Pulses {
    /// Remembers whether the two ends of a look, of which kind ever, were alike; one of which that cannot be told
    /// is left out.
    pub fn compare_ends(&mut self, trace: &ExperimentTrace) {
        if let Ok(alike) = self.is_alike(trace) {
            self.edges.add(!alike);
        }
    }

    /// Whether the victim was slow by turns within looks of late.
    #[must_use]
    pub fn are_short(&self) -> bool {
        self.edges.any()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_is_remembered_for_so_many_looks() {
        let mut edges = Edges::default();
        assert!(!edges.any());
        edges.add(true);
        (1..LOOKS).for_each(|_| edges.add(false));
        assert!(edges.any());
        edges.add(false);
        assert!(!edges.any());
    }
}
