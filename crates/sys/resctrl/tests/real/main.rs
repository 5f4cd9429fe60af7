//! The kernel's own resctrl, on an emulated machine whose processor says what it was told
//! (`make test-lab LAB_TESTS=rdt`). Elsewhere these tests do nothing: no machine's caches are
//! touched.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod allotting;
mod counting;
mod lab;
mod limits;
mod membership;
mod mounting;
