//! The hardware behaves as S-4 to S-9 say.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_platform::{Platform, Scope};
use quell_sim::*;
use quell_types::*;

const MIB: u64 = 1 << 20;

/// Instructions per second of CPU time of a tenant.
fn speed(server: &mut SimServer, name: &str) -> f64 {
    let now = |server: &mut SimServer| {
        let truth = server.truth();
        (truth.instructions[&name.into()], truth.cpu_ns[&name.into()] as f64 / 1e9)
    };
    server.advance(2 * SECOND);
    let before = now(server);
    server.advance(SECOND);
    let after = now(server);
    (after.0 - before.0) / (after.1 - before.1)
}

fn pin(server: &mut SimServer, name: &str, cpus: &str) {
    let knob = Knob::Cpus { tenant: name.into() };
    set(server, knob, Setting::Cpus(cpus.parse().unwrap()));
}

#[test]
fn more_ways_never_bring_more_misses() {
    for (name, bytes) in [("stream", 24 * MIB), ("small", 5 * MIB)] {
        let mut last = f64::INFINITY;
        for ways in 1..=11u32 {
            let mut scene = scene("platinum-8163");
            let victim = SimBatch { programs: vec![Program::stream_of(bytes)], ..batch(name, &[]) };
            scene.batch = vec![victim, batch("rival", &["stream-dram", "stream-dram"])];
            let mut server = SimServer::new(&scene).unwrap();
            pin(&mut server, name, "0");
            pin(&mut server, "rival", "1,2");
            let full = (1u64 << 11) - 1;
            let mask = (1u64 << ways) - 1;
            let of = |tenant: &str| Knob::LlcWays { tenant: tenant.into(), domain: 0 };
            set(&mut server, of(name), Setting::Ways(mask));
            let rest = if ways == 11 { full } else { full & !mask };
            set(&mut server, of("rival"), Setting::Ways(rest));
            speed(&mut server, name);
            let before = server.truth();
            server.advance(SECOND);
            let after = server.truth();
            let of = |t: &Truth| (t.traffic_bytes[&name.into()], t.instructions[&name.into()]);
            let (before, after) = (of(&before), of(&after));
            let misses = (after.0 - before.0) / (after.1 - before.1);
            // With all ways the rival may use them too.
            assert!(
                ways == 11 || misses <= last * 1.001 + 1e-9,
                "{name}: {ways} ways {misses} over {last}"
            );
            last = misses;
        }
    }
}

#[test]
fn occupancies_never_exceed_the_cache_and_masks_hold() {
    let mut scene = scene("platinum-8163");
    scene.batch = vec![batch("a", &["stream-dram", "phased"]), batch("b", &["stream-llc"])];
    let mut server = SimServer::new(&scene).unwrap();
    let size = scene.machine.cache.bytes as f64;
    for step in 0..30u32 {
        let mask = ((1u64 << (1 + step % 10)) - 1) << (step % 2);
        let knob = Knob::LlcWays { tenant: "a".into(), domain: step % 2 };
        set(&mut server, knob, Setting::Ways(mask));
        server.advance(SECOND / 10);
        for held in server.truth().held_by_domain {
            assert!(held <= size * (1.0 + 1e-9), "{held} of {size}");
        }
    }
}

#[test]
fn streams_fill_the_bandwidth_and_never_exceed_it() {
    let mut scene = scene("e5-2683v4");
    scene.batch = vec![batch("streams", &["stream-dram"; 30])];
    let mut server = SimServer::new(&scene).unwrap();
    server.advance(SECOND);
    let before = server.truth().traffic_bytes[&"streams".into()];
    server.advance(5 * SECOND);
    let truth = server.truth();
    let rate = (truth.traffic_bytes[&"streams".into()] - before) / 5.0;
    let most = scene.machine.memory.bytes_per_s;
    assert!(rate <= 1.01 * most && rate >= 0.85 * most, "{rate} of {most}");
    assert!(truth.memory_utilisation[0] < 1.0);
}

#[test]
fn what_is_changed_is_written_back_and_fills_the_channels_sooner() {
    let moved = |written_frac: f64, threads: u32| {
        let mut sweep = Program { threads, ..program("stream-dram").unwrap() };
        sweep.phases[0].written_frac = written_frac;
        let mut scene = scene("platinum-8163");
        scene.batch = vec![SimBatch { programs: vec![sweep], ..batch("sweep", &[]) }];
        let mut server = SimServer::new(&scene).unwrap();
        pin(&mut server, "sweep", "0-23");
        server.advance(SECOND);
        server.truth().traffic_bytes[&"sweep".into()]
    };
    let (read, written) = (moved(0.0, 1), moved(1.0, 1));
    assert!(written > 1.9 * read && written <= 2.0 * read, "{written} against {read}");
    let (read, written) = (moved(0.0, 24), moved(1.0, 24));
    assert!(written < 1.2 * read, "full channels move no more: {written} against {read}");
}

