//! A profile without the command line: `cargo run --release --example profile -- [quick] COMMAND…`.

use quell_pressure::{Options, Resource, Stop};
use quell_profiler::{
    Counters, LaunchOptions, ProfileError, ProfileOptions, Progress, Seats, at_desk, launch,
    profile,
};
use quell_topology::Machine;
use std::time::{Duration, Instant};

fn main() -> Result<(), ProfileError> {
    let begun = Instant::now();
    let mut command: Vec<String> = std::env::args().skip(1).collect();
    let quick = command.first().is_some_and(|word| word == "quick");
    if quick {
        command.remove(0);
    }
    let seats = Seats::choose(None, None, false)?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let start = LaunchOptions {
        command,
        cpus: seats.workload.clone(),
        progress: Progress::Auto,
        counters: Counters::default(),
        settle: Duration::from_millis(if quick { 500 } else { 2000 }),
        longest_run: Duration::from_secs(10),
    };
    let cpus = seats.pressure.clone();
    let pressure = Options::new(Resource::Integer);
    let options = ProfileOptions {
        only: Vec::new(),
        quick,
        threshold: 0.95,
        effort: None,
        within: None,
        yardsticks: !quick,
        witnesses: !quick,
        seats,
        pressure,
    };
    let found = at_desk(&cpus, || {
        let mut subject = launch(&start, &stop)?;
        let topology = Machine::new("/").topology();
        profile(subject.as_mut(), &options, &topology, &stop, begun, &mut |resource, so_far| {
            println!(
                "{resource}: tolerates {:?}, causes {:?} after {:.1} s",
                so_far.tolerated.get(&resource),
                so_far.caused.get(&resource),
                begun.elapsed().as_secs_f64()
            );
        })
    })?;
    println!("{}", serde_json::to_string(&found).unwrap_or_default());
    Ok(())
}
