//! Temperatures of cores apart (S-8).

use super::World;
use crate::machine::Power;
use crate::mask::Mask;

/// What each CPU's thread adds to the heat of its core.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    /// By CPU: power units times nanoseconds since the last tick.
    made: Vec<f64>,
    /// CPUs that made any since then.
    makers: Mask,
    /// By CPU: power of its thread alone, smoothed over the time constant of heat, in watts.
    warmth_w: Vec<f64>,
}

impl Heat {
    pub(super) fn new(cpus: usize) -> Self {
        Self { made: vec![0.0; cpus], makers: Mask::default(), warmth_w: vec![0.0; cpus] }
    }

    /// A CPU ran: power units times nanoseconds.
    pub(super) fn add(&mut self, cpu: usize, heat: f64) {
        self.made[cpu] += heat;
        self.makers.insert(cpu);
    }

    /// Lets each CPU's part of its core's heat follow what it did since the last tick.
    pub(super) fn settle(&mut self, span_ns: f64, power: &Power) {
        // Most CPUs are idle, and a division is dear.
        for cpu in std::mem::take(&mut self.makers).iter() {
            self.made[cpu] = power.core_w * self.made[cpu] / span_ns;
        }
        let seconds = span_ns / 1e9;
        let part = seconds / (seconds + power.time_constant_s);
        for (watts, warmth_w) in self.made.iter().zip(&mut self.warmth_w) {
            *warmth_w += part * (watts - *warmth_w);
        }
        self.made.fill(0.0);
    }
}

impl World {
    /// The temperature of each CPU: its socket's, and what its core is warmer by than the socket's
    /// cores are on average.
    pub(crate) fn celsius(&self) -> Vec<f64> {
        let core_w = |cpu: usize| {
            let warmth_w = &self.heat.warmth_w;
            let sibling = self.shape.cpus[cpu].sibling.map_or(0.0, |s| warmth_w[s]);
            warmth_w[cpu] + sibling
        };
        let mut sums = vec![(0.0, 0.0); self.sockets.len()];
        for (cpu, place) in self.shape.cpus.iter().enumerate() {
            let (sum, count) = &mut sums[place.socket];
            (*sum, *count) = (*sum + core_w(cpu), *count + 1.0);
        }
        let one = |(cpu, place): (usize, &crate::machine::CpuPlace)| {
            let (sum, count) = sums[place.socket];
            let beyond = core_w(cpu) - sum / count;
            self.sockets[place.socket].celsius + self.machine.power.core_c_per_w * beyond
        };
        self.shape.cpus.iter().enumerate().map(one).collect()
    }
}
