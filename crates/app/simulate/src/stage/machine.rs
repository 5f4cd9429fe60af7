//! `machine NAME` and what differs from the preset.

use crate::text::{
    ScenarioError, Statement, Words, duration, fraction, number, rate, size, unknown, whole,
};
use quell_sim::{Machine, PRESETS, Steal, Throttle, preset};

const KEYS: [&str; 12] = [
    "cores",
    "sockets",
    "threads",
    "ways",
    "llc",
    "memory",
    "latency_ns",
    "power_limit_w",
    "bus_lock_limit",
    "steal",
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
            "steal" => machine.steal = steal(fraction(value)?, &mut words)?,
            "without" => match value.text.as_str() {
                "cat" => machine.allocation = None,
                "mba" => machine.throttle = None,
                "monitoring" => machine.monitoring = false,
                "power" => machine.power_sensor = false,
                "frequency" => machine.clock.controllable = false,
                "modulation" => machine.duty_parts = None,
                _ => {
                    let known = ["cat", "mba", "monitoring", "power", "frequency", "modulation"];
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

/// What a hypervisor takes: for how long at a time, and whether it says so.
fn steal(frac: f64, words: &mut Words<'_>) -> Result<Steal, ScenarioError> {
    let span_s = duration(words.next("how long at a time")?)?.as_secs_f64();
    let told = words.next("told or hidden")?;
    let hidden = match told.text.as_str() {
        "told" => false,
        "hidden" => true,
        _ => return Err(unknown(told, "way", ["told", "hidden"])),
    };
    Ok(Steal { frac, span_s, hidden })
}
