//! Power and frequency of the machine, and what is set of its CPUs.

use quell_counters::{
    AwakeKnob, Cpufreq, EnergyMeter, FrequencyKnob, IdleStates, Policy, Rapl, RawFile,
};
use quell_types::{CpuSet, Knob, KnobRange, Reading, Setting, Time, Watts};
use std::collections::BTreeMap;
use std::path::Path;

/// What there is of it; the rest is a gap with its reason.
pub(crate) struct Hardware {
    energy: Reading<EnergyMeter>,
    cpufreq: Reading<Cpufreq>,
    idle: Reading<IdleStates>,
}

/// What is set of a CPU, not of a group.
pub(crate) enum CpuKnob {
    Frequency(FrequencyKnob),
    Awake(AwakeKnob),
}

impl CpuKnob {
    pub(crate) fn read(&self) -> Reading<Setting> {
        match self {
            CpuKnob::Frequency(knob) => knob.read(),
            CpuKnob::Awake(knob) => knob.read(),
        }
    }

    pub(crate) fn range(&self) -> Reading<KnobRange> {
        match self {
            CpuKnob::Frequency(knob) => knob.range(),
            CpuKnob::Awake(knob) => knob.range(),
        }
    }

    pub(crate) fn write(&self, to: &Setting) -> Result<(), String> {
        match self {
            CpuKnob::Frequency(knob) => knob.write(to).map_err(|error| error.to_string()),
            CpuKnob::Awake(knob) => knob.write(to).map_err(|error| error.to_string()),
        }
    }

    /// The files that a write changes, with their texts now.
    pub(crate) fn raw_files(&self) -> Result<Vec<RawFile>, String> {
        match self {
            CpuKnob::Frequency(knob) => knob.raw_files().map_err(|error| error.to_string()),
            CpuKnob::Awake(knob) => knob.raw_files().map_err(|error| error.to_string()),
        }
    }
}

impl Hardware {
    pub(crate) fn discover(root: &Path) -> Self {
        let energy = Rapl::discover(root).map(|rapl| EnergyMeter::new(&rapl));
        let (cpufreq, idle) = (Cpufreq::discover(root), IdleStates::discover(root));
        Self { energy, cpufreq, idle }
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

    /// The knobs of these CPUs.
    pub(crate) fn knobs(&self, managed: &CpuSet) -> Vec<(Knob, CpuKnob)> {
        let mut knobs = self.frequencies(managed);
        knobs.extend(self.awake(managed));
        knobs
    }

    /// One for each policy that lies within these CPUs, under the name of its first CPU: CPUs of
    /// one policy change together, and a knob has one writer.
    fn frequencies(&self, managed: &CpuSet) -> Vec<(Knob, CpuKnob)> {
        let Ok(cpufreq) = &self.cpufreq else { return Vec::new() };
        let knob = |policy: &Policy| {
            let cpu = policy.cpus.iter().next().filter(|_| policy.cpus.is_subset(managed))?;
            let knob = cpufreq.max_knob(cpu).ok()?;
            Some((Knob::FrequencyMax { cpu }, CpuKnob::Frequency(knob)))
        };
        cpufreq.policies().iter().filter_map(knob).collect()
    }

    fn awake(&self, managed: &CpuSet) -> Vec<(Knob, CpuKnob)> {
        let Ok(idle) = &self.idle else { return Vec::new() };
        let knob =
            |cpu| Some((Knob::StayAwake { cpu }, CpuKnob::Awake(idle.awake_knob(cpu).ok()?)));
        managed.iter().filter_map(knob).collect()
    }
}
