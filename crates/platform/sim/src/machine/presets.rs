//! Machines of the published experiments, and some ordinary ones.

use super::{
    Allocation, Clock, Distances, IdleState, LastLevelCache, Late, Machine, Memory, Power, Steal,
    Throttle,
};
use crate::calibrated::{HALTED, INCLUSION, VM2_XEON};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const GHZ: u64 = 1_000_000;

/// A name and what makes the machine of it.
type Named = (&'static str, fn() -> Machine);

/// All presets by name.
pub const PRESETS: &[Named] = &[
    ("vm2", vm2),
    ("vm2-xeon", vm2_xeon),
    ("e5-2683v4", e5_2683v4),
    ("haswell2", haswell2),
    ("platinum-8163", platinum_8163),
    ("i9-7960x", i9_7960x),
    ("e5345", e5345),
    ("westmere4", westmere4),
    ("numaconnect", numaconnect),
    ("xeon-atom", xeon_atom),
    ("epyc-ccx", epyc_ccx),
    ("arm-mpam", arm_mpam),
];

/// The machine of this name.
#[must_use]
pub fn preset(name: &str) -> Option<Machine> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// One socket of an ordinary Xeon, from which the others differ.
fn xeon(name: &str, model: &str, cores: u32, llc_mib: u64, ways: u32) -> Machine {
    Machine {
        name: name.into(),
        model: model.into(),
        servers: 1,
        sockets_per_server: 1,
        nodes_per_socket: 1,
        domains_per_node: 1,
        cores_per_domain: cores,
        small_cores_per_domain: 0,
        small_core_speed: 1.0,
        threads_per_core: 2,
        smt_speed: 0.6,
        idle: Vec::new(),
        cache: LastLevelCache {
            bytes: llc_mib * MIB,
            ways,
            hit_cycles: 40.0,
            l2_bytes: 256 * KIB,
            l1_bytes: 32 * KIB,
            inclusion: 1.0,
        },
        allocation: Some(Allocation { min_bits: 1, classes: 16, sparse: false }),
        throttle: None,
        monitoring: true,
        memory: Memory {
            bytes: 128 * GIB,
            bytes_per_s: 60e9,
            latency_ns: 80.0,
            link_bytes_per_s: 30e9,
        },
        distances: Distances {
            same_socket: 11,
            same_server: 21,
            one_hop: 160,
            two_hops: 200,
            torus_columns: 1,
        },
        clock: clock(1_200_000, 2_100_000, &[(cores, 2_100_000)]),
        power: Power {
            idle_w: 25.0,
            limit_w: 120.0,
            core_w: 5.0,
            ambient_c: 30.0,
            c_per_w: 0.35,
            // Assumed: a core that draws its 5 to 10 W stands some 10 °C above idle ones.
            core_c_per_w: 1.5,
            time_constant_s: 10.0,
            throttle_c: 95.0,
        },
        power_sensor: true,
        lock_counter: true,
        lock_gauge: false,
        bus_lock_cycles: 1_000.0,
        bus_lock_limit: None,
        hypervisor: None,
        steal: Steal::default(),
        duty_parts: None,
    }
}

fn clock(min_khz: u64, base_khz: u64, turbo: &[(u32, u64)]) -> Clock {
    Clock { min_khz, base_khz, step_khz: 100_000, turbo: turbo.to_vec(), controllable: true }
}

/// Idle states as the kernel's intel_idle lists them for a processor: target residency and exit
/// latency in µs, and whether the core's caches are flushed.
fn c_states(states: &[(f64, f64, bool)]) -> Vec<IdleState> {
    let state = |&(after_us, exit_us, flushed): &(f64, f64, bool)| IdleState {
        after_s: after_us / 1e6,
        exit_s: exit_us / 1e6,
        cold_s: 0.0,
        flushed,
        late: Late::default(),
    };
    states.iter().map(state).collect()
}

/// Takes away what a guest or an old processor does not have.
fn without_rdt(machine: Machine) -> Machine {
    Machine { allocation: None, throttle: None, monitoring: false, ..machine }
}

/// A 2-vCPU cloud machine: no PMU, no RDT, no power, two cores behind one cache.
fn vm2() -> Machine {
    let machine = without_rdt(xeon("vm2", "virtual CPU", 2, 32, 16));
    Machine {
        threads_per_core: 1,
        memory: Memory { bytes: 8 * GIB, bytes_per_s: 20e9, latency_ns: 100.0, ..machine.memory },
        clock: Clock { controllable: false, ..clock(3 * GHZ, 3 * GHZ, &[]) },
        power: Power { limit_w: 1e6, ..machine.power },
        power_sensor: false,
        lock_counter: false,
        lock_gauge: true,
        hypervisor: Some("kvm".into()),
        ..machine
    }
}

/// One such machine as it was measured: what its host's other guests leave each of its CPUs of the
/// last-level cache the other one cannot take, so each has a cache of its own.
fn vm2_xeon() -> Machine {
    let machine = vm2();
    VM2_XEON.on(Machine {
        name: "vm2-xeon".into(),
        domains_per_node: 2,
        cores_per_domain: 1,
        cache: LastLevelCache { l2_bytes: 2 * MIB, l1_bytes: 48 * KIB, ..machine.cache },
        memory: Memory { bytes: 24 * GIB, ..machine.memory },
        idle: vec![HALTED],
        ..machine
    })
}

/// The thesis' second host (T-24).
fn e5_2683v4() -> Machine {
    let turbo = [(2, 3 * GHZ), (8, 2_700_000), (16, 2_600_000)];
    Machine {
        clock: clock(1_200_000, 2_100_000, &turbo),
        // C1, C1E, C3 and C6 of Broadwell.
        idle: c_states(&[
            (2.0, 2.0, false),
            (20.0, 10.0, false),
            (100.0, 40.0, true),
            (400.0, 133.0, true),
        ]),
        ..xeon("e5-2683v4", "Intel Xeon E5-2683 v4", 16, 40, 20)
    }
}

/// Heracles' host (H-4): two sockets, 2.3 GHz, 2.5 MB of LLC a core.
fn haswell2() -> Machine {
    let machine = xeon("haswell2", "Intel Xeon (Haswell)", 18, 45, 20);
    let turbo = [(2, 3_600_000), (8, 3 * GHZ), (18, 2_800_000)];
    Machine {
        sockets_per_server: 2,
        allocation: Some(Allocation { min_bits: 2, classes: 4, sparse: false }),
        memory: Memory { bytes: 64 * GIB, bytes_per_s: 55e9, ..machine.memory },
        clock: clock(1_200_000, 2_300_000, &turbo),
        power: Power { limit_w: 145.0, core_w: 5.5, ..machine.power },
        ..machine
    }
}

/// Alita's host: two sockets of 48 CPUs, 11 ways.
fn platinum_8163() -> Machine {
    let machine = xeon("platinum-8163", "Intel Xeon Platinum 8163", 24, 33, 11);
    let turbo = [(2, 3_100_000), (12, 2_800_000), (24, 2_700_000)];
    Machine {
        sockets_per_server: 2,
        cache: LastLevelCache {
            l2_bytes: MIB,
            hit_cycles: 50.0,
            inclusion: INCLUSION,
            ..machine.cache
        },
        throttle: Some(Throttle { min_percent: 10, step_percent: 10 }),
        memory: Memory { bytes: 192 * GIB, bytes_per_s: 100e9, ..machine.memory },
        clock: clock(GHZ, 2_500_000, &turbo),
        power: Power { idle_w: 35.0, limit_w: 165.0, core_w: 5.0, ..machine.power },
        duty_parts: Some(16),
        ..machine
    }
}

/// The thesis' first host (T-4): fixed at 3.6 GHz.
fn i9_7960x() -> Machine {
    let machine = xeon("i9-7960x", "Intel Core i9-7960X", 16, 22, 11);
    Machine {
        // C1, C1E and C6 of Skylake-X.
        idle: c_states(&[(2.0, 2.0, false), (20.0, 10.0, false), (600.0, 133.0, true)]),
        cache: LastLevelCache {
            l2_bytes: MIB,
            hit_cycles: 50.0,
            inclusion: INCLUSION,
            ..machine.cache
        },
        memory: Memory { bytes_per_s: 70e9, ..machine.memory },
        clock: clock(3_600_000, 3_600_000, &[]),
        power: Power { idle_w: 30.0, limit_w: 300.0, core_w: 9.0, ..machine.power },
        ..machine
    }
}

/// The server of B-E7.
fn e5345() -> Machine {
    let machine = without_rdt(xeon("e5345", "Intel Xeon E5345", 4, 8, 16));
    Machine {
        threads_per_core: 1,
        cache: LastLevelCache { hit_cycles: 14.0, ..machine.cache },
        memory: Memory { bytes: 16 * GIB, bytes_per_s: 6e9, latency_ns: 110.0, ..machine.memory },
        clock: clock(2 * GHZ, 2_330_000, &[]),
        power: Power { idle_w: 30.0, limit_w: 80.0, core_w: 10.0, ..machine.power },
        power_sensor: false,
        ..machine
    }
}

/// The host of V-14: four sockets of eight cores.
fn westmere4() -> Machine {
    let machine = without_rdt(xeon("westmere4", "Intel Xeon (Westmere)", 8, 24, 24));
    Machine {
        sockets_per_server: 4,
        threads_per_core: 1,
        memory: Memory {
            bytes: 32 * GIB,
            bytes_per_s: 20e9,
            latency_ns: 90.0,
            link_bytes_per_s: 12e9,
        },
        clock: clock(1_066_000, 2_266_000, &[]),
        power: Power { limit_w: 130.0, core_w: 9.0, ..machine.power },
        power_sensor: false,
        ..machine
    }
}

/// Six servers in one image (U-1…U-4): 288 CPUs, 36 nodes, two threads a core.
fn numaconnect() -> Machine {
    let machine = without_rdt(xeon("numaconnect", "AMD Opteron 6380", 4, 6, 48));
    Machine {
        servers: 6,
        sockets_per_server: 3,
        nodes_per_socket: 2,
        cache: LastLevelCache { l2_bytes: 2 * MIB, l1_bytes: 16 * KIB, ..machine.cache },
        memory: Memory {
            bytes: 32 * GIB,
            bytes_per_s: 12e9,
            latency_ns: 90.0,
            link_bytes_per_s: 6e9,
        },
        distances: Distances {
            same_socket: 16,
            same_server: 22,
            one_hop: 160,
            two_hops: 200,
            torus_columns: 3,
        },
        clock: clock(1_400_000, 2_500_000, &[]),
        power: Power { limit_w: 115.0, core_w: 9.0, ..machine.power },
        power_sensor: false,
        ..machine
    }
}

/// Two fast and two slow cores behind 8 MB (B-E9).
fn xeon_atom() -> Machine {
    let machine = without_rdt(xeon("xeon-atom", "Xeon-like and Atom-like cores", 4, 8, 16));
    Machine {
        threads_per_core: 1,
        small_cores_per_domain: 2,
        small_core_speed: 0.4,
        memory: Memory { bytes: 16 * GIB, bytes_per_s: 12e9, ..machine.memory },
        clock: clock(1_600_000, 2_600_000, &[]),
        ..machine
    }
}

/// 64 cores in 16 cache domains of four.
fn epyc_ccx() -> Machine {
    let machine = xeon("epyc-ccx", "AMD EPYC (Zen 2)", 4, 16, 16);
    Machine {
        domains_per_node: 16,
        throttle: Some(Throttle { min_percent: 10, step_percent: 10 }),
        cache: LastLevelCache { l2_bytes: 512 * KIB, ..machine.cache },
        memory: Memory {
            bytes: 256 * GIB,
            bytes_per_s: 150e9,
            latency_ns: 100.0,
            ..machine.memory
        },
        clock: clock(1_500_000, 2_250_000, &[(16, 3_300_000), (64, 2_600_000)]),
        power: Power { idle_w: 65.0, limit_w: 225.0, core_w: 2.2, ..machine.power },
        ..machine
    }
}

/// An ARM server with cache portions and bandwidth limits in the manner of MPAM.
fn arm_mpam() -> Machine {
    let machine = xeon("arm-mpam", "ARM server", 64, 32, 16);
    Machine {
        threads_per_core: 1,
        allocation: Some(Allocation { min_bits: 1, classes: 32, sparse: true }),
        throttle: Some(Throttle { min_percent: 5, step_percent: 5 }),
        cache: LastLevelCache { l2_bytes: MIB, l1_bytes: 64 * KIB, ..machine.cache },
        memory: Memory {
            bytes: 256 * GIB,
            bytes_per_s: 160e9,
            latency_ns: 100.0,
            ..machine.memory
        },
        clock: Clock { controllable: false, ..clock(2_500_000, 2_500_000, &[]) },
        power: Power { idle_w: 30.0, limit_w: 150.0, core_w: 1.5, ..machine.power },
        power_sensor: false,
        lock_counter: false,
        ..machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Shape;

    #[test]
    fn every_preset_is_sound_and_looks_as_published() {
        for (name, make) in PRESETS {
            let machine = make();
            machine.validate().unwrap();
            assert_eq!(&machine.name, name);
        }
        let cpus = |name| preset(name).unwrap().cpus();
        assert_eq!([cpus("vm2"), cpus("e5-2683v4"), cpus("platinum-8163")], [2, 32, 96]);
        assert_eq!([cpus("haswell2"), cpus("numaconnect"), cpus("westmere4")], [72, 288, 32]);
        assert!(preset("none").is_none());
    }

    #[test]
    fn distances_and_siblings_are_those_of_the_machine() {
        let machine = numaconnect();
        let topology = Shape::new(&machine).topology(&machine);
        assert_eq!((topology.sockets(), topology.nodes.len()), (18, 36));
        let from = &topology.nodes[0].distances;
        assert_eq!([from[0], from[1], from[2], from[6], from[35]], [10, 16, 22, 160, 200]);
        let seen: std::collections::BTreeSet<u32> = from.iter().copied().collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [10, 16, 22, 160, 200]);
        assert_eq!(topology.siblings(0), "0,144".parse().unwrap());
        assert!(!Shape::new(&vm2()).topology(&vm2()).has_smt());
    }

    #[test]
    fn impossible_machines_are_refused_with_the_reason() {
        type Case = (fn(&mut Machine), &'static str);
        let table: [Case; 4] = [
            (|m| m.threads_per_core = 4, "1 or 2 threads"),
            (|m| m.cores_per_domain = 400, "320 CPUs"),
            (|m| m.cache.ways = 64, "ways"),
            (|m| m.clock.turbo = vec![(4, 3 * GHZ), (2, 2 * GHZ)], "turbo"),
        ];
        for (spoil, why) in table {
            let mut machine = e5_2683v4();
            spoil(&mut machine);
            let error = machine.validate().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("e5-2683v4"), "{error}");
        }
    }
}
