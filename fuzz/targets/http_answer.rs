//! Answers of a web server, as the load generator receives them, and URLs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{answers, text};
use quell_service::fuzzing;

fuzz_target!(|data: &[u8]| {
    answers(data, fuzzing::http);
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    chunked.extend_from_slice(data);
    answers(&chunked, fuzzing::http);
    if let Some((authority, path)) = fuzzing::url(&text(data)) {
        let again = format!("http://{authority}{path}");
        assert_eq!(fuzzing::url(&again), Some((authority, path)), "{again}");
    }
});
