//! Latency-critical services that Quell brings along (L-1): a search engine, the role of
//! TailBench's xapian, and a transactional key-value store, the role of silo (T-2).

mod search;
mod store;
mod zipf;

pub use search::{Search, SearchParams};
#[cfg(feature = "fuzzing")]
pub(crate) use store::parse as store_request;
pub use store::{Store, StoreParams};

use crate::LoadError;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A service as TailBench sees it: takes a request, gives a response. Many threads call it.
pub trait Service: Send + Sync {
    /// Appends the response to `request` to `response`. A request that makes no sense gets a
    /// response that says so; nothing panics.
    fn serve(&self, request: &[u8], response: &mut Vec<u8>);
}

/// The requests that a service's clients send.
pub trait RequestSource: Send {
    /// Appends one request to `out`.
    fn request(&mut self, rng: &mut ChaCha8Rng, out: &mut Vec<u8>);
}

/// Which embedded service, and of what size. Client and server must be given the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "service", rename_all = "snake_case")]
pub enum ServiceSpec {
    /// Full-text search.
    Search(SearchParams),
    /// Key-value transactions.
    Store(StoreParams),
}

impl ServiceSpec {
    /// The service's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ServiceSpec::Search(_) => "search",
            ServiceSpec::Store(_) => "store",
        }
    }

    /// Fills the service with its data: a second or so.
    pub fn build(&self) -> Result<Arc<dyn Service>, LoadError> {
        Ok(match self {
            ServiceSpec::Search(params) => Arc::new(Search::build(params)?),
            ServiceSpec::Store(params) => Arc::new(Store::build(params)?),
        })
    }

    /// What its clients send.
    pub fn requests(&self) -> Result<Box<dyn RequestSource>, LoadError> {
        Ok(match self {
            ServiceSpec::Search(params) => Box::new(search::Queries::new(params)?),
            ServiceSpec::Store(params) => Box::new(store::Transactions::new(params)?),
        })
    }
}
