//! Bulk senders between two network namespaces of our own, under an HTB ceiling: what passes.

use super::Ground;
use super::report::{BesideRow, Part, Rows};
use quell_egress::lab::{Bulk, FAR, LINK, Lab, Sink, WireSpec};
use quell_egress::{Shaper, ShaperSpec, Takeover, Tuning, class_of};
use quell_platform::{Platform as _, Scope};
use quell_sim::{Scene, SimBatch, SimServer, program};
use quell_types::{BatchSpec, BytesPerSecond, Knob, Link, LinkSpec, Setting, Tenant};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const FLOWS: usize = 4;
const TENANT: &str = "bulk";
const STEPS: [u32; 5] = [10, 25, 50, 75, 90];
/// Queues and windows have settled by then.
const SETTLE: Duration = Duration::from_millis(700);
const LOOK: Duration = Duration::from_millis(1_000);
/// In the preset, for each step.
const SIMULATED: Duration = Duration::from_secs(5);

pub(super) fn run(ground: &Ground<'_>) -> anyhow::Result<Vec<BesideRow>> {
    let wire = WireSpec::fast_ethernet();
    let lab = Lab::build(&wire)?;
    let mut shaper = shaper(&lab, &wire)?;
    let sink = Sink::start(lab.far(), SocketAddr::from((FAR, 0)))?;
    let _bulk = Bulk::start(lab.near(), sink.address(), FLOWS, Some(class_of(0)))?;
    let mut rows = Rows::default();
    ground.rounds(&mut rows, |rows| {
        for percent in STEPS {
            shaper.set_ceiling(&Tenant::new(TENANT), Some(ceiling(&wire, percent)))?;
            std::thread::sleep(SETTLE);
            rows.see(&words(percent), "Mbit/s", false, rate(&lab)? * 8.0 / 1e6);
        }
        Ok(())
    })?;
    Ok(rows.of(Part::Egress))
}

/// What the preset says of a figure of this part.
pub(super) fn simulated(what: &str) -> Option<f64> {
    let percent = STEPS.into_iter().find(|percent| words(*percent) == what)?;
    Some(passed(&WireSpec::fast_ethernet(), percent)? * 8.0 / 1e6)
}

fn words(percent: u32) -> String {
    format!("HTB ceiling {percent} % of 100 Mbit/s, {FLOWS} flows")
}

fn ceiling(wire: &WireSpec, percent: u32) -> BytesPerSecond {
    BytesPerSecond(wire.rate.0 * f64::from(percent) / 100.0)
}

/// The near end's link under HTB; it goes with its namespace.
fn shaper(lab: &Lab, wire: &WireSpec) -> anyhow::Result<Shaper> {
    let mut shaper = Shaper::open(ShaperSpec {
        link: LINK.into(),
        netns: lab.near().path().map(Into::into),
        capacity: wire.rate,
        tenants: vec![Tenant::new(TENANT)],
        tuning: Tuning::default(),
        takeover: Takeover::Refuse,
    })?;
    shaper.install()?;
    Ok(shaper)
}

/// Bytes a second that leave the wire, headers included.
fn rate(lab: &Lab) -> anyhow::Result<f64> {
    let (begun, before) = (Instant::now(), lab.wire_bytes()?);
    std::thread::sleep(LOOK);
    Ok((lab.wire_bytes()? - before) as f64 / begun.elapsed().as_secs_f64())
}

/// Bytes a second that the same senders get through in the preset.
fn passed(wire: &WireSpec, percent: u32) -> Option<f64> {
    let (name, tenant): (Link, Tenant) = (LINK.into(), TENANT.into());
    let mut scene = Scene::new(quell_sim::preset(super::PRESET)?, 7);
    scene.links = vec![LinkSpec { name: name.clone(), capacity: wire.rate }];
    let spec = BatchSpec {
        name: tenant.clone(),
        links: vec![name.clone()],
        takes_tasks: false,
        max_tasks: 0,
    };
    let senders = quell_sim::Program { threads: FLOWS as u32, ..program("iperf")? };
    scene.batch = vec![SimBatch { spec, programs: vec![senders] }];
    let mut server = SimServer::new(&scene).ok()?;
    let knob = Knob::EgressCeiling { tenant, link: name.clone() };
    server.change_behind(&knob, &Setting::Rate(Some(ceiling(wire, percent)))).ok()?;
    let mut sent = |after: Duration| {
        let sample = server.sample(after, Scope::Full).ok()?;
        sample.links.get(&name)?.sent_bytes.clone().ok()
    };
    let before = sent(SETTLE)?;
    Some((sent(SIMULATED)? - before) as f64 / SIMULATED.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_the_preset_get_what_their_ceiling_lets_through() {
        let wire = WireSpec::fast_ethernet();
        for percent in STEPS {
            let share = passed(&wire, percent).unwrap() / ceiling(&wire, percent).0;
            assert!((share - 1.0).abs() < 0.1, "{share} of the ceiling at {percent} %");
        }
    }
}
