//! Temperatures of cores apart (S-8).

use super::World;

impl World {
    /// Lets each CPU's part of its core's heat follow what it did.
    pub(super) fn warm_cores(&mut self, span_ns: f64) {
        let power = &self.machine.power;
        let seconds = span_ns / 1e9;
        let part = seconds / (seconds + power.time_constant_s);
        for (heat, warmth_w) in self.heat.iter_mut().zip(&mut self.warmth_w) {
            let watts = power.core_w * std::mem::take(heat) / span_ns;
            *warmth_w += part * (watts - *warmth_w);
        }
    }

    /// The temperature of each CPU: its socket's, and what its core is warmer by than the socket's
    /// cores are on average.
    pub(crate) fn celsius(&self) -> Vec<f64> {
        let core_w = |cpu: usize| {
            let sibling = self.shape.cpus[cpu].sibling.map_or(0.0, |s| self.warmth_w[s]);
            self.warmth_w[cpu] + sibling
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
