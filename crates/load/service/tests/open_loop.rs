//! The generator never waits for answers, and what it is late with counts (L-3).

#![allow(clippy::unwrap_used)]

mod common;

use common::{plan, small_store};
use quell_service::{
    Arrivals, Bench, Controls, Extent, LoadPlan, PeakPlan, Profile, RunReport, Server, Service,
    Target, now_ns,
};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

const STALL: Duration = Duration::from_millis(200);
const SECOND: u64 = 1_000_000_000;

/// Answers at once, except for one request that takes 200 ms.
#[derive(Default)]
struct Stalling {
    served: AtomicU64,
    stalled: Mutex<Option<(u64, u64)>>,
}

impl Service for Stalling {
    fn serve(&self, _: &[u8], response: &mut Vec<u8>) {
        response.push(b'+');
        if self.served.fetch_add(1, Ordering::Relaxed) == 300 {
            let from = now_ns();
            std::thread::sleep(STALL);
            *self.stalled.lock().unwrap() = Some((from, now_ns()));
        }
    }
}

fn stall_plan(file: &std::path::Path) -> LoadPlan {
    LoadPlan { warmup: Extent::Seconds(0.0), requests_file: Some(file.into()), ..plan(1000.0, 1.5) }
}

/// Every request that was due while the server stalled waited for its end at least, whether it
/// could be sent or not.
fn assert_no_omission(run: &RunReport, plan: &LoadPlan, service: &Stalling) {
    let (from, to) = service.stalled.lock().unwrap().expect("the server has stalled");
    let start = run.windows[0].start_monotonic_ns;
    let schedule: Vec<u64> = Arrivals::new(plan.profile.clone(), plan.seed, 0, 1)
        .map(|due_s| start + (due_s * SECOND as f64) as u64)
        .take_while(|&due| due < start + 3 * SECOND / 2)
        .collect();
    assert_eq!(run.offered, schedule.len() as u64);
    let mut bounds: Vec<u64> =
        schedule.iter().filter(|&&due| due > from && due < to).map(|due| to - due).collect();
    assert!(bounds.len() > 100, "only {} requests were due during the stall", bounds.len());
    let bytes = std::fs::read(plan.requests_file.as_ref().unwrap()).unwrap();
    let (triples, rest) = bytes.as_chunks::<24>();
    assert!(rest.is_empty());
    let mut sojourns: Vec<u64> =
        triples.iter().map(|t| u64::from_le_bytes(t[16..].try_into().unwrap())).collect();
    assert_eq!(sojourns.len(), schedule.len());
    bounds.sort_unstable_by(|a, b| b.cmp(a));
    sojourns.sort_unstable_by(|a, b| b.cmp(a));
    for (rank, (sojourn, bound)) in sojourns.iter().zip(&bounds).enumerate() {
        assert!(sojourn >= bound, "rank {rank}: {sojourn} ns recorded, {bound} ns waited");
    }
}

#[test]
fn a_stall_shows_in_every_request_that_was_due() {
    let service = Arc::new(Stalling::default());
    let server =
        Server::with_service(service.clone(), "127.0.0.1:0".parse().unwrap(), 1, None).unwrap();
    let target = Target::Served { address: server.address(), spec: small_store() };
    let file = tempfile::NamedTempFile::new().unwrap();
    let plan = LoadPlan { connections: 8, ..stall_plan(file.path()) };
    let bench = Bench::open(&target, None).unwrap();
    let run = bench.run(&plan, &Controls::default(), &mut |_| ()).unwrap();
    assert_no_omission(&run, &plan, &service);
    // Only eight of them can have waited in the server; the others waited in the generator.
    assert!(run.backlog_samples.iter().any(|&backlog| backlog > 8), "{run:?}");
}

#[test]
fn a_stall_shows_in_integrated_mode_too() {
    let service = Arc::new(Stalling::default());
    let bench = Bench::integrated(service.clone(), small_store(), 1);
    let file = tempfile::NamedTempFile::new().unwrap();
    let plan = stall_plan(file.path());
    let run = bench.run(&plan, &Controls::default(), &mut |_| ()).unwrap();
    assert_no_omission(&run, &plan, &service);
}

/// Makes the calling worker's progress independent of what else runs on the machine.
fn stand_above_others() {
    thread_local!(static DONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if !DONE.replace(true) {
        let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        // Refused without root: then the test needs a machine that is not overloaded.
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo);
    }
}

/// Gives out 500 slots a second without using the CPU, and makes up for slots of the last 100 ms
/// that a busy machine made it miss: so its capacity is known on any machine.
#[derive(Default)]
struct Paced(Mutex<u64>);

impl Service for Paced {
    fn serve(&self, _: &[u8], response: &mut Vec<u8>) {
        response.push(b'+');
        stand_above_others();
        let now = now_ns();
        let slot = {
            let mut next = self.0.lock().unwrap();
            let slot = (*next).max(now - SECOND / 10);
            *next = slot + SECOND / 500;
            slot
        };
        std::thread::sleep(Duration::from_nanos(slot.saturating_sub(now)));
    }
}

