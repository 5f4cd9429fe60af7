//! memcached: get and set in its text protocol.

use super::{Answer, Driver, KeyValue, KeyValueMix, MAX_ANSWER, ProtocolError, decimal, line};
use crate::Draws;
use std::io::Write;

/// The longest line that a server sends here.
const MAX_LINE: usize = 2048;

pub(crate) struct Memcached {
    mix: KeyValueMix,
    value: Vec<u8>,
}

impl Memcached {
    pub(crate) fn new(mix: KeyValueMix) -> Self {
        Self { value: mix.value(), mix }
    }
}

impl Driver for Memcached {
    fn request(&mut self, _: u64, _: u64, draws: &mut Draws, out: &mut Vec<u8>) {
        let (key, set) = self.mix.draw(draws);
        if set {
            return self.set(key, out);
        }
        // Writing to a Vec cannot fail.
        let _ = write!(out, "get quell:{key:08}\r\n");
    }

    fn answer(&self, input: &[u8]) -> Result<Option<Answer>, ProtocolError> {
        answer(input)
    }
}

impl KeyValue for Memcached {
    fn keys(&self) -> u32 {
        self.mix.keys
    }

    fn set(&self, key: u32, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "set quell:{key:08} 0 0 {}\r\n", self.value.len());
        out.extend_from_slice(&self.value);
        out.extend_from_slice(b"\r\n");
    }
}

fn wrong(why: &'static str) -> ProtocolError {
    ProtocolError { protocol: "memcached", why }
}

fn answer(input: &[u8]) -> Result<Option<Answer>, ProtocolError> {
    let mut at = 0;
    loop {
        let Some((text, next)) = line(input, at) else {
            let open = input.len() - at;
            return if open > MAX_LINE { Err(wrong("endless line")) } else { Ok(None) };
        };
        let ok = match text.split(|&b| b == b' ').next().unwrap_or_default() {
            b"VALUE" => {
                let length = text.split(|&b| b == b' ').nth(3).and_then(decimal);
                let length = length.filter(|&n| n <= MAX_ANSWER).ok_or(wrong("bad VALUE line"))?;
                match input.get(next + length..next + length + 2) {
                    None => return Ok(None),
                    Some(b"\r\n") => at = next + length + 2,
                    Some(_) => return Err(wrong("value too long")),
                }
                continue;
            }
            b"END" | b"STORED" => true,
            b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" | b"NOT_STORED" => false,
            _ => return Err(wrong("unknown answer")),
        };
        return Ok(Some(Answer::plain(next, ok)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers() {
        for (input, found) in [
            (&b"STORED\r\n"[..], Some((8, true))),
            (b"END\r\n", Some((5, true))),
            (b"VALUE k 0 3\r\nabc\r\nEND\r\n", Some((23, true))),
            (b"VALUE k 0 5\r\nEND\r\n\r\nEND\r\n", Some((25, true))),
            (b"SERVER_ERROR out of memory\r\n", Some((28, false))),
            (b"ERROR\r\n", Some((7, false))),
            (b"VALUE k 0 3\r\nab", None),
            (b"VALUE k 0 3\r\nabc\r\nEN", None),
            (b"", None),
        ] {
            let got = answer(input).unwrap().map(|a| (a.length, a.ok));
            assert_eq!(got, found, "{}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn refuses_what_is_no_answer() {
        let endless = vec![b'x'; MAX_LINE + 1];
        for input in [
            &b"HELLO\r\n"[..],
            b"VALUE k 0 x\r\n",
            b"VALUE k\r\n",
            b"VALUE k 0 1\r\nabcd",
            &endless,
        ] {
            assert!(answer(input).is_err(), "{}", String::from_utf8_lossy(input));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = answer(&bytes);
        }
    }
}
