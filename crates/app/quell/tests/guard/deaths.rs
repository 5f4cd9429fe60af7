//! SIGKILL at random moments: `quell restore` puts every knob back.

use crate::common::{Ground, Guard, QUELL, text, until};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often; `make bench` asks for more by QUELL_KILL_ROUNDS.
fn rounds() -> u32 {
    std::env::var("QUELL_KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

#[test]
fn whenever_it_is_killed_a_restore_brings_every_knob_back() {
    let mut ground = Ground::new();
    ground.spin();
    let before = ground.texts();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let mut random = seed | 1;
    let mut changed = 0;
    for round in 0..rounds() {
        // Xorshift: moments from the very start to well within the guarding.
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let moment = Duration::from_millis(u64::from(random % 900));
        let fast = ["--set", "agent.interval_s=0.1", "--set", "agent.fast_interval_s=0.05"];
        let mut guard = ground.guard(&fast);
        // Every other time the moment counts from the first change, so that however slow the start
        // is here, deaths come both before and after it.
        if round % 2 == 1 {
            until("a changed knob", || (ground.texts() != before).then_some(()));
        }
        std::thread::sleep(moment);
        guard.signal("-KILL");
        guard.exit_code();
        changed += u32::from(ground.texts() != before);
        let restored = ground.quell(&["restore"]).output().unwrap();
        assert!(restored.status.success(), "round {round}, seed {seed}: {}", text(&restored));
        assert_eq!(ground.texts(), before, "round {round}, seed {seed}, after {moment:?}");
    }
    assert!(changed > 0, "no death came while knobs were changed, in {} rounds", rounds());
    let again = ground.quell(&["restore", "--json"]).output().unwrap();
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["restored"], 0);
}

/// What systemd does with the agent's service: hears its beats, and ends it when there were none for
/// too long; then it restores.
#[test]
fn an_agent_that_hangs_is_ended_by_its_watchdog_and_every_knob_is_put_back() {
    const LIMIT: Duration = Duration::from_secs(3);
    let mut ground = Ground::new();
    ground.spin();
    let before = ground.texts();
    let notify = ground.folder.path().join("notify");
    let socket = UnixDatagram::bind(&notify).unwrap();
    let service = format!("name=web,cgroup={},p99=20ms", ground.path("service"));
    let batch = format!("name=jobs,cgroup={}", ground.path("batch"));
    let script = "ulimit -c 0; WATCHDOG_PID=$$ exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh", QUELL, "guard", "--service", &service, "--batch", &batch]);
    command.args(["--law", "os-only", "--set", "agent.metrics=off", "--status-json"]);
    command.arg(ground.status_file()).arg("--state-dir").arg(ground.state());
    command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", LIMIT.as_micros().to_string());
    let mut guard = Guard::start(&mut command, &ground);
    guard.ready();
    until("a changed knob", || (ground.texts() != before).then_some(()));
    // One that works beats again and again.
    let mut message = [0; 1024];
    socket.set_nonblocking(true).unwrap();
    let mut beats = || {
        let heard =
            std::iter::from_fn(|| socket.recv(&mut message).ok().map(|n| message[..n].to_vec()));
        heard.filter(|text| String::from_utf8_lossy(text).contains("WATCHDOG=1")).count()
    };
    let mut heard = 0;
    until("beats", || {
        heard += beats();
        (heard >= 4).then_some(())
    });
    guard.hang();
    // From here on the watchdog's own clock runs: what came last was sent before.
    while beats() > 0 {}
    let fires = std::time::Instant::now() + LIMIT;
    until("the watchdog", || {
        assert_eq!(beats(), 0, "it does not hang");
        (std::time::Instant::now() >= fires).then_some(())
    });
    assert_ne!(ground.texts(), before, "it hangs with knobs changed");
    let early = ground.quell(&["restore"]).output().unwrap();
    assert!(!early.status.success(), "it has not ended yet: {}", text(&early));
    guard.signal("-ABRT");
    guard.signal("-CONT");
    assert_eq!(guard.exit_code(), None, "by the signal: {}", guard.log());
    let restored = ground.quell(&["restore"]).output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored));
    assert_eq!(ground.texts(), before);
}
