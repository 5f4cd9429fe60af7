//! The embedded services in this process and in one of their own (L-1, L-2).

#![allow(clippy::unwrap_used)]

mod common;

use common::{plan, small_search, small_store, small_topics, this_test_as_server};
use quell_service::{
    Bench, Controls, Extent, LoadOptions, LoadPlan, RunReport, ServeOptions, ServiceSpec, Target,
    run, serve_command,
};

/// Not a test: the server process of the tests below.
#[test]
#[ignore = "becomes the server process of other tests"]
fn server_process() {
    serve_command(&std::env::args().next_back().unwrap()).unwrap();
}

fn drive(target: &Target, plan: &LoadPlan) -> RunReport {
    let bench = Bench::open(target, None).unwrap();
    bench.run(plan, &Controls::default(), &mut |_| ()).unwrap()
}

fn assert_all_answered(run: &RunReport) {
    assert!(run.offered > 0);
    assert_eq!((run.answered, run.failed, run.unanswered), (run.offered, 0, 0), "{run:?}");
    let (service, queue) = (run.service.as_ref().unwrap(), run.queue.as_ref().unwrap());
    assert_eq!((service.count, queue.count), (run.answered, run.answered));
    assert!(service.mean_ms > 0.0);
    // Sojourn is queue + service, request by request, hence in the mean too (L-3).
    let sum = service.mean_ms + queue.mean_ms;
    assert!((sum - run.sojourn.mean_ms).abs() < 0.01 * run.sojourn.mean_ms, "{run:?}");
    let server_queue = run.server_queue.as_ref().unwrap();
    assert!(server_queue.mean_ms <= queue.mean_ms * 1.01, "{run:?}");
}

fn integrated(spec: ServiceSpec) {
    let run = drive(&Target::Integrated { spec, threads: 2 }, &plan(200.0, 1.0));
    assert_all_answered(&run);
    assert!(run.generator.service_cpu_s.unwrap() > 0.0);
    assert_eq!(run.generator.connections, 0);
}

#[test]
fn search_integrated() {
    integrated(small_search());
}

#[test]
fn store_integrated() {
    integrated(small_store());
}

#[test]
fn topics_integrated() {
    integrated(small_topics());
}

fn loopback(spec: ServiceSpec) {
    let serve =
        ServeOptions { spec, listen: "127.0.0.1:0".parse().unwrap(), threads: 2, netns: None };
    let target = Target::Spawned { launch: this_test_as_server(), serve };
    let bench = Bench::open(&target, None).unwrap();
    let pid = bench.server_pid().unwrap();
    assert_ne!(pid, std::process::id());
    let run = bench.run(&plan(200.0, 1.0), &Controls::default(), &mut |_| ()).unwrap();
    assert_all_answered(&run);
    assert_eq!(run.generator.connections, 64);
    drop(bench);
    // The server was waited for, so its pid is free again.
    assert!(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
}

#[test]
fn search_loopback() {
    loopback(small_search());
}

#[test]
fn store_loopback() {
    loopback(small_store());
}

#[test]
fn topics_loopback() {
    loopback(small_topics());
}

#[test]
fn counted_phases_and_several_client_threads() {
    let plan = LoadPlan {
        warmup: Extent::Requests(100),
        measured: Extent::Requests(301),
        client_threads: 3,
        connections: 10,
        ..plan(500.0, 1.0)
    };
    let serve = ServeOptions {
        spec: small_store(),
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: 1,
        netns: None,
    };
    let target = Target::Spawned { launch: this_test_as_server(), serve };
    let run = drive(&target, &plan);
    assert_all_answered(&run);
    assert_eq!((run.offered, run.generator.threads, run.generator.connections), (301, 3, 10));
    assert!((60..=150).contains(&run.warmup_requests), "{}", run.warmup_requests);
    let windows: u64 = run.windows.iter().map(|w| w.answered).sum();
    assert_eq!(windows, 301);
}

#[test]
fn seeds_reproduce_a_run() {
    let bench = Bench::open(&Target::Integrated { spec: small_store(), threads: 1 }, None).unwrap();
    let offered = |seed| {
        let plan = LoadPlan { seed, ..plan(300.0, 0.5) };
        bench.run(&plan, &Controls::default(), &mut |_| ()).unwrap().offered
    };
    assert_eq!(offered(3), offered(3));
    let counts: Vec<u64> = (4..8).map(offered).collect();
    assert!(counts.iter().any(|&count| count != counts[0]), "{counts:?}");
}

#[test]
fn a_whole_load_reports_itself_in_json() {
    let options = LoadOptions {
        target: Target::Integrated { spec: small_store(), threads: 1 },
        client_netns: None,
        plan: plan(200.0, 0.5),
        repeat: Some(quell_service::RepeatRule {
            half_width_frac: 1e-9,
            min_runs: 2,
            max_runs: 2,
            ..Default::default()
        }),
    };
    let report = run(&options, &Controls::default(), &mut |_| ()).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], "quell.load/1");
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    assert_eq!(json["runs"][1]["seed"], 2);
    assert_eq!(json["tail"]["percentile"], 95.0);
    assert!(json["tail"]["half_width_ms"].is_number());
}
