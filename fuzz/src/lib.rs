//! What the targets share: text and numbers from raw bytes, properties that several readers have
//! in common, and trees of files of which one is damaged.

mod tree;

pub use tree::Trees;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Debug;

/// The bytes as text; what is not UTF-8 is replaced, as most readers of files do.
#[must_use]
pub fn text(data: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(data)
}

/// Numbers taken from raw bytes one after the other; zeros when they run out.
#[derive(Clone, Debug)]
pub struct Numbers<'a>(pub &'a [u8]);

impl<'a> Numbers<'a> {
    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let length = N.min(self.0.len());
        let (now, rest) = self.0.split_at(length);
        bytes[..length].copy_from_slice(now);
        self.0 = rest;
        bytes
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// The next eight bytes, cut to as many bits as the byte before them says, so that small
    /// numbers are as likely as large ones.
    pub fn u64(&mut self) -> u64 {
        let bits = u32::from(self.u8() % 65);
        u64::from_le_bytes(self.take()).checked_shr(64 - bits).unwrap_or(0)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a reader of answers finds: length in bytes, contentment, whether the peer closes.
pub type Found = Result<Option<(usize, bool, bool)>, &'static str>;

/// Reads answer after answer. Whatever follows an answer must not change it, a part of one must
/// wait for more, and what is no answer must not become one by more bytes.
pub fn answers(data: &[u8], read: impl Fn(&[u8]) -> Found) {
    let mut rest = data;
    while let Ok(Some(found)) = read(rest) {
        let length = found.0;
        assert!((1..=rest.len()).contains(&length), "{found:?} of {} bytes", rest.len());
        assert_eq!(read(&rest[..length]), Ok(Some(found)), "more bytes changed an answer");
        for cut in [0, length / 3, length / 2, length - 1] {
            assert_eq!(read(&rest[..cut]), Ok(None), "{cut} of {length} bytes are no answer yet");
        }
        rest = &rest[length..];
    }
    let half = &rest[..rest.len() / 2];
    match read(half) {
        // A line may be too long only until its end is seen.
        Err(why) if !why.starts_with("endless") => {
            assert_eq!(read(rest).err(), Some(why), "more bytes changed a refusal");
        }
        _ => {}
    }
}

/// What is read from JSON, written and read again must be the same.
pub fn json<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) -> Option<T> {
    let first: T = serde_json::from_slice(data).ok()?;
    let line = serde_json::to_string(&first).expect("what was read can be written");
    assert!(!line.contains('\n'), "a record is one line");
    let second: T = serde_json::from_str(&line).expect("what was written can be read");
    assert_eq!(first, second, "changed by writing: {line}");
    Some(first)
}
