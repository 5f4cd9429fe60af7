//! Machines that run, how they stand, and how long libvirt takes to say so:
//! `cargo run --release -p quell-libvirt --example machines -- [ROOT]`. Pins every machine's first
//! CPU to where it is pinned already; changes nothing.

use quell_libvirt::{Access, Connection, LibvirtError, process_of, threads};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(10);
const ROUNDS: usize = 50;

/// Median and largest of some rounds, in milliseconds.
fn time(
    what: &str,
    mut call: impl FnMut() -> Result<(), LibvirtError>,
) -> Result<(), LibvirtError> {
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        call()?;
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    println!("{what:24} median {:.2} ms, largest {:.2} ms", took[ROUNDS / 2], took[ROUNDS - 1]);
    Ok(())
}

fn main() -> Result<(), LibvirtError> {
    let root = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "/".into()));
    let mut connection = Connection::system(&root, Access::Full, LIMIT)?;
    println!("libvirt {} at {}", connection.version()?, connection.socket().display());
    time("connect", || Connection::system(&root, Access::Read, LIMIT).map(drop))?;
    time("list", || connection.running().map(drop))?;
    for domain in connection.running()? {
        let info = connection.info(&domain)?;
        println!("{} ({}), {} CPUs, {:?}", domain.name, domain.uuid, info.vcpus, info.state);
        let pid = process_of(&root.join("proc"), &domain.uuid)
            .or_else(|| process_of("/proc".as_ref(), &domain.uuid));
        for thread in pid.and_then(|pid| threads("/proc".as_ref(), pid).ok()).unwrap_or_default() {
            println!("  {:6} {:?} on {}", thread.tid, thread.role, thread.cpus);
        }
        let scheduler = connection.scheduler(&domain)?;
        let global: Vec<_> =
            scheduler.into_iter().filter(|p| p.field.starts_with("global_")).collect();
        let pins = connection.vcpu_pins(&domain)?;
        println!("  {global:?}, pins {pins:?}");
        time("  scheduler parameters", || connection.scheduler(&domain).map(drop))?;
        time("  the same set", || connection.set_scheduler(&domain, &global))?;
        time("  pin of a CPU set", || connection.pin_vcpu(&domain, 0, &pins[0]))?;
    }
    connection.close()
}
