//! Scenarios of the whole law; the order of the top controller's tests has its own in `top.rs`.

use super::*;
use crate::testing::{Seen, SetupBuilder, Standing, observe, setup};
use quell_types::{Kilohertz, Setting};

/// Eight CPUs on one socket, a link of 1 Gbit/s.
fn eight() -> SetupBuilder {
    setup(8).service("search", 15.0, 1000.0).batch("brain").link("eth0", 1000.0)
}

struct Run {
    law: Heracles,
    setup: Setup,
    standing: Standing,
}

impl Run {
    fn new(setup: Setup, params: HeraclesParams) -> Self {
        params.validate().expect("valid parameters");
        Self { law: Heracles::new(params), setup, standing: Standing::default() }
    }

    /// Steps every half second from `from` up to before `to`.
    fn run(&mut self, from: f64, to: f64, change: impl Fn(Seen) -> Seen) -> Vec<String> {
        let mut rules = Vec::new();
        for step in 0..((to - from) * 2.0) as u32 {
            let seen = observe(&self.setup, from + f64::from(step) / 2.0).egress("search", 0.0);
            let seen = change(seen.obedient(&self.standing));
            rules.extend(self.standing.step(&mut self.law, &self.setup, seen));
        }
        rules
    }

    fn batch_cores(&self) -> usize {
        self.standing.cpus("brain").len()
    }
}

fn at(load: f64, slack: f64) -> impl Fn(Seen) -> Seen {
    move |seen| seen.load("search", load).slack("search", slack)
}

fn moving(total: f64, batch: f64) -> impl Fn(Seen) -> Seen {
    move |seen| at(0.5, 0.5)(seen).host_memory(total).memory("brain", batch)
}

#[test]
fn batch_begins_with_a_core_and_a_tenth_of_the_cache_below_80_percent_load() {
    let mut run = Run::new(eight().ways(20).build(), HeraclesParams::default());
    run.run(0.0, 0.5, at(0.81, 0.5));
    assert!(run.standing.frozen("brain"));
    assert_eq!(run.standing.cpus("search").to_string(), "0-7");
    run.run(15.0, 15.5, at(0.79, 0.5));
    assert!(!run.standing.frozen("brain"));
    assert_eq!(run.standing.cpus("brain").to_string(), "0");
    assert_eq!(run.standing.cpus("search").to_string(), "1-7");
    assert_eq!((run.standing.ways("brain"), run.standing.ways("search")), (0xc0000, 0x3ffff));
}

#[test]
fn negative_slack_puts_batch_off_for_five_minutes() {
    let mut run = Run::new(eight().build(), HeraclesParams::default());
    run.run(0.0, 15.0, at(0.3, 0.5));
    let rules = run.run(15.0, 15.5, at(0.3, -0.01));
    assert!(rules.contains(&"disable-slack-negative".to_owned()), "{rules:?}");
    assert!(run.standing.frozen("brain"));
    assert_eq!(run.run(16.0, 330.0, at(0.3, 0.5)), Vec::<String>::new());
    assert_eq!(run.run(330.0, 330.5, at(0.3, 0.5)), ["enable-load-low"]);
}

#[test]
fn short_slack_stops_growth_and_shorter_leaves_two_cores() {
    let mut run = Run::new(eight().build(), HeraclesParams::default());
    run.run(0.0, 15.0, at(0.3, 0.5));
    let grown = run.batch_cores();
    assert_eq!(grown, 7, "a core every 2 s, the service keeps one");
    assert_eq!(run.run(15.0, 30.0, at(0.3, 0.09)), Vec::<String>::new());
    assert_eq!(run.run(30.0, 45.0, at(0.3, 0.04)), ["keep-few-cores"]);
    assert_eq!(run.batch_cores(), 2);
    let rules = run.run(45.0, 50.0, at(0.3, 0.5));
    assert!(rules.contains(&"grow-core".to_owned()), "slack is back: {rules:?}");
}

#[test]
fn in_the_printed_order_small_slack_at_low_load_does_not_stop_growth() {
    let literal = HeraclesParams { literal_order: true, ..HeraclesParams::default() };
    let mut run = Run::new(eight().build(), literal);
    run.run(0.0, 15.0, at(0.3, 0.5));
    assert_eq!(run.run(15.0, 30.0, at(0.3, 0.04)), Vec::<String>::new());
    assert_eq!(run.batch_cores(), 7);
    run.run(30.0, 45.0, at(0.82, 0.04));
    assert_eq!(run.batch_cores(), 2);
}

