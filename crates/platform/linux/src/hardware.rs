//! Power and frequency of the machine, and the knobs of its frequencies.

use quell_counters::{Cpufreq, EnergyMeter, FrequencyKnob, Rapl};
use quell_types::{CpuSet, Knob, Reading, Time, Watts};
use std::collections::BTreeMap;
use std::path::Path;

/// What there is of it; the rest is a gap with its reason.
pub(crate) struct Hardware {
    energy: Reading<EnergyMeter>,
    cpufreq: Reading<Cpufreq>,
}

impl Hardware {
    pub(crate) fn discover(root: &Path) -> Self {
        let energy = Rapl::discover(root).map(|rapl| EnergyMeter::new(&rapl));
        Self { energy, cpufreq: Cpufreq::discover(root) }
    }

    /// Mean power of each socket since the last reading.
    pub(crate) fn power(&mut self, now: Time) -> Reading<BTreeMap<u32, Watts>> {
        let meter = self.energy.as_mut().map_err(|gap| gap.clone())?;
        meter.read(now)?.watts
    }

    /// Present frequency of each CPU in kHz.
    pub(crate) fn frequency_khz(&self) -> Reading<BTreeMap<u32, u64>> {
        self.cpufreq.as_ref().map_err(Clone::clone)?.current_khz()
    }

    /// One knob for each policy that lies within these CPUs, under the name of its first CPU: CPUs
    /// of one policy change together, and a knob has one writer.
    pub(crate) fn knobs(&self, managed: &CpuSet) -> Vec<(Knob, FrequencyKnob)> {
        let Ok(cpufreq) = &self.cpufreq else { return Vec::new() };
        let knob = |policy: &quell_counters::Policy| {
            let cpu = policy.cpus.iter().next().filter(|_| policy.cpus.is_subset(managed))?;
            Some((Knob::FrequencyMax { cpu }, cpufreq.max_knob(cpu).ok()?))
        };
        cpufreq.policies().iter().filter_map(knob).collect()
    }
}
