//! Law `culprit` at work in a trial: whom it names, whom it limits, and what that does.

use super::Ground;
use super::crowd::Crowd;
use super::draw::Composition;
use super::harm::Latencies;
use super::places::Distant;
use super::play::TurnLoad;
use super::turns::{KINDS, ORDER, Turn, TurnKind};
use super::watch;
use crate::guard::{Guard, GuardPlan, NotReady};
use anyhow::Context as _;
use quell_agent::Shown;
use quell_model::blame::{Culprit, Pressing, Standing};
use quell_service::now_ns;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the law may look.
const LOOK: Duration = Duration::from_secs(15);
/// Where no turns follow, it is looked on for so long after the first name: whom else it names, and
/// whom it limits.
const LINGER: Duration = Duration::from_secs(5);
/// Where turns follow, once somebody is limited: for a second it was seen whether CPUs have time left.
const ANSWERED: Duration = Duration::from_secs(2);
/// So long after the first name the turns begin though nobody is limited.
const HESITATES: Duration = Duration::from_secs(5);
/// Between two looks at what it says.
const POLL: Duration = Duration::from_millis(50);
/// Before the first turn: the limit stands, and what was left behind is answered.
const SETTLED: Duration = Duration::from_millis(400);

/// The agent's status, as far as it is looked at.
#[derive(Debug, Deserialize)]
struct Status {
    who: Vec<Victim>,
    #[serde(default)]
    pressing: Vec<Pressing>,
    #[serde(default)]
    host: Host,
}

#[derive(Debug, Default, Deserialize)]
struct Host {
    steal_frac: Option<Shown>,
}

#[derive(Debug, Deserialize)]
struct Victim {
    culprits: Vec<Culprit>,
    #[serde(default)]
    evidence: Vec<String>,
}

/// What the law says of groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Named at any time.
    pub(super) named: BTreeSet<String>,
    /// Suspected when the first was named or the look was over, and never named.
    pub(super) suspected: BTreeSet<String>,
    /// Until then, from when the agent was ready.
    pub(super) seconds: f64,
    /// When the agent was ready.
    pub(super) ready_ns: u64,
    /// The share of the machine that its host took away, the mean over that time; 0 where it is not known.
    pub(super) stolen_frac: f64,
    /// Who was accused then, and of what.
    pub(super) accused: Vec<Culprit>,
    /// On what evidence.
    pub(super) evidence: Vec<String>,
    /// What groups pressed on then.
    pub(super) pressing: Vec<Pressing>,
    /// CPU time of the agent, in seconds.
    pub(super) agent_s: f64,
}

impl Said {
    /// Of an agent that did not get ready: it named nobody.
    fn nothing(why: &NotReady) -> Self {
        Self { evidence: vec![why.to_string()], ..Self::default() }
    }

    /// Who is named now was named.
    fn hear(&mut self, status: &Path) -> anyhow::Result<()> {
        let now = said_in(status)?.unwrap_or_default();
        self.named.extend(now.named);
        Ok(())
    }

    fn of(status: &Status) -> Self {
        let all = || status.who.iter().flat_map(|victim| &victim.culprits);
        let with = |standing: Standing| {
            let alike = all().filter(|culprit| culprit.status == standing);
            alike.map(|culprit| culprit.workload.to_string()).collect()
        };
        let stolen_frac = status.host.steal_frac.as_ref().and_then(Shown::number).unwrap_or(0.0);
        Self {
            named: with(Standing::Named),
            suspected: with(Standing::Suspected),
            stolen_frac,
            accused: all().cloned().collect(),
            evidence: status.who.iter().flat_map(|victim| victim.evidence.clone()).collect(),
            pressing: status.pressing.clone(),
            ..Self::default()
        }
    }
}

/// What came of the law's part of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// What it said.
    pub(super) said: Said,
    /// Empty if nobody was named, or too late.
    pub(super) turns: Vec<Turn>,
    /// Places of the groups that it limited at some time, and when that was first seen.
    pub(super) limited: BTreeMap<usize, u64>,
    /// The share of the machine that strangers used meanwhile; none where it is not known.
    pub(super) strangers_frac: Option<f64>,
    /// How often the CPUs shared no cache meanwhile.
    pub(super) distant: Distant,
}

/// The agent, guarding with law `culprit`.
pub(super) struct Guarding<'a> {
    ground: &'a Ground<'a>,
    /// None if it did not get ready: who is starved that much protects nobody, which counts as not found.
    guard: Option<Guard>,
    status: PathBuf,
    said: Said,
}

impl<'a> Guarding<'a> {
    /// Starts it. Nothing that it has learned in another trial is left.
    pub(super) fn start(ground: &'a Ground<'_>, drawn: &Composition) -> anyhow::Result<Self> {
        let folder = ground.folder.path().join("guard");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let program = &ground.options.program;
        let status = folder.join("status.json");
        let config = config(ground, drawn, &folder)?;
        let status_json = Some(status.clone());
        let plan =
            GuardPlan { program, config, tasks: vec![], folder, bpf_stats: false, status_json };
        let (guard, said) = match Guard::start(plan).map_err(anyhow::Error::downcast) {
            Ok(guard) => (Some(guard), Said::default()),
            Err(Ok(not_ready)) => (None, Said::nothing(&not_ready)),
            Err(Err(error)) => return Err(error),
        };
        Ok(Self { ground, guard, status, said })
    }

