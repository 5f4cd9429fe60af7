//! Protocols that the generator speaks: what it sends, and where an answer ends.

mod fill;
mod http;
mod memcached;
mod redis;

pub(crate) use fill::fill;
pub(crate) use http::{Http, Url};
pub(crate) use memcached::Memcached;
pub(crate) use redis::Redis;

use crate::embedded::RequestSource;
use crate::{Draws, LoadError, wire};
use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest answer that is taken: memory stays bounded whatever a server sends.
pub(crate) const MAX_ANSWER: usize = 64 << 20;

/// Bytes that are no answer of the protocol; the connection is given up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a {protocol} answer: {why}")]
pub(crate) struct ProtocolError {
    pub(crate) protocol: &'static str,
    pub(crate) why: &'static str,
}

/// A whole answer at the start of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its bytes.
    pub(crate) length: usize,
    /// Whether it says that the request succeeded.
    pub(crate) ok: bool,
    /// Whether the server will close the connection after it.
    pub(crate) closes: bool,
    pub(crate) service_ns: Option<u64>,
    pub(crate) queue_ns: Option<u64>,
}

impl Answer {
    pub(crate) fn plain(length: usize, ok: bool) -> Self {
        Self { length, ok, closes: false, service_ns: None, queue_ns: None }
    }
}

/// One protocol with its stream of requests.
pub(crate) trait Driver: Send {
    /// Appends the next request to `out`.
    fn request(&mut self, id: u64, sent_ns: u64, draws: &mut Draws, out: &mut Vec<u8>);

    /// The answer at the start of `input`; none if it is not all there.
    fn answer(&self, input: &[u8]) -> Result<Option<Answer>, ProtocolError>;
}

/// The embedded services' own protocol.
pub(crate) struct Framed(pub(crate) Box<dyn RequestSource>);

impl Driver for Framed {
    fn request(&mut self, id: u64, sent_ns: u64, draws: &mut Draws, out: &mut Vec<u8>) {
        wire::write_request(out, id, sent_ns, |out| self.0.request(draws, out));
    }

    fn answer(&self, input: &[u8]) -> Result<Option<Answer>, ProtocolError> {
        match wire::read_response(input) {
            Ok(found) => Ok(found.map(|(response, length)| Answer {
                length,
                ok: !response.payload.starts_with(b"error"),
                closes: false,
                service_ns: response.service_ns,
                queue_ns: response.queue_ns,
            })),
            Err(_) => Err(ProtocolError { protocol: "quell", why: "impossible frame length" }),
        }
    }
}

/// A mix of reads and writes on a key-value server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KeyValueMix {
    /// Distinct keys, drawn evenly. All are written once before the load begins.
    pub keys: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Share of writes.
    pub set_frac: f64,
}

impl Default for KeyValueMix {
    fn default() -> Self {
        Self { keys: 10_000, value_bytes: 200, set_frac: 0.1 }
    }
}

impl KeyValueMix {
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        if self.keys == 0 || self.keys > 100_000_000 {
            return Err(LoadError::option("keys", "must be 1 to 100000000"));
        }
        if self.value_bytes == 0 || self.value_bytes > 1 << 19 {
            return Err(LoadError::option("value_bytes", "must be 1 to 524288"));
        }
        if !(0.0..=1.0).contains(&self.set_frac) {
            return Err(LoadError::option("set_frac", "must be 0 to 1"));
        }
        Ok(())
    }

    /// A key, and whether to write it.
    fn draw(&self, draws: &mut Draws) -> (u32, bool) {
        (draws.rng().random_range(0..self.keys), draws.chance(0, self.set_frac))
    }

    fn value(&self) -> Vec<u8> {
        (0..self.value_bytes).map(|i| b'a' + (i % 26) as u8).collect()
    }
}

/// A protocol whose keys can be written before the load begins.
pub(crate) trait KeyValue: Driver {
    fn keys(&self) -> u32;
    /// Appends a request that writes a key.
    fn set(&self, key: u32, out: &mut Vec<u8>);
}

/// The number in ASCII digits, none if it is anything else.
pub(crate) fn decimal(digits: &[u8]) -> Option<usize> {
    let sound = !digits.is_empty() && digits.len() < 12 && digits.iter().all(u8::is_ascii_digit);
    sound.then(|| digits.iter().fold(0, |n, digit| n * 10 + usize::from(digit - b'0')))
}

/// The first line without its CR LF, and where the next one begins; none if it is not all there.
pub(crate) fn line(input: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = input.get(from..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&rest[..end], from + end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lines() {
        assert_eq!(decimal(b"042"), Some(42));
        for bad in [&b""[..], b"-1", b"1a", b"999999999999"] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
        assert_eq!(line(b"ab\r\ncd\r\n", 0), Some((&b"ab"[..], 4)));
        assert_eq!(line(b"ab\r\ncd\r\n", 4), Some((&b"cd"[..], 8)));
        assert_eq!(line(b"ab\r", 0), None);
        assert_eq!(line(b"ab", 9), None);
    }

    #[test]
    fn mixes_are_checked() {
        let mix = KeyValueMix::default();
        assert!(mix.check().is_ok());
        for bad in [
            KeyValueMix { keys: 0, ..mix.clone() },
            KeyValueMix { value_bytes: 0, ..mix.clone() },
            KeyValueMix { set_frac: f64::NAN, ..mix.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
