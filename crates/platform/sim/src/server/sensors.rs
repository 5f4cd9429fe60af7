//! Hardware sensors: noisy, periodic, late (S-1).

use crate::machine::CpuPlace;
use crate::random::Stream;
use crate::scene::{Scene, Sensing};
use crate::world::{CpuState, Warmth, World};
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
    /// By CPU; what is not measured here is empty.
    pub(crate) bus_locks: Vec<f64>,
    heat: Heat,
    pub(crate) group_locks: Vec<f64>,
}

/// What cores' temperatures follow from as it was, and the noise that goes with them: they are
/// worked out only for those who read, which is seldom.
#[derive(Clone, Debug, Default)]
struct Heat {
    warmth: Warmth,
    noise: Option<(Stream, f64)>,
}

impl Latched {
    /// The temperature of each CPU.
    pub(crate) fn celsius(&self, world: &World) -> Vec<f64> {
        let mut celsius = world.celsius(&self.heat.warmth);
        if let Some((mut noise, deviation)) = self.heat.noise.clone() {
            celsius.iter_mut().for_each(|c| *c *= noise.noise(deviation));
        }
        celsius
    }
}

/// Cores' temperatures are taken this seldom, in nanoseconds: they move in seconds.
const HEAT_NS: u64 = 100_000_000;

/// All sensors.
#[derive(Debug)]
pub(crate) struct Sensors {
    sensing: Sensing,
    random: Stream,
    /// True counters when they were last taken.
    seen: Vec<f64>,
    taken: VecDeque<Latched>,
    next: u64,
    /// For locks and temperatures, which came later: their noise leaves that of the others as is.
    noise: Stream,
    seen_locks: Vec<f64>,
    seen_group_locks: Vec<f64>,
    heat_next: u64,
}

impl Sensors {
    pub(crate) fn new(scene: &Scene, groups: usize) -> Self {
        let machine = &scene.machine;
        let any = machine.monitoring
            || machine.power_sensor
            || machine.clock.controllable
            || machine.lock_counter;
        Self {
            sensing: scene.sensing,
            random: Stream::new(scene.seed, 1),
            seen: vec![0.0; groups],
            taken: VecDeque::new(),
            next: if any { 0 } else { u64::MAX },
            noise: Stream::new(scene.seed, 3),
            seen_locks: vec![0.0; machine.cpus()],
            seen_group_locks: vec![0.0; groups],
            heat_next: 0,
        }
    }

    /// When they take new values.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes new values. Counters grow by what was really added, with noise, so they never fall.
    pub(crate) fn take(&mut self, world: &World) {
        self.next = world.now + (self.sensing.period.as_nanos() as u64).max(100_000);
        let (before, held) = (self.taken.back(), world.held_by_groups());
        let mut now = Latched {
            at: world.now,
            group_bytes: Vec::with_capacity(world.groups.len()),
            llc_bytes: Vec::with_capacity(world.groups.len()),
            ..Latched::default()
        };
        let noise = self.sensing.noise_frac;
        // What presses beside a service has joined since.
        self.seen.resize(world.groups.len(), 0.0);
        for (index, group) in world.groups.iter().enumerate() {
            let added = (group.traffic_bytes - self.seen[index]) * self.random.noise(noise);
            self.seen[index] = group.traffic_bytes;
            let last = before.and_then(|b| b.group_bytes.get(index)).copied().unwrap_or(0.0);
            now.group_bytes.push(last + added);
            now.llc_bytes.push(held[index] * self.random.noise(noise));
        }
        now.host_bytes = now.group_bytes.iter().sum();
        now.watts.extend(world.sockets.iter().map(|s| s.watts * self.random.noise(noise)));
        if world.machine.clock.controllable {
            let khz = |(cpu, place): (&CpuState, &CpuPlace)| {
                world.sockets[place.socket].khz.min(cpu.cap_khz)
            };
            now.khz.extend(world.cpus.iter().zip(&world.shape.cpus).map(khz));
        }
        self.take_locks(world, &mut now);
        self.take_heat(world, &mut now);
        self.taken.push_back(now);
        let visible = world.now.saturating_sub(self.sensing.delay.as_nanos() as u64);
        while self.taken.get(1).is_some_and(|next| next.at <= visible) {
            self.taken.pop_front();
        }
    }

    fn take_locks(&mut self, world: &World, now: &mut Latched) {
        if !world.machine.lock_counter {
            return;
        }
        // As above.
        self.seen_group_locks.resize(world.groups.len(), 0.0);
        let (before, noise) = (self.taken.back(), self.sensing.noise_frac);
        let random = &mut self.noise;
        let mut counted = |total: f64, seen: &mut f64, last: Option<&f64>| {
            let added = total - *seen;
            *seen = total;
            let factor = if added > 0.0 { random.noise(noise) } else { 1.0 };
            last.copied().unwrap_or(0.0) + added * factor
        };
        // Most CPUs make none.
        now.bus_locks.extend_from_slice(before.map_or(&[][..], |before| &before.bus_locks));
        now.bus_locks.resize(world.cpus.len(), 0.0);
        let cpus = world.cpus.iter().zip(&mut self.seen_locks).zip(&mut now.bus_locks);
        for ((cpu, seen), locks) in cpus.filter(|((cpu, seen), _)| cpu.bus_locks > **seen) {
            *locks = counted(cpu.bus_locks, seen, Some(&*locks));
        }
        now.group_locks.reserve_exact(world.groups.len());
        for (index, group) in world.groups.iter().enumerate() {
            let last = before.and_then(|b| b.group_locks.get(index));
            now.group_locks.push(counted(group.bus_locks, &mut self.seen_group_locks[index], last));
        }
    }

    fn take_heat(&mut self, world: &World, now: &mut Latched) {
        if !world.machine.power_sensor {
            return;
        }
        let last = self.taken.back().filter(|_| world.now < self.heat_next);
        if let Some(last) = last {
            now.heat = last.heat.clone();
            return;
        }
        self.heat_next = world.now + HEAT_NS;
        let deviation = self.sensing.noise_frac;
        if deviation > 0.0 {
            now.heat.noise = Some((self.noise.clone(), deviation));
            self.noise.skip_normals(world.cpus.len());
        }
        now.heat.warmth = world.warmth();
    }

    /// What can be read now: the newest values that are old enough.
    pub(crate) fn read(&self, now: u64) -> Reading<&Latched> {
        let visible = now.checked_sub(self.sensing.delay.as_nanos() as u64);
        let old_enough = |taken: &&Latched| visible.is_some_and(|at| taken.at <= at);
        let newest = self.taken.iter().rev().find(old_enough);
        newest.ok_or_else(|| Gap::not_yet("the sensor has no value yet"))
    }
}
