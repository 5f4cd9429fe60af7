//! The services that Quell brings along, by the names they have on the command line.

use clap::ValueEnum;
use quell_service::{SearchParams, ServiceSpec, StoreParams, TopicsParams};

/// An embedded service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Embedded {
    /// Full-text search.
    Search,
    /// Key-value transactions.
    Store,
    /// What texts are about, by a model in memory.
    Topics,
}

impl Embedded {
    /// What it serves, of the usual size.
    pub(super) fn spec(self) -> ServiceSpec {
        match self {
            Embedded::Search => ServiceSpec::Search(SearchParams::default()),
            Embedded::Store => ServiceSpec::Store(StoreParams::default()),
            Embedded::Topics => ServiceSpec::Topics(TopicsParams::default()),
        }
    }
}
