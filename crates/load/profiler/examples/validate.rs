//! A validation without the command line: `cargo run --release --example validate [ROUNDS [WINDOW_MS
//! [RESOURCE…]]]`.

use quell_pressure::{Options, Resource, Stop};
use quell_profiler::{ProfileError, Seats, ValidateOptions, at_desk, validate};
use quell_topology::Machine;
use std::time::Duration;

fn main() -> Result<(), ProfileError> {
    let mut words = std::env::args().skip(1);
    let mut number = |usual| words.next().and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (rounds, window) = (number(5), number(40));
    let only = words.map(|word| word.parse()).collect::<Result<Vec<Resource>, _>>()?;
    let seats = Seats::choose(None, None, false)?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let cpus = seats.pressure.clone();
    let mut pressure = Options::new(Resource::Integer);
    pressure.llc_bytes = std::env::var("LLC_BYTES").ok().and_then(|bytes| bytes.parse().ok());
    let options = ValidateOptions {
        linearity: true,
        timing: true,
        impact: only.is_empty(),
        crosstalk: only.is_empty(),
        only,
        rounds: usize::try_from(rounds).unwrap_or(5),
        window: Duration::from_millis(window),
        patience: Duration::from_secs(20),
        seats,
        pressure,
        sources: None,
    };
    let found = at_desk(&cpus, || {
        let topology = Machine::new("/").topology();
        validate(&options, &mut [], &topology, &stop, &mut |line| println!("{line}"))
    })?;
    println!("{}", serde_json::to_string(&found).unwrap_or_default());
    Ok(())
}
