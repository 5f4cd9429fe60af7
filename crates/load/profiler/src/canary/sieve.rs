//! Windows between two looks: kept when the look after them is clean, else put aside. Pure.

use super::Placement;

/// Values that were measured one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sieve {
    clean: Vec<f64>,
    /// Since the last look.
    waiting: Vec<f64>,
    disturbed: Vec<f64>,
}

/// Fewer clean values say less than those that were disturbed.
const LEAST: usize = 2;

impl Sieve {
    /// Takes a value.
    pub(crate) fn push(&mut self, value: f64) {
        self.waiting.push(value);
    }

    /// What a look says of the values since the last one. Gives how many it puts aside.
    pub(crate) fn settle(&mut self, said: Placement) -> usize {
        let count = self.waiting.len();
        if said.disturbs() {
            self.disturbed.append(&mut self.waiting);
            return count;
        }
        self.clean.append(&mut self.waiting);
        0
    }

    /// All but what was put aside.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.clean.iter().chain(&self.waiting).copied().collect()
    }

    /// All values measured so far.
    pub(crate) fn measured(&self) -> usize {
        self.clean.len() + self.waiting.len() + self.disturbed.len()
    }

    /// What counts in the end, and how much of it was disturbed: where hardly anything is clean, what
    /// was put aside counts after all.
    pub(crate) fn end(mut self) -> (Vec<f64>, usize) {
        self.settle(Placement::Unknown);
        if self.clean.len() >= LEAST || self.disturbed.is_empty() {
            return (self.clean, 0);
        }
        let count = self.disturbed.len();
        self.clean.append(&mut self.disturbed);
        (self.clean, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::{Apart, Distant, Together, Unknown};

    fn sieve(parts: &[(&[f64], Placement)]) -> (Sieve, usize) {
        let (mut sieve, mut aside) = (Sieve::default(), 0);
        for (values, said) in parts {
            values.iter().for_each(|value| sieve.push(*value));
            aside += sieve.settle(*said);
        }
        (sieve, aside)
    }

    #[test]
    fn what_counts() {
        for (parts, aside, end) in [
            (vec![(&[1.0, 1.1][..], Apart)], 0, (vec![1.0, 1.1], 0)),
            (vec![(&[1.0, 1.1], Unknown)], 0, (vec![1.0, 1.1], 0)),
            (vec![(&[0.8], Together), (&[1.0, 1.1], Apart)], 1, (vec![1.0, 1.1], 0)),
            (vec![(&[1.0, 1.1], Apart), (&[0.8, 0.7], Together)], 2, (vec![1.0, 1.1], 0)),
            (vec![(&[0.8, 0.7], Together), (&[1.0], Apart)], 2, (vec![1.0, 0.8, 0.7], 2)),
            (vec![(&[1.2], Distant), (&[1.0, 1.1], Apart)], 1, (vec![1.0, 1.1], 0)),
            (vec![(&[0.8], Together)], 1, (vec![0.8], 1)),
            (vec![(&[], Together)], 0, (vec![], 0)),
        ] {
            let (sieve, put_aside) = sieve(&parts);
            assert_eq!((put_aside, sieve.clone().end()), (aside, end), "{parts:?}");
        }
    }

    #[test]
    fn what_waits_counts_until_a_look_says_otherwise() {
        let (mut sieve, _) = sieve(&[(&[1.0], Apart), (&[0.8], Together)]);
        sieve.push(0.9);
        assert_eq!((sieve.values(), sieve.measured()), (vec![1.0, 0.9], 3));
        assert_eq!(sieve.settle(Together), 1);
        assert_eq!(sieve.values(), [1.0]);
    }
}
