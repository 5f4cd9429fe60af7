//! The measuring subcommands at the edge: bad input, Ctrl-C, the list for machines.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const QUELL: &str = env!("CARGO_BIN_EXE_quell");

/// Standard output, standard error, exit code.
fn quell(args: &[&str]) -> (String, String, Option<i32>) {
    let done = Command::new(QUELL).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code())
}

#[test]
fn the_list_is_for_machines_too() {
    let (out, _, code) = quell(&["pressure", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, list["schema"].as_str()), (Some(0), Some("quell.kernels/1")));
    assert_eq!(list["kernels"].as_array().unwrap().len(), 21);
    assert_eq!(list["kernels"][1]["resource"], "memory-bandwidth");
    let (words, _, _) = quell(&["pressure", "list"]);
    assert!(words.contains("llc-capacity (llc)"));
}

#[test]
fn bad_input_says_what_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (no_profile, one) = (file("a.json", "{}"), file("list", "only: true\n"));
    for (args, code, word) in [
        (&["profile"][..], 2, "COMMAND"),
        (&["profile", "--pid", "1", "--cgroup", "x"], 2, "cannot be used with"),
        (&["profile", "--pid", "2147483600"], 1, "process 2147483600"),
        (&["profile", "--cgroup", "quell-never-made"], 1, "quell-never-made"),
        (&["profile", "--cpus", "60000", "--", "true"], 1, "60000"),
        (&["profile", "--only", "disc", "--", "true"], 2, "disc"),
        (&["profile", "--", "false"], 1, "status 1"),
        (&["profile", "--", "/nowhere/at/all"], 1, "/nowhere/at/all"),
        (&["profile", "--threshold", "2", "--", "true"], 1, "--threshold is 2"),
        (&["pressure"], 2, "RESOURCE"),
        (&["pressure", "llc", "--intensity", "101"], 2, "101"),
        (&["pressure", "validate", "--rounds", "0"], 1, "--rounds 0"),
        (&["predict", &no_profile, &no_profile], 1, "holds nothing, not quell.profile"),
        (&["predict", "--from", &no_profile], 1, "not quell.predict"),
        (&["pressure", "validate", "--from", &no_profile], 1, "not quell.validate"),
        (&["pressure", "validate", "--from", &one, "--rounds", "2"], 2, "--rounds"),
        (&["profile", "show", &one], 1, "no JSON"),
        (&["predict"], 2, "PROFILE"),
        (&["predict", "--check", &one], 1, "two programs"),
        (&["predict", "--check", "/nowhere"], 1, "/nowhere"),
        (&["predict", "a", "b", "--rounds", "3"], 2, "--rounds"),
        (&["matrix", "search", "--rate", "100"], 2, "--rate"),
        (&["tune", "--slo-ms", "5", "--", "true"], 2, "--slo-ms"),
        (&["matrix", "mail", "--peak", "100"], 2, "search, store, topics or redis"),
        (&["matrix", "search", "--peak", "-1"], 1, "--peak -1: give a rate"),
        (&["tune"], 2, "COMMAND"),
        (&["trial", "polluter", "--groups", "1"], 1, "--groups 1: give 2 to 26"),
        (&["trial", "polluter", "--polluter", "sh -c 'x"], 2, "not closed"),
        (&["trial", "polluter", "--server", "x"], 2, "--asks"),
        (&["trial", "polluter", "--server", "x", "--asks", "ftp://x"], 2, "redis://"),
        (
            &["trial", "polluter", "--harm", "none", "--polluter", "x"],
            1,
            "--harm none has no culprit",
        ),
    ] {
        let (_, error, exit) = quell(args);
        assert_eq!(exit, Some(code), "{args:?}: {error}");
        assert!(error.contains(word), "{args:?}: {error}");
    }
}

