//! Full-text search over a generated corpus: BM25, top ten, the role of TailBench's xapian.

mod corpus;

use super::words::word;
use super::zipf::Ranks;
use super::{RequestSource, Service};
use crate::{Draws, LoadError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tantivy::collector::{Count, TopDocs};
use tantivy::query::{BooleanQuery, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, ReloadPolicy, Searcher, Term};

const TOP: usize = 10;
/// A query longer than this is cut: the rest would only lengthen one request without bound.
const MAX_TERMS: usize = 16;

/// Size of corpus and queries. With the defaults the index is about 10 MB and a request takes
/// about half a millisecond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchParams {
    /// Documents.
    pub documents: u32,
    /// Words in each.
    pub words_per_document: u32,
    /// Distinct words.
    pub vocabulary: u32,
    /// Exponent of Zipf's law for words of the documents.
    pub word_exponent: f64,
    /// Exponent of Zipf's law for words of the queries; smaller means rarer words.
    pub query_exponent: f64,
    /// Words of a query.
    pub terms: u32,
    /// Seed of the corpus.
    pub seed: u64,
}

impl Default for SearchParams {
    fn default() -> Self {
        Self {
            documents: 80_000,
            words_per_document: 50,
            vocabulary: 20_000,
            word_exponent: 1.0,
            query_exponent: 1.0,
            terms: 8,
            seed: 1,
        }
    }
}

/// The search engine with its index in memory.
pub struct Search {
    searcher: Searcher,
    body: Field,
}

impl Search {
    /// Generates the corpus and indexes it.
    pub fn build(params: &SearchParams) -> Result<Self, LoadError> {
        check(params)?;
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(corpus::TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqs);
        let body =
            schema.add_text_field("body", TextOptions::default().set_indexing_options(indexing));
        let index = Index::create_in_ram(schema.build());
        corpus::fill(&index, body, params).map_err(failed("fill its index"))?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
        let reader: tantivy::IndexReader = reader.map_err(failed("open its index"))?;
        Ok(Self { searcher: reader.searcher(), body })
    }

    /// Size of the index, all of which queries touch sooner or later.
    pub fn index_bytes(&self) -> Result<u64, LoadError> {
        let usage = self.searcher.space_usage().map_err(LoadError::io("measure the index"))?;
        Ok(usage.total().get_bytes())
    }

    fn query(&self, request: &[u8]) -> Option<BooleanQuery> {
        let text = std::str::from_utf8(request).ok()?;
        let term = |word: &str| -> Box<dyn Query> {
            let term = Term::from_field_text(self.body, word);
            Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
        };
        let terms: Vec<_> = text.split_ascii_whitespace().take(MAX_TERMS).map(term).collect();
        (!terms.is_empty()).then(|| BooleanQuery::union(terms))
    }
}

impl Service for Search {
    /// The request is words with spaces between; the response a line `N hits`, then one line
    /// `document score` for each of the best ten, or a line that begins with `error`. Counting the
    /// hits makes the engine walk all postings of a query, so that its work follows from the query
    /// and its memory use from the index, not from lucky cuts.
    fn serve(&self, request: &[u8], response: &mut Vec<u8>) {
        use std::io::Write;
        let Some(query) = self.query(request) else {
            response.extend_from_slice(b"error: a query is one or more words\n");
            return;
        };
        let top = TopDocs::with_limit(TOP).order_by_score();
        // Writing to a Vec cannot fail.
        let _ = match self.searcher.search(&query, &(Count, top)) {
            Ok((hits, best)) => writeln!(response, "{hits} hits").and_then(|()| {
                best.iter()
                    .try_for_each(|(score, at)| writeln!(response, "{} {score:.3}", at.doc_id))
            }),
            Err(error) => writeln!(response, "error: {error}"),
        };
    }
}

fn failed(action: &'static str) -> impl FnOnce(tantivy::TantivyError) -> LoadError {
    move |e| LoadError::Service { service: "search", action, why: e.to_string() }
}

fn check(params: &SearchParams) -> Result<(), LoadError> {
    let sizes = [
        ("documents", params.documents, 10_000_000),
        ("words_per_document", params.words_per_document, 100_000),
        ("vocabulary", params.vocabulary, 10_000_000),
        ("terms", params.terms, MAX_TERMS as u32),
    ];
    for (name, value, most) in sizes {
        if value == 0 || value > most {
            return Err(LoadError::option(name, format!("must be 1 to {most}, is {value}")));
        }
    }
    Ok(())
}

/// Queries of a few words drawn by Zipf's law.
pub(crate) struct Queries {
    ranks: Ranks,
    terms: u32,
}

