//! "Did you mean …?": the known name nearest to a misspelt one.

/// The candidate with the fewest edits to `word` (a swap of neighbours is one), if these are few
/// for its length; case does not count.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len() / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// ``did you mean `x`?`` for the nearest candidate, else the list of all.
#[must_use]
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, candidates.clone()) {
        Some(found) => format!("did you mean `{found}`?"),
        None => {
            let known: Vec<&str> = candidates.into_iter().collect();
            format!("known here: {}", known.join(", "))
        }
    }
}

/// Optimal string alignment distance.
fn distance(a: &str, b: &str) -> usize {
    let lower = |s: &str| s.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (lower(a), lower(b));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differ = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differ);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_misspelt() {
        let known = ["interval_s", "fast_interval_s", "law", "p99", "p95"];
        for (word, found) in [
            ("intervall_s", Some("interval_s")),
            ("interval", Some("interval_s")),
            ("lwa", Some("law")),
            ("P99", Some("p99")),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known), found, "{word}");
        }
    }

    #[test]
    fn counts_edits() {
        for (a, b, edits) in
            [("", "", 0), ("ab", "ba", 1), ("abc", "", 3), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }
}