    /// Waits until somebody is named, and until the law has limited somebody for it or for a while longer; 15 s at
    /// most.
    pub(super) fn look(&mut self, lingers: bool) -> anyhow::Result<()> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        let (begun, ready_ns) = (Instant::now(), now_ns());
        let mut stolen = Vec::new();
        while begun.elapsed() < LOOK && self.said.named.is_empty() {
            self.ground.interrupt.sleep(POLL)?;
            guard.check_alive()?;
            if let Some(said) = said_in(&self.status)? {
                stolen.push(said.stolen_frac);
                self.said = said;
            }
        }
        self.said.ready_ns = ready_ns;
        self.said.seconds = begun.elapsed().as_secs_f64();
        self.said.stolen_frac = stolen.iter().sum::<f64>() / stolen.len().max(1) as f64;
        let named = Instant::now();
        let mut end = (begun + LOOK).min(named + if lingers { LINGER } else { HESITATES });
        let mut is_limited = lingers;
        while Instant::now() < end {
            self.ground.interrupt.sleep(POLL)?;
            guard.check_alive()?;
            self.said.hear(&self.status)?;
            if !is_limited && watch::limits_any(self.ground.groups) {
                is_limited = true;
                end = end.min(Instant::now() + ANSWERED);
            }
        }
        Ok(())
    }

    /// Plays the turns, if somebody is named: as many as end by `until`, all of them or one of each
    /// kind.
    pub(super) fn turns(
        &mut self,
        crowd: &Crowd,
        load: TurnLoad,
        until: Instant,
        latencies: &Latencies,
    ) -> anyhow::Result<Vec<Turn>> {
        let begin = Instant::now() + SETTLED;
        let fits = |turns: &usize| begin + TurnLoad::lasts(*turns) <= until;
        let count = [ORDER.len(), KINDS].into_iter().find(fits).unwrap_or(0);
        if !crowd.has_culprit() || self.said.named.is_empty() || count == 0 {
            return Ok(Vec::new());
        }
        self.ground.interrupt.sleep(SETTLED)?;
        let one = |kind: &TurnKind| {
            let turn = self.ground.turn(crowd, *kind, load, latencies)?;
            self.said.hear(&self.status)?;
            Ok(turn)
        };
        let turns = ORDER[..count].iter().map(one).collect();
        crowd.go_on()?;
        turns
    }

    /// Ends the agent, and tells what it said until then.
    pub(super) fn finish(mut self) -> anyhow::Result<Said> {
        let Some(guard) = self.guard.take() else { return Ok(self.said) };
        self.said.hear(&self.status)?;
        self.said.agent_s = guard.cost().cpu_ns as f64 / 1e9;
        guard.stop()?;
        self.said.suspected = &self.said.suspected - &self.said.named;
        Ok(self.said)
    }
}

/// What an agent says in its status; none before its first sample.
pub(super) fn said_in(status: &Path) -> anyhow::Result<Option<Said>> {
    match std::fs::read_to_string(status) {
        Ok(text) => {
            let status = serde_json::from_str(&text).context("the agent's status")?;
            Ok(Some(Said::of(&status)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("the agent's status"),
    }
}

/// Four full samples a second, as `quell who` takes them.
pub(super) fn config(
    ground: &Ground<'_>,
    drawn: &Composition,
    folder: &Path,
) -> anyhow::Result<String> {
    let port = ground.bench.address().context("the service has no address")?.port();
    let mut text = format!(
        "[agent]\nstate_dir = \"{}\"\nmetrics = \"off\"\nlaw = \"culprit\"\ninterval_s = 0.25\n\n\
         [[service]]\nname = \"service\"\ncgroup = \"{}\"\np99 = \"1s\"\nlatency = \"ebpf\"\n\
         ports = [{port}]\n",
        folder.join("state").display(),
        ground.groups.service_path(),
    );
    for member in &drawn.members {
        let path = ground.groups.batch_path(&member.group);
        text += &format!("\n[[batch]]\nname = \"{}\"\ncgroup = \"{path}\"\n", member.group);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_says_is_read_from_its_status() {
        let text = r#"{"seconds": 3.0, "who": [
            {"workload": "service", "culprits": [
                {"workload": "a", "status": "named", "confidence": 1.0, "resource": "memory",
                    "slowdown": 1.3, "harm_ln_per_cpu": 0.5, "experiments": 4},
                {"workload": "b", "status": "suspected", "confidence": 0.7, "resource": "cpu",
                    "slowdown": 1.1, "harm_ln_per_cpu": 0.2, "experiments": 0}]},
            {"workload": "other", "culprits": []}]}"#;
        let said = Said::of(&serde_json::from_str(text).unwrap());
        assert_eq!(said.named, ["a".to_owned()].into());
        assert_eq!(said.suspected, ["b".to_owned()].into());
        assert_eq!(said.stolen_frac, 0.0);
        assert_eq!((said.accused.len(), said.accused[1].confidence), (2, 0.7));
        let stolen = r#"{"who": [], "host": {"steal_frac": 0.3, "utilisation": 0.9}}"#;
        assert_eq!(Said::of(&serde_json::from_str(stolen).unwrap()).stolen_frac, 0.3);
        let unknown =
            r#"{"who": [], "host": {"steal_frac": {"gap": "not_yet", "why": "one sample"}}}"#;
        assert_eq!(Said::of(&serde_json::from_str(unknown).unwrap()).stolen_frac, 0.0);
    }
}