#[test]
fn the_peak_of_a_real_server_is_found() {
    let server =
        Server::with_service(Arc::<Paced>::default(), "127.0.0.1:0".parse().unwrap(), 1, None)
            .unwrap();
    let target = Target::Served { address: server.address(), spec: small_store() };
    let bench = Bench::open(&target, None).unwrap();
    let peak_plan = PeakPlan {
        start_qps: 100.0,
        probe_s: 0.6,
        confirm_s: 2.0,
        resolution_frac: 0.15,
        ..PeakPlan::default()
    };
    let mut heard = 0;
    let report = bench
        .find_peak(&plan(1.0, 1.0), &peak_plan, &mut Controls::default, &mut |_| heard += 1)
        .unwrap();
    // 500 a second, and the slots of 100 ms that may have been saved up.
    assert!((250.0..=600.0).contains(&report.peak_qps), "{report:?}");
    assert_eq!(heard, report.probes.len());
    assert!(report.probes.last().unwrap().confirms);
}

#[test]
fn overload_shows_as_backlog_and_unanswered() {
    let bench = Bench::integrated(Arc::<Paced>::default(), small_store(), 1);
    let plan = LoadPlan { drain_s: 0.1, ..plan(2000.0, 1.0) };
    let run = bench.run(&plan, &Controls::default(), &mut |_| ()).unwrap();
    assert!(run.answered_in_time <= 700, "{}", run.answered_in_time);
    assert_eq!(run.answered + run.unanswered, run.offered);
    assert!(run.unanswered > 1000, "{}", run.unanswered);
    assert!(run.backlog_samples.is_sorted(), "{:?}", run.backlog_samples);
    // Those that were given up count with their age, so the tail is no better than the truth.
    assert_eq!(run.sojourn.count, run.offered);
    assert!(run.sojourn.p99_ms > 500.0, "{}", run.sojourn.p99_ms);
    assert!(run.answered_frac() < 0.4);
}

/// Answers at once.
struct Instant;

impl Service for Instant {
    fn serve(&self, _: &[u8], response: &mut Vec<u8>) {
        response.push(b'+');
    }
}

#[test]
fn the_rate_follows_the_profile_and_the_controls() {
    let bench = Bench::integrated(Arc::new(Instant), small_store(), 1);
    let crowd = Profile::FlashCrowd { base_qps: 200.0, crowd_qps: 1000.0, at_s: 1.0, hold_s: 1.0 };
    let plan = LoadPlan { profile: crowd, warmup: Extent::Seconds(0.0), ..plan(1.0, 120.0) };
    let controls = Controls::default();
    let hand = controls.clone();
    let run = bench
        .run(&plan, &controls, &mut |window| {
            if window.start_s >= 2.4 {
                hand.set_rate(3000.0);
            }
            if window.offered_qps > 2000.0 {
                hand.stop();
            }
        })
        .unwrap();
    let rate = |from: f64, to: f64| {
        let inside = |w: &&quell_service::Window| w.start_s >= from && w.start_s < to;
        let windows: Vec<_> = run.windows.iter().filter(inside).collect();
        let length: f64 = windows.iter().map(|w| w.length_s).sum();
        windows.iter().map(|w| w.offered as f64).sum::<f64>() / length
    };
    let (before, crowd, after) = (rate(0.0, 0.9), rate(1.0, 1.9), rate(2.0, 2.9));
    assert!((120.0..280.0).contains(&before), "{before}");
    assert!((850.0..1150.0).contains(&crowd), "{crowd}");
    assert!((120.0..280.0).contains(&after), "{after}");
    assert!(run.measured_s < 100.0, "the live change of the rate never came");
}

#[test]
fn who_rests_is_asked_nothing_and_goes_on_when_told_to() {
    let bench = Bench::integrated(Arc::new(Instant), small_store(), 1);
    let controls = Controls::default();
    let hand = controls.clone();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let until = |more: &dyn Fn() -> bool| {
        while !more() {
            assert!(std::time::Instant::now() < end, "it never heard of it");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.run(&plan(2000.0, 120.0), &controls, &mut |_| ()).unwrap());
        until(&|| hand.tally().answered >= 20);
        hand.set_rate(0.0);
        // It has heard of it once a while passes without an answer; what was due before is answered.
        let quiet = || {
            let before = hand.tally().answered;
            std::thread::sleep(std::time::Duration::from_millis(150));
            hand.tally().answered == before
        };
        until(&quiet);
        let resting = hand.tally();
        hand.set_rate(2000.0);
        until(&|| hand.tally().since(resting).answered >= 20);
        hand.stop();
        run.join().unwrap()
    });
    assert!(run.measured_s < 100.0 && run.answered == run.offered, "{} s", run.measured_s);
    let tally = controls.tally();
    assert_eq!(tally.answered, run.answered + run.warmup_requests, "all are counted");
}

#[test]
fn a_stop_ends_the_run_early() {
    let bench = Bench::integrated(Arc::new(Instant), small_store(), 1);
    let controls = Controls::default();
    let hand = controls.clone();
    let run = bench.run(&plan(500.0, 3600.0), &controls, &mut |_| hand.stop()).unwrap();
    assert!(run.measured_s < 60.0, "{}", run.measured_s);
    assert!(run.offered > 0 && run.answered == run.offered);
}

#[test]
fn the_generator_sleeps_between_requests() {
    let server =
        Server::with_service(Arc::new(Instant), "127.0.0.1:0".parse().unwrap(), 1, None).unwrap();
    let target = Target::Served { address: server.address(), spec: small_store() };
    let bench = Bench::open(&target, None).unwrap();
    let run = bench.run(&plan(200.0, 2.0), &Controls::default(), &mut |_| ()).unwrap();
    // One that spins would use all of a CPU.
    assert!(run.generator.cpu_frac < 0.4, "{:?}", run.generator);
    assert!(run.generator.cpu_s > 0.0);
}
