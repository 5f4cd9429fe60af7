//! Temperatures of cores apart (S-8).
//!
//! Nothing in the machine hangs on them, so they are worked out when sensors look, not at every
//! tick: each core's part follows the mean power of the time between two looks, exactly.

use super::{World, span_of};
use crate::machine::Power;
use crate::mask::Mask;

/// What each CPU's thread adds to the heat of its core.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    /// By CPU: power units times nanoseconds since the last look.
    made: Vec<f64>,
    /// CPUs that made any since then.
    makers: Mask,
    /// By CPU: power of its thread alone, smoothed over the time constant of heat, in watts.
    warmth_w: Vec<f64>,
    /// When they were looked at last.
    looked: u64,
}

impl Heat {
    pub(super) fn new(cpus: usize) -> Self {
        let (made, warmth_w) = (vec![0.0; cpus], vec![0.0; cpus]);
        Self { made, makers: Mask::default(), warmth_w, looked: 0 }
    }

    /// A CPU ran: power units times nanoseconds.
    pub(super) fn add(&mut self, cpu: usize, heat: f64) {
        self.made[cpu] += heat;
        self.makers.insert(cpu);
    }

    /// Lets each CPU's part of its core's heat follow what it did since the last look.
    fn settle(&mut self, now: u64, power: &Power) {
        let span_ns = span_of(now - std::mem::replace(&mut self.looked, now));
        if span_ns <= 0.0 {
            return;
        }
        let part = -libm::expm1(-span_ns / 1e9 / power.time_constant_s);
        let makers = std::mem::take(&mut self.makers);
        for cpu in makers.iter() {
            let (made, warmth_w) = (&mut self.made[cpu], self.warmth_w[cpu]);
            *made = warmth_w + part * (power.core_w * *made / span_ns - warmth_w);
        }
        // Most CPUs are idle and only cool down.
        self.warmth_w.iter_mut().for_each(|warmth_w| *warmth_w += part * (0.0 - *warmth_w));
        for cpu in makers.iter() {
            self.warmth_w[cpu] = std::mem::take(&mut self.made[cpu]);
        }
    }
}

/// What temperatures follow from at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warmth {
    /// Of each socket, in °C.
    sockets: Vec<f64>,
    /// By CPU: smoothed power of its thread alone, in watts.
    threads_w: Vec<f64>,
}

impl World {
    /// Accounts what warmed cores up to now.
    pub(crate) fn settle_heat(&mut self) {
        if self.machine.power_sensor {
            self.heat.settle(self.now, &self.machine.power);
        }
    }

    /// As it was when heat was accounted last.
    pub(crate) fn warmth(&self) -> Warmth {
        let sockets = self.sockets.iter().map(|socket| socket.celsius).collect();
        Warmth { sockets, threads_w: self.heat.warmth_w.clone() }
    }

    /// The temperature of each CPU at a moment: its socket's, and what its core is warmer by than
    /// the socket's cores are on average.
    pub(crate) fn celsius(&self, at: &Warmth) -> Vec<f64> {
        let core_w = |cpu: usize| {
            let warmth_w = &at.threads_w;
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
            at.sockets[place.socket] + self.machine.power.core_c_per_w * beyond
        };
        self.shape.cpus.iter().enumerate().map(one).collect()
    }
}
