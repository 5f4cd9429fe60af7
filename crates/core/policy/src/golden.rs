//! Golden journals: a scripted day on a toy server, law by law. The text in `tests/golden` is
//! what each law answers; a change of it is a change of behaviour and is to be read as such. When
//! one is meant, replace the file by what the failing test prints.

use crate::testing::{Standing, journal_lines, observe, setup};
use crate::{Law, LawParams, ServiceBandwidth, build};
use quell_types::{Observation, Setup};

/// Load of the service over the day: (until second, share of peak).
const DAY: [(f64, f64); 6] =
    [(60.0, 0.3), (120.0, 0.5), (160.0, 0.75), (200.0, 0.9), (260.0, 0.4), (300.0, 0.82)];

/// A server with eight CPUs for both sides and one for the system, a cache of 20 ways, a link of
/// 1 Gbit/s.
fn server() -> Setup {
    let tenants = setup(9).service("search", 15.0, 1000.0).batch("brain");
    tenants.link("eth0", 1000.0).ways(20).build()
}

/// What the toy server shows: the service's tail is that of a queue on its CPUs, batch moves
/// 9 GB/s a core, a little less with every way of its own.
fn shown(setup: &Setup, standing: &Standing, second: f64) -> Observation {
    let load = DAY.iter().find(|(until, _)| second < *until).map_or(0.3, |(_, load)| *load);
    let cpus = match standing.cpus("search").len() {
        0 => 8.0, // not yet divided
        cpus => cpus as f64,
    };
    let busy = (load * 8.0 / cpus).min(0.98);
    let slack = 1.0 - 0.12 / (1.0 - busy);
    let cores = if standing.frozen("brain") { 0.0 } else { standing.cpus("brain").len() as f64 };
    let ways = f64::from((standing.ways("brain") & !1).count_ones());
    let batch = cores * (9e9 - 0.3e9 * ways.min(8.0));
    let seen = observe(setup, second).load("search", load).slack("search", slack);
    let seen = seen.egress("search", (load * 100e6).round()).cpu("brain", cores);
    let seen = seen.memory("search", load * 5e9).memory("brain", batch).tasks("brain", 5, 2);
    seen.host_memory(load * 5e9 + batch).obedient(standing).done()
}

fn params() -> LawParams {
    let mut params = LawParams::default();
    params.heracles.peak_dram_bytes_per_s = Some(45e9);
    params.heracles.cool_down_s = 20.0;
    let point = |load_frac| ServiceBandwidth {
        load_frac,
        bytes_per_s: load_frac * 5e9,
        cores: None,
        ways: None,
    };
    params.heracles.service_bandwidth = vec![point(0.0), point(1.0)];
    params
}

fn journal(law: Law) -> String {
    let setup = server();
    let mut policies = build(law, &params()).expect("valid parameters");
    let mut standing = Standing::default();
    let mut text = format!("# {law}: seconds, precedence, rule {{inputs}}: wish\n");
    for step in 0..600 {
        let second = f64::from(step) / 2.0;
        let observation = shown(&setup, &standing, second);
        for policy in &mut policies {
            let proposals = policy.step(&setup, &observation);
            standing.take(&proposals);
            text.push_str(&journal_lines(second, &proposals));
        }
    }
    text
}

fn compare(law: Law, golden: &str) {
    let (once, twice) = (journal(law), journal(law));
    assert_eq!(once, twice, "the same day gives the same journal");
    assert!(once == golden, "the journal of {law} changed; it is now:\n{once}");
}

#[test]
fn baselines_answer_once() {
    let all = [Law::None, Law::OsOnly, Law::Static].map(journal).concat();
    let golden = include_str!("../tests/golden/baselines.txt");
    assert!(all == golden, "the journal of the baselines changed; it is now:\n{all}");
}

#[test]
fn a_day_of_thesis() {
    compare(Law::Thesis, include_str!("../tests/golden/thesis.txt"));
}

#[test]
fn a_day_of_heracles() {
    compare(Law::Heracles, include_str!("../tests/golden/heracles.txt"));
}

/// Two services whose loads move apart, and batch in what they leave.
#[test]
fn a_day_of_parties() {
    let two = setup(9).service("search", 15.0, 1000.0).service("store", 2.0, 4000.0).batch("brain");
    let setup = two.ways(20).build();
    let mut policies = build(Law::Parties, &params()).expect("valid parameters");
    let mut standing = Standing::default();
    let mut text = String::from("# parties: seconds, precedence, rule {inputs}: wish\n");
    for step in 0..600 {
        let second = f64::from(step) / 10.0;
        let loads = if second < 30.0 { [0.2, 0.4] } else { [0.7, 0.1] };
        let mut seen = observe(&setup, second);
        for (name, load) in ["search", "store"].into_iter().zip(loads) {
            let cpus = (standing.cpus(name).len() as f64).max(1.0);
            let busy = (load * 9.0 / cpus).min(0.98);
            seen = seen.load(name, load).slack(name, 1.0 - 0.2 / (1.0 - busy));
        }
        let observation = seen.obedient(&standing).done();
        let proposals = policies[0].step(&setup, &observation);
        standing.take(&proposals);
        text.push_str(&journal_lines(second, &proposals));
    }
    let golden = include_str!("../tests/golden/parties.txt");
    assert!(text == golden, "the journal of parties changed; it is now:\n{text}");
}
