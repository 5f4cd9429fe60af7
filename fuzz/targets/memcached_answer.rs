//! Answers of a memcached server, as the load generator receives them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::answers;
use quell_service::fuzzing;

fuzz_target!(|data: &[u8]| answers(data, fuzzing::memcached));
