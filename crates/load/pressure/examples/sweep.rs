//! Intensity against work and footprint, for each kernel:
//! `cargo run --release --example sweep [SECONDS [CPU [RESOURCE…]]]`.
//!
//! Levels take turns, several rounds of them, and each gets its median. For kernels that work by time
//! the work should be in proportion to intensity; for capacities the footprint, at a steady rate of
//! work. Printed with Pearson's r and the largest deviation from the line through 0 and 100 %.
//! Bus locks are left out unless named, and then last a fiftieth of a second.

use quell_pressure::{Intensity, Options, Plan, PressureError, Report, Resource, Stop, run};
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};

/// Levels in percent; the last is the whole.
const LEVELS: [f64; 5] = [0.0, 25.0, 50.0, 75.0, 100.0];
/// Rounds over all levels.
const ROUNDS: usize = 5;
/// What a capacity of memory or storage is taken to be, so that a sweep does not fill the machine.
const SMALL_BYTES: u64 = 256 << 20;

fn main() -> Result<(), PressureError> {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().and_then(|word| word.parse().ok()).unwrap_or(0.2);
    let cpu = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let named = words.map(|word| word.parse()).collect::<Result<Vec<Resource>, _>>()?;
    let topology = Machine::new("/").topology();
    let stop = Stop::new()?;
    stop.on_signals()?;
    let all = || Resource::ALL.into_iter().filter(|r| *r != Resource::BusLock).collect();
    for resource in if named.is_empty() { all() } else { named } {
        if let Err(e) = sweep(&options(resource, seconds, cpu), &topology, &stop) {
            println!("{resource}: {e}\n");
        }
    }
    Ok(())
}

fn options(resource: Resource, seconds: f64, cpu: u32) -> Options {
    let mut options = Options::new(resource);
    options.seconds = seconds;
    if resource != Resource::Interconnect {
        options.cpus = CpuSet::of(cpu);
    }
    match resource {
        Resource::MemoryCapacity => options.region_bytes = Some(SMALL_BYTES),
        Resource::StorageCapacity => options.storage.bytes = Some(SMALL_BYTES),
        Resource::BusLock => (options.seconds, options.hurts_everyone) = (0.02, true),
        _ => {}
    }
    options
}

/// One table: a row for each level, and how straight the line is.
fn sweep(options: &Options, topology: &Topology, stop: &Stop) -> Result<(), PressureError> {
    let mut rounds = vec![Vec::new(); LEVELS.len()];
    for _ in 0..ROUNDS {
        for (level, reports) in LEVELS.iter().zip(&mut rounds) {
            let mut options = options.clone();
            options.plan = Plan::Hold(Intensity::new(*level)?);
            reports.push(run(&options, topology, stop, &mut |_| ())?);
        }
    }
    println!("{}, {}/s", options.resource, options.resource.unit().name());
    println!("intensity        work/s   busy  latency ns  footprint MiB");
    for (level, reports) in LEVELS.iter().zip(&rounds) {
        let latency = median(reports, |r| r.latency_ns.unwrap_or(f64::NAN));
        println!(
            "{level:>8} % {:>13.4e} {:>5.1}% {latency:>11.1} {:>14.3}",
            median(reports, |r| r.work_per_s),
            100.0 * median(reports, |r| r.busy_frac),
            median(reports, |r| r.footprint_bytes as f64) / f64::from(1 << 20),
        );
    }
    let what = if options.resource.works_by_time() { "work" } else { "footprint" };
    let value = |r: &Report| if what == "work" { r.work_per_s } else { r.footprint_bytes as f64 };
    let values: Vec<f64> = rounds.iter().map(|reports| median(reports, value)).collect();
    println!("{what}: r {:.5}, {:.2} points off at most", pearson(&values), deviation(&values));
    let last = rounds.last().and_then(|reports| reports.last());
    last.iter().flat_map(|r| &r.huge_pages).for_each(|pages| println!("  {}", pages.word));
    last.iter().flat_map(|r| &r.notes).for_each(|note| println!("  {note}"));
    println!();
    Ok(())
}

fn median(reports: &[Report], of: impl Fn(&Report) -> f64) -> f64 {
    let mut values: Vec<f64> = reports.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Pearson's r of the levels and these values.
fn pearson(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (x, y) = (LEVELS.iter().sum::<f64>() / n, values.iter().sum::<f64>() / n);
    let sum = |of: fn(f64, f64) -> f64| {
        LEVELS.iter().zip(values).map(|(a, b)| of(a - x, b - y)).sum::<f64>()
    };
    sum(|a, b| a * b) / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt()
}

/// The largest distance in points from a straight line to the last value.
fn deviation(values: &[f64]) -> f64 {
    let whole = values.last().copied().unwrap_or(0.0);
    let off = |(level, value): (&f64, &f64)| (100.0 * value / whole - level).abs();
    LEVELS.iter().zip(values).map(off).fold(0.0, f64::max)
}
