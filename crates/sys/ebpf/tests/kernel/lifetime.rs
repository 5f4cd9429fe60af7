//! Nothing is left attached; wrong places are refused; the survey tells what is here.

use crate::common::{Cgroup, PATIENCE, cgroup2_root, probes, unique};
use quell_ebpf::{EbpfError, Options, Probes, ServiceKey, capabilities};
use quell_types::{Capability, Gap};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

/// How many BPF programs of this attach type a cgroup has.
fn attached(directory: &Path, attach_type: u32) -> u32 {
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        target_fd: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        prog_ids: u64,
        prog_count: u32,
        pad: [u32; 15],
    }
    const BPF_PROG_QUERY: libc::c_long = 16;
    let file = File::open(directory).unwrap();
    let mut query = Query { target_fd: file.as_raw_fd() as u32, attach_type, ..Query::default() };
    // SAFETY: the kernel reads and writes within the struct that lives through the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, &raw mut query, size_of::<Query>()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    query.prog_count
}

#[test]
fn nothing_stays_attached() {
    let group = Cgroup::v2("life");
    let count = |group: &Cgroup| [0, 1].map(|kind| attached(&group.0, kind));
    {
        let mut probes = Probes::load(Options::default()).unwrap();
        assert_eq!(count(&group), [0, 0], "loading attaches nothing");
        probes.attach_meter(&group.0).unwrap();
        probes.attach_meter(&group.0).unwrap();
        assert_eq!(count(&group), [1, 1], "attaching again changes nothing");
        let mut second = Probes::load(Options::default()).unwrap();
        second.attach_meter(&group.0).unwrap();
        assert_eq!(count(&group), [2, 2], "another's programs are let be");
    }
    let start = Instant::now();
    while count(&group) != [0, 0] {
        assert!(start.elapsed() < PATIENCE, "still attached: {:?}", count(&group));
        std::thread::yield_now();
    }
}

#[test]
fn wrong_places_and_numbers_are_refused() {
    let mut probes = Probes::load(Options::default()).unwrap();
    for place in [Path::new("/tmp"), Path::new("/nowhere"), &cgroup2_root().join(unique("no"))] {
        let error = probes.attach_meter(place).unwrap_err();
        assert!(matches!(error, EbpfError::NotCgroup2 { .. }), "{error}");
    }
    let out_of_range = |result: Result<(), EbpfError>| {
        assert!(matches!(result, Err(EbpfError::OutOfRange { .. })), "{result:?}");
    };
    out_of_range(probes.set_service(16, ServiceKey::ports(&[80])));
    out_of_range(probes.track_egress(1, 64));
    out_of_range(probes.track_run_queue(1, 64));
    out_of_range(Probes::load(Options { services: 256, ..Options::default() }).map(drop));
    out_of_range(Probes::load(Options { slots: 0, ..Options::default() }).map(drop));
    assert!(probes.mark_veth("quell-no-such", 1).is_err());
    assert!(matches!(probes.read_requests(0), Err(Gap::Absent(_))));
    assert!(matches!(probes.read_run_queue(0), Err(Gap::Absent(_))));
    assert!(matches!(probes.read_egress(0), Err(Gap::Absent(_))));
}

#[test]
fn the_survey_finds_what_the_tests_need() {
    let reports = capabilities(Path::new("/"));
    assert_eq!(reports.len(), 9);
    for report in reports {
        assert!(matches!(report.capability, Capability::Native(_)), "{report:?}");
    }
}

#[test]
fn time_is_counted_when_asked_for() {
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[1])).unwrap();
    probes.count_time(true).unwrap();
    let server = crate::common::LineServer::start("127.0.0.1:0");
    server.client().ask(b"x\n", 3);
    let stats = probes.stats();
    let runs = |name: &str| stats.iter().find(|s| s.program == name).map(|s| (s.runs, s.time_ns));
    for name in ["quell_ingress", "quell_egress"] {
        assert!(matches!(runs(name), Some((1.., 1..))), "{stats:?}");
    }
}
