//! SIGKILL at random moments: `quell restore` puts every knob back.

use crate::common::{Ground, text, until};
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
