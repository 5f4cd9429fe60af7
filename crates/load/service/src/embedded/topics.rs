//! Which topics a text is about, the role of Heracles' ml_cluster (H-4): a linear model in memory, as of fastText
//! (Joulin et al., *Bag of Tricks for Efficient Text Classification*, 2016).
//!
//! # What it does
//! Each word, and each pair of neighbours, has a row of a table, found by its hash. The sum of a text's rows is
//! compared with one vector for each topic; the three nearest are told.
//!
//! # Why it is here
//! A text touches two thousand rows, a line of the cache each, all over a table that a shared cache holds and no
//! core's own cache does, and adds up little for each. So its time is that of the cache, and of memory where somebody
//! takes the cache away.
//!
//! # What is made up
//! The model is not trained. Rows are drawn at random; those of words are the shorter the more often the word is used
//! (`COMMON / (COMMON + share)`, Arora et al., *A Simple but Tough-to-Beat Baseline for Sentence Embeddings*, 2017);
//! and a topic's vector is the sum of the rows of its own words, so that a text with many of these is told to be about
//! it. What a trained model would do better is right answers, not fewer rows.

use super::words::word;
use super::zipf::Ranks;
use super::{RequestSource, Service};
use crate::{Draws, LoadError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::ops::Range;

/// The share of all words at which a word counts for half.
const COMMON: f64 = 1e-3;
/// Numbers that are multiplied side by side.
const LANES: usize = 16;
/// So many topics are told.
const TOLD: usize = 3;
/// A text longer than this is cut: the rest would only lengthen one request without bound.
const MOST_WORDS: usize = 10_000;
/// The table and the topics together, at most: 16 GiB.
const MOST_NUMBERS: u64 = 4 << 30;

/// Size of the model and of texts. With the defaults the table is 8 MiB, and a request takes less than a tenth of a
/// millisecond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TopicsParams {
    /// Rows of the table.
    pub rows: u32,
    /// Numbers of a row, four bytes each.
    pub dimensions: u32,
    /// Topics.
    pub topics: u32,
    /// Distinct words.
    pub vocabulary: u32,
    /// Exponent of Zipf's law for words of any topic.
    pub word_exponent: f64,
    /// Words of a text.
    pub words_per_text: u32,
    /// Share of a text's words that are its topic's own.
    pub topical_frac: f64,
    /// Seed of the model.
    pub seed: u64,
}

impl Default for TopicsParams {
    fn default() -> Self {
        Self {
            rows: 131_072,
            dimensions: 16,
            topics: 256,
            vocabulary: 20_000,
            word_exponent: 1.0,
            words_per_text: 1_000,
            topical_frac: 0.5,
            seed: 1,
        }
    }
}

/// The model in memory.
pub struct Topics {
    /// Rows, one after the other.
    table: Vec<f32>,
    /// A vector of length 1 for each topic, one after the other.
    topics: Vec<f32>,
    dimensions: usize,
}

impl Topics {
    /// Draws the model.
    ///
    /// # Errors
    /// A size out of its bounds.
    pub fn build(params: &TopicsParams) -> Result<Self, LoadError> {
        check(params)?;
        let mut rng = ChaCha8Rng::seed_from_u64(params.seed);
        let dimensions = params.dimensions as usize;
        let numbers = params.rows as usize * dimensions;
        let table = (0..numbers).map(|_| rng.random_range(-1.0_f32..1.0)).collect();
        let mut model = Self { table, topics: Vec::new(), dimensions };
        model.shorten_common(params);
        model.topics =
            (0..params.topics).flat_map(|topic| model.vector_of(topic, params)).collect();
        Ok(model)
    }

    /// Shortens the rows of words, the more the more often they are used.
    fn shorten_common(&mut self, params: &TopicsParams) {
        let used = |rank: u32| f64::from(rank + 1).powf(-params.word_exponent);
        let all: f64 = (0..params.vocabulary).map(used).sum();
        for rank in 0..params.vocabulary {
            let left = (COMMON / (COMMON + used(rank) / all)) as f32;
            let row = self.row(hash(word(rank).as_bytes()));
            self.table[row].iter_mut().for_each(|number| *number *= left);
        }
    }

