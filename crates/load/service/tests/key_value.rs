//! Real redis and memcached on loopback.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Daemon, plan};
use quell_service::{Bench, Controls, KeyValueMix, LoadError, LoadPlan, Target};

fn mix() -> KeyValueMix {
    KeyValueMix { keys: 2_000, value_bytes: 3_000, set_frac: 0.3 }
}

fn redis() -> Daemon {
    let args =
        ["--port", "PORT", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/"];
    Daemon::start("redis-server", &args)
}

fn drive(target: &Target) {
    let bench = Bench::open(target, None).unwrap();
    let run = bench.run(&plan(800.0, 1.5), &Controls::default(), &mut |_| ()).unwrap();
    assert!(run.offered > 1000, "{run:?}");
    assert_eq!((run.answered, run.failed, run.unanswered), (run.offered, 0, 0), "{run:?}");
    // The protocol tells nothing of service times: that is a gap, not a zero.
    assert_eq!((&run.service, &run.queue), (&None, &None));
    assert_eq!(run.generator.reconnects, 0);
}

#[test]
fn redis_is_driven() {
    let redis = redis();
    drive(&Target::Redis { address: redis.address, mix: mix() });
}

#[test]
fn memcached_is_driven() {
    let args = ["-p", "PORT", "-U", "0", "-l", "127.0.0.1", "-u", "nobody", "-m", "64"];
    let memcached = Daemon::start("memcached", &args);
    drive(&Target::Memcached { address: memcached.address, mix: mix() });
}

#[test]
fn a_server_that_speaks_another_protocol_is_told() {
    let redis = redis();
    let error = Bench::open(&Target::Memcached { address: redis.address, mix: mix() }, None);
    let error = error.err().unwrap();
    assert!(matches!(error, LoadError::Service { .. }), "{error}");
}

#[test]
fn a_server_that_dies_leaves_failed_requests_not_a_hang() {
    let mut redis = redis();
    let target = Target::Redis { address: redis.address, mix: mix() };
    let bench = Bench::open(&target, None).unwrap();
    let plan = LoadPlan { drain_s: 0.5, ..plan(500.0, 2.0) };
    let mut killed = false;
    let run = bench
        .run(&plan, &Controls::default(), &mut |_| {
            if !std::mem::replace(&mut killed, true) {
                redis.kill();
            }
        })
        .unwrap();
    assert!(killed && run.answered > 0);
    assert!(run.unanswered > 0, "{run:?}");
    assert_eq!(run.answered + run.failed + run.unanswered, run.offered);
    assert!(run.generator.reconnects > 0);
}
