//! Starts a service to be loaded.

use super::super::wire::Wire;
use super::{Loaded, Service, USUAL_QPS};
use anyhow::Context as _;
use quell_pressure::{Bound, Stop, bind_all, spawn_bound};
use quell_profiler::Seats;
use quell_service::{Bench, KeyValueMix, ServeOptions, ServerLaunch, ServiceSpec, Target};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server listens within this.
const READY: Duration = Duration::from_secs(10);

/// Starts the service on the workload's CPUs, and loads it from those of the pressure; over a wire
/// if one is given.
pub(crate) fn open(
    service: Service,
    seats: &Seats,
    wire: Option<&Wire>,
    stop: &Stop,
) -> anyhow::Result<Loaded> {
    let spec = match service {
        Service::Own(own) => Some(own.spec()),
        Service::Redis => None,
    };
    let name = service.name();
    bind_all(&seats.workload)?;
    let opened = match spec {
        Some(spec) => embedded(spec, seats, wire).map(|bench| (bench, None)),
        None => redis(seats, wire),
    };
    bind_all(&seats.pressure)?;
    let (bench, server) = opened.with_context(|| format!("cannot start {name}"))?;
    let (bench, stop) = (Arc::new(bench), stop.clone());
    Ok(Loaded {
        bench,
        name,
        qps: USUAL_QPS,
        slo_ms: None,
        by_work: false,
        live: None,
        seed: 1,
        stop,
        server,
    })
}

fn embedded(spec: ServiceSpec, seats: &Seats, wire: Option<&Wire>) -> anyhow::Result<Bench> {
    let threads = u32::try_from(seats.workload.len()).unwrap_or(1);
    let text = |path: std::path::PathBuf| path.display().to_string();
    let near = wire.map(Wire::near).transpose()?.map(text);
    let far = wire.map(Wire::far).transpose()?.map(text);
    let listen = (wire.map_or(Ipv4Addr::LOCALHOST, Wire::address), 0).into();
    let serve = ServeOptions { spec, listen, threads, netns: near };
    let launch = ServerLaunch::this_program(&["load", "serve"])?;
    Ok(Bench::open(&Target::Spawned { launch, serve }, far.as_deref())?)
}

/// A redis that keeps nothing, on a port of loopback.
fn redis(seats: &Seats, wire: Option<&Wire>) -> anyhow::Result<(Bench, Option<Bound>)> {
    anyhow::ensure!(wire.is_none(), "redis is not started behind the wire");
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let port = address.port().to_string();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = spawn_bound(&mut command, &seats.workload).context("redis-server")?;
    wait_for(address, &server)?;
    let bench = Bench::open(&Target::Redis { address, mix: KeyValueMix::default() }, None)?;
    Ok((bench, Some(server)))
}

fn wait_for(address: SocketAddr, server: &Bound) -> anyhow::Result<()> {
    let end = Instant::now() + READY;
    while TcpStream::connect(address).is_err() {
        let ended = server.wait(Duration::from_millis(20))?;
        anyhow::ensure!(ended.is_none(), "it ended with {ended:?}");
        anyhow::ensure!(Instant::now() < end, "it does not listen on {address}");
    }
    Ok(())
}
