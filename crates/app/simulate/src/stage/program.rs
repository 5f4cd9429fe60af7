//! `program NAME`: what runs, in phases.

use crate::text::{ScenarioError, Statement, Word, duration, number, size, unknown, whole};
use quell_sim::{MissCurve, PROGRAMS, Phase, Program, program};
use std::collections::BTreeMap;

const KEYS: [&str; 16] = [
    "like",
    "class",
    "phase",
    "base_cpi",
    "apki",
    "mpki",
    "working_set",
    "written_frac",
    "overlap",
    "activity",
    "split_locks_per_s",
    "egress_per_ki",
    "send_bytes",
    "threads",
    "memory",
    "instructions",
];

/// The program of this name: the scenario's own, or a known one.
pub(super) fn named(
    word: &Word,
    own: &BTreeMap<String, Program>,
) -> Result<Program, ScenarioError> {
    let found = own.get(&word.text).cloned().or_else(|| program(&word.text));
    found.ok_or_else(|| {
        let known = PROGRAMS.iter().map(|(name, _)| *name);
        let all: Vec<&str> = own.keys().map(String::as_str).chain(known).collect();
        unknown(word, "program", all)
    })
}

pub(super) fn read(statement: &Statement) -> Result<Program, ScenarioError> {
    let mut words = statement.head.words();
    words.expect("program")?;
    let name = words.next("the program's name")?;
    words.done()?;
    let blank = Program::stream_of(64 << 20);
    let mut all = Program { name: name.text.clone(), phases: vec![Phase::default()], ..blank };
    let mut begun = false;
    for line in &statement.body {
        let mut words = line.words();
        let key = words.next("a word")?;
        match key.text.as_str() {
            "like" => {
                let known = named(words.next("a known program")?, &BTreeMap::new())?;
                all = Program { name: all.name, ..known };
            }
            "phase" => {
                let least_s = duration(words.next("its least length")?)?.as_secs_f64();
                let most_s = duration(words.next("its greatest length")?)?.as_secs_f64();
                let phase = Phase { least_s, most_s, ..Phase::default() };
                if !std::mem::replace(&mut begun, true) {
                    all.phases.clear();
                }
                all.phases.push(phase);
            }
            "class" => all.real_time = is_real_time(words.next("usual or real-time")?)?,
            "threads" => all.threads = whole(words.next("how many")?)?,
            "memory" => all.memory_bytes = size(words.next("a size, as 1GiB")?)?,
            "instructions" => all.work_instructions = Some(number(words.next("how many")?)?),
            "mpki" => {
                let curve = curve(key, words.rest())?;
                if let Some(phase) = all.phases.last_mut() {
                    phase.llc_misses = curve;
                }
            }
            _ => {
                let value = words.next("a value")?;
                set(&mut all, key, value)?;
            }
        }
        words.done()?;
    }
    // More misses than accesses cannot be; a curve alone says enough.
    for phase in &mut all.phases {
        phase.llc_apki = phase.llc_apki.max(phase.llc_misses.mpki(0.0));
    }
    Ok(all)
}

/// Whether its threads come before all others, and CPU bandwidth does not hold them.
fn is_real_time(class: &Word) -> Result<bool, ScenarioError> {
    match class.text.as_str() {
        "usual" => Ok(false),
        "real-time" => Ok(true),
        _ => Err(unknown(class, "class", ["usual", "real-time"])),
    }
}

/// One number of the latest phase.
fn set(program: &mut Program, key: &Word, value: &Word) -> Result<(), ScenarioError> {
    let Some(phase) = program.phases.last_mut() else { return Ok(()) };
    match key.text.as_str() {
        "base_cpi" => phase.base_cpi = number(value)?,
        "apki" => phase.llc_apki = number(value)?,
        "working_set" => phase.working_set_bytes = size(value)? as f64,
        "written_frac" => phase.written_frac = number(value)?,
        "overlap" => phase.overlap = number(value)?,
        "activity" => phase.activity = number(value)?,
        "split_locks_per_s" => phase.split_locks_per_s = number(value)?,
        "egress_per_ki" => phase.egress_per_ki = number(value)?,
        "send_bytes" => phase.send_bytes = size(value)? as f64,
        _ => return Err(unknown(key, "word", KEYS)),
    }
    Ok(())
}

/// `0B:40 8MiB:2`: misses per 1000 instructions by bytes held.
fn curve(key: &Word, points: &[Word]) -> Result<MissCurve, ScenarioError> {
    let mut read = Vec::new();
    for word in points {
        let shape = "bytes held and misses per 1000 instructions, as 8MiB:2";
        let (bytes, mpki) = word.text.split_once(':').ok_or_else(|| word.unfit(shape))?;
        let of = |text: &str| Word { text: text.into(), ..word.clone() };
        read.push((size(&of(bytes))? as f64, number(&of(mpki))?));
    }
    MissCurve::new(&read).ok_or_else(|| {
        key.wrong("this is no miss curve", "points that rise in bytes and fall in misses")
    })
}
