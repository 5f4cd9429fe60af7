//! Private readers, for the fuzz targets.

use crate::driver::{Answer, Driver, Http, KeyValueMix, Memcached, Redis, Url};
use crate::{embedded, target};

/// The first whole answer of `input`: its length in bytes, whether the server is content, and
/// whether it closes the connection. None if it is not all there; the reason if it is no answer.
pub type Found = Result<Option<(usize, bool, bool)>, &'static str>;

fn first(driver: &impl Driver, input: &[u8]) -> Found {
    let told = |answer: Answer| (answer.length, answer.ok, answer.closes);
    driver.answer(input).map(|answer| answer.map(told)).map_err(|error| error.why)
}

/// The first answer of a web server.
///
/// # Errors
/// It is none.
pub fn http(input: &[u8]) -> Found {
    first(&Http(Url { authority: "localhost".into(), path: "/".into() }), input)
}

/// The first answer of redis.
///
/// # Errors
/// It is none.
pub fn redis(input: &[u8]) -> Found {
    first(&Redis::new(KeyValueMix::default()), input)
}

/// The first answer of memcached.
///
/// # Errors
/// It is none.
pub fn memcached(input: &[u8]) -> Found {
    first(&Memcached::new(KeyValueMix::default()), input)
}

/// Authority and path of a URL.
#[must_use]
pub fn url(text: &str) -> Option<(String, String)> {
    Url::parse(text).ok().map(|url| (url.authority, url.path))
}

/// Keys, bytes of a value and share of writes that follow a server's address.
#[must_use]
pub fn mix(text: &str) -> Option<(u32, u32, f64)> {
    target::mix(text).ok().map(|mix| (mix.keys, mix.value_bytes, mix.set_frac))
}

/// Kind and keys of a request to the embedded store.
#[must_use]
pub fn store_request(request: &[u8]) -> Option<(u8, Vec<u64>)> {
    embedded::store_request(request)
}
