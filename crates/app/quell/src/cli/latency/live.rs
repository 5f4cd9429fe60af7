//! Load that goes on in the background and rests when it is told to: what a service does in a window of some
//! milliseconds is seen without a run of its own, which takes longer than that to begin.

use quell_service::{Bench, Controls, Extent, LoadError, LoadPlan, Profile, RunReport, Tally};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// It ends after this, whatever becomes of who started it.
const LONGEST_S: f64 = 3600.0;

/// A run that goes on. Dropping it ends it.
pub(super) struct Live {
    controls: Controls,
    qps: f64,
    thread: Option<JoinHandle<Result<RunReport, LoadError>>>,
}

impl Live {
    /// Begins, on the CPUs of the calling thread; `even`: windows of few requests ask for alike.
    pub(super) fn start(bench: &Arc<Bench>, qps: f64, seed: u64, even: bool) -> io::Result<Live> {
        let plan = LoadPlan {
            profile: Profile::Constant { qps },
            warmup: Extent::Seconds(0.0),
            measured: Extent::Seconds(LONGEST_S),
            drain_s: 1.0,
            seed,
            even,
            ..LoadPlan::default()
        };
        let (controls, bench) = (Controls::default(), Arc::clone(bench));
        let theirs = controls.clone();
        let run = move || bench.run(&plan, &theirs, &mut |_| ());
        let thread = std::thread::Builder::new().name("quell-live".to_owned()).spawn(run)?;
        Ok(Live { controls, qps, thread: Some(thread) })
    }

    /// What it came to so far.
    pub(super) fn tally(&self) -> Tally {
        self.controls.tally()
    }

    /// Begins to keep how long each answer takes.
    pub(super) fn keep_sojourns(&self) {
        self.controls.keep_sojourns();
    }

    /// How long each answer took since then, in ns.
    pub(super) fn take_sojourns(&self) -> Vec<u64> {
        self.controls.take_sojourns()
    }

    pub(super) fn rest(&self) {
        self.controls.set_rate(0.0);
    }

    pub(super) fn go_on(&self) {
        self.controls.set_rate(self.qps);
    }

    /// Why it ended, if it did.
    pub(super) fn failure(&mut self) -> Option<LoadError> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        match thread.join() {
            Ok(Err(failure)) => Some(failure),
            Ok(Ok(_)) => Some(LoadError::Stopped),
            Err(_) => Some(LoadError::Panicked("load")),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.controls.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
