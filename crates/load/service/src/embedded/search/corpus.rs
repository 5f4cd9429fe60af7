//! The corpus: words by Zipf's law, indexed as they are made.

use super::SearchParams;
use crate::embedded::words::word;
use crate::embedded::zipf::Ranks;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::iter::{Empty, Once, once};
use std::sync::Arc;
use tantivy::indexer::NoMergePolicy;
use tantivy::schema::document::{ReferenceValue, ReferenceValueLeaf};
use tantivy::schema::{Field, Value};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{Document, Index, IndexWriter};

/// More than any corpus here needs, so that everything lands in one segment.
const WRITER_BYTES: usize = 512 << 20;

/// Makes the documents and indexes them. One thread draws the words, one of the engine's indexes them.
pub(super) fn fill(index: &Index, body: Field, params: &SearchParams) -> tantivy::Result<()> {
    let vocabulary: Arc<[String]> = (0..params.vocabulary).map(word).collect();
    let ranks = Ranks::new("vocabulary", params.vocabulary, params.word_exponent)
        .map_err(|e| tantivy::TantivyError::InvalidArgument(e.to_string()))?;
    let mut rng = ChaCha8Rng::seed_from_u64(params.seed);
    let mut writer: IndexWriter<Text> = index.writer_with_num_threads(1, WRITER_BYTES)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for _ in 0..params.documents {
        let ranks = (0..params.words_per_document).map(|_| ranks.draw(&mut rng)).collect();
        writer.add_document(Text { body, vocabulary: Arc::clone(&vocabulary), ranks })?;
    }
    writer.commit()?;
    Ok(())
}

/// One document. Its words are spelt only where they are indexed, and as they are made no tokenizer has to find them
/// again; the engine's own document would write them as JSON in between, which takes longer than all the rest.
#[derive(Debug)]
struct Text {
    body: Field,
    vocabulary: Arc<[String]>,
    ranks: Vec<u32>,
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
        let spell = |(position, &rank): (usize, &u32)| Token {
            position,
            text: self.vocabulary[rank as usize].clone(),
            ..Token::default()
        };
        let tokens = self.ranks.iter().enumerate().map(spell).collect();
        let text = PreTokenizedString { text: String::new(), tokens };
        ReferenceValue::Leaf(ReferenceValueLeaf::PreTokStr(Box::new(text)))
    }
}
