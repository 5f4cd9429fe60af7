//! What the kernel answers, decoded.

use super::{ClassInfo, LinkInfo, QdiscInfo};
use crate::wire::{Frame, attrs, frames, i32_at, text, u32_at, u64_at};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTCLASS: u16 = 40;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

/// One message of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A network link.
    Link(LinkInfo),
    /// A queueing discipline.
    Qdisc(QdiscInfo),
    /// A class.
    Class(ClassInfo),
    /// The request was carried out.
    Acknowledged,
    /// The request was refused.
    Refused {
        /// The positive error number.
        errno: i32,
        /// The kernel's explanation, empty if it gave none.
        text: String,
    },
    /// The end of a list.
    Done,
    /// Something else, or malformed.
    Other,
}

/// Decodes a datagram of the kernel. Any bytes are answered; what is malformed ends the list or
/// becomes [`Record::Other`].
#[must_use]
pub fn decode(datagram: &[u8]) -> Vec<Record> {
    frames(datagram).map(|frame| of_frame(&frame)).collect()
}

pub(super) fn of_frame(frame: &Frame<'_>) -> Record {
    let known = match frame.kind {
        NLMSG_ERROR => error(frame),
        NLMSG_DONE => match i32_at(frame.body, 0) {
            Some(status) if status < 0 => Some(refused(status, String::new())),
            _ => Some(Record::Done),
        },
        RTM_NEWLINK => LinkInfo::parse(frame.body).map(Record::Link),
        RTM_NEWQDISC => QdiscInfo::parse(frame.body).map(Record::Qdisc),
        RTM_NEWTCLASS => ClassInfo::parse(frame.body).map(Record::Class),
        _ => None,
    };
    known.unwrap_or(Record::Other)
}

fn refused(status: i32, text: String) -> Record {
    Record::Refused { errno: status.saturating_neg(), text }
}

fn error(frame: &Frame<'_>) -> Option<Record> {
    let status = i32_at(frame.body, 0)?;
    if status == 0 {
        return Some(Record::Acknowledged);
    }
    Some(refused(status, explanation(frame).unwrap_or_default()))
}

/// The extended ack lies behind the copy of the request, which is cut to its header if "capped".
fn explanation(frame: &Frame<'_>) -> Option<String> {
    if frame.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let capped = frame.flags & NLM_F_CAPPED != 0;
    let copy = if capped { 16 } else { u32_at(frame.body, 4)?.checked_next_multiple_of(4)? };
    let tail = frame.body.get(4usize.checked_add(copy as usize)?..)?;
    attrs(tail).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG).map(|(_, data)| text(data))
}

/// What the kernel counts of a qdisc or class. `bytes` and `packets` only grow while it lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Bytes sent, with link layer headers.
    pub bytes: u64,
    /// Packets sent, segments counted one by one.
    pub packets: u64,
    /// Packets that wait.
    pub queued_packets: u32,
    /// Bytes that wait.
    pub backlog_bytes: u32,
    /// Packets dropped; wraps at 2^32.
    pub drops: u32,
    /// How often a packet had to wait for tokens; wraps at 2^32.
    pub overlimits: u32,
}

impl QueueStats {
    /// Reads `TCA_STATS2`; none if its basic or its queue part is missing.
    pub(super) fn parse(nested: &[u8]) -> Option<Self> {
        let find = |wanted| attrs(nested).find(|(kind, _)| *kind == wanted).map(|(_, data)| data);
        let basic = find(TCA_STATS_BASIC)?;
        let queue = find(TCA_STATS_QUEUE)?;
        // The 32-bit packet count wraps within minutes on a fast link; newer kernels send 64 bits.
        let packets = find(TCA_STATS_PKT64).and_then(|data| u64_at(data, 0));
        Some(Self {
            bytes: u64_at(basic, 0)?,
            packets: packets.or_else(|| u32_at(basic, 8).map(u64::from))?,
            queued_packets: u32_at(queue, 0)?,
            backlog_bytes: u32_at(queue, 4)?,
            drops: u32_at(queue, 8)?,
            overlimits: u32_at(queue, 16)?,
        })
    }
}