#[test]
fn a_throttle_slows_memory_traffic() {
    let mut scene = scene("platinum-8163");
    scene.batch = vec![batch("stream", &["stream-dram"])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "stream", "0");
    let free = speed(&mut server, "stream");
    let knob = Knob::MemoryBandwidth { tenant: "stream".into(), domain: 0 };
    set(&mut server, knob, Setting::Percent(20));
    let slow = speed(&mut server, "stream");
    assert!(slow < 0.5 * free && slow > 0.15 * free, "{slow} against {free}");
}

#[test]
fn a_stream_slows_a_neighbour_by_its_cache_and_a_mask_protects_it() {
    let mut scene = scene("e5-2683v4");
    let victim = SimBatch { programs: vec![Program::stream_of(12 * MIB)], ..batch("victim", &[]) };
    // Cores that are busy from the start, so that turbo falls no step when polluters come.
    let busy = batch("busy", &["integer", "integer", "integer"]);
    scene.batch = vec![victim, batch("polluter", &[]), busy];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "victim", "0");
    pin(&mut server, "polluter", "4-7");
    pin(&mut server, "busy", "1-3");
    let alone = speed(&mut server, "victim");
    for _ in 0..4 {
        server.start(&"polluter".into(), &program("stream-dram").unwrap()).unwrap();
    }
    let beside = speed(&mut server, "victim");
    let held = server.truth().llc_bytes[&"victim".into()];
    let knob = |tenant: &str| Knob::LlcWays { tenant: tenant.into(), domain: 0 };
    set(&mut server, knob("polluter"), Setting::Ways(0x3));
    set(&mut server, knob("victim"), Setting::Ways(0xffffc));
    let protected = speed(&mut server, "victim");
    // Four streams insert 21 GB/s in all; the victim's own misses keep less than half of its array.
    assert!(held < 6.0 * MIB as f64, "{held} bytes held");
    assert!(beside < 0.5 * alone, "{beside} against {alone}");
    assert!(protected > 0.95 * alone, "{protected} against {alone}");
}

#[test]
fn bus_locks_slow_whoever_uses_memory_on_all_sockets() {
    let mut scene = scene("haswell2");
    scene.batch =
        vec![batch("memory", &["stream-dram"]), batch("sums", &["integer"]), batch("locks", &[])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "memory", "18");
    pin(&mut server, "sums", "20");
    pin(&mut server, "locks", "0-3");
    let alone = [speed(&mut server, "memory"), speed(&mut server, "sums")];
    for _ in 0..2 {
        server.start(&"locks".into(), &program("split-lock").unwrap()).unwrap();
    }
    let beside = [speed(&mut server, "memory"), speed(&mut server, "sums")];
    assert!(beside[0] < 0.7 * alone[0], "{beside:?} against {alone:?}");
    assert!(beside[1] > 0.95 * alone[1], "{beside:?} against {alone:?}");
    for _ in 0..20 {
        server.start(&"locks".into(), &program("split-lock").unwrap()).unwrap();
    }
    server.advance(SECOND);
    assert!(server.truth().blocked[0] <= 0.95);
}