#[test]
fn a_way_is_kept_while_traffic_falls_and_taken_back_when_it_does_not() {
    let mut run = Run::new(eight().ways(20).build(), HeraclesParams::default());
    run.run(0.0, 2.5, moving(20e9, 10e9));
    assert_eq!(run.standing.ways("brain"), 0xe0000, "a third way is tried at 2 s");
    assert_eq!(run.run(2.5, 3.5, moving(18e9, 8e9)), Vec::<String>::new());
    assert_eq!(run.run(4.0, 4.5, moving(18e9, 8e9)), ["grow-llc"]);
    assert_eq!(run.standing.ways("brain"), 0xf0000);
    assert_eq!(run.run(4.5, 5.5, moving(18e9, 8e9)), ["llc-roll-back-traffic"]);
    assert_eq!(run.standing.ways("brain"), 0xe0000);
    assert_eq!(run.run(6.0, 6.5, moving(18e9, 8e9)), ["grow-core"]);
}

#[test]
fn a_way_that_batch_gains_nothing_from_stays_but_cores_are_next() {
    let mut run = Run::new(eight().ways(20).build(), HeraclesParams::default());
    let busy = |total, batch| move |s: Seen| moving(total, batch)(s).cpu("brain", 1.0);
    run.run(0.0, 2.5, busy(20e9, 10e9));
    // Total traffic fell because the service's did.
    assert_eq!(run.run(2.5, 4.0, busy(18e9, 10e9)), Vec::<String>::new());
    assert_eq!(run.standing.ways("brain"), 0xe0000);
    assert_eq!(run.run(4.0, 4.5, busy(18e9, 10e9)), ["grow-core"]);
}

#[test]
fn over_90_percent_of_peak_traffic_cores_are_cut_until_it_fits() {
    let params = HeraclesParams { peak_dram_bytes_per_s: Some(50e9), ..HeraclesParams::default() };
    let mut run = Run::new(eight().build(), params);
    run.run(0.0, 8.0, moving(20e9, 1e9));
    assert_eq!(run.batch_cores(), 4);
    // Limit 45 GB/s, 5 GB/s a core: 1 GB/s too much is a core, 11 GB/s are three.
    assert_eq!(run.run(8.0, 8.5, moving(45e9, 20e9)), Vec::<String>::new());
    run.run(10.0, 10.5, moving(46e9, 20e9));
    assert_eq!(run.batch_cores(), 3);
    run.run(12.0, 12.5, moving(56e9, 15e9));
    assert_eq!(run.batch_cores(), 1);
}

#[test]
fn the_model_of_the_services_traffic_decides_where_there_is_one() {
    let point = |load_frac, bytes_per_s| ServiceBandwidth {
        load_frac,
        bytes_per_s,
        cores: None,
        ways: None,
    };
    let with_model = HeraclesParams {
        peak_dram_bytes_per_s: Some(50e9),
        service_bandwidth: vec![point(0.2, 10e9), point(0.6, 38e9)],
        ..HeraclesParams::default()
    };
    assert!((with_model.modelled_bandwidth(0.5, 4, 0).unwrap() - 31e9).abs() < 1.0);
    assert_eq!(with_model.modelled_bandwidth(0.1, 4, 0), Some(10e9));
    assert_eq!(with_model.modelled_bandwidth(0.9, 4, 0), Some(38e9));
    let of = |cores, ways, bytes_per_s| ServiceBandwidth {
        load_frac: 0.5,
        bytes_per_s,
        cores: Some(cores),
        ways: Some(ways),
    };
    let table = vec![of(2, 4, 1e9), of(2, 12, 2e9), of(6, 4, 3e9), of(6, 12, 4e9)];
    let divided = HeraclesParams { service_bandwidth: table, ..HeraclesParams::default() };
    assert!(divided.validate().is_ok());
    for (cores, ways, bytes) in [(1, 1, 1e9), (3, 11, 2e9), (7, 5, 3e9), (9, 20, 4e9)] {
        assert_eq!(divided.modelled_bandwidth(0.7, cores, ways), Some(bytes), "{cores} {ways}");
    }
    let measured = HeraclesParams { service_bandwidth: Vec::new(), ..with_model.clone() };
    // Measured 20 GB/s in all, but at half load the model expects 31 GB/s of the service.
    let mut run = Run::new(eight().build(), with_model);
    run.run(0.0, 8.0, moving(20e9, 8e9));
    assert_eq!(run.batch_cores(), 1);
    let mut run = Run::new(eight().build(), measured);
    run.run(0.0, 8.0, moving(20e9, 8e9));
    assert_eq!(run.batch_cores(), 4);
}

#[test]
fn without_traffic_readings_the_cache_stays_and_cores_grow() {
    let mut run = Run::new(eight().ways(20).build(), HeraclesParams::default());
    run.run(0.0, 9.0, at(0.3, 0.5));
    assert_eq!((run.standing.ways("brain"), run.batch_cores()), (0xc0000, 5));
}

