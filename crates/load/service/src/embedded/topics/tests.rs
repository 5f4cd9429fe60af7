//! Tests of the classifier of texts: its answers, its texts, its bounds.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

fn small() -> TopicsParams {
    TopicsParams {
        rows: 4096,
        dimensions: 64,
        topics: 20,
        vocabulary: 2_000,
        ..TopicsParams::default()
    }
}

static SMALL: LazyLock<Topics> = LazyLock::new(|| Topics::build(&small()).unwrap());

fn ask(model: &Topics, text: &[u8]) -> String {
    let mut response = Vec::new();
    model.serve(text, &mut response);
    String::from_utf8(response).unwrap()
}

fn first(answer: &str) -> u32 {
    answer.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_text_is_told_to_be_about_its_topic() {
    let (texts, mut rng) = (Texts::new(&small()).unwrap(), ChaCha8Rng::seed_from_u64(3));
    let is_right = |round: u32| {
        let (topic, mut text) = (round % small().topics, Vec::new());
        texts.about(topic, &mut rng, &mut text);
        first(&ask(&SMALL, &text)) == topic
    };
    let right = (0..100).map(is_right).filter(|right| *right).count();
    assert!(right >= 90, "{right} of 100");
}

#[test]
fn the_nearest_come_first() {
    let answer = ask(&SMALL, b"one two three");
    let nearness: Vec<f32> =
        answer.lines().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect();
    assert_eq!(nearness.len(), TOLD);
    assert!(nearness.is_sorted_by(|a, b| a >= b), "{answer}");
    let one_topic = Topics::build(&TopicsParams { topics: 1, ..small() }).unwrap();
    assert_eq!(ask(&one_topic, b"one").lines().count(), 1);
}

#[test]
fn the_order_of_words_tells() {
    let (there, back) = (SMALL.vector(b"a b c").unwrap(), SMALL.vector(b"c b a").unwrap());
    assert_ne!(there, back);
    // One word has no neighbour: its own row and nothing else.
    let mut row = vec![0.0; SMALL.dimensions];
    SMALL.add_row(hash(b"a"), &mut row);
    assert_eq!(SMALL.vector(b" a\n").unwrap(), row);
}

#[test]
fn rows_are_used_evenly() {
    let mut counts = [0_u32; 64];
    for rank in 0..20_000_u32 {
        let hash = pair(hash(word(rank).as_bytes()), hash(word(rank / 3).as_bytes()));
        counts[(hash >> 58) as usize] += 1;
    }
    let mean = 20_000 / 64;
    assert!(counts.iter().all(|count| (mean / 2..mean * 2).contains(count)), "{counts:?}");
}

#[test]
fn topics_share_no_word() {
    let params = small();
    let mut all: Vec<u32> = (0..params.topics).flat_map(|t| own_words(t, &params)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..params.vocabulary).collect::<Vec<_>>());
}

#[test]
fn a_seed_gives_one_model() {
    let other = Topics::build(&TopicsParams { seed: 2, ..small() }).unwrap();
    let again = Topics::build(&small()).unwrap();
    assert_eq!(ask(&SMALL, b"c d"), ask(&again, b"c d"));
    assert_ne!(ask(&SMALL, b"c d"), ask(&other, b"c d"));
}

#[test]
fn texts_have_as_many_words_as_are_asked_for() {
    let params = TopicsParams { words_per_text: 7, ..small() };
    let (mut texts, mut draws) = (Texts::new(&params).unwrap(), Draws::new(1, 0, false));
    let mut text = Vec::new();
    texts.request(&mut draws, &mut text);
    assert_eq!(text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).count(), 7);
}

#[test]
fn sizes_are_checked() {
    for bad in [
        TopicsParams { rows: 0, ..small() },
        TopicsParams { dimensions: 0, ..small() },
        TopicsParams { topics: 2_001, ..small() },
        TopicsParams { words_per_text: 10_001, ..small() },
        TopicsParams { topical_frac: f64::NAN, ..small() },
        TopicsParams { rows: u32::MAX, ..small() },
    ] {
        assert!(matches!(Topics::build(&bad), Err(LoadError::Option { .. })), "{bad:?}");
        assert!(Texts::new(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_text_without_words_is_refused() {
    for empty in [&b""[..], b"  \n "] {
        assert!(ask(&SMALL, empty).starts_with("error"));
    }
}

proptest! {
    #[test]
    fn any_text_is_answered(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut response = Vec::new();
        SMALL.serve(&text, &mut response);
        prop_assert!(!response.is_empty());
    }
}
