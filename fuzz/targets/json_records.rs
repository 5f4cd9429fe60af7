//! Other JSON that is written by one process and read by another: snapshots of links, tasks,
//! orders to a server, raw files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_egress::LinkSnapshot;
use quell_fuzz::json;
use quell_service::ServeOptions;
use quell_types::{Action, Sample, Setup, TaskRecord, TaskSpec};

fuzz_target!(|data: &[u8]| {
    let _ = json::<Action>(data);
    let _ = json::<LinkSnapshot>(data);
    let _ = json::<quell_resctrl::RawFile>(data);
    let _ = json::<Sample>(data);
    let _ = json::<ServeOptions>(data);
    let _ = json::<Setup>(data);
    let _ = json::<TaskRecord>(data);
    let _ = json::<TaskSpec>(data);
});
