//! Each fixture is a kind of machine: what is there is told, what is not is a gap.

use quell_counters::{
    Cpufreq, EnergyMeter, Place, PmuProbe, Rapl, Thermal, ZoneKind, capabilities, msr_cpus,
    read_msr,
};
use quell_types::{
    Capability, CapabilityKind, Celsius, Gap, Kilohertz, KnobRange, Setting, Time, Watts,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/counters").join(name);
    assert!(path.is_dir(), "{} is missing", path.display());
    path
}

/// A copy that may be written to.
fn copied(name: &str) -> TempDir {
    let dir = TempDir::with_prefix("quell-test-counters-").expect("a temporary folder");
    copy(&fixture(name), dir.path());
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a fixture") {
        let path = entry.expect("a fixture").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).expect("a copy");
        }
    }
}

#[track_caller]
fn told(name: &str, kind: CapabilityKind, present: bool, words: &str) {
    let reports = capabilities(&fixture(name));
    let report = reports.into_iter().find(|r| r.kind == kind).expect("a report of this kind");
    assert_eq!(report.capability.is_present(), present, "{name}: {report:?}");
    assert_eq!(report.without.is_empty(), present, "{name}: {report:?}");
    let (Capability::Native(text) | Capability::Emulated(text) | Capability::Absent(text)) =
        report.capability;
    assert!(text.contains(words), "{name} {kind:?}: {text}");
}

#[test]
fn doctor_tells_what_each_machine_has() {
    use CapabilityKind::{FrequencyScaling, IdleStates, Msr, PowerReading, Thermal};
    told("intel-pstate", PowerReading, true, "socket 0: 150 W, socket 1: 150 W");
    told("intel-pstate", FrequencyScaling, true, "intel_pstate: 4 policies, 1.00 to 3.70 GHz");
    told("intel-pstate", Thermal, true, "8 sensors: acpitz, coretemp, x86_pkg_temp");
    told("intel-pstate", Msr, true, "readable on CPUs 0-3");
    told("amd-pstate", PowerReading, true, "RAPL package-0, core (design power not told");
    told("amd-pstate", FrequencyScaling, true, "amd-pstate-epp: 2 policies, 0.40 to 3.67 GHz");
    told("amd-pstate", Thermal, true, "2 sensors: k10temp");
    told("amd-pstate", Msr, false, "load the msr module");
    told("arm-cpufreq", PowerReading, false, "no RAPL zones");
    told("arm-cpufreq", FrequencyScaling, true, "cpufreq-dt: 2 policies");
    told("arm-cpufreq", Thermal, true, "2 sensors: cpu-thermal, gpu-thermal");
    told("vm-nothing", PowerReading, false, "no RAPL zones");
    told("vm-nothing", FrequencyScaling, false, "does not scale");
    told("vm-nothing", IdleStates, false, "no cpuidle driver");
    told("vm-nothing", Thermal, false, "no thermal zones");
    told("vm-nothing", Msr, false, "/dev/cpu/N/msr");
    told("damaged", PowerReading, false, "not a number");
    told("damaged", FrequencyScaling, false, "lowest 3000000 > highest 1000000");
    told("damaged", Msr, false, "register 0x10");
}

#[test]
fn this_machine_gets_an_answer() {
    let reports = capabilities(Path::new("/"));
    assert_eq!(reports.len(), 9);
    for report in reports {
        assert_eq!(report.capability.is_present(), report.without.is_empty(), "{report:?}");
    }
}

#[test]
fn rapl_zones_are_told_apart() {
    let rapl = Rapl::discover(&fixture("intel-pstate")).unwrap();
    let zones: Vec<_> = rapl.zones().iter().map(|z| (z.name.as_str(), z.kind, z.socket)).collect();
    let expected = [
        ("package-0", ZoneKind::Package, Some(0)),
        ("dram", ZoneKind::Dram, Some(0)),
        ("package-1", ZoneKind::Package, Some(1)),
        ("dram", ZoneKind::Dram, Some(1)),
    ];
    assert_eq!(zones, expected, "the mmio zone would count a package twice");
    let limits = rapl.zones()[0].limits();
    assert_eq!((limits.long_term, limits.short_term), (Ok(Watts(150.0)), Ok(Watts(180.0))));
    assert!(matches!(rapl.zones()[1].limits().long_term, Err(Gap::Absent(_))), "0 is no limit");

    let amd = Rapl::discover(&fixture("amd-pstate")).unwrap();
    assert!(matches!(amd.design_power(), Err(Gap::Absent(_))));
}

