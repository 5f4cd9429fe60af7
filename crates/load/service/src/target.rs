//! What to drive, and how people write it: `redis://127.0.0.1:6379?keys=100000`.

use crate::LoadError;
use crate::driver::{KeyValueMix, Url};
use crate::embedded::ServiceSpec;
use crate::server::{ServeOptions, ServerLaunch};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// What to drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "target", rename_all = "snake_case")]
pub enum Target {
    /// An embedded service in this very process (L-2, integrated).
    Integrated {
        /// Which.
        spec: ServiceSpec,
        /// Its worker threads; 0 means one a CPU.
        threads: u32,
    },
    /// An embedded service in a process that is started for it and ended with the bench
    /// (L-2, loopback, or networked if namespaces are named).
    Spawned {
        /// The program that becomes the server.
        launch: ServerLaunch,
        /// What it serves, and where.
        serve: ServeOptions,
    },
    /// An embedded service that already listens.
    Served {
        /// Where.
        address: SocketAddr,
        /// Which, with the size it was started with.
        spec: ServiceSpec,
    },
    /// Redis.
    Redis {
        /// Where.
        address: SocketAddr,
        /// What is asked of it.
        mix: KeyValueMix,
    },
    /// memcached.
    Memcached {
        /// Where.
        address: SocketAddr,
        /// What is asked of it.
        mix: KeyValueMix,
    },
    /// Any HTTP/1.1 server, GET with keep-alive.
    Http {
        /// As `http://host:port/path`.
        url: String,
    },
}

impl Target {
    /// In words, for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Target::Integrated { spec, .. } => format!("{} in this process", spec.name()),
            Target::Spawned { serve, .. } => {
                format!("{} in a process of its own", serve.spec.name())
            }
            Target::Served { address, spec } => format!("{} at {address}", spec.name()),
            Target::Redis { address, .. } => format!("redis at {address}"),
            Target::Memcached { address, .. } => format!("memcached at {address}"),
            Target::Http { url } => url.clone(),
        }
    }

    /// Where it listens; none if that is only known once it is started.
    ///
    /// # Errors
    /// A host without an address.
    pub fn address(&self) -> Result<Option<SocketAddr>, LoadError> {
        match self {
            Target::Integrated { .. } | Target::Spawned { .. } => Ok(None),
            Target::Served { address, .. }
            | Target::Redis { address, .. }
            | Target::Memcached { address, .. } => Ok(Some(*address)),
            Target::Http { url } => Url::parse(url)?.address().map(Some),
        }
    }
}

/// A server that somebody else starts, as `redis://HOST:PORT`, `memcached://HOST:PORT` or
/// `http://HOST:PORT/PATH`; what is asked of the first two may follow, as
/// `?keys=100000&value_bytes=1000&set_frac=0.1`.
impl FromStr for Target {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let bad = |why: &str| LoadError::option("target", format!("{text}: {why}"));
        let known = "must begin with redis://, memcached:// or http://";
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad(known))?;
        let key_value = || {
            let (server, asked) = rest.split_once('?').unwrap_or((rest, ""));
            let server = server.trim_end_matches('/');
            let found = server.to_socket_addrs().ok().and_then(|mut found| found.next());
            let address = found.ok_or_else(|| bad("give host and port, as 127.0.0.1:6379"))?;
            Ok((address, mix(asked)?))
        };
        match scheme {
            "redis" => key_value().map(|(address, mix)| Target::Redis { address, mix }),
            "memcached" => key_value().map(|(address, mix)| Target::Memcached { address, mix }),
            "http" => Url::parse(text).map(|_| Target::Http { url: text.to_owned() }),
            _ => Err(bad(known)),
        }
    }
}

/// `keys=…&value_bytes=…&set_frac=…`, each of which may be left out.
pub(crate) fn mix(asked: &str) -> Result<KeyValueMix, LoadError> {
    let mut mix = KeyValueMix::default();
    for part in asked.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let parsed = match name {
            "keys" => value.parse().map(|keys| mix.keys = keys).is_ok(),
            "value_bytes" => value.parse().map(|bytes| mix.value_bytes = bytes).is_ok(),
            "set_frac" => value.parse().map(|frac| mix.set_frac = frac).is_ok(),
            _ => {
                let why = format!("{name}: there are keys, value_bytes, set_frac");
                return Err(LoadError::option("target", why));
            }
        };
        if !parsed {
            return Err(LoadError::option("target", format!("{part}: not a number")));
        }
    }
    mix.check()?;
    Ok(mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn servers_are_written_as_urls() {
        let address = "127.0.0.1:7001".parse().unwrap();
        let mix = KeyValueMix { keys: 5, value_bytes: 1000, ..KeyValueMix::default() };
        let asked = "redis://127.0.0.1:7001/?keys=5&value_bytes=1000";
        assert_eq!(parsed(asked), Target::Redis { address, mix });
        let mix = KeyValueMix::default();
        assert_eq!(parsed("memcached://127.0.0.1:7001"), Target::Memcached { address, mix });
        let web = parsed("http://127.0.0.1:7001/a?b=c");
        assert_eq!(web, Target::Http { url: "http://127.0.0.1:7001/a?b=c".to_owned() });
        assert_eq!(web.address().unwrap(), Some(address));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, why) in [
            ("127.0.0.1:6379", "begin with redis://"),
            ("https://127.0.0.1", "begin with redis://"),
            ("redis://127.0.0.1", "host and port"),
            ("redis://127.0.0.1:1?key=3", "there are keys"),
            ("redis://127.0.0.1:1?keys=x", "not a number"),
            ("redis://127.0.0.1:1?keys=0", "keys"),
            ("redis://127.0.0.1:1?set_frac=2", "set_frac"),
            ("http://", "needs a host"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
