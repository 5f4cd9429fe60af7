//! Whole trees of `/sys` with one file damaged: frequencies, energy, temperatures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_counters::{Cpufreq, EnergyMeter, Rapl, Thermal};
use quell_fuzz::Trees;
use quell_types::{Kilohertz, Setting, Time};
use std::path::Path;
use std::sync::LazyLock;

static TREES: LazyLock<Trees> = LazyLock::new(|| {
    Trees::of("counters", &["amd-pstate", "arm-cpufreq", "damaged", "intel-pstate", "vm-nothing"])
});

fuzz_target!(|data: &[u8]| TREES.damaged(data, tour));

fn tour(root: &Path) {
    if let Ok(frequencies) = Cpufreq::discover(root) {
        let _ = frequencies.current_khz();
        for cpu in 0..8 {
            let Ok(knob) = frequencies.max_knob(cpu) else { continue };
            let _ = (knob.read(), knob.range());
            if let Ok(rounded) = knob.round(&Setting::Frequency(Kilohertz(1_234_567))) {
                assert_eq!(knob.round(&rounded).ok(), Some(rounded), "rounded twice");
            }
        }
    }
    if let Ok(rapl) = Rapl::discover(root) {
        let _ = rapl.design_power();
        for zone in rapl.zones() {
            let _ = (zone.energy_uj(), zone.range_uj(), zone.limits());
        }
        let mut meter = EnergyMeter::new(&rapl);
        for second in 1..3 {
            let _ = meter.read(Time(second * 1_000_000_000));
        }
    }
    if let Ok(thermal) = Thermal::discover(root) {
        let _ = thermal.sockets();
        for sensor in thermal.sensors() {
            let _ = (sensor.read(), sensor.critical());
        }
    }
}
