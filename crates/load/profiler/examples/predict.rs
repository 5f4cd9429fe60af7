//! A check of predictions without the command line:
//! `cargo run --release --example predict LIST [ROUNDS]`, LIST a file of `name: program arguments`.

use quell_pressure::{Options, Resource, Stop};
use quell_profiler::predict::{CheckOptions, check, programs};
use quell_profiler::{Effort, ProfileError, ProfileOptions, SHARED_BY_CPUS, Seats, at_desk};
use quell_topology::Machine;
use std::time::Duration;

fn main() -> Result<(), ProfileError> {
    let mut words = std::env::args().skip(1);
    let path = words.next().unwrap_or_default();
    let rounds = words.next().and_then(|word| word.parse().ok()).unwrap_or(5);
    let text = std::fs::read_to_string(&path).map_err(|source| ProfileError::File {
        action: "cannot read",
        path,
        source,
    })?;
    let list = programs(&text)?;
    let seats = Seats::choose(None, None, false)?;
    let cpus = seats.pressure.clone();
    let window = Duration::from_millis(40);
    let profile = ProfileOptions {
        only: SHARED_BY_CPUS.to_vec(),
        quick: false,
        threshold: 0.95,
        within: None,
        effort: Some(Effort {
            window,
            settle: Duration::from_millis(10),
            grid: &[50.0],
            pairs: rounds,
            listens: rounds,
            resolution: 100.0,
            budget: Duration::from_secs(6),
        }),
        yardsticks: true,
        witnesses: true,
        seats,
        pressure: Options::new(Resource::Integer),
    };
    let stop = Stop::new()?;
    stop.on_signals()?;
    let options = CheckOptions { profile, passes: 1, rounds, window };
    let report = at_desk(&cpus, || {
        let topology = Machine::new("/").topology();
        check(&list, &options, &topology, &stop, &mut |line| println!("{line}"))
    })?;
    println!("{}", serde_json::to_string(&report).unwrap_or_default());
    Ok(())
}
