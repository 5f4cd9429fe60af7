//! Probes against a made-up service whose truth is known.

use super::*;
use crate::testing::{observe, setup};
use quell_types::{ChipTrace, LogHistogram, PROBE_GROUP, RequestReading};

const STEP_S: f64 = 0.25;

fn web() -> Setup {
    setup(2).service("web", 10.0, 4000.0).build()
}

/// A machine on which `web` keeps its speed up to an intensity, and loses a third above it.
struct Made {
    law: Refresh,
    setup: Setup,
    limit: f64,
    slack: f64,
    /// The share of the time in which what presses gets a CPU.
    runs: f64,
    now_s: f64,
    ready: Option<(f64, ProbeTrace)>,
    probes: Vec<Probe>,
    ends: u32,
    pressed_s: f64,
}

impl Made {
    fn new(limit: f64) -> Made {
        Made {
            law: Refresh::new(RefreshParams::default()),
            setup: web(),
            limit,
            slack: 0.6,
            runs: 1.0,
            now_s: 0.0,
            ready: None,
            probes: Vec::new(),
            ends: 0,
            pressed_s: 0.0,
        }
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now_s + seconds;
        while self.now_s < end {
            self.now_s += STEP_S;
            self.step();
        }
    }

    fn step(&mut self) {
        let due = self.ready.take_if(|(at, _)| *at <= self.now_s);
        let slack = self.slack;
        let seen = observe(&self.setup, self.now_s).slack("web", slack);
        let seen = seen.of("web", |s| s.qps = Ok(1000.0));
        let seen = seen.with(|o| o.probes.extend(due.map(|(_, trace)| trace)));
        for proposal in self.law.step(&self.setup, &seen.done()) {
            match proposal.wish {
                Wish::Probe(probe) => self.begin(probe),
                Wish::EndProbe { id } => self.end(id),
                other => panic!("{other:?}"),
            }
        }
    }

    fn begin(&mut self, probe: Probe) {
        assert!(self.ready.is_none(), "one at a time");
        let takes = probe.duration().as_secs_f64() + READY.as_secs_f64();
        self.pressed_s += takes;
        self.ready = Some((self.now_s + takes, self.trace(&probe)));
        self.probes.push(probe);
    }

    fn end(&mut self, id: u64) {
        let (at, trace) = self.ready.as_mut().unwrap();
        assert_eq!(trace.probe.id, id);
        (*at, trace.aborted) = (self.now_s, Some("asked to".to_owned()));
        self.ends += 1;
    }

    fn trace(&self, probe: &Probe) -> ProbeTrace {
        let window_ns = probe.window_us * 1000;
        let hurt = probe.intensity_percent * self.runs > self.limit;
        let window = |(i, pressed): (usize, bool)| {
            let requests = window_ns / 1_000_000;
            let mut latency = LogHistogram::new();
            latency.record_many(2_000_000, requests);
            let cost = if pressed && hurt { 300_000 } else { 200_000 };
            let reading =
                RequestReading { requests, bytes_in: 0, bytes_out: 0, latency_ns: Ok(latency) };
            let own = if pressed { (window_ns as f64 * self.runs) as u64 } else { 0 };
            ChipTrace {
                from: Time(i as u64 * window_ns),
                to: Time((i as u64 + 1) * window_ns),
                running: pressed,
                victim_cpu_ns: BTreeMap::from([("web".into(), Ok(requests * cost))]),
                victim_requests: BTreeMap::from([("web".into(), Ok(reading))]),
                group_cpu_ns: BTreeMap::from([(PROBE_GROUP.into(), Ok(own))]),
            }
        };
        let windows = probe.code().into_iter().enumerate().map(window).collect();
        ProbeTrace { probe: probe.clone(), windows, aborted: None }
    }

    fn found(&self, resource: SharedResource) -> Tolerance {
        self.law.tolerances()[&"web".into()][&resource]
    }
}

#[test]
fn what_is_tolerated_is_found_at_a_hundredth_of_the_time() {
    for limit in [4.0, 33.0, 70.0, 100.0] {
        let mut made = Made::new(limit);
        made.run(12_000.0);
        assert!(made.pressed_s <= 0.01 * made.now_s, "{limit}: {} s", made.pressed_s);
        assert!(made.probes.len() >= 30, "{} probes", made.probes.len());
        for resource in SharedResource::ALL {
            let found = made.found(resource);
            let near = found.kept_percent <= limit && found.lost_percent >= limit.min(99.0);
            assert!(near && found.lost_percent - found.kept_percent <= 10.0, "{limit}: {found:?}");
        }
    }
}

#[test]
fn what_hardly_ran_is_not_taken_for_more() {
    let mut made = Made::new(100.0);
    made.runs = 0.25;
    made.run(8000.0);
    let known = made.law.ladders.values().map(|ladder| ladder.kept()).fold(0.0, f64::max);
    assert!(known <= 25.0 + 1e-6, "at most a quarter was ever pressed: {known}");
    let found = made.found(SharedResource::LlcCapacity);
    assert!((found.kept_percent - 25.0).abs() < 1e-6, "{found:?}");
    assert_eq!(found.lost_percent, 100.0, "nothing more was tried");
}

#[test]
fn without_slack_nothing_is_pressed() {
    let mut made = Made::new(50.0);
    made.slack = 0.25;
    made.run(2000.0);
    assert!(made.probes.is_empty());
}

#[test]
fn a_probe_ends_at_once_when_slack_falls_and_tells_nothing() {
    let mut made = Made::new(50.0);
    while made.ready.is_none() {
        made.run(1.0);
    }
    made.slack = 0.05;
    made.run(STEP_S);
    assert_eq!(made.ends, 1);
    made.run(5.0);
    assert_eq!((made.ends, made.ready.is_none()), (1, true), "ended once");
    assert!(made.law.tolerances().is_empty());
    assert!(made.law.ladders.values().all(|ladder| ladder.kept() == 0.0));
}

#[test]
fn a_lost_probe_does_not_stop_the_others() {
    let mut made = Made::new(50.0);
    while made.ready.is_none() {
        made.run(1.0);
    }
    made.ready = None;
    made.run(1000.0);
    assert!(made.probes.len() > 1, "{} probes", made.probes.len());
}

#[test]
fn seldom_requests_are_no_measure() {
    let mut law = Refresh::new(RefreshParams::default());
    let setup = web();
    for i in 0..4000 {
        let seen = observe(&setup, f64::from(i) * STEP_S).slack("web", 0.6);
        let seen = seen.of("web", |s| s.qps = Ok(50.0));
        assert!(law.step(&setup, &seen.done()).is_empty());
    }
}
