//! Power, frequency and temperature of one socket (S-8).

use crate::machine::{Clock, Power};

/// Volts at the base frequency and per GHz beyond it, assumed: usual server silicon.
const BASE_V: f64 = 0.9;
const V_PER_GHZ: f64 = 0.15;
/// Smoothing of the number of active cores: the turbo table looks at some milliseconds.
const ACTIVE_TIME_S: f64 = 0.01;

/// A core's power at `ghz` as a multiple of that at base frequency: V² f.
pub(crate) fn relative_power(ghz: f64, base_ghz: f64) -> f64 {
    let volts = (BASE_V + V_PER_GHZ * (ghz - base_ghz)).max(0.6);
    (volts * volts * ghz) / (BASE_V * BASE_V * base_ghz)
}

/// One socket as it runs now.
#[derive(Clone, Debug)]
pub(crate) struct SocketState {
    clock: Clock,
    power: Power,
    /// The frequency that its cores may use, in kHz.
    pub(crate) khz: u64,
    /// Drawn over the last step, in watts.
    pub(crate) watts: f64,
    pub(crate) celsius: f64,
    active: f64,
}

impl SocketState {
    pub(crate) fn new(clock: &Clock, power: &Power) -> Self {
        Self {
            khz: clock.turbo.first().map_or(clock.base_khz, |(_, khz)| *khz),
            watts: power.idle_w,
            celsius: power.ambient_c + power.c_per_w * power.idle_w,
            active: 0.0,
            clock: clock.clone(),
            power: *power,
        }
    }

    pub(crate) fn ghz(&self) -> f64 {
        self.khz as f64 / 1e6
    }

    /// A step in which `core_units` (activity × V²f against base, averaged over the step) and
    /// `active_cores` were seen. Answers whether the frequency changed.
    pub(crate) fn step(&mut self, seconds: f64, core_units: f64, active_cores: f64) -> bool {
        let part = seconds / (seconds + ACTIVE_TIME_S);
        self.active += part * (active_cores - self.active);
        let dynamic = self.power.core_w * core_units;
        self.watts = self.power.idle_w + dynamic;
        let rest = self.power.ambient_c + self.power.c_per_w * self.watts;
        let tau = self.power.time_constant_s;
        self.celsius += seconds / (seconds + tau) * (rest - self.celsius);
        let before = self.khz;
        self.khz = self.next_khz(dynamic);
        self.khz != before
    }

    /// One step of cpufreq up or down at a time, as firmware does.
    fn next_khz(&self, dynamic_w: f64) -> u64 {
        let (step, base) = (self.clock.step_khz, self.clock.base_khz as f64 / 1e6);
        let ceiling = self.turbo_khz();
        let hot = self.celsius > self.power.throttle_c;
        if self.khz > ceiling {
            return ceiling;
        }
        let down = self.khz.saturating_sub(step).max(self.clock.min_khz);
        if hot || self.watts > self.power.limit_w {
            return down;
        }
        let up = (self.khz + step).min(ceiling);
        if up == self.khz {
            return up;
        }
        let ratio = relative_power(up as f64 / 1e6, base) / relative_power(self.ghz(), base);
        let fits = self.power.idle_w + dynamic_w * ratio <= self.power.limit_w;
        if fits { up } else { self.khz }
    }

    /// The highest frequency for the number of active cores.
    fn turbo_khz(&self) -> u64 {
        let active = self.active - 0.05;
        let fits = self.clock.turbo.iter().find(|(cores, _)| active <= f64::from(*cores));
        fits.or(self.clock.turbo.last()).map_or(self.clock.base_khz, |(_, khz)| *khz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;

    fn run(state: &mut SocketState, activity: f64, cores: f64, seconds: f64) {
        let base = state.clock.base_khz as f64 / 1e6;
        for _ in 0..(seconds * 1000.0) as usize {
            let units = activity * cores * relative_power(state.ghz(), base);
            state.step(0.001, units, cores);
        }
    }

    #[test]
    fn few_cores_run_faster_and_a_virus_slows_the_socket_below_its_limit() {
        let machine = preset("haswell2").unwrap();
        let mut state = SocketState::new(&machine.clock, &machine.power);
        run(&mut state, 1.0, 2.0, 1.0);
        assert_eq!(state.khz, 3_600_000);
        run(&mut state, 1.0, 18.0, 1.0);
        let usual = state.khz;
        assert!((2_000_000..=2_800_000).contains(&usual), "{usual}");
        run(&mut state, 2.0, 18.0, 1.0);
        assert!(state.khz < usual, "{} against {usual}", state.khz);
        assert!(state.watts <= machine.power.limit_w + 1.0, "{}", state.watts);
    }

    #[test]
    fn temperature_follows_power_with_its_time_constant() {
        let machine = preset("haswell2").unwrap();
        let mut state = SocketState::new(&machine.clock, &machine.power);
        let cold = state.celsius;
        run(&mut state, 1.0, 18.0, 10.0);
        let after_one = state.celsius - cold;
        run(&mut state, 1.0, 18.0, 60.0);
        let rest = state.celsius - cold;
        assert!((after_one / rest - 0.632).abs() < 0.02, "{}", after_one / rest);
    }
}
