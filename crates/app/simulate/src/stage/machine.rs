//! `machine NAME` and what differs from the preset.

use crate::text::{ScenarioError, Statement, number, rate, size, unknown, whole};
use quell_sim::{Machine, PRESETS, Throttle, preset};

const KEYS: [&str; 11] = [
    "cores",
    "sockets",
    "threads",
    "ways",
    "llc",
    "memory",
    "latency_ns",
    "power_limit_w",
    "bus_lock_limit",
    "without",
    "with",
];

pub(super) fn read(statement: &Statement) -> Result<Machine, ScenarioError> {
    let mut words = statement.head.words();
    words.expect("machine")?;
    let name = words.next("a machine's name")?;
    words.done()?;
    let found = preset(&name.text);
    let mut machine =
        found.ok_or_else(|| unknown(name, "machine", PRESETS.iter().map(|(known, _)| *known)))?;
    for line in &statement.body {
        let mut words = line.words();
        let key = words.next("a word")?;
        let value = words.next("a value")?;
        match key.text.as_str() {
            "cores" => machine.cores_per_domain = whole(value)?,
            "sockets" => machine.sockets_per_server = whole(value)?,
            "threads" => machine.threads_per_core = whole(value)?,
            "ways" => machine.cache.ways = whole(value)?,
            "llc" => machine.cache.bytes = size(value)?,
            "memory" => machine.memory.bytes_per_s = rate(value)?,
            "latency_ns" => machine.memory.latency_ns = number(value)?,
            "power_limit_w" => machine.power.limit_w = number(value)?,
            "bus_lock_limit" if value.text == "none" => machine.bus_lock_limit = None,
            "bus_lock_limit" => machine.bus_lock_limit = Some(whole(value)?),
            "without" => match value.text.as_str() {
                "cat" => machine.allocation = None,
                "mba" => machine.throttle = None,
                "monitoring" => machine.monitoring = false,
                "power" => machine.power_sensor = false,
                "frequency" => machine.clock.controllable = false,
                _ => {
                    let known = ["cat", "mba", "monitoring", "power", "frequency"];
                    return Err(unknown(value, "capability", known));
                }
            },
            "with" => match value.text.as_str() {
                "mba" => {
                    machine.throttle = Some(Throttle { min_percent: 10, step_percent: 10 });
                }
                _ => return Err(unknown(value, "capability", ["mba"])),
            },
            _ => return Err(unknown(key, "word", KEYS)),
        }
        words.done()?;
    }
    match machine.validate() {
        Ok(()) => Ok(machine),
        Err(error) => Err(name.wrong(&error.to_string(), "a machine that can be")),
    }
}
