//! HTTP/1.1 with keep-alive: GET of one URL, no TLS.

use super::{Answer, Driver, MAX_ANSWER, ProtocolError, decimal, line};
use crate::{Draws, LoadError};
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};

const MAX_HEAD: usize = 64 << 10;
const PORT: u16 = 80;

/// A URL taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// As it goes into the Host field.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, LoadError> {
        let bad = |why: &str| LoadError::option("url", format!("{text:?}: {why}"));
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(bad("must not hold spaces or control characters"));
        }
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| bad("must begin with http:// (TLS is not spoken)"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.is_empty() || authority.contains('@') {
            return Err(bad("needs a host, without user name"));
        }
        let path = if path.starts_with('/') { path.into() } else { format!("/{path}") };
        Ok(Self { authority: authority.into(), path })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, LoadError> {
        let bracket = self.authority.rfind(']').unwrap_or(0);
        let has_port = self.authority[bracket..].contains(':');
        let full =
            if has_port { self.authority.clone() } else { format!("{}:{PORT}", self.authority) };
        let bad = |why: String| LoadError::option("url", format!("{}: {why}", self.authority));
        let mut found = full.to_socket_addrs().map_err(|e| bad(e.to_string()))?;
        found.next().ok_or_else(|| bad("has no address".into()))
    }
}

pub(crate) struct Http(pub(crate) Url);

