//! Scenarios of the whole law; the top controller's order of tests has its own in `top.rs`.

use super::*;
use crate::OnDisable;
use crate::testing::{Seen, SetupBuilder, Standing, observe, setup};
use quell_types::{CpuBandwidth, Setting};
use std::time::Duration;

mod cores;
mod memory;
mod tap;

/// Nine CPUs of which one is the system's, a cache of 20 ways, a link of 1 Gbit/s.
fn nine() -> SetupBuilder {
    setup(9).service("search", 15.0, 1000.0).batch("hadoop").link("eth0", 1000.0)
}

struct Run {
    law: Thesis,
    setup: Setup,
    standing: Standing,
}

impl Run {
    fn new(setup: Setup, params: ThesisParams) -> Self {
        params.validate().expect("valid parameters");
        Self { law: Thesis::new(params), setup, standing: Standing::default() }
    }

    /// What is seen at a second: batch has work, the service has this load and slack.
    fn seen(&self, second: f64, load: f64, slack: f64) -> Seen {
        let seen = observe(&self.setup, second).obedient(&self.standing);
        seen.load("search", load).slack("search", slack).egress("search", 0.0)
    }

    fn step(&mut self, seen: Seen) -> Vec<String> {
        self.standing.step(&mut self.law, &self.setup, seen)
    }

    /// Steps every half second with the same load and slack from `from` up to before `to`.
    fn run(&mut self, from: f64, to: f64, load: f64, slack: f64) -> Vec<String> {
        self.run_with(from, to, |seen| seen.load("search", load).slack("search", slack))
    }

    fn run_with(&mut self, from: f64, to: f64, change: impl Fn(Seen) -> Seen) -> Vec<String> {
        let steps = ((to - from) * 2.0) as u32;
        let mut rules = Vec::new();
        for step in 0..steps {
            let seen = change(self.seen(from + f64::from(step) / 2.0, 0.0, 1.0));
            rules.extend(self.step(seen));
        }
        rules
    }

    fn cpus(&self) -> (String, String) {
        (self.standing.cpus("hadoop").to_string(), self.standing.cpus("search").to_string())
    }
}

/// Nine CPUs and no cache control: each round of growth is a core.
fn cores_only(params: ThesisParams) -> Run {
    Run::new(nine().build(), params)
}
