//! Power and frequency of the machine, and what is set of its CPUs.

use crate::undoer::file_undo;
use quell_counters::{
    AwakeKnob, ClockKnob, ClockModulation, Cpufreq, EnergyMeter, FrequencyKnob, IdleStates, Policy,
    Rapl, RawFile, RawRegister, Thermal,
};
use quell_platform::Undo;
use quell_types::{
    Celsius, Cpu, CpuSet, Gap, Knob, KnobRange, Reading, Setting, Time, Topology, Watts,
};
use std::collections::BTreeMap;
use std::path::Path;

/// What there is of it; the rest is a gap with its reason.
pub(crate) struct Hardware {
    energy: Reading<EnergyMeter>,
    cpufreq: Reading<Cpufreq>,
    idle: Reading<IdleStates>,
    clocks: Reading<ClockModulation>,
    thermal: Reading<Thermal>,
}

/// What is set of a CPU, not of a group.
pub(crate) enum CpuKnob {
    Frequency(FrequencyKnob),
    Awake(AwakeKnob),
    Clock(ClockKnob),
}

impl CpuKnob {
    pub(crate) fn read(&self) -> Reading<Setting> {
        match self {
            CpuKnob::Frequency(knob) => knob.read(),
            CpuKnob::Awake(knob) => knob.read(),
            CpuKnob::Clock(knob) => knob.read(),
        }
    }

    pub(crate) fn range(&self) -> Reading<KnobRange> {
        match self {
            CpuKnob::Frequency(knob) => knob.range(),
            CpuKnob::Awake(knob) => knob.range(),
            CpuKnob::Clock(knob) => knob.range(),
        }
    }

    pub(crate) fn write(&self, to: &Setting) -> Result<(), String> {
        match self {
            CpuKnob::Frequency(knob) => knob.write(to).map_err(|error| error.to_string()),
            CpuKnob::Awake(knob) => knob.write(to).map_err(|error| error.to_string()),
            CpuKnob::Clock(knob) => knob.write(to).map_err(|error| error.to_string()),
        }
    }

    /// How a write is taken back.
    pub(crate) fn undo(&self) -> Result<Vec<Undo>, String> {
        let files = match self {
            CpuKnob::Frequency(knob) => knob.raw_files().map_err(|error| error.to_string())?,
            CpuKnob::Awake(knob) => knob.raw_files().map_err(|error| error.to_string())?,
            CpuKnob::Clock(knob) => {
                let raw = knob.raw().map_err(|gap| gap.to_string())?;
                let RawRegister { path, register, value } = raw;
                return Ok(vec![Undo::Register { path, register, value }]);
            }
        };
        let undo = |RawFile { path, text }| file_undo(path, text);
        Ok(files.into_iter().map(undo).collect())
    }
}

impl Hardware {
    pub(crate) fn discover(root: &Path) -> Self {
        let energy = Rapl::discover(root).map(|rapl| EnergyMeter::new(&rapl));
        let (cpufreq, idle) = (Cpufreq::discover(root), IdleStates::discover(root));
        let (clocks, thermal) = (ClockModulation::discover(root), Thermal::discover(root));
        Self { energy, cpufreq, idle, clocks, thermal }
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

    /// The temperature of each CPU, that of its core.
    pub(crate) fn temperature(&self, topology: &Topology) -> Reading<BTreeMap<u32, Celsius>> {
        let cores = self.thermal.as_ref().map_err(Clone::clone)?.cores()?;
        let of = |cpu: &Cpu| Some((cpu.id, *cores.get(&(cpu.socket, cpu.core))?));
        let found: BTreeMap<u32, Celsius> = topology.cpus.iter().filter_map(of).collect();
        match found.is_empty() {
            true => Err(Gap::absent("no sensor's core is one of the CPUs'")),
            false => Ok(found),
        }
    }

    /// The knobs of these CPUs.
    pub(crate) fn knobs(&self, managed: &CpuSet) -> Vec<(Knob, CpuKnob)> {
        let mut knobs = self.frequencies(managed);
        knobs.extend(self.awake(managed));
        knobs.extend(self.clock_knobs(managed));
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

    fn clock_knobs(&self, managed: &CpuSet) -> Vec<(Knob, CpuKnob)> {
        let Ok(clocks) = &self.clocks else { return Vec::new() };
        let knob = |cpu| Some((Knob::DutyCycle { cpu }, CpuKnob::Clock(clocks.knob(cpu).ok()?)));
        managed.iter().filter_map(knob).collect()
    }
}
