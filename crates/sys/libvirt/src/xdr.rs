//! XDR (RFC 4506), as far as libvirt's protocol uses it: everything is big-endian and fills whole
//! words of four bytes.

use thiserror::Error;

/// Bytes that do not say what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Malformed(pub(crate) &'static str);

/// The longest text that is taken (`REMOTE_STRING_MAX` of today's libvirt).
const MAX_TEXT: usize = 4 << 20;

fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}

/// Writes values one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn i32(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn i64(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn f64(mut self, value: f64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Bytes of a length that both sides know.
    pub(crate) fn fixed(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self.0.resize(self.0.len() + padding(bytes.len()), 0);
        self
    }

    /// Bytes with their length before them; a text is written so, too.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        // Nothing that is sent comes near 4 GiB: names, CPU sets, parameters.
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).fixed(bytes)
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// A text that may be missing.
    pub(crate) fn optional_text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.u32(1).text(text),
            None => self.u32(0),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads values one after the other; never more than there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How much is left, in bytes.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed("it ends early"))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Malformed> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn fixed(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.take(length)?;
        self.take(padding(length))?;
        Ok(taken)
    }

    /// At most `max` bytes with their length before them.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        if length > max {
            return Err(Malformed("a field is longer than the protocol allows"));
        }
        self.fixed(length)
    }

    /// A text; what is no UTF-8 in it is replaced.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes(MAX_TEXT)?).into_owned())
    }

    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// At most `max` values of at least four bytes each, with their number before them.
    pub(crate) fn list<T>(
        &mut self,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()? as usize;
        // A number that lies must not make room for what never comes.
        if count > max || count > self.left() / 4 {
            return Err(Malformed("a list is longer than the message"));
        }
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_stand_as_rfc_4506_has_them() {
        let bytes = Writer::default().u32(1).i32(-1).u64(2).text("abcde").optional_text(None);
        let wanted = [
            0, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, b'a', b'b', b'c',
            b'd', b'e', 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes.finish(), wanted);
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let lying = Writer::default().u32(u32::MAX).u32(0).finish();
        let read = |reader: &mut Reader<'_>| reader.u32();
        assert!(Reader::new(&lying).list(usize::MAX, read).is_err());
        assert!(Reader::new(&lying).bytes(usize::MAX).is_err());
        assert!(Reader::new(&lying).bytes(16).is_err());
        assert!(Reader::new(&lying).flag().is_err());
        assert!(Reader::new(&[0, 0, 0]).u32().is_err());
        assert!(Reader::new(&[0, 0, 0, 1, b'a']).text().is_err(), "the padding is missing");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            number in any::<u32>(), long in any::<i64>(), text in ".{0,40}",
            raw in proptest::collection::vec(any::<u8>(), 0..40), there in any::<bool>(),
        ) {
            let optional = there.then_some(text.as_str());
            let written = Writer::default()
                .u32(number).i64(long).text(&text).bytes(&raw).optional_text(optional)
                .fixed(&raw).f64(0.5).finish();
            prop_assert_eq!(written.len() % 4, 0);
            let mut reader = Reader::new(&written);
            prop_assert_eq!(reader.u32(), Ok(number));
            prop_assert_eq!(reader.i64(), Ok(long));
            prop_assert_eq!(reader.text(), Ok(text.clone()));
            prop_assert_eq!(reader.bytes(40), Ok(raw.as_slice()));
            prop_assert_eq!(reader.optional(Reader::text), Ok(optional.map(str::to_owned)));
            prop_assert_eq!(reader.fixed(raw.len()), Ok(raw.as_slice()));
            prop_assert_eq!(reader.f64(), Ok(0.5));
            prop_assert_eq!(reader.left(), 0);
        }
    }
}
