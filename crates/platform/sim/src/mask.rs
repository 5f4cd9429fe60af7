//! Sets of CPUs as bits: what the simulated scheduler looks at millions of times a second.

use quell_types::CpuSet;

const WORDS: usize = 5;
/// The most CPUs that a simulated server may have.
pub const MAX_CPUS: usize = WORDS * 64;

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask([u64; WORDS]);

impl Mask {
    pub(crate) fn insert(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    pub(crate) fn remove(&mut self, cpu: usize) {
        self.0[cpu / 64] &= !(1 << (cpu % 64));
    }

    pub(crate) fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    pub(crate) fn and(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// How many there are; beyond `most` it is not counted on.
    pub(crate) fn len_up_to(&self, most: usize) -> usize {
        let mut len = 0;
        for word in self.0 {
            if len >= most {
                break;
            }
            len += word.count_ones() as usize;
        }
        len.min(most)
    }

    pub(crate) fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|w| *w != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (mut word, mut at) = (self.0[0], 0);
        std::iter::from_fn(move || {
            while word == 0 {
                at += 1;
                word = *self.0.get(at)?;
            }
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            Some(at * 64 + bit)
        })
    }
}

impl FromIterator<usize> for Mask {
    fn from_iter<T: IntoIterator<Item = usize>>(cpus: T) -> Self {
        let mut mask = Mask::default();
        cpus.into_iter().for_each(|cpu| mask.insert(cpu));
        mask
    }
}

impl From<&CpuSet> for Mask {
    fn from(set: &CpuSet) -> Self {
        set.iter().map(|cpu| cpu as usize).filter(|cpu| *cpu < MAX_CPUS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_holds_what_was_put_in() {
        let set: CpuSet = "0,63-65,319".parse().unwrap();
        let mut mask = Mask::from(&set);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [0, 63, 64, 65, 319]);
        mask.remove(0);
        assert_eq!(mask.first(), Some(63));
        assert!(mask.contains(319) && !mask.contains(0) && mask.len_up_to(9) == 4);
        assert_eq!([0, 1, 4].map(|most| mask.len_up_to(most)), [0, 1, 4]);
        assert_eq!(mask.and(&[64usize, 2].into_iter().collect()).first(), Some(64));
        assert_eq!(Mask::default().first(), None);
    }
}