fn at(seconds: u64) -> Time {
    Time(0) + Duration::from_secs(seconds)
}

#[test]
fn energy_is_summed_across_wraps() {
    let root = copied("intel-pstate");
    let set = |zone: u32, energy: u64| {
        let path = root.path().join(format!("sys/class/powercap/intel-rapl:{zone}/energy_uj"));
        fs::write(path, format!("{energy}\n")).expect("a fixture");
    };
    let mut meter = EnergyMeter::new(&Rapl::discover(root.path()).unwrap());
    let first = meter.read(at(10)).unwrap();
    assert_eq!(first.joules.get(&1), Some(&0.0));
    assert!(matches!(first.watts, Err(Gap::NotYet(_))));

    // Socket 0 uses 200 J in 2 s; socket 1 wraps 0.328850 J later and goes on to 100 J.
    set(0, 123_456_789_012 + 200_000_000);
    set(1, 100_000_000);
    let second = meter.read(at(12)).unwrap();
    let watts = second.watts.unwrap();
    assert_eq!(watts[&0], Watts(100.0));
    assert!((watts[&1].0 - 50.164_425).abs() < 1e-6, "{watts:?}");

    // Ten hours later it may have gone round many times.
    set(0, 123_456_789_013 + 200_000_000);
    let third = meter.read(at(36_012)).unwrap();
    assert!(matches!(third.watts, Err(Gap::Ambiguous(_))), "{:?}", third.watts);
    assert!(third.joules[&0] >= second.joules[&0]);
    // And then on as before.
    let fourth = meter.read(at(36_013)).unwrap();
    assert_eq!(fourth.watts.unwrap()[&0], Watts(0.0));
}

#[test]
fn a_counter_that_fails_once_is_caught_up() {
    let root = copied("amd-pstate");
    let path = root.path().join("sys/class/powercap/intel-rapl:0/energy_uj");
    let mut meter = EnergyMeter::new(&Rapl::discover(root.path()).unwrap());
    meter.read(at(0)).unwrap();
    fs::write(&path, "?\n").unwrap();
    assert!(matches!(meter.read(at(1)), Err(Gap::Failed(_))));
    fs::write(&path, (9_876_543_210u64 + 30_000_000).to_string()).unwrap();
    let caught_up = meter.read(at(2)).unwrap();
    assert_eq!(caught_up.watts.unwrap()[&0], Watts(15.0), "30 J over both seconds");
    // It falls, and where it wraps is not told: lost and said so, then on as before.
    let range = root.path().join("sys/class/powercap/intel-rapl:0/max_energy_range_uj");
    fs::remove_file(range).unwrap();
    fs::write(&path, "1000000").unwrap();
    assert!(meter.read(at(3)).unwrap().watts.is_err());
    fs::write(&path, "3000000").unwrap();
    assert_eq!(meter.read(at(4)).unwrap().watts.unwrap()[&0], Watts(2.0));
}

#[test]
fn present_frequencies_come_by_cpu() {
    let intel = Cpufreq::discover(&fixture("intel-pstate")).unwrap();
    let khz = intel.current_khz().unwrap();
    assert_eq!(khz.into_values().collect::<Vec<_>>(), [2_400_000, 1_000_000, 3_100_000, 3_700_000]);
    let arm = Cpufreq::discover(&fixture("arm-cpufreq")).unwrap();
    let khz = arm.current_khz().unwrap();
    assert_eq!(khz.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3], "4 and 5 are not known");
    assert!(arm.policy_of(6).is_none(), "offline");
    assert_eq!(arm.policy_of(5).unwrap().id, 4);
    let damaged = Cpufreq::discover(&fixture("damaged")).unwrap();
    assert!(damaged.current_khz().is_err());
}

