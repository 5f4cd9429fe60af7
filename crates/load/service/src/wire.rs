//! The embedded services' protocol: little-endian, one frame a message.
//!
//! ```text
//! request   u32 length of the rest | u64 id | u64 sent_ns | payload
//! response  u32 length of the rest | u64 id | u64 queue_ns | u64 service_ns | payload
//! ```
//!
//! `sent_ns` is the client's `CLOCK_MONOTONIC` (0 if it does not tell), `queue_ns` the time from
//! there to the start of the work; both ends must be on one machine for it to mean anything.
//! [`UNKNOWN_NS`] stands for a time that is not known.

use thiserror::Error;

/// Stands for an unknown time on the wire.
pub const UNKNOWN_NS: u64 = u64::MAX;
/// Longest frame: far above any message here, far below what a broken length could ask for.
pub const MAX_FRAME: usize = 1 << 20;

const PREFIX: usize = 4;
const REQUEST_HEAD: usize = 16;
const RESPONSE_HEAD: usize = 24;

/// Bytes that are no message of this protocol; the connection is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("frame of {length} bytes, must be {least} to {MAX_FRAME}")]
pub struct FrameError {
    length: usize,
    least: usize,
}

/// A request as it lies in the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Tells requests apart; comes back in the response.
    pub id: u64,
    /// When the client sent it.
    pub sent_ns: Option<u64>,
    /// For the service.
    pub payload: &'a [u8],
}

/// A response as it lies in the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Of its request.
    pub id: u64,
    /// From the client's sending to the start of the work.
    pub queue_ns: Option<u64>,
    /// From the start of the work to its end.
    pub service_ns: Option<u64>,
    /// From the service.
    pub payload: &'a [u8],
}

/// Appends a request; the payload is written by `payload`.
pub fn write_request(out: &mut Vec<u8>, id: u64, sent_ns: u64, payload: impl FnOnce(&mut Vec<u8>)) {
    frame(out, |out| {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&sent_ns.to_le_bytes());
        payload(out);
    });
}

/// Appends a response whose times are filled in by [`stamp_response`] once they are known.
pub fn write_response(out: &mut Vec<u8>, id: u64, payload: impl FnOnce(&mut Vec<u8>)) {
    frame(out, |out| {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&[0xff; 16]);
        payload(out);
    });
}

/// Sets the times of the response that begins at `start` of `out`.
pub fn stamp_response(out: &mut [u8], start: usize, queue_ns: Option<u64>, service_ns: u64) {
    let at = start + PREFIX + 8;
    if let Some(times) = out.get_mut(at..at + 16) {
        times[..8].copy_from_slice(&queue_ns.unwrap_or(UNKNOWN_NS).to_le_bytes());
        times[8..].copy_from_slice(&service_ns.to_le_bytes());
    }
}

fn frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    body(out);
    let length = (out.len() - start - PREFIX) as u32;
    out[start..start + PREFIX].copy_from_slice(&length.to_le_bytes());
}

/// The first whole request of `input` and its length in bytes; none if it is not all there.
pub fn read_request(input: &[u8]) -> Result<Option<(Request<'_>, usize)>, FrameError> {
    let Some((head, payload, used)) = split::<REQUEST_HEAD>(input)? else { return Ok(None) };
    let sent = number(head, 8);
    let request = Request { id: number(head, 0), sent_ns: (sent != 0).then_some(sent), payload };
    Ok(Some((request, used)))
}

/// The first whole response of `input` and its length in bytes; none if it is not all there.
pub fn read_response(input: &[u8]) -> Result<Option<(Response<'_>, usize)>, FrameError> {
    let Some((head, payload, used)) = split::<RESPONSE_HEAD>(input)? else { return Ok(None) };
    let known = |ns: u64| (ns != UNKNOWN_NS).then_some(ns);
    let response = Response {
        id: number(head, 0),
        queue_ns: known(number(head, 8)),
        service_ns: known(number(head, 16)),
        payload,
    };
    Ok(Some((response, used)))
}

type Split<'a, const HEAD: usize> = Option<(&'a [u8; HEAD], &'a [u8], usize)>;

fn split<const HEAD: usize>(input: &[u8]) -> Result<Split<'_, HEAD>, FrameError> {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix) as usize;
    if !(HEAD..=MAX_FRAME).contains(&length) {
        return Err(FrameError { length, least: HEAD });
    }
    let body = rest.get(..length).and_then(|body| body.split_first_chunk::<HEAD>());
    Ok(body.map(|(head, payload)| (head, payload, PREFIX + length)))
}

fn number(head: &[u8], at: usize) -> u64 {
    head[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_come_back_whole(id: u64, sent in 1u64.., payload: Vec<u8>, cut in 0usize..20) {
            let mut out = Vec::new();
            write_request(&mut out, id, sent, |out| out.extend_from_slice(&payload));
            let (request, used) = read_request(&out).unwrap().unwrap();
            prop_assert_eq!(used, out.len());
            prop_assert_eq!(request, Request { id, sent_ns: Some(sent), payload: &payload });
            let part = &out[..out.len() - 1 - cut.min(out.len() - 1)];
            prop_assert_eq!(read_request(part).unwrap(), None);
        }

        #[test]
        fn responses_come_back_whole(id: u64, queue in 0..UNKNOWN_NS, service in 0..UNKNOWN_NS,
                                     payload: Vec<u8>, before: Vec<u8>) {
            let mut out = before.clone();
            write_response(&mut out, id, |out| out.extend_from_slice(&payload));
            stamp_response(&mut out, before.len(), Some(queue), service);
            let (response, used) = read_response(&out[before.len()..]).unwrap().unwrap();
            prop_assert_eq!(used, out.len() - before.len());
            let expected = Response {
                id, queue_ns: Some(queue), service_ns: Some(service), payload: &payload
            };
            prop_assert_eq!(response, expected);
        }

        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = read_request(&bytes);
            let _ = read_response(&bytes);
        }
    }

    #[test]
    fn lengths_are_bounded() {
        for length in [0u32, 15, (MAX_FRAME + 1) as u32, u32::MAX] {
            assert!(read_request(&length.to_le_bytes()).is_err(), "{length}");
        }
    }

    #[test]
    fn unstamped_times_are_unknown() {
        let mut out = Vec::new();
        write_response(&mut out, 1, |_| ());
        let (response, _) = read_response(&out).unwrap().unwrap();
        assert_eq!((response.queue_ns, response.service_ns), (None, None));
    }
}