impl Queries {
    pub(crate) fn new(params: &SearchParams) -> Result<Self, LoadError> {
        check(params)?;
        let ranks = Ranks::new("vocabulary", params.vocabulary, params.query_exponent)?;
        Ok(Self { ranks, terms: params.terms })
    }
}

impl RequestSource for Queries {
    fn request(&mut self, draws: &mut Draws, out: &mut Vec<u8>) {
        for term in 0..self.terms {
            if term > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(word(draws.rank(term as usize, &self.ranks)).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn small() -> SearchParams {
        SearchParams {
            documents: 500,
            words_per_document: 30,
            vocabulary: 400,
            ..SearchParams::default()
        }
    }

    fn ask(search: &Search, query: &str) -> String {
        let mut response = Vec::new();
        search.serve(query.as_bytes(), &mut response);
        String::from_utf8(response).unwrap()
    }

    #[test]
    fn finds_ten_by_falling_score() {
        let answer = ask(&Search::build(&small()).unwrap(), "a b c");
        let hits: u32 = answer.split(' ').next().unwrap().parse().unwrap();
        assert!((100..=500).contains(&hits), "{answer}");
        let scores: Vec<f32> = answer
            .lines()
            .skip(1)
            .map(|line| line.split_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(scores.len(), TOP);
        assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    }

    #[test]
    fn what_was_drawn_is_found() {
        let params = small();
        let ranks = Ranks::new("vocabulary", params.vocabulary, params.word_exponent).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(params.seed);
        let mut drawn = || ranks.draw(&mut rng);
        let text: Vec<Vec<u32>> = (0..params.documents)
            .map(|_| (0..params.words_per_document).map(|_| drawn()).collect())
            .collect();
        let search = Search::build(&params).unwrap();
        for rank in [0, 1, 7, 90, 399] {
            let hits = text.iter().filter(|ranks| ranks.contains(&rank)).count();
            let answer = ask(&search, &word(rank));
            assert!(answer.starts_with(&format!("{hits} hits\n")), "{hits}, {answer}");
        }
    }

    #[test]
    fn even_queries_ask_for_common_words_equally_often_in_each_window() {
        let spread = |is_even| {
            let mut queries = Queries::new(&SearchParams::default()).unwrap();
            let mut draws = Draws::new(1, 0, is_even);
            let mut common = || {
                let mut out = Vec::new();
                queries.request(&mut draws, &mut out);
                out.split(|byte| *byte == b' ').filter(|word| *word == b"a").count()
            };
            let counts: Vec<usize> = (0..50).map(|_| (0..40).map(|_| common()).sum()).collect();
            let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
            let square = |count: &usize| (*count as f64 - mean).powi(2);
            (mean, (counts.iter().map(square).sum::<f64>() / counts.len() as f64).sqrt())
        };
        let ((even, even_spread), (random, random_spread)) = (spread(true), spread(false));
        assert!((even - random).abs() < 2.5, "{even} and {random} in forty queries");
        assert!(even_spread < 0.6 * random_spread, "{even_spread} and {random_spread}");
    }

    #[test]
    fn the_index_grows_with_the_corpus() {
        let bytes = |documents| {
            let search = Search::build(&SearchParams { documents, ..small() }).unwrap();
            search.index_bytes().unwrap()
        };
        assert!(bytes(10_000) > 4 * bytes(1_000));
    }

    #[test]
    fn a_seed_gives_one_corpus() {
        let (a, b) = (Search::build(&small()).unwrap(), Search::build(&small()).unwrap());
        let other = Search::build(&SearchParams { seed: 2, ..small() }).unwrap();
        assert_eq!(ask(&a, "c d"), ask(&b, "c d"));
        assert_ne!(ask(&a, "c d"), ask(&other, "c d"));
    }

    #[test]
    fn senseless_queries_are_answered() {
        let search = Search::build(&small()).unwrap();
        let mut response = Vec::new();
        search.serve(&[0xff, 0xfe], &mut response);
        assert!(response.starts_with(b"error"));
        assert!(ask(&search, "").starts_with("error"));
        assert_eq!(ask(&search, "nosuchword"), "0 hits\n");
    }

    #[test]
    fn sizes_are_checked() {
        for bad in [
            SearchParams { documents: 0, ..small() },
            SearchParams { vocabulary: 0, ..small() },
            SearchParams { terms: 99, ..small() },
        ] {
            assert!(matches!(Search::build(&bad), Err(LoadError::Option { .. })), "{bad:?}");
        }
    }
}
