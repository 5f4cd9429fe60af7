//! Words of made-up languages.

/// The word of a rank: its number in letters, common words shorter, as in languages.
pub(super) fn word(rank: u32) -> String {
    let mut left = rank + 1;
    let mut letters = String::new();
    while left > 0 {
        left -= 1;
        letters.push(char::from(b'a' + (left % 26) as u8));
        left /= 26;
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rank_has_its_own_word() {
        let words: BTreeSet<String> = (0..20_000).map(word).collect();
        assert_eq!(words.len(), 20_000);
        assert_eq!((word(0), word(25), word(26)), ("a".into(), "z".into(), "aa".into()));
    }
}
