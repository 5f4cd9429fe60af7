//! `service NAME` and `batch NAME`.

use super::{Stage, program};
use crate::services;
use crate::text::{
    Line, Load, ScenarioError, Statement, Word, Words, duration, number, size, unknown, whole,
};
use quell_sim::{Program, SimBatch, SimService};
use quell_types::{BatchSpec, CpuSet, Knob, Link, Setting, Tenant};
use std::collections::BTreeMap;

/// The rate that counts as load 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Peak {
    /// Requests per second.
    Rate(f64),
    /// The rate at which this percentile, alone, reaches so many seconds.
    AtTail {
        /// 0..1.
        percentile_frac: f64,
        /// Seconds.
        latency_s: f64,
    },
}

const OF_SERVICE: [&str; 12] = [
    "like",
    "program",
    "workers",
    "load",
    "peak",
    "slo",
    "cpus",
    "link",
    "instructions",
    "variation",
    "response",
    "nodes",
];
const OF_BATCH: [&str; 5] = ["run", "cpus", "link", "nodes", "when"];

pub(super) fn add_service(
    stage: &mut Stage,
    statement: &Statement,
    programs: &BTreeMap<String, Program>,
) -> Result<(), ScenarioError> {
    let mut words = statement.head.words();
    words.expect("service")?;
    let name = words.next("the service's name")?;
    words.done()?;
    let (mut service, mut peak) = blank_service(stage, statement, name)?;
    let mut load = Load::Share(0.0);
    for line in &statement.body {
        let mut words = line.words();
        let key = words.next("a word")?;
        match key.text.as_str() {
            // Read before.
            "like" | "workers" => {
                words.next("a value")?;
            }
            "load" => load = Load::read(&mut words)?,
            "peak" => peak = read_peak(&mut words)?,
            "program" => {
                service.program = program::named(words.next("a program")?, programs)?;
            }
            "cpus" => pin(stage, &name.text, words.next("a CPU list, as 0-3")?)?,
            "link" => service.spec.links = vec![link(stage, words.next("a link")?)?],
            "nodes" => service.program.memory_nodes = nodes(words.next("a list of nodes")?)?,
            _ => set_number(&mut service, key, &mut words)?,
        }
        words.done()?;
    }
    stage.scene.services.push(service);
    stage.loads.push((load, peak));
    Ok(())
}

/// The known service that this one is like, with as many workers as it says, else cores.
fn blank_service(
    stage: &Stage,
    statement: &Statement,
    name: &Word,
) -> Result<(SimService, Peak), ScenarioError> {
    let line = |key: &str| statement.body.iter().find(|l| l.key().text == key);
    let like = match line("like") {
        Some(line) => after_key(line, "a known service")?,
        None => name,
    };
    let names = services::KNOWN.iter().map(|k| k.name);
    let known = services::known(&like.text).ok_or_else(|| unknown(like, "service", names))?;
    let workers = match line("workers") {
        Some(line) => whole(after_key(line, "how many")?)?,
        None => stage.scene.machine.cores() as u32,
    };
    let built = known.with_workers(&name.text, workers);
    Ok((built.ok_or_else(|| name.wrong("its program is not known", ""))?, known.peak))
}

/// What a service promises, and what a request is.
fn set_number(
    service: &mut SimService,
    key: &Word,
    words: &mut Words<'_>,
) -> Result<(), ScenarioError> {
    match key.text.as_str() {
        "slo" => {
            service.spec.slo.percentile_frac = percentile(words.next("p50, p95 or p99")?)?;
            let target = words.next("the target, as 15ms")?;
            service.spec.slo.target_s = duration(target)?.as_secs_f64();
            if service.spec.slo.target_s <= 0.0 {
                return Err(target.unfit("a target above 0"));
            }
        }
        "instructions" => service.instructions = number(words.next("how many")?)?,
        "variation" => service.variation = number(words.next("sd over mean")?)?,
        "response" => {
            let word = words.next("a size, as 2kB")?;
            let bytes = u32::try_from(size(word)?);
            service.response_bytes = bytes.map_err(|_| word.unfit("less than 4 GiB"))?;
        }
        _ => return Err(unknown(key, "word", OF_SERVICE)),
    }
    Ok(())
}

