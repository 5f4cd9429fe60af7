//! `at MOMENT …`: what happens while it runs, faults included.

use super::Stage;
use super::program;
use crate::text::{Load, ScenarioError, Statement, Word, duration, unknown, whole};
use quell_platform::Fault;
use quell_sim::Program;
use quell_types::{CpuSet, Knob, Setting, Tenant};
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Since the start, warm-up included.
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Clients offer another load to the service of this number.
    Load(usize, Load),
    /// A program starts in a batch group.
    Start(Tenant, Program),
    /// What runs in a batch group ends.
    Stop(Tenant),
    /// The law begins; before, nothing is controlled.
    LawBegins,
    /// Another program changes a knob behind the agent's back.
    Change(Knob, Setting),
    /// The agent dies and another begins.
    AgentDies,
    /// The next sample or writes go wrong.
    Faults(Vec<Fault>),
}

const ACTS: [&str; 10] = [
    "load",
    "start",
    "stop",
    "cpus",
    "policy-begins",
    "agent-dies",
    "lose",
    "refuse",
    "blind",
    "stall",
];

pub(super) fn read(
    statement: &Statement,
    stage: &Stage,
    programs: &BTreeMap<String, Program>,
) -> Result<Event, ScenarioError> {
    let mut words = statement.head.words();
    words.expect("at")?;
    let at = duration(words.next("a moment, as 30s")?)?;
    let act = words.next("what happens")?;
    let tenant = |word: &Word| -> Result<Tenant, ScenarioError> {
        let names = stage.tenants();
        let found = names.iter().find(|name| name.as_str() == word.text).cloned();
        found.ok_or_else(|| {
            unknown(
                word,
                "service or batch group",
                names.iter().map(Tenant::as_str).collect::<Vec<_>>(),
            )
        })
    };
    let what = match act.text.as_str() {
        "load" => {
            let word = words.next("a service")?;
            let services = stage.scene.services.iter().map(|s| s.spec.name.as_str());
            let number = services.clone().position(|name| name == word.text);
            let number =
                number.ok_or_else(|| unknown(word, "service", services.collect::<Vec<_>>()))?;
            What::Load(number, Load::read(&mut words)?)
        }
        "start" => {
            let mut program = program::named(words.next("a program")?, programs)?;
            if words.take("x") {
                program.threads = whole(words.next("how many threads")?)?;
            }
            words.expect("in")?;
            What::Start(tenant(words.next("a batch group")?)?, program)
        }
        "cpus" => {
            let tenant = tenant(words.next("a service or batch group")?)?;
            let word = words.next("a CPU list")?;
            let set: CpuSet = word.text.parse().map_err(|_| word.unfit("a CPU list"))?;
            What::Change(Knob::Cpus { tenant }, Setting::Cpus(set))
        }
        "stop" => What::Stop(tenant(words.next("a batch group")?)?),
        "policy-begins" => What::LawBegins,
        "agent-dies" => What::AgentDies,
        "lose" => What::Faults(vec![Fault::LoseWrite; writes(words.next("how many writes")?)?]),
        "refuse" => {
            let refusal = Fault::RefuseWrite("Device or resource busy".into());
            What::Faults(vec![refusal; writes(words.next("how many writes")?)?])
        }
        "blind" => {
            What::Faults(vec![Fault::Blind(tenant(words.next("a service or batch group")?)?)])
        }
        "stall" => What::Faults(vec![Fault::Stall]),
        _ => return Err(unknown(act, "event", ACTS)),
    };
    words.done()?;
    match statement.body.first() {
        Some(line) => Err(line.key().unfit("no more lines of this statement")),
        None => Ok(Event { at, what }),
    }
}

fn writes(word: &Word) -> Result<usize, ScenarioError> {
    whole(word).map(|n| n as usize)
}
