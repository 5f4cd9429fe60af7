//! The measuring subcommands on real targets: a group with a busy process, a service that the test
//! started, a plain program; and the store that profiles are kept in. That they end in order and say
//! what they should is tested, not what this machine makes of it.
#![allow(clippy::unwrap_used)]

use quell_cgroup::{Group, Layout, create, remove};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const QUELL: &str = env!("CARGO_BIN_EXE_quell");
/// Longer than anything here takes on a crowded machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// One resource with little memory.
const LITTLE: [&str; 4] = ["--only", "llc-bandwidth", "--llc-bytes", "8388608"];

fn quell(args: &[&str]) -> Output {
    Command::new(QUELL).args(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A process that is ended with the test.
struct Busy(Child);

impl Busy {
    fn run(command: &[&str]) -> Busy {
        let mut child = Command::new(command[0]);
        child.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Busy(child.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A group of the test's own, gone with it.
struct OwnGroup {
    layout: Layout,
    path: String,
}

impl OwnGroup {
    fn new(name: &str) -> OwnGroup {
        let layout = Layout::discover("/");
        let path = format!("/quell-test-profiles-{name}-{}", std::process::id());
        create(&layout, &path, &["cpu", "cpuacct"]).unwrap();
        OwnGroup { layout, path }
    }

    fn group(&self) -> Group {
        Group::find(&self.layout, &self.path).unwrap()
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let _ = remove(&self.layout, &self.path, PATIENCE);
    }
}

#[test]
fn a_group_and_a_process_that_run_already_are_profiled_and_never_stopped() {
    let own = OwnGroup::new("busy");
    // In bursts, so that it is idle in between.
    let script = "while :; do head -c 30000000 /dev/zero > /dev/null; sleep 0.01; done";
    let busy = Busy::run(&["sh", "-c", script]);
    own.group().add_process(busy.0.id()).unwrap();
    let mut by_group = vec!["profile", "--cgroup", &own.path, "--json", "-"];
    by_group.extend(LITTLE);
    let found = json(&quell(&by_group));
    assert_eq!(found["workload"]["name"], own.path.as_str());
    assert!(found["tolerated"]["llc-bandwidth"]["value"].is_number(), "{found}");
    // Either it was idle often enough, or it is said why there is no answer.
    let caused = &found["caused"]["llc-bandwidth"]["value"];
    let said = found["notes"].to_string().contains("what it causes is not known");
    assert!(caused.is_number() != said, "{found}");
    let pid = busy.pid();
    let mut by_pid = vec!["profile", "--quick", "--pid", &pid, "--json", "-"];
    by_pid.extend(LITTLE);
    assert_eq!(json(&quell(&by_pid))["workload"]["name"], format!("process {pid}"));
    assert!(Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn what_shows_no_progress_says_what_was_tried() {
    let sleeper = Busy::run(&["sleep", "600"]);
    let error = failed(&quell(&["profile", "--pid", &sleeper.pid()]));
    assert!(error.contains("shows no progress") && error.contains("system calls"), "{error}");
    let error = failed(&quell(&["profile", "--unit", "quell-never-made.service"]));
    assert!(error.contains("quell-never-made.service"), "{error}");
}

#[test]
fn a_service_in_use_is_measured_by_the_requests_on_its_sockets() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    let redis = Busy::run(&["redis-server", "--port", &port, "--save", "", "--appendonly", "no"]);
    let end = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(Instant::now() < end, "redis listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    let _load = Busy::run(&["redis-benchmark", "-p", &port, "-t", "get", "-n", "1000000000", "-q"]);
    let pid = redis.pid();
    let mut args = vec!["profile", "--quick", "--pid", &pid, "--json", "-"];
    args.extend(LITTLE);
    let found = json(&quell(&args));
    assert_eq!(found["workload"]["metric"], "requests", "{found}");
}

#[test]
fn a_service_of_its_own_has_a_model_of_its_traffic_or_a_reason() {
    let args = ["profile", "--service", "store", "--rate", "200", "--peak", "400", "--json", "-"];
    let found = json(&quell(&[&args[..], &LITTLE[..]].concat()));
    assert_eq!(found["workload"]["metric"], "requests", "without an objective its work counts");
    assert_eq!(found["workload"]["requests_per_s"], 200.0, "what was asked for");
    assert!(found["tolerated"]["llc-bandwidth"]["value"].is_number(), "{found}");
    assert!(found["bandwidth"].is_null() != found["bandwidth_absent"].is_null(), "{found}");
}

#[test]
fn a_service_of_which_no_rate_is_asked_gets_one_that_it_bears() {
    let args = ["profile", "--quick", "--service", "store", "--json", "-"];
    let found = json(&quell(&[&args[..], &LITTLE[..]].concat()));
    let rate = found["workload"]["requests_per_s"].as_f64().unwrap();
    let unit = 10_f64.powi(rate.log10().floor() as i32);
    let step = (10.0 * rate / unit).round();
    assert!([10.0, 15.0, 20.0, 30.0, 50.0, 70.0].contains(&step), "one of a few rates: {rate}");
}

#[test]
fn a_service_that_does_not_keep_up_has_no_tail_to_judge() {
    let args = ["profile", "--quick", "--service", "store", "--slo-ms", "5", "--rate", "1000000"];
    let output = quell(&[&args[..], &LITTLE[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("1000000"), "{said}");
}

#[test]
fn a_service_with_an_objective_is_judged_by_its_tail() {
    let by = |slo_ms: &str| {
        let args = ["profile", "--quick", "--service", "store", "--slo-ms", slo_ms, "--json", "-"];
        let found = json(&quell(&[&args[..], &LITTLE[..]].concat()));
        assert_eq!(found["workload"]["metric"], "inverse_latency", "{found}");
        let point = &found["curves"]["llc-bandwidth"][0];
        assert!(point["pairs"].as_u64().unwrap() > 0, "{point}");
        let tolerated = found["tolerated"]["llc-bandwidth"]["value"].as_f64().unwrap();
        (tolerated, point["speed_frac"]["value"].as_f64().unwrap())
    };
    assert_eq!(by("60000"), (100.0, 1.0), "nothing makes it wait for a minute");
    assert_ne!(by("0.001").1, 1.0, "no tail is as short as that, so each counts as it is");
}

#[test]
fn profiles_are_kept_shown_predicted_from_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let all = |args: &[&str]| quell(&[args, &["--state-dir", state]].concat());
    let none = all(&["profile", "list"]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("no profiles are kept"), "{none:?}");
    for name in ["one", "two"] {
        let mut args = vec!["profile", "--quick", "--yardsticks", "--store", "--name", name];
        args.extend(["--state-dir", state]);
        args.extend(LITTLE);
        args.extend(["--", "sh", "-c", "head -c 3000000 /dev/zero > /dev/null"]);
        let done = quell(&args);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let list = json(&all(&["profile", "list", "--json"]));
    assert_eq!(list["schema"], "quell.profiles/1");
    let names: Vec<&str> =
        list["profiles"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(list["profiles"][0]["here"], true);
    let shown = json(&all(&["profile", "show", "one", "--json"]));
    assert_eq!(shown["schema"], "quell.profile/1");
    let predicted = json(&all(&["predict", "one", "two", "--json", "-"]));
    assert_eq!(predicted["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(predicted["pairs"][0]["form"], "mean");
    assert_eq!(shown["witnesses"].as_object().unwrap().len(), 3, "{shown}");
    assert!(all(&["profile", "remove", "one"]).status.success());
    let gone = failed(&all(&["predict", "one", "two"]));
    assert!(gone.contains("neither a file nor a kept profile"), "{gone}");
    assert!(failed(&all(&["profile", "remove", "one"])).contains("no profile of one"));
    // Somebody's file is told before anything is measured, and left as it is.
    let file = folder.path().join("text");
    let text = "something of somebody's, long enough to be no database header".repeat(20);
    std::fs::write(&file, &text).unwrap();
    let begun = Instant::now();
    let args = ["profile", "--store", file.to_str().unwrap(), "--", "sleep", "600"];
    let error = failed(&quell(&args));
    assert!(error.contains("left as it is") && begun.elapsed() < PATIENCE, "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_program_is_ranked_by_what_was_asked_for() {
    let program = ["--", "sh", "-c", "head -c 3000000 /dev/zero > /dev/null"];
    let only = ["tune", "--only", "llc-bandwidth,l1-data", "--llc-bytes", "8388608", "--json", "-"];
    let found = json(&quell(&[&only[..], &program[..]].concat()));
    assert_eq!(found["schema"], "quell.tune/1");
    let ranked: Vec<&str> =
        found["advice"].as_array().unwrap().iter().filter_map(|a| a["resource"].as_str()).collect();
    assert_eq!(ranked.len(), 2, "shared and private: {found}");
}

#[test]
fn one_cpu_shared_by_time_is_marked() {
    let args = ["profile", "--same-core", "--only", "l1-data", "--json", "-", "--"];
    let program = ["sh", "-c", "head -c 3000000 /dev/zero > /dev/null"];
    let found = json(&quell(&[&args[..], &program[..]].concat()));
    assert_eq!(found["same_core"], true);
    assert!(found["tolerated"]["l1-data"]["value"].is_number(), "{found}");
}

#[test]
fn the_matrix_has_a_row_for_each_antagonist_or_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("matrix.json");
    let args = ["matrix", "store", "--peak", "400", "--loads", "0.5", "--rounds", "1", "--window"];
    let more = ["0.2", "--llc-bytes", "8388608", "--json", file.to_str().unwrap()];
    let done = quell(&[&args[..], &more[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let (cells, absent) =
        (found["cells"].as_array().unwrap(), found["absent"].as_object().unwrap());
    assert_eq!(cells.len() + absent.len(), 8, "{found}");
    let shaped = |cell: &&Value| cell["antagonist"] == "network, 100 Mbit";
    let cell = cells.iter().find(shaped).expect("root may make links");
    assert!(cell["p95_percent_of_alone"]["value"].as_f64().unwrap() > 0.0);
    let words = String::from_utf8_lossy(&done.stdout);
    assert!(words.contains("storage") && words.contains("50 %"), "{words}");
}

#[test]
fn the_impact_part_has_services_beside_programs() {
    let args = ["pressure", "validate", "--parts", "impact", "--rounds", "1", "--window-ms", "20"];
    let more = ["--services", "redis", "--application", "true", "--json", "-"];
    let found = json(&quell(&[&args[..], &more[..], &LITTLE[..]].concat()));
    let of = |name: &str| {
        let all = found["impact"].as_array().unwrap().iter();
        all.filter(|one| one["application"] == name).count()
    };
    assert_eq!((of("redis"), of("true"), of("chase 4 MiB")), (1, 1, 1), "{found}");
}

/// The process of the pressing side, if this one has begun one.
fn pressing_side(of: u32) -> Option<String> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).ok()?.flatten();
    let children = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let pids: Vec<String> = children
        .flat_map(|c| c.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_side = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("--sources"))
    };
    pids.into_iter().find(is_side)
}

#[test]
fn cross_talk_presses_from_a_process_of_its_own_that_does_not_outlive_it() {
    let args = ["pressure", "validate", "--parts", "crosstalk", "--window-ms", "5", "--json", "-"];
    let short = [&args[..], &["--only", "integer,page-faults", "--rounds", "1"]].concat();
    let found = json(&quell(&short));
    assert_eq!(found["crosstalk"].as_array().unwrap().len(), 4, "{found}");
    let long = [&args[..], &["--only", "integer,page-faults", "--rounds", "100"]].concat();
    let mut child = Command::new(QUELL)
        .args(&long)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut String::new()).unwrap();
    let side = pressing_side(child.id()).expect("a process presses");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{side}")).exists(), "it was left behind");
}

#[test]
fn a_matrix_that_is_stopped_while_it_looks_for_the_peak_says_so() {
    let mut child = Command::new(QUELL)
        .args(["matrix", "store", "--loads", "0.5"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first rate that was tried; the search goes on for half a minute.
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut lines, &mut first).unwrap();
    assert!(first.contains("looking for the peak"), "{first}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
    assert!(rest.contains("stopped") && !rest.contains("at 0.5"), "{rest}");
}

#[test]
fn a_matrix_and_a_validation_that_are_stopped_write_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = folder.path().join("matrix.json");
    let validation = folder.path().join("validation.json");
    let loads = vec!["0.5"; 200].join(",");
    let first = ["matrix", "store", "--peak", "400", "--rounds", "1", "--window", "0.1", "--loads"];
    let first = [&first[..], &[&loads, "--json", matrix.to_str().unwrap()]].concat();
    let second = ["pressure", "validate", "--parts", "timing", "--only", "integer,floating-point"];
    let more = ["--rounds", "100", "--json", validation.to_str().unwrap()];
    let second = [&second[..], &more[..]].concat();
    for (args, file, part) in [(first, &matrix, "cells"), (second, &validation, "timing")] {
        let mut child = Command::new(QUELL)
            .args(&args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The first line on standard error is the first that was measured.
        let mut lines = std::io::BufReader::new(child.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut lines, &mut String::new()).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
        let found: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert!(!found[part].as_array().unwrap().is_empty(), "{found}");
        assert!(found["ended_early"].as_str().unwrap().contains("stopped"), "{found}");
    }
}