pub(super) fn add_batch(
    stage: &mut Stage,
    statement: &Statement,
    programs: &BTreeMap<String, Program>,
) -> Result<(), ScenarioError> {
    let mut words = statement.head.words();
    words.expect("batch")?;
    let name = words.next("the batch group's name")?;
    words.done()?;
    let tenant: Tenant = name.text.as_str().into();
    let spec = BatchSpec { name: tenant, links: Vec::new(), takes_tasks: false, max_tasks: 0 };
    let mut batch = SimBatch { spec, programs: Vec::new() };
    let mut on = None;
    for line in &statement.body {
        let mut words = line.words();
        let key = words.next("a word")?;
        match key.text.as_str() {
            "run" => {
                let program = read_run(line, programs)?;
                batch.programs.push(program);
                words.rest();
            }
            "cpus" => pin(stage, &name.text, words.next("a CPU list, as 4-7")?)?,
            "link" => batch.spec.links = vec![link(stage, words.next("a link")?)?],
            "nodes" => on = Some(nodes(words.next("a list of nodes")?)?),
            _ => return Err(unknown(key, "word", OF_BATCH)),
        }
        words.done()?;
    }
    if let Some(nodes) = on {
        batch.programs.iter_mut().for_each(|p| p.memory_nodes = nodes.clone());
    }
    stage.scene.batch.push(batch);
    Ok(())
}

/// `run stream-llc x 8`, `run stream-llc of 22MiB x 8`.
pub(super) fn read_run(
    line: &Line,
    programs: &BTreeMap<String, Program>,
) -> Result<Program, ScenarioError> {
    let mut words = line.words();
    words.expect("run")?;
    let name = words.next("a program")?;
    let mut program = program::named(name, programs)?;
    if words.take("of") {
        let of_size: fn(u64) -> Program = match name.text.as_str() {
            "stream-llc" => Program::stream_of,
            "random-llc" => Program::random_of,
            _ => {
                let what = "only stream-llc and random-llc are of a size";
                return Err(name.wrong(what, "`run stream-llc of 22MiB`"));
            }
        };
        program = of_size(size(words.next("a size, as 22MiB")?)?);
    }
    if words.take("x") {
        program.threads = whole(words.next("how many threads")?)?;
    }
    words.done()?;
    Ok(program)
}

fn after_key<'a>(line: &'a Line, expected: &str) -> Result<&'a Word, ScenarioError> {
    let mut words = line.words();
    words.next("a word")?;
    words.next(expected)
}

/// `1800/s`, or `p95 10ms`.
fn read_peak(words: &mut Words<'_>) -> Result<Peak, ScenarioError> {
    let first = words.next("1800/s, or p95 10ms")?;
    if let Some(text) = first.text.strip_suffix("/s") {
        let rate = number(&Word { text: text.into(), ..first.clone() })?;
        let above = (rate > 0.0).then_some(Peak::Rate(rate));
        return above.ok_or_else(|| first.unfit("a rate above 0"));
    }
    let percentile_frac = percentile(first)?;
    let latency_s = duration(words.next("the latency, as in p95 10ms")?)?.as_secs_f64();
    Ok(Peak::AtTail { percentile_frac, latency_s })
}

fn percentile(word: &Word) -> Result<f64, ScenarioError> {
    match word.text.as_str() {
        "p50" => Ok(0.50),
        "p95" => Ok(0.95),
        "p99" => Ok(0.99),
        "p999" => Ok(0.999),
        _ => Err(unknown(word, "percentile", ["p50", "p95", "p99", "p999"])),
    }
}

fn pin(stage: &mut Stage, tenant: &str, list: &Word) -> Result<(), ScenarioError> {
    let cpus: CpuSet = list.text.parse().map_err(|_| list.unfit("a CPU list such as 0-3,8"))?;
    let there = stage.scene.machine.cpus() as u32;
    if cpus.is_empty() || cpus.iter().any(|cpu| cpu >= there) {
        return Err(list.wrong(&format!("the machine has CPUs 0-{}", there - 1), "some of these"));
    }
    stage.pins.push((Knob::Cpus { tenant: tenant.into() }, Setting::Cpus(cpus)));
    Ok(())
}

fn link(stage: &Stage, word: &Word) -> Result<Link, ScenarioError> {
    let links = stage.scene.links.iter();
    let found = links.clone().find(|l| l.name.as_str() == word.text).map(|l| l.name.clone());
    found.ok_or_else(|| unknown(word, "link", links.map(|l| l.name.as_str()).collect::<Vec<_>>()))
}

fn nodes(word: &Word) -> Result<Vec<u32>, ScenarioError> {
    let set: CpuSet = word.text.parse().map_err(|_| word.unfit("a list of nodes such as 0,2"))?;
    Ok(set.iter().collect())
}
