//! Redis: GET and SET in RESP.

use super::{Answer, Driver, KeyValue, KeyValueMix, MAX_ANSWER, ProtocolError, decimal, line};
use crate::Draws;
use std::io::Write;

/// Arrays within arrays deeper than this are refused: the parser recurses.
const MAX_DEPTH: u32 = 8;

pub(crate) struct Redis {
    mix: KeyValueMix,
    value: Vec<u8>,
}

impl Redis {
    pub(crate) fn new(mix: KeyValueMix) -> Self {
        Self { value: mix.value(), mix }
    }
}

impl Driver for Redis {
    fn request(&mut self, _: u64, _: u64, draws: &mut Draws, out: &mut Vec<u8>) {
        let (key, set) = self.mix.draw(draws);
        if set {
            return self.set(key, out);
        }
        // Writing to a Vec cannot fail.
        let _ = write!(out, "*2\r\n$3\r\nGET\r\n$14\r\nquell:{key:08}\r\n");
    }

    fn answer(&self, input: &[u8]) -> Result<Option<Answer>, ProtocolError> {
        let ok = input.first() != Some(&b'-');
        Ok(value_end(input, 0, MAX_DEPTH)?.map(|length| Answer::plain(length, ok)))
    }
}

impl KeyValue for Redis {
    fn keys(&self) -> u32 {
        self.mix.keys
    }

    fn set(&self, key: u32, out: &mut Vec<u8>) {
        let length = self.value.len();
        // Writing to a Vec cannot fail.
        let _ = write!(out, "*3\r\n$3\r\nSET\r\n$14\r\nquell:{key:08}\r\n${length}\r\n");
        out.extend_from_slice(&self.value);
        out.extend_from_slice(b"\r\n");
    }
}

fn wrong(why: &'static str) -> ProtocolError {
    ProtocolError { protocol: "redis", why }
}

/// Where the RESP value that begins at `from` ends; none if it is not all there.
fn value_end(input: &[u8], from: usize, depth: u32) -> Result<Option<usize>, ProtocolError> {
    let Some((&kind, _)) = input.get(from..).and_then(<[u8]>::split_first) else {
        return Ok(None);
    };
    if !b"+-:_#,($*".contains(&kind) {
        return Err(wrong("unknown type byte"));
    }
    let Some((head, next)) = line(input, from + 1) else { return Ok(None) };
    match kind {
        b'$' | b'*' if head == b"-1" => Ok(Some(next)),
        b'$' => {
            let length = size(head)?;
            let Some(end) = input.get(next + length..next + length + 2) else { return Ok(None) };
            if end == b"\r\n" { Ok(Some(next + length + 2)) } else { Err(wrong("string too long")) }
        }
        b'*' => {
            let depth = depth.checked_sub(1).ok_or(wrong("arrays too deep"))?;
            let mut end = next;
            for _ in 0..size(head)? {
                match value_end(input, end, depth)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Ok(Some(next)),
    }
}

fn size(digits: &[u8]) -> Result<usize, ProtocolError> {
    decimal(digits).filter(|&n| n <= MAX_ANSWER).ok_or(wrong("impossible length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_of_values() {
        for (input, end) in [
            (&b"+OK\r\n"[..], Some(5)),
            (b"-ERR no\r\nrest", Some(9)),
            (b"$3\r\nabc\r\n", Some(9)),
            (b"$-1\r\n", Some(5)),
            (b"$0\r\n\r\n", Some(6)),
            (b"*2\r\n:1\r\n$1\r\nx\r\n", Some(15)),
            (b"*-1\r\n", Some(5)),
            (b"*0\r\n", Some(4)),
            (b"$3\r\nab", None),
            (b"$3\r\nabc\r", None),
            (b"*2\r\n:1\r\n", None),
            (b"", None),
            (b"+OK\r", None),
        ] {
            assert_eq!(value_end(input, 0, MAX_DEPTH).unwrap(), end, "{input:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_resp() {
        let deep = b"*1\r\n".repeat(20);
        for input in [&b"HTTP/1.1"[..], b"$x\r\n", b"$99999999999\r\n", b"$1\r\nabcd", &deep] {
            assert!(value_end(input, 0, MAX_DEPTH).is_err(), "{input:?}");
        }
    }

    #[test]
    fn errors_are_told_from_success() {
        let redis = Redis::new(KeyValueMix::default());
        assert!(!redis.answer(b"-OOM\r\n").unwrap().unwrap().ok);
        assert!(redis.answer(b"$-1\r\n").unwrap().unwrap().ok);
    }

    #[test]
    fn the_mix_is_as_wanted() {
        let mut redis = Redis::new(KeyValueMix { set_frac: 0.25, ..KeyValueMix::default() });
        let mut draws = Draws::new(1, 0, false);
        let sets = (0..4000)
            .filter(|_| {
                let mut out = Vec::new();
                redis.request(0, 0, &mut draws, &mut out);
                // A request is itself a RESP value.
                assert_eq!(value_end(&out, 0, MAX_DEPTH).unwrap(), Some(out.len()));
                out.starts_with(b"*3")
            })
            .count();
        assert!((880..1120).contains(&sets), "{sets}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = value_end(&bytes, 0, MAX_DEPTH);
        }

        #[test]
        fn a_prefix_is_never_whole(body in "[a-z]{0,30}", cut in 1usize..40) {
            let whole = format!("*2\r\n${}\r\n{body}\r\n:7\r\n", body.len()).into_bytes();
            let part = &whole[..whole.len().saturating_sub(cut)];
            prop_assert_eq!(value_end(part, 0, MAX_DEPTH).unwrap(), None);
            prop_assert_eq!(value_end(&whole, 0, MAX_DEPTH).unwrap(), Some(whole.len()));
        }
    }
}
