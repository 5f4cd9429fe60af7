//! Recordings: what is recorded can be replayed, and what is replayed and recorded again is the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_platform::{MemoryStore, Platform, PlatformError, Recorder, Replay, Scope, Store};
use quell_types::{Action, CapabilityReport, Knob, Sample, Setup};
use std::collections::VecDeque;
use std::time::Duration;

/// A server that reads these samples.
struct Given {
    setup: Setup,
    samples: VecDeque<Sample>,
}

impl Platform for Given {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        Vec::new()
    }

    fn sample(&mut self, _: Duration, _: Scope) -> Result<Sample, PlatformError> {
        self.samples.pop_front().ok_or_else(|| PlatformError::Lost("that was all".into()))
    }

    fn apply(&mut self, _: &Action) -> Result<(), PlatformError> {
        Ok(())
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        Ok(())
    }

    fn disown(&mut self, _: &Knob) -> Result<(), PlatformError> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let samples = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    comes_back(Given { setup: Setup::default(), samples: samples.collect() }, &[]);

    let mut store = MemoryStore::default();
    for line in text.lines() {
        store.append(line).expect("memory takes it");
    }
    if let Ok(replay) = Replay::open(&mut store) {
        let actions = replay.recorded().to_vec();
        comes_back(replay, &actions);
    }
});

fn comes_back(platform: impl Platform, actions: &[Action]) {
    let mut store = MemoryStore::default();
    let mut recorder = Recorder::new(platform, store.clone()).expect("memory takes it");
    let first = all_of(&mut recorder);
    for action in actions {
        recorder.apply(action).expect("a replay takes it");
    }
    let mut again = Replay::open(&mut store).expect("what was recorded can be read");
    assert_eq!(again.recorded(), actions);
    assert_eq!(all_of(&mut again), first);
}

fn all_of(platform: &mut impl Platform) -> (Setup, Vec<Sample>) {
    let mut samples = Vec::new();
    while let Ok(sample) = platform.sample(Duration::ZERO, Scope::Full) {
        for tenant in sample.tenants.values() {
            let latency = tenant.requests.as_ref().ok().and_then(|r| r.latency_ns.as_ref().ok());
            let _ = latency.and_then(|latency| latency.quantile(0.99));
        }
        samples.push(sample);
    }
    (platform.setup().clone(), samples)
}