fn hot() -> HeraclesParams {
    HeraclesParams {
        tdp_w: Some(100.0),
        guaranteed_khz: Some(2_300_000),
        ..HeraclesParams::default()
    }
}

#[test]
fn batch_slows_down_when_power_takes_the_services_frequency_and_speeds_up_after() {
    let two_sockets = eight().sockets(2).frequency(1_200_000, 3_000_000).build();
    let mut run = Run::new(two_sockets, hot());
    let see = |watts: f64, khz: u64| {
        move |s: Seen| at(0.82, 0.09)(s).power(&[watts, 95.0]).frequencies(&[khz; 8])
    };
    let top = |run: &Run, cpu| run.standing.settings.get(&Knob::FrequencyMax { cpu }).cloned();
    let khz = |khz| Some(Setting::Frequency(Kilohertz(khz)));
    run.run(0.0, 1.0, |s| at(0.3, 0.05)(s)); // on, one core, no growth
    run.run(2.0, 4.0, see(95.0, 2_200_000));
    assert_eq!(top(&run, 0), khz(2_900_000));
    assert_eq!(top(&run, 4), None, "socket 1 has no batch");
    run.run(4.0, 6.0, see(95.0, 2_300_000)); // services are at speed: hold
    assert_eq!(top(&run, 0), khz(2_900_000));
    run.run(6.0, 8.0, see(85.0, 2_300_000));
    assert_eq!(top(&run, 0), khz(3_000_000));
    run.run(8.0, 60.0, see(95.0, 2_200_000));
    assert_eq!(top(&run, 0), khz(1_200_000), "not below the range");
    let rules = run.run(60.0, 61.0, at(0.9, 0.5));
    assert!(rules.contains(&"free-frequency".to_owned()), "{rules:?}");
    assert_eq!(top(&run, 0), None, "a core that batch lost is given back");
}

#[test]
fn the_power_loop_is_skipped_without_knob_reading_or_parameters() {
    let with_knob = || eight().frequency(1_200_000, 3_000_000).build();
    for (setup, params) in [(eight().build(), hot()), (with_knob(), HeraclesParams::default())] {
        let mut run = Run::new(setup, params);
        let slow = |s: Seen| at(0.3, 0.5)(s).power(&[99.0]).frequencies(&[1_000_000; 8]);
        run.run(0.0, 20.0, slow);
        assert!(!run.standing.settings.keys().any(|k| matches!(k, Knob::FrequencyMax { .. })));
        assert!(run.law.degradations(&run.setup).iter().any(|n| n.contains("no power loop")));
    }
    let mut run = Run::new(with_knob(), hot());
    run.run(0.0, 20.0, at(0.3, 0.5));
    assert!(!run.standing.settings.keys().any(|k| matches!(k, Knob::FrequencyMax { .. })));
}

#[test]
fn a_link_keeps_room_for_the_service_and_a_reserve() {
    for (sent, left) in [(0.0, 118.75e6), (50e6, 68.75e6), (100e6, 15e6), (124e6, 12.5)] {
        let mut run = Run::new(eight().build(), HeraclesParams::default());
        run.run(0.0, 0.5, |s| at(0.3, 0.5)(s).egress("search", sent));
        let got = run.standing.ceiling("brain", "eth0").expect("a ceiling");
        assert!((got - left).abs() < 1.0, "{sent}: {got} instead of {left}");
    }
}

#[test]
fn an_objective_that_is_missed_alone_is_said_once() {
    let mut run = Run::new(eight().build(), HeraclesParams::default());
    let rules = run.run(0.0, 900.0, at(0.3, -0.5));
    assert_eq!(rules.iter().filter(|r| *r == "slo-unreachable-alone").count(), 1);
    assert!(!rules.iter().any(|r| r == "enable-load-low"), "{rules:?}");
}

#[test]
fn contradicting_parameters_are_refused() {
    let base = HeraclesParams::default;
    let point =
        |load_frac| ServiceBandwidth { load_frac, bytes_per_s: 1e9, cores: None, ways: None };
    for bad in [
        HeraclesParams { top_period_s: -1.0, ..base() },
        HeraclesParams { load_low_frac: 0.9, ..base() },
        HeraclesParams { slack_shrink_frac: 0.5, ..base() },
        HeraclesParams { start_cores: 0, ..base() },
        HeraclesParams { tdp_w: Some(0.0), ..base() },
        HeraclesParams { service_bandwidth: vec![point(0.5), point(0.5)], ..base() },
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
    assert!(base().validate().is_ok());
}