#[test]
fn bus_locks_are_counted_by_cpu_and_group_and_fall_with_the_clock() {
    let mut scene = scene("platinum-8163");
    scene.batch = vec![batch("locks", &["split-lock"]), batch("sums", &["integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "locks", "3");
    pin(&mut server, "sums", "5");
    let mut rates = || {
        let first = full(&mut server, SECOND);
        let fast = server.sample(SECOND, Scope::Fast).unwrap();
        let before = first.host.bus_locks.unwrap();
        let now = fast.host.bus_locks.unwrap();
        assert!(matches!(fast.host.cpu, Err(Gap::NotYet(_))), "a fast sample brings locks alone");
        let group = first.tenants[&"locks".into()].bus_locks.clone().unwrap();
        assert!(group.abs_diff(before[&3]) as f64 <= 0.05 * group as f64, "{group}");
        assert_eq!((now[&5], now[&51]), (0, 0), "nobody else locks");
        (now[&3] - before[&3]) as f64
    };
    let whole = rates();
    assert!((whole / 1e6 - 1.0).abs() < 0.05, "{whole}");
    let blocked = server.truth().blocked[0];
    for cpu in [3, 51] {
        set(&mut server, Knob::DutyCycle { cpu }, Setting::Duty(4));
    }
    let mut rates = || {
        let before = full(&mut server, SECOND).host.bus_locks.unwrap()[&3];
        (full(&mut server, SECOND).host.bus_locks.unwrap()[&3] - before) as f64
    };
    let quarter = rates();
    assert!((quarter / whole - 0.25).abs() < 0.02, "{quarter} against {whole}");
    assert!((server.truth().blocked[0] / blocked - 0.25).abs() < 0.05);
}

#[test]
fn no_more_bus_locks_are_made_than_the_bus_has_time_for() {
    let mut scene = scene("platinum-8163");
    scene.batch = vec![batch("locks", &["split-lock"; 16])];
    let mut server = SimServer::new(&scene).unwrap();
    server.advance(SECOND);
    let before = full(&mut server, SECOND).host.bus_locks.unwrap();
    let after = full(&mut server, SECOND).host.bus_locks.unwrap();
    let made: u64 = after.iter().map(|(cpu, now)| now - before[cpu]).sum();
    let hold_s = scene.machine.bus_lock_cycles / (server.truth().khz[0] as f64 * 1e3);
    let busy = made as f64 * hold_s;
    assert!((0.85..1.0).contains(&busy), "{made} locks of {hold_s} s");
}

#[test]
fn the_kernels_limit_of_bus_locks_holds_whoever_makes_them_and_nobody_else() {
    let of = |limit: Option<u32>| {
        let mut scene = scene("platinum-8163");
        scene.machine.bus_lock_limit = limit;
        scene.batch = vec![batch("locks", &["split-lock"; 4]), batch("sums", &["integer"; 4])];
        let mut server = SimServer::new(&scene).unwrap();
        server.advance(SECOND);
        let made = |server: &mut SimServer| -> u64 {
            full(server, SECOND).host.bus_locks.unwrap().values().sum()
        };
        let (before, worked) = (made(&mut server), server.truth());
        server.advance(9 * SECOND);
        let (after, now) = (made(&mut server), server.truth());
        let sums = now.instructions[&"sums".into()] - worked.instructions[&"sums".into()];
        let cpu_ns = now.cpu_ns[&"locks".into()] - worked.cpu_ns[&"locks".into()];
        ((after - before) as f64 / 10.0, now.blocked[0], sums, cpu_ns)
    };
    let (free, held) = (of(None), of(Some(500)));
    assert!(free.0 > 1e6 && free.1 > 0.5, "{free:?}");
    assert!((450.0..=510.0).contains(&held.0), "500 a second: {held:?}");
    assert!(held.1 < 0.01 && held.3 < free.3 / 100, "who makes them sleeps: {held:?}");
    assert!(held.2 >= 0.999 * free.2, "who makes none loses nothing: {held:?} {free:?}");
}

#[test]
fn cores_that_work_are_warmer_than_those_that_do_not() {
    let mut scene = scene("platinum-8163");
    scene.batch = vec![batch("virus", &["power-virus"; 4]), batch("sums", &["integer"; 4])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "virus", "0-3");
    pin(&mut server, "sums", "4-7");
    server.advance(60 * SECOND);
    let host = full(&mut server, SECOND).host;
    let celsius = host.temperature.unwrap();
    let mean = |cpus: std::ops::Range<u32>| {
        let count = f64::from(cpus.end - cpus.start);
        cpus.map(|cpu| celsius[&cpu].0).sum::<f64>() / count
    };
    let (virus, sums, idle) = (mean(0..4), mean(4..8), mean(8..24));
    assert!(virus > sums + 3.0 && sums > idle + 3.0, "{virus} {sums} {idle}");
    assert!((mean(48..52) - virus).abs() < 3.0, "threads of a core are one place");
    let busy = host.cpu_busy_ns.unwrap();
    assert!(busy[&0] > 59_000_000_000 && busy[&20] < 1_000_000_000, "{busy:?}");
    let vm = full(&mut SimServer::new(&self::scene("vm2")).unwrap(), SECOND).host;
    assert!(matches!(vm.temperature, Err(Gap::Absent(_))));
    assert!(matches!(vm.bus_locks, Err(Gap::Absent(_))));
}

#[test]
fn a_power_virus_costs_everybody_frequency_and_a_cap_gives_it_back() {
    let mut scene = scene("haswell2");
    scene.batch = vec![batch("victim", &["integer"]), batch("virus", &["power-virus"; 17])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "victim", "0");
    pin(&mut server, "virus", "1-17");
    server.advance(SECOND);
    let hot = speed(&mut server, "victim");
    assert!(
        server.truth().watts[0] <= scene.machine.power.limit_w * 1.02,
        "{:?}",
        server.truth().watts
    );
    for cpu in 1..18 {
        let to = Setting::Frequency(Kilohertz(1_200_000));
        set(&mut server, Knob::FrequencyMax { cpu }, to);
    }
    let freed = speed(&mut server, "victim");
    assert!(freed > 1.05 * hot, "{freed} against {hot}");
    assert!(server.truth().celsius[0] > scene.machine.power.ambient_c);
}

#[test]
fn siblings_share_a_core() {
    let mut scene = scene("e5-2683v4");
    scene.batch = vec![batch("a", &["integer"]), batch("b", &["integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "a", "0");
    pin(&mut server, "b", "1");
    let apart = speed(&mut server, "a");
    pin(&mut server, "b", "16");
    let together = speed(&mut server, "a");
    assert!((together / apart - 0.6).abs() < 0.03, "{}", together / apart);
}

#[test]
fn far_memory_is_slower_as_the_distances_say() {
    let run = |node: u32| {
        let mut scene = scene("numaconnect");
        let far = Program { memory_nodes: vec![node], ..program("stream-dram").unwrap() };
        scene.batch = vec![SimBatch { programs: vec![far], ..batch("app", &[]) }];
        let mut server = SimServer::new(&scene).unwrap();
        pin(&mut server, "app", "0");
        speed(&mut server, "app")
    };
    let (near, die, hop) = (run(0), run(1), run(6));
    assert!(near > die && die > 2.0 * hop, "{near} {die} {hop}");
}

#[test]
fn a_greedy_sender_inflates_tails_and_a_ceiling_brings_them_back() {
    let mut scene = scene("vm2");
    let link = LinkSpec { name: "eth0".into(), capacity: BytesPerSecond::from_bits(1e8) };
    scene.links = vec![link];
    let mut web = service("web", "search", 0.5, 200.0);
    web.spec.links = vec!["eth0".into()];
    let mut iperf = batch("iperf", &[]);
    iperf.spec.links = vec!["eth0".into()];
    (scene.services, scene.batch) = (vec![web], vec![iperf]);
    let mut server = SimServer::new(&scene).unwrap();
    let p95 = |h: LogHistogram| h.quantile(0.95).unwrap();
    let alone = p95(latencies(&mut server, "web", 10 * SECOND));
    set(&mut server, Knob::CpuIdle { tenant: "iperf".into() }, Setting::Flag(true));
    server.start(&"iperf".into(), &program("iperf").unwrap()).unwrap();
    let beside = p95(latencies(&mut server, "web", 10 * SECOND));
    let knob = Knob::EgressCeiling { tenant: "iperf".into(), link: "eth0".into() };
    set(&mut server, knob, Setting::Rate(Some(BytesPerSecond::from_bits(8e7))));
    full(&mut server, SECOND);
    let before = full(&mut server, SECOND).links[&"eth0".into()].clone();
    let shaped = p95(latencies(&mut server, "web", 10 * SECOND));
    let after = full(&mut server, SECOND).links[&"eth0".into()].clone();
    assert!(beside > 10.0 * alone, "{beside} against {alone}");
    assert!(shaped < 1.6 * alone, "{shaped} against {alone}");
    let sent = (after.sent_bytes.unwrap() - before.sent_bytes.unwrap()) as f64 / 11.0;
    assert!(sent > 0.75 * 12.5e6 && sent <= 12.5e6 * 1.01, "{sent}");
    server.restore().unwrap();
}

#[test]
fn stretches_that_are_stepped_over_change_figures_by_little() {
    let run = |stretch: bool| {
        let mut scene = Scene { stretch, ..scene("haswell2") };
        scene.services = vec![service("search", "xapian", 1.5, 500.0)];
        scene.batch = (0..7).map(|n| batch(&format!("batch{n}"), &["phased"])).collect();
        let mut server = SimServer::new(&scene).unwrap();
        let p95 = latencies(&mut server, "search", 100 * SECOND).quantile(0.95).unwrap();
        let truth = server.truth();
        let traffic: f64 = truth.traffic_bytes.values().sum();
        let work: f64 = truth.instructions.values().sum();
        [p95, traffic, work]
    };
    let (over, each) = (run(true), run(false));
    for (over, each) in over.iter().zip(&each) {
        assert!((over / each - 1.0).abs() < 0.05, "{over} against {each}");
    }
}