impl Driver for Http {
    fn request(&mut self, _: u64, _: u64, _: &mut Draws, out: &mut Vec<u8>) {
        let Url { authority, path } = &self.0;
        // Writing to a Vec cannot fail.
        let _ = write!(
            out,
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: quell\r\nAccept: */*\r\n\r\n"
        );
    }

    fn answer(&self, input: &[u8]) -> Result<Option<Answer>, ProtocolError> {
        let Some(head) = final_head(input)? else { return Ok(None) };
        let end = match head.body {
            Body::Length(length) => {
                let end = head.end + length;
                (input.len() >= end).then_some(end)
            }
            Body::Chunked => chunks_end(input, head.end)?,
        };
        Ok(end.map(|length| Answer {
            closes: head.closes,
            ..Answer::plain(length, (200..400).contains(&head.status))
        }))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Body {
    Length(usize),
    Chunked,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body: Body,
    closes: bool,
    end: usize,
}

fn wrong(why: &'static str) -> ProtocolError {
    ProtocolError { protocol: "HTTP/1.1", why }
}

/// The head that is not an interim one (100 Continue and the like).
fn final_head(input: &[u8]) -> Result<Option<Head>, ProtocolError> {
    let mut from = 0;
    loop {
        match head(input, from)? {
            Some(head) if (100..200).contains(&head.status) => from = head.end,
            other => return Ok(other),
        }
    }
}

fn head(input: &[u8], from: usize) -> Result<Option<Head>, ProtocolError> {
    let Some((status, mut at)) = line(input, from) else {
        let open = input.len() - from;
        return if open > MAX_HEAD { Err(wrong("endless head")) } else { Ok(None) };
    };
    let (status, mut closes) = status_line(status)?;
    let (mut length, mut chunked) = (None, false);
    loop {
        if at - from > MAX_HEAD {
            return Err(wrong("endless head"));
        }
        let Some((field, next)) = line(input, at) else { return Ok(None) };
        at = next;
        if field.is_empty() {
            break;
        }
        let colon = field.iter().position(|&b| b == b':').ok_or(wrong("field without colon"))?;
        let (name, value) = (&field[..colon], field[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let n = decimal(value).filter(|&n| n <= MAX_ANSWER).ok_or(wrong("bad length"))?;
            length = Some(n);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    let body = match (chunked, length) {
        _ if matches!(status, 100..200 | 204 | 304) => Body::Length(0),
        (true, _) => Body::Chunked,
        (false, Some(length)) => Body::Length(length),
        (false, None) => return Err(wrong("neither length nor chunks: keep-alive impossible")),
    };
    Ok(Some(Head { status, body, closes, end: at }))
}

/// The status, and whether the version closes connections by default.
fn status_line(line: &[u8]) -> Result<(u16, bool), ProtocolError> {
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(wrong("bad status line"))?;
    let (&minor, rest) = rest.split_first().ok_or(wrong("bad status line"))?;
    let status = rest.get(1..4).and_then(decimal).filter(|_| rest[0] == b' ');
    let status = status.filter(|s| (100..600).contains(s)).ok_or(wrong("bad status line"))?;
    Ok((status as u16, minor == b'0'))
}

fn chunks_end(input: &[u8], from: usize) -> Result<Option<usize>, ProtocolError> {
    let mut at = from;
    loop {
        let Some((head, next)) = line(input, at) else {
            let open = input.len() - at;
            return if open > MAX_HEAD { Err(wrong("endless chunk line")) } else { Ok(None) };
        };
        let digits = head.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
        let size = hexadecimal(digits).ok_or(wrong("bad chunk size"))?;
        if size > MAX_ANSWER || next > MAX_ANSWER {
            return Err(wrong("bad chunk size"));
        }
        if size == 0 {
            return Ok(trailer_end(input, next));
        }
        match input.get(next + size..next + size + 2) {
            None => return Ok(None),
            Some(b"\r\n") => at = next + size + 2,
            Some(_) => return Err(wrong("chunk too long")),
        }
    }
}

/// Digits without a sign, which Rust's own reader would take.
fn hexadecimal(digits: &[u8]) -> Option<usize> {
    let plain = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    usize::from_str_radix(text, 16).ok()
}

fn trailer_end(input: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let (field, next) = line(input, at)?;
        if field.is_empty() {
            return Some(next);
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn driver() -> Http {
        Http(Url::parse("http://localhost/").unwrap())
    }

    #[test]
    fn urls() {
        for (text, authority, path) in [
            ("http://a", "a", "/"),
            ("http://a:81/b?c#d", "a:81", "/b?c"),
            ("http://[::1]:80/x", "[::1]:80", "/x"),
            ("http://a?q", "a", "/?q"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.authority.as_str(), url.path.as_str()), (authority, path), "{text}");
        }
        for bad in ["https://a", "a", "http://", "http:///x", "http://u@h/", "http://a/b c"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
        let v6 = Url::parse("http://[::1]/").unwrap().address().unwrap();
        assert_eq!(v6.to_string(), "[::1]:80");
    }

    #[test]
    fn answers() {
        for (input, length, ok, closes) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiX", 40, true, false),
            ("HTTP/1.1 204 No\r\n\r\n", 19, true, false),
            ("HTTP/1.1 503 No\r\ncontent-length:0\r\n\r\n", 37, false, false),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 57, true, true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 38, true, true),
            ("HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 38, true, false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n",
                70,
                true,
                false,
            ),
        ] {
            let answer = driver().answer(input.as_bytes()).unwrap().unwrap();
            assert_eq!((answer.length, answer.ok, answer.closes), (length, ok, closes), "{input}");
            for cut in 0..length {
                assert_eq!(driver().answer(&input.as_bytes()[..cut]).unwrap(), None, "{cut}");
            }
        }
    }

    #[test]
    fn refuses_what_is_no_answer() {
        let endless = "x".repeat(MAX_HEAD + 1);
        for input in [
            "SSH-2.0\r\n",
            "HTTP/1.1 2x0 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
            &endless,
        ] {
            assert!(driver().answer(input.as_bytes()).is_err(), "{input:.60}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = driver().answer(&bytes);
        }

        #[test]
        fn any_body_after_a_head_is_answered(bytes: Vec<u8>) {
            let mut input = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            input.extend(bytes);
            let _ = driver().answer(&input);
        }
    }
}
