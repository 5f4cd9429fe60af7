//! Private writers, for the fuzz targets: what is written must read back.

use crate::route::HtbClass;
use crate::wire::{Message, attrs, frames};

/// A message that holds these attributes after `body`.
#[must_use]
pub fn message(kind: u16, flags: u16, body: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let message = Message::new(kind, flags).raw(body);
    attributes.iter().fold(message, |message, (kind, data)| message.attr(*kind, data)).finish(1)
}

/// The attributes of the first message, behind a body of `head` bytes.
#[must_use]
pub fn attributes(datagram: &[u8], head: usize) -> Option<Vec<(u16, Vec<u8>)>> {
    let body = frames(datagram).next()?.body.get(head..)?;
    Some(attrs(body).map(|(kind, data)| (kind, data.to_vec())).collect())
}

/// The class as the kernel would list it.
#[must_use]
pub fn htb_class(class: &HtbClass) -> Vec<u8> {
    class.listed().finish(1)
}
