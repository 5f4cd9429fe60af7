//! The corpus: words by Zipf's law, indexed as they are made.

use super::SearchParams;
use crate::embedded::words::word;
use crate::embedded::zipf::Ranks;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::iter::{Empty, Once, once};
use std::str::Chars;
use std::sync::Arc;
use tantivy::indexer::NoMergePolicy;
use tantivy::schema::document::{ReferenceValue, ReferenceValueLeaf};
use tantivy::schema::{Field, Value};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{Document, Index, IndexWriter};

/// More than any corpus here needs, so that everything lands in one segment.
const WRITER_BYTES: usize = 512 << 20;
/// The tokenizer that reads what documents are written in.
pub(super) const TOKENIZER: &str = "ranks";

/// Makes the documents and indexes them. One thread draws the words, one of the engine's indexes them.
pub(super) fn fill(index: &Index, body: Field, params: &SearchParams) -> tantivy::Result<()> {
    let vocabulary: Arc<[String]> = (0..params.vocabulary).map(word).collect();
    index.tokenizers().register(TOKENIZER, Speller { vocabulary, token: Token::default() });
    let ranks = Ranks::new("vocabulary", params.vocabulary, params.word_exponent)
        .map_err(|e| tantivy::TantivyError::InvalidArgument(e.to_string()))?;
    let mut rng = ChaCha8Rng::seed_from_u64(params.seed);
    let mut writer: IndexWriter<Text> = index.writer_with_num_threads(1, WRITER_BYTES)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for _ in 0..params.documents {
        let mut text = String::with_capacity(LETTER_BYTES * params.words_per_document as usize);
        (0..params.words_per_document).for_each(|_| text.extend(letters(ranks.draw(&mut rng))));
        writer.add_document(Text { body, text })?;
    }
    writer.commit()?;
    Ok(())
}

/// One document: two letters for the rank of each of its words, which are spelt only where they are indexed, one after
/// the other in the same place. The engine's own document would be written as JSON in between, and a list of words would
/// be a piece of memory for each; either takes longer than all the rest.
#[derive(Debug)]
struct Text {
    body: Field,
    text: String,
}

impl Document for Text {
    type Value<'a> = &'a Text;
    type FieldsValuesIter<'a> = Once<(Field, &'a Text)>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        once((self.body, self))
    }
}

impl<'a> Value<'a> for &'a Text {
    type ArrayIter = Empty<Self>;
    type ObjectIter = Empty<(&'a str, Self)>;

    fn as_value(&self) -> ReferenceValue<'a, Self> {
        ReferenceValue::Leaf(ReferenceValueLeaf::Str(&self.text))
    }
}

/// Letters there are, as a power of two: with two of them 16 million words can be written.
const LETTER_BITS: u32 = 12;
/// The first, past all that are special.
const FIRST_LETTER: u32 = 0x100;
/// What two of them take.
const LETTER_BYTES: usize = 6;

fn letters(rank: u32) -> [char; 2] {
    let letter = |part: u32| char::from_u32(FIRST_LETTER + part).unwrap_or_default();
    [letter(rank >> LETTER_BITS), letter(rank & ((1 << LETTER_BITS) - 1))]
}

/// The next rank that is written there.
fn read(text: &mut Chars<'_>) -> Option<u32> {
    let mut part = || u32::from(text.next()?).checked_sub(FIRST_LETTER);
    Some(part()? << LETTER_BITS | part()?)
}

/// Reads ranks and spells their words.
#[derive(Clone)]
struct Speller {
    vocabulary: Arc<[String]>,
    token: Token,
}

impl Tokenizer for Speller {
    type TokenStream<'a> = Spelling<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Spelling<'a> {
        self.token.reset();
        let Self { vocabulary, token } = self;
        Spelling { vocabulary, token, text: text.chars() }
    }
}

/// The words of a document, each in the place of the one before.
struct Spelling<'a> {
    vocabulary: &'a [String],
    token: &'a mut Token,
    text: Chars<'a>,
}

impl TokenStream for Spelling<'_> {
    fn advance(&mut self) -> bool {
        let rank = read(&mut self.text);
        let Some(word) = rank.and_then(|rank| self.vocabulary.get(rank as usize)) else {
            return false;
        };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(word);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_read_as_it_was_written() {
        let ranks = [0, 1, 4095, 4096, 19_999, 9_999_999];
        let text: String = ranks.iter().flat_map(|rank| letters(*rank)).collect();
        assert!(text.len() <= LETTER_BYTES * ranks.len());
        let mut chars = text.chars();
        let read: Vec<u32> = std::iter::from_fn(|| read(&mut chars)).collect();
        assert_eq!(read, ranks);
    }
}
