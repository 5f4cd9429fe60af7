//! Hardware sensors: noisy, periodic, late (S-1).

use crate::machine::CpuPlace;
use crate::random::Stream;
use crate::scene::{Scene, Sensing};
use crate::world::{CpuState, World};
use quell_types::{Gap, Reading};
use std::collections::VecDeque;

/// What all sensors said at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latched {
    at: u64,
    pub(crate) host_bytes: f64,
    pub(crate) group_bytes: Vec<f64>,
    pub(crate) llc_bytes: Vec<f64>,
    pub(crate) watts: Vec<f64>,
    pub(crate) khz: Vec<u64>,
}

/// All sensors.
#[derive(Debug)]
pub(crate) struct Sensors {
    sensing: Sensing,
    random: Stream,
    /// True counters when they were last taken.
    seen: Vec<f64>,
    taken: VecDeque<Latched>,
    next: u64,
}

impl Sensors {
    pub(crate) fn new(scene: &Scene, groups: usize) -> Self {
        let machine = &scene.machine;
        let any = machine.monitoring || machine.power_sensor || machine.clock.controllable;
        Self {
            sensing: scene.sensing,
            random: Stream::new(scene.seed, 1),
            seen: vec![0.0; groups],
            taken: VecDeque::new(),
            next: if any { 0 } else { u64::MAX },
        }
    }

    /// When they take new values.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes new values. Counters grow by what was really added, with noise, so they never fall.
    pub(crate) fn take(&mut self, world: &World) {
        self.next = world.now + (self.sensing.period.as_nanos() as u64).max(100_000);
        let before = self.taken.back();
        let mut now = Latched { at: world.now, ..Latched::default() };
        let noise = self.sensing.noise_frac;
        // What presses beside a service has joined since.
        self.seen.resize(world.groups.len(), 0.0);
        for (index, group) in world.groups.iter().enumerate() {
            let added = (group.traffic_bytes - self.seen[index]) * self.random.noise(noise);
            self.seen[index] = group.traffic_bytes;
            let last = before.and_then(|b| b.group_bytes.get(index)).copied().unwrap_or(0.0);
            now.group_bytes.push(last + added);
            now.llc_bytes.push(world.held_by(index) * self.random.noise(noise));
        }
        now.host_bytes = now.group_bytes.iter().sum();
        now.watts.extend(world.sockets.iter().map(|s| s.watts * self.random.noise(noise)));
        let khz =
            |(cpu, place): (&CpuState, &CpuPlace)| world.sockets[place.socket].khz.min(cpu.cap_khz);
        now.khz.extend(world.cpus.iter().zip(&world.shape.cpus).map(khz));
        self.taken.push_back(now);
        let visible = world.now.saturating_sub(self.sensing.delay.as_nanos() as u64);
        while self.taken.get(1).is_some_and(|next| next.at <= visible) {
            self.taken.pop_front();
        }
    }

    /// What can be read now: the newest values that are old enough.
    pub(crate) fn read(&self, now: u64) -> Reading<&Latched> {
        let visible = now.checked_sub(self.sensing.delay.as_nanos() as u64);
        let old_enough = |taken: &&Latched| visible.is_some_and(|at| taken.at <= at);
        let newest = self.taken.iter().rev().find(old_enough);
        newest.ok_or_else(|| Gap::not_yet("the sensor has no value yet"))
    }
}
