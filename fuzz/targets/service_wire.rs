//! Frames of Quell's own services, and requests to the embedded store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{Numbers, answers};
use quell_service::fuzzing::store_request;
use quell_service::wire::{
    read_request, read_response, stamp_response, write_request, write_response,
};

fuzz_target!(|data: &[u8]| {
    answers(data, |input| match read_request(input) {
        Ok(found) => Ok(found.map(|(_, length)| (length, true, false))),
        Err(_) => Err("impossible frame length"),
    });
    answers(data, |input| match read_response(input) {
        Ok(found) => Ok(found.map(|(_, length)| (length, true, false))),
        Err(_) => Err("impossible frame length"),
    });
    if let Some((kind, keys)) = store_request(data) {
        assert_eq!(data[0], kind);
        assert_eq!(data.len(), 1 + 8 * keys.len());
    }
    frames_come_back(data);
});

fn frames_come_back(data: &[u8]) {
    let mut numbers = Numbers(data);
    let (id, sent, queue, service) = (numbers.u64(), numbers.u64(), numbers.u64(), numbers.u64());
    let payload = numbers.0;
    let mut out = b"before".to_vec();
    write_request(&mut out, id, sent, |out| out.extend_from_slice(payload));
    let (request, length) = read_request(&out[6..]).expect("a frame").expect("a whole one");
    assert_eq!(
        (request.id, request.sent_ns, request.payload),
        (id, (sent > 0).then_some(sent), payload)
    );
    assert_eq!(length, out.len() - 6);

    let mut out = b"before".to_vec();
    write_response(&mut out, id, |out| out.extend_from_slice(payload));
    stamp_response(&mut out, 6, Some(queue), service);
    let (response, _) = read_response(&out[6..]).expect("a frame").expect("a whole one");
    let known = |ns: u64| (ns != u64::MAX).then_some(ns);
    assert_eq!((response.id, response.payload), (id, payload));
    assert_eq!((response.queue_ns, response.service_ns), (known(queue), known(service)));
}