    /// The sum of the rows of a topic's own words, its length 1.
    fn vector_of(&self, topic: u32, params: &TopicsParams) -> Vec<f32> {
        let mut vector = vec![0.0; self.dimensions];
        for rank in own_words(topic, params) {
            self.add_row(hash(word(rank).as_bytes()), &mut vector);
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vector
    }

    /// Where the row of this hash lies in the table.
    fn row(&self, hash: u64) -> Range<usize> {
        let rows = self.table.len() / self.dimensions;
        // The upper half of a product is even over all rows, and needs no division.
        let row = ((u128::from(hash) * rows as u128) >> 64) as usize;
        row * self.dimensions..(row + 1) * self.dimensions
    }

    fn add_row(&self, hash: u64, sum: &mut [f32]) {
        for (sum, number) in sum.iter_mut().zip(&self.table[self.row(hash)]) {
            *sum += number;
        }
    }

    /// The sum of all rows of a text; none if it has no word.
    fn vector(&self, text: &[u8]) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dimensions];
        let mut before = None;
        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for word in words.take(MOST_WORDS) {
            let this = hash(word);
            self.add_row(this, &mut sum);
            if let Some(before) = before {
                self.add_row(pair(before, this), &mut sum);
            }
            before = Some(this);
        }
        before.map(|_| sum)
    }

    /// The nearest topics and how near they are, the nearest first.
    fn nearest(&self, vector: &[f32]) -> Vec<(usize, f32)> {
        let near = |topic: &[f32]| product(topic, vector);
        let mut all: Vec<(usize, f32)> =
            self.topics.chunks_exact(self.dimensions).map(near).enumerate().collect();
        let told = TOLD.min(all.len());
        all.select_nth_unstable_by(told - 1, |a, b| b.1.total_cmp(&a.1));
        all.truncate(told);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

impl Service for Topics {
    /// The request is words with white space between; the response a line `topic nearness` for each of the three
    /// nearest topics, or a line that begins with `error`.
    fn serve(&self, request: &[u8], response: &mut Vec<u8>) {
        let Some(vector) = self.vector(request) else {
            response.extend_from_slice(b"error: a text is one or more words\n");
            return;
        };
        for (topic, nearness) in self.nearest(&vector) {
            // Writing to a Vec cannot fail.
            let _ = writeln!(response, "{topic} {nearness:.3}");
        }
    }
}

/// The scalar product, in as many sums as a processor adds up side by side.
fn product(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// FNV-1a, whose upper bits are mixed once more: rows are chosen by these.
fn hash(word: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mixed(word.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// Of two words in this order.
fn pair(first: u64, second: u64) -> u64 {
    mixed(first.rotate_left(25) ^ second)
}

fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// Ranks of the words that are a topic's own: no other topic has them.
fn own_words(topic: u32, params: &TopicsParams) -> impl Iterator<Item = u32> {
    (topic..params.vocabulary).step_by(params.topics as usize)
}

fn check(params: &TopicsParams) -> Result<(), LoadError> {
    let sizes = [
        ("rows", params.rows, 1, u32::MAX),
        ("dimensions", params.dimensions, 1, 4096),
        ("topics", params.topics, 1, 1 << 20),
        ("vocabulary", params.vocabulary, params.topics, 10_000_000),
        ("words_per_text", params.words_per_text, 1, MOST_WORDS as u32),
    ];
    for (name, value, least, most) in sizes {
        if !(least..=most).contains(&value) {
            return Err(LoadError::option(name, format!("must be {least} to {most}, is {value}")));
        }
    }
    let numbers =
        u64::from(params.dimensions) * (u64::from(params.rows) + u64::from(params.topics));
    if numbers > MOST_NUMBERS {
        let why = format!("rows and topics have {numbers} numbers, {MOST_NUMBERS} at most");
        return Err(LoadError::option("dimensions", why));
    }
    if !(0.0..=1.0).contains(&params.topical_frac) {
        return Err(LoadError::option("topical_frac", "must be 0 to 1"));
    }
    Ok(())
}

/// Texts, each about one topic.
pub(crate) struct Texts {
    ranks: Ranks,
    params: TopicsParams,
}

impl Texts {
    pub(crate) fn new(params: &TopicsParams) -> Result<Self, LoadError> {
        check(params)?;
        let ranks = Ranks::new("vocabulary", params.vocabulary, params.word_exponent)?;
        Ok(Self { ranks, params: params.clone() })
    }

    /// Appends a text about this topic.
    fn about(&self, topic: u32, rng: &mut ChaCha8Rng, out: &mut Vec<u8>) {
        let own = own_words(topic, &self.params).count() as u32;
        for place in 0..self.params.words_per_text {
            if place > 0 {
                out.push(b' ');
            }
            let rank = match rng.random_bool(self.params.topical_frac) {
                true => topic + rng.random_range(0..own) * self.params.topics,
                false => self.ranks.draw(rng),
            };
            out.extend_from_slice(word(rank).as_bytes());
        }
    }
}

impl RequestSource for Texts {
    /// One costs as much as any other, so nothing of it has to be even.
    fn request(&mut self, draws: &mut Draws, out: &mut Vec<u8>) {
        let topic = draws.rng().random_range(0..self.params.topics);
        self.about(topic, draws.rng(), out);
    }
}

#[cfg(test)]
mod tests;
