//! T-E3 on this machine: the round trip of a small echo through a slow link, alone, beside bulk
//! senders, and beside them with the shaper. Needs root; touches only namespaces of its own.
//!
//! `cargo run -p quell-egress --example inflation -- [SECONDS] [ROUNDS] [CEILING] [WIRE_BURST_BYTES]
//! [PACKET_US] [BURST_US]`

use quell_egress::lab::{Bulk, Echo, EchoLoad, FAR, LINK, Lab, NEAR, Sink, WireSpec};
use quell_egress::{Result, Shaper, ShaperSpec, Takeover, Tuning, class_of};
use quell_types::{BytesPerSecond, Tenant};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const FLOWS: usize = 4;
const ECHO_BYTES: usize = 100;

struct Settings {
    seconds: f64,
    rounds: usize,
    ceiling: f64,
    wire: WireSpec,
    tuning: Tuning,
}

fn settings() -> Settings {
    let arguments: Vec<f64> =
        std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let get = |at: usize, default: f64| arguments.get(at).copied().unwrap_or(default);
    let standard = Tuning::default();
    let wire = WireSpec::fast_ethernet();
    Settings {
        seconds: get(0, 4.0),
        rounds: get(1, 3.0) as usize,
        ceiling: get(2, 0.9),
        wire: WireSpec { burst_bytes: get(3, f64::from(wire.burst_bytes)) as u32, ..wire },
        tuning: Tuning {
            packet: Duration::from_secs_f64(get(4, standard.packet.as_secs_f64() * 1e6) / 1e6),
            burst: Duration::from_secs_f64(get(5, standard.burst.as_secs_f64() * 1e6) / 1e6),
            ..standard
        },
    }
}

fn main() -> Result<()> {
    let settings = settings();
    println!(
        "{:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "case", "p50_us", "p95_us", "p99_us", "max_us", "goodput", "wire_use"
    );
    for _ in 0..settings.rounds {
        for case in ["alone", "none", "shaped"] {
            run(case, &settings)?;
        }
    }
    Ok(())
}

fn run(case: &str, settings: &Settings) -> Result<()> {
    let lab = Lab::build(&settings.wire)?;
    let mut shaper = (case == "shaped").then(|| shaped(&lab, settings)).transpose()?;
    let sink = Sink::start(lab.far(), SocketAddr::from((FAR, 0)))?;
    let echo = Echo::start(lab.near(), SocketAddr::from((NEAR, 0)))?;
    let class = shaper.as_ref().map(|_| class_of(0));
    let bulk = (case != "alone")
        .then(|| Bulk::start(lab.near(), sink.address(), FLOWS, class))
        .transpose()?;
    let load = |seconds: f64| EchoLoad {
        duration: Duration::from_secs_f64(seconds),
        every: Duration::from_micros(1700),
        bytes: ECHO_BYTES,
    };
    load(1.0).measure(lab.far(), echo.address())?;
    let (begin, before, wire) = (Instant::now(), sink.bytes(), lab.wire_bytes()?);
    let mut trips = load(settings.seconds).measure(lab.far(), echo.address())?;
    let span = begin.elapsed().as_secs_f64() * settings.wire.rate.0;
    let goodput = (sink.bytes() - before) as f64 / span;
    let wire_use = (lab.wire_bytes()? - wire) as f64 / span;
    drop(bulk);
    trips.sort();
    let quantile = |p: f64| trips[((trips.len() - 1) as f64 * p) as usize].as_micros();
    println!(
        "{case:>8} {:>8} {:>8} {:>8} {:>8} {goodput:>9.3} {wire_use:>9.3}",
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        quantile(1.0)
    );
    if let Some(shaper) = &mut shaper {
        calls(shaper)?;
        eprintln!(
            "         drops {:?} backlog {:?} wire drops {}",
            shaper.read().link.drops,
            shaper.read().link.backlog_bytes,
            lab.wire_drops()?
        );
    }
    Ok(())
}

/// What one setting and one reading cost the caller.
fn calls(shaper: &mut Shaper) -> Result<()> {
    const CALLS: u32 = 500;
    let begin = Instant::now();
    for step in 0..CALLS {
        let rate = BytesPerSecond(1e6 + f64::from(step));
        shaper.set_ceiling(&Tenant::new("bulk"), Some(rate))?;
    }
    let set = begin.elapsed() / CALLS;
    let begin = Instant::now();
    for _ in 0..CALLS {
        shaper.read();
    }
    eprintln!("         set_ceiling {set:?}, read {:?}", begin.elapsed() / CALLS);
    Ok(())
}

fn shaped(lab: &Lab, settings: &Settings) -> Result<Shaper> {
    let tenant = Tenant::new("bulk");
    let mut shaper = Shaper::open(ShaperSpec {
        link: LINK.into(),
        netns: lab.near().path().map(Into::into),
        capacity: settings.wire.rate,
        tenants: vec![tenant.clone()],
        tuning: settings.tuning,
        takeover: Takeover::Refuse,
    })?;
    shaper.install()?;
    shaper.set_ceiling(&tenant, Some(BytesPerSecond(settings.wire.rate.0 * settings.ceiling)))?;
    Ok(shaper)
}