/// Of what was measured for the experiments, some of it by builds that told less.
#[test]
fn what_was_kept_is_read_and_drawn_again() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/experiments");
    let folder = tempfile::tempdir().unwrap();
    for (command, name, pictures) in [
        (&["pressure", "validate", "--from"][..], "pressure-whole", 6),
        (&["pressure", "validate", "--from"], "pressure-crosstalk", 1),
        (&["pressure", "validate", "--from"], "pressure-shared", 1),
        (&["predict", "--from"], "prediction-takers-2", 3),
        (&["predict", "--from"], "prediction", 3),
        (&["profile", "show"], "profile-turns-store-1", 2),
        (&["profile", "show"], "profile-quick-1", 2),
    ] {
        let file = experiments.join(name).with_extension("json");
        let drawn = folder.path().join(name);
        let args = [command, &[file.to_str().unwrap(), "--report", drawn.to_str().unwrap()]];
        let (words, error, exit) = quell(&args.concat());
        assert_eq!(exit, Some(0), "{name}: {error}");
        assert!(words.lines().count() > 5, "{name}: {words}");
        let files: Vec<_> = std::fs::read_dir(drawn).unwrap().map(|f| f.unwrap().path()).collect();
        let svgs = files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "svg"));
        assert_eq!(svgs.count(), pictures, "{name}: {files:?}");
        assert!(files.iter().any(|file| file.ends_with("report.html")), "{name}");
    }
}

#[test]
fn ctrl_c_leaves_nothing() {
    let command = ["profile", "--progress", "lines", "--", "yes"];
    let mut quell = Command::new(QUELL)
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let found = loop {
        if let Some(pid) = child_of(quell.id(), "yes") {
            break pid;
        }
        assert!(Instant::now() < end, "the workload was not started");
        std::thread::yield_now();
    };
    let pid = rustix::process::Pid::from_child(&quell);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(quell.wait().unwrap().code(), Some(1), "it says that it was stopped");
    assert!(!std::fs::exists(format!("/proc/{found}")).unwrap(), "the workload is gone");
}

/// A child of this name, whichever of the process's threads has started it.
fn child_of(pid: u32, name: &str) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let children = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let pids: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>())
        .collect();
    let named = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    pids.into_iter().find(named)
}

/// Whether somebody is to blame there is told elsewhere: here, that eleven groups of anybody's programs are at
/// work, are looked at, and leave nothing behind.
#[test]
fn a_trial_of_programs_and_of_a_server_that_are_not_quells() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trial.json");
    let packs = "sh -c 'head -c 2000000 /dev/zero | gzip -c > /dev/null; sleep 0.3'";
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!(
        "redis-server --port {port} --bind 127.0.0.1 --save '' --dir {}",
        folder.path().display()
    );
    let asks = format!("redis://127.0.0.1:{port}?keys=5000");
    let mut args = vec!["trial", "polluter", "--harm", "none", "--trials", "1", "--groups", "11"];
    args.extend(["--server", &server, "--asks", &asks]);
    // Other tests run meanwhile.
    args.extend(["--with-others", "--innocent", packs, "--json", file.to_str().unwrap()]);
    let (_, error, code) = quell(&args);
    assert_eq!(code, Some(0), "{error}");
    assert!(!error.contains("remain"), "{error}");
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(told["trials"], 1);
    let service = told["service"].as_str().unwrap();
    assert!(service.starts_with(&format!("redis at 127.0.0.1:{port} (redis-server")), "{service}");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "the server is gone");
    let groups = told["details"][0]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 11);
    assert_eq!(groups[10].as_str().unwrap(), format!("k: {packs}"));
    assert_eq!(told["confusion"]["innocents"]["groups"], 11);
}

#[test]
fn a_link_of_its_own_carries_its_share_and_is_silent_at_none() {
    let linearity = ["pressure", "validate", "--parts", "linearity"];
    let link = ["--only", "network-bandwidth", "--link-mbit", "50", "--rounds", "2", "--json", "-"];
    let (out, error, code) = quell(&[linearity.as_slice(), link.as_slice()].concat());
    assert_eq!(code, Some(0), "{error}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let kernel = &found["kernels"][0];
    assert_eq!(kernel["observer"], "bytes of all links but loopback");
    let at = |index: usize| kernel["levels"][index]["value"].as_f64().unwrap();
    // In percent of what it carries in full. What waits in sockets would go on for half a second on such a link.
    assert!(at(0) < 20.0 && (30.0..70.0).contains(&at(5)) && at(10) > 80.0, "{kernel}");
    assert!(kernel["r"].as_f64().unwrap() > 0.95, "{kernel}");
    let refused = quell(&["pressure", "validate", "--link-mbit", "50", "--peer", "10.0.0.1:1"]);
    assert_eq!(refused.2, Some(2), "one of both: {}", refused.1);
}
