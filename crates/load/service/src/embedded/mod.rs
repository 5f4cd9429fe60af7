//! Latency-critical services that Quell brings along (L-1): a search engine, the role of
//! TailBench's xapian, a transactional key-value store, the role of silo (T-2), and one that sorts texts by
//! topics with a model in memory, the role of Heracles' ml_cluster (H-4).

mod search;
mod store;
mod topics;
mod words;
mod zipf;

pub use search::{Search, SearchParams};
#[cfg(feature = "fuzzing")]
pub(crate) use store::parse as store_request;
pub use store::{Store, StoreParams};
pub use topics::{Topics, TopicsParams};
pub(crate) use zipf::Ranks;

use crate::{Draws, LoadError};
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
    fn request(&mut self, draws: &mut Draws, out: &mut Vec<u8>);
}

/// Which embedded service, and of what size. Client and server must be given the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "service", rename_all = "snake_case")]
pub enum ServiceSpec {
    /// Full-text search.
    Search(SearchParams),
    /// Key-value transactions.
    Store(StoreParams),
    /// What texts are about.
    Topics(TopicsParams),
}

impl ServiceSpec {
    /// The service's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ServiceSpec::Search(_) => "search",
            ServiceSpec::Store(_) => "store",
            ServiceSpec::Topics(_) => "topics",
        }
    }

    /// Fills the service with its data: a second or so.
    pub fn build(&self) -> Result<Arc<dyn Service>, LoadError> {
        Ok(match self {
            ServiceSpec::Search(params) => Arc::new(Search::build(params)?),
            ServiceSpec::Store(params) => Arc::new(Store::build(params)?),
            ServiceSpec::Topics(params) => Arc::new(Topics::build(params)?),
        })
    }

    /// What its clients send.
    pub fn requests(&self) -> Result<Box<dyn RequestSource>, LoadError> {
        Ok(match self {
            ServiceSpec::Search(params) => Box::new(search::Queries::new(params)?),
            ServiceSpec::Store(params) => Box::new(store::Transactions::new(params)?),
            ServiceSpec::Topics(params) => Box::new(topics::Texts::new(params)?),
        })
    }
}
