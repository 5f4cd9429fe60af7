//! Netlink messages as bytes: a writer, and readers that answer any input without a panic.
//!
//! Layout (linux/netlink.h): a message is `nlmsghdr` (16 bytes) and a body padded to 4 bytes; an
//! attribute is a 4-byte header (length, type) and its data padded to 4 bytes. Native byte order.

/// Size of `nlmsghdr`.
const HEADER: usize = 16;
/// Upper bits of an attribute's type: "nested" and "network byte order" (linux/netlink.h).
const ATTR_TYPE_MASK: u16 = 0x3fff;

/// A message under construction.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of this type and these flags, without body yet.
    pub(crate) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self { bytes }
    }

    /// Appends raw bytes of a fixed header, padded.
    pub(crate) fn raw(mut self, data: &[u8]) -> Self {
        self.bytes.extend_from_slice(data);
        self.pad()
    }

    /// Appends an attribute. Data beyond the 64 KiB that an attribute can hold is cut off.
    pub(crate) fn attr(mut self, kind: u16, data: &[u8]) -> Self {
        let data = &data[..data.len().min(usize::from(u16::MAX) - 4)];
        self.bytes.extend_from_slice(&((data.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(data);
        self.pad()
    }

    /// Appends a 32-bit attribute.
    pub(crate) fn attr_u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends a text with its final zero.
    pub(crate) fn attr_text(self, kind: u16, text: &str) -> Self {
        let mut data = text.as_bytes().to_vec();
        data.push(0);
        self.attr(kind, &data)
    }

    /// Appends an attribute that holds what `fill` appends.
    pub(crate) fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self = fill(self);
        let length = (self.bytes.len() - start).min(usize::from(u16::MAX)) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self
    }

    /// The finished bytes, with length and sequence number.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    fn pad(mut self) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }
}

/// One received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// The messages of a datagram; ends at the first that is malformed.
pub(crate) fn frames(mut rest: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let body = rest.get(HEADER..length)?;
        let frame = Frame {
            kind: u16_at(rest, 4)?,
            flags: u16_at(rest, 6)?,
            sequence: u32_at(rest, 8)?,
            body,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(frame)
    })
}

/// The attributes of a body as (type, data); ends at the first that is malformed.
pub(crate) fn attrs(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & ATTR_TYPE_MASK;
        let data = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, data))
    })
}

/// The 16-bit number at `offset`.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

/// The 32-bit number at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// The signed 32-bit number at `offset`.
pub(crate) fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    bytes.get(offset..)?.first_chunk().copied().map(i32::from_ne_bytes)
}

/// The 64-bit number at `offset`.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

/// A text up to its final zero; what is not UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = Message::new(36, 0x405)
            .raw(&[1, 2, 3, 4, 5])
            .attr_text(1, "htb")
            .nest(2, |m| m.attr_u32(7, 99).attr(8, &[]))
            .finish(41);
        let all: Vec<_> = frames(&bytes).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].flags, all[0].sequence), (36, 0x405, 41));
        assert_eq!(&all[0].body[..8], &[1, 2, 3, 4, 5, 0, 0, 0]);
        let outer: Vec<_> = attrs(&all[0].body[8..]).collect();
        assert_eq!((outer[0].0, text(outer[0].1)), (1, "htb".to_owned()));
        let inner: Vec<_> = attrs(outer[1].1).collect();
        assert_eq!((inner[0].0, u32_at(inner[0].1, 0)), (7, Some(99)));
        assert_eq!(inner[1], (8, &[][..]));
    }

    #[test]
    fn a_length_of_zero_ends_the_walk() {
        assert_eq!(frames(&[0; 64]).count(), 0);
        assert_eq!(attrs(&[0; 64]).count(), 0);
        assert_eq!(attrs(&[3, 0, 1, 0]).count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let total: usize = frames(&bytes).map(|f| f.body.len() + attrs(f.body).count()).sum();
            prop_assert!(total <= 2 * bytes.len());
            prop_assert!(attrs(&bytes).map(|(_, d)| d.len()).sum::<usize>() <= bytes.len());
        }
    }
}
