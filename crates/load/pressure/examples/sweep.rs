//! Intensity against work, for each kernel: `cargo run --release --example sweep [SECONDS] [CPU]`.
//!
//! For kernels that work by time, and for a paced link, work should be in proportion to intensity;
//! for the capacity of the last-level cache the footprint is, and the latency grows with it.

use quell_pressure::{Intensity, Options, Plan, PressureError, Resource, Stop, run};
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};

fn main() -> Result<(), PressureError> {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().and_then(|word| word.parse().ok()).unwrap_or(0.5);
    let cpu = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let topology = Machine::new("/").topology();
    let stop = Stop::new()?;
    stop.on_signals()?;
    for resource in Resource::ALL {
        let mut options = Options::new(resource);
        options.seconds = seconds;
        options.cpus = CpuSet::of(cpu);
        sweep(options, &topology, &stop)?;
    }
    Ok(())
}

/// One table: a row for each tenth, work also as a share of that at 100 %.
fn sweep(mut options: Options, topology: &Topology, stop: &Stop) -> Result<(), PressureError> {
    let unit = options.resource.unit().name();
    println!("{}, {unit}/s", options.resource);
    println!("intensity        work/s   share   busy  latency ns  footprint MiB");
    let mut full = None;
    for tenth in (0..=10).rev() {
        options.plan = Plan::Hold(Intensity::new(f64::from(tenth) * 10.0)?);
        let report = run(&options, topology, stop, &mut |_| ())?;
        let whole: f64 = *full.get_or_insert(report.work_per_s);
        println!(
            "{:>8} % {:>13.4e} {:>6.1}% {:>5.1}% {:>11} {:>14.1}",
            tenth * 10,
            report.work_per_s,
            100.0 * report.work_per_s / whole,
            100.0 * report.busy_frac,
            report.latency_ns.map_or("-".to_owned(), |ns| format!("{ns:.1}")),
            report.footprint_bytes as f64 / f64::from(1 << 20),
        );
        if tenth == 0 {
            report.huge_pages.iter().for_each(|pages| println!("  {}", pages.word));
            report.notes.iter().for_each(|note| println!("  {note}"));
        }
    }
    println!();
    Ok(())
}