#[test]
fn a_frequency_knob_writes_what_takes_effect_and_its_raw_text_restores_it() {
    for (name, cpu, wanted, effective) in [
        ("intel-pstate", 2, 2_345_678, 2_345_678),
        ("intel-pstate", 2, 9_000_000, 3_700_000),
        ("intel-pstate", 2, 1, 1_000_000),
        ("amd-pstate", 1, 2_000_000, 2_000_000),
        ("arm-cpufreq", 3, 1_100_000, 1_008_000),
        ("arm-cpufreq", 5, 1_799_999, 1_608_000),
        ("arm-cpufreq", 5, 1, 408_000),
    ] {
        let root = copied(name);
        let knob = Cpufreq::discover(root.path()).unwrap().max_knob(cpu).unwrap();
        let before = knob.raw_files().unwrap();
        let old = knob.read().unwrap();
        let wanted = Setting::Frequency(Kilohertz(wanted));
        let effective = Setting::Frequency(Kilohertz(effective));
        assert_eq!(knob.round(&wanted).unwrap(), effective, "{name}");
        knob.write(&wanted).unwrap();
        assert_eq!(knob.read(), Ok(effective), "{name}");
        assert!(knob.cpus().contains(cpu));
        fs::write(&before[0].path, &before[0].text).unwrap();
        assert_eq!((knob.read().unwrap(), knob.raw_files().unwrap()), (old, before), "{name}");
        assert!(knob.write(&Setting::Flag(true)).is_err());
    }
}

#[test]
fn a_frequency_knob_has_the_hardwares_range() {
    let knob = Cpufreq::discover(&fixture("amd-pstate")).unwrap().max_knob(0).unwrap();
    let (min, max) = (Kilohertz(400_000), Kilohertz(3_675_000));
    assert_eq!(knob.range(), Ok(KnobRange::Frequency { min, max }));
    let damaged = Cpufreq::discover(&fixture("damaged")).unwrap();
    assert_eq!(damaged.policies().len(), 1, "one that names no CPU is left out");
    let knob = damaged.max_knob(0).unwrap();
    let wanted = Setting::Frequency(Kilohertz(2_000_000));
    assert!(knob.range().is_err() && knob.read().is_err());
    assert!(knob.write(&wanted).is_err(), "nothing is written where the range is not known");
    assert!(damaged.max_knob(7).is_err());
}

#[test]
fn temperatures_know_their_place() {
    let intel = Thermal::discover(&fixture("intel-pstate")).unwrap();
    let sockets = intel.sockets().unwrap();
    assert_eq!(sockets.into_iter().collect::<Vec<_>>(), [(0, Celsius(61.0)), (1, Celsius(54.0))]);
    let core = Place::Core { socket: 0, core: 8 };
    let core = intel.sensors().iter().find(|s| s.place == core).expect("core 8");
    assert_eq!((core.read(), core.critical()), (Ok(Celsius(61.0)), Ok(Celsius(96.0))));
    assert!(intel.sensors().iter().all(|sensor| sensor.source != "nvme"));

    assert_eq!(intel.cores().unwrap()[&(0, 8)], Celsius(61.0));
    let amd = Thermal::discover(&fixture("amd-pstate")).unwrap();
    assert!(matches!(amd.cores(), Err(Gap::Absent(_))), "equal numbers tell nobody apart");
    assert_eq!(amd.sockets().unwrap()[&0], Celsius(47.25));
    let arm = Thermal::discover(&fixture("arm-cpufreq")).unwrap();
    assert!(matches!(arm.sockets(), Err(Gap::Absent(_))));
    assert_eq!(arm.sensors()[1].read(), Ok(Celsius(-0.5)));
    let damaged = Thermal::discover(&fixture("damaged")).unwrap();
    assert!(matches!(damaged.sockets(), Err(Gap::Failed(_))));
}

#[test]
fn registers_are_read_where_there_is_a_device() {
    let intel = fixture("intel-pstate");
    assert_eq!(msr_cpus(&intel).unwrap().to_string(), "0-3");
    assert_eq!(read_msr(&intel, 3, 0x10), Ok(0x1122_3344_5566_0003));
    assert!(matches!(read_msr(&intel, 3, 0x19a), Err(Gap::Failed(_))));
    assert!(matches!(read_msr(&intel, 9, 0x10), Err(Gap::Absent(_))));
    assert!(matches!(msr_cpus(&fixture("damaged")), Err(Gap::Failed(_))));
}

#[test]
fn pmus_and_their_permission_are_read() {
    let intel = PmuProbe::run(&fixture("intel-pstate"));
    assert_eq!(intel.pmus.get("uncore_imc_0"), Some(&14));
    assert_eq!(intel.paranoid, Ok(2));
    let damaged = PmuProbe::run(&fixture("damaged"));
    assert!(damaged.pmus.is_empty() && damaged.paranoid.is_err());
}
