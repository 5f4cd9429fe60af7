//! One point of a scenario made ready to be played.

mod event;
mod law;
mod machine;
mod program;
mod tenants;

pub(crate) use event::{Event, What};
pub(crate) use law::ChosenLaw;
pub(crate) use tenants::Peak;

use crate::text::{
    Axis, Condition, Line, Load, Point, Scenario, ScenarioError, Statement, Word, duration,
    fraction, rate, unknown,
};
use quell_sim::{Program, Scene, SceneError, preset};
use quell_types::{BytesPerSecond, Knob, LinkSpec, Setting, Tenant};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a point is played, and how it is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Before anything is measured.
    pub(crate) warm: Duration,
    /// What is measured.
    pub(crate) span: Duration,
    /// On which objectives are judged.
    pub(crate) window: Duration,
    /// Whether every tick is looked at: none is stretched where little changes.
    pub(crate) exact: bool,
}

impl Default for Timing {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { warm: s(10), span: s(30), window: s(1), exact: false }
    }
}

/// Everything that playing one point needs.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) scene: Scene,
    pub(crate) law: ChosenLaw,
    /// CPU sets that hold from the start, and before any law.
    pub(crate) pins: Vec<(Knob, Setting)>,
    pub(crate) events: Vec<Event>,
    pub(crate) timing: Timing,
    /// By service, in the order of the scene.
    pub(crate) loads: Vec<(Load, Peak)>,
}

/// Stages every wanted point once.
pub(crate) fn check(scenario: &Scenario) -> Vec<ScenarioError> {
    let mut errors: Vec<ScenarioError> = Vec::new();
    for point in scenario.wanted() {
        for error in stage(scenario, &point, scenario.seed).err().into_iter().flatten() {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        if errors.len() >= MOST_ERRORS {
            break;
        }
    }
    errors
}

/// More errors than this help nobody.
const MOST_ERRORS: usize = 20;

/// Errors of statements that do not depend on each other.
#[derive(Default)]
struct Errors(Vec<ScenarioError>);

impl Errors {
    fn keep<T>(&mut self, result: Result<T, ScenarioError>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }
}

/// Makes a point ready.
///
/// # Errors
/// All that is wrong with it.
pub(crate) fn stage(
    scenario: &Scenario,
    point: &Point,
    seed: u64,
) -> Result<Stage, Vec<ScenarioError>> {
    let statements = filled(scenario, point).map_err(|error| vec![error])?;
    let of = |kind: &'static str| statements.iter().filter(move |s| s.kind() == kind);
    let mut errors = Errors::default();
    let Some(machine) = of("machine").next_back() else {
        let missing = ScenarioError::new(1, 1, "the scenario names no machine", "`machine NAME`");
        return Err(vec![missing]);
    };
    // What runs on a machine that cannot be is looked at all the same, on one with many CPUs.
    let read = errors.keep(machine::read(machine)).or_else(|| preset("numaconnect"));
    let Some(read) = read else { return Err(errors.0) };
    let mut stage = Stage::empty(Scene::new(read, seed));
    let programs = stage.read_tenants(&statements, &mut errors);
    if let Some(statement) = of("policy").next_back() {
        let law = errors.keep(law::read(statement, scenario.pending.is_some()));
        stage.law = law.unwrap_or_else(ChosenLaw::none);
    }
    if let Some(statement) = of("run").next_back() {
        stage.timing = errors.keep(read_timing(statement)).unwrap_or_default();
        stage.scene.stretch = !stage.timing.exact;
    }
    for statement in of("at") {
        let event = errors.keep(event::read(statement, &stage, &programs));
        stage.events.extend(event);
    }
    stage.events.sort_by_key(|event| event.at);
    if errors.0.is_empty()
        && let Err(error) = stage.scene.validate()
    {
        errors.0.push(at_its_statement(&error, machine, &statements));
    }
    if errors.0.is_empty() { Ok(stage) } else { Err(errors.0) }
}

impl Stage {
    fn empty(scene: Scene) -> Self {
        Self {
            scene,
            law: ChosenLaw::none(),
            pins: Vec::new(),
            events: Vec::new(),
            timing: Timing::default(),
            loads: Vec::new(),
        }
    }

    /// Programs, links, services and batch; answers the programs.
    fn read_tenants(
        &mut self,
        statements: &[Statement],
        errors: &mut Errors,
    ) -> BTreeMap<String, Program> {
        let of = |kind: &'static str| statements.iter().filter(move |s| s.kind() == kind);
        let mut programs = BTreeMap::new();
        for statement in of("program") {
            let program = errors.keep(program::read(statement));
            programs.extend(program.map(|p| (p.name.clone(), p)));
        }
        self.scene.programs = programs.values().cloned().collect();
        for s in of("link") {
            errors.keep(self.add_link(s));
        }
        for s in of("sensors") {
            errors.keep(self.set_sensors(s));
        }
        for s in of("service") {
            errors.keep(tenants::add_service(self, s, &programs));
        }
        for s in of("batch") {
            errors.keep(tenants::add_batch(self, s, &programs));
        }
        programs
    }

    fn add_link(&mut self, statement: &Statement) -> Result<(), ScenarioError> {
        let mut words = statement.head.words();
        words.expect("link")?;
        let name = words.next("the link's name, as eth0")?.text.as_str().into();
        let capacity = BytesPerSecond(rate(words.next("its capacity, as 1Gbit")?)?);
        words.done()?;
        self.scene.links.push(LinkSpec { name, capacity });
        Ok(())
    }

    fn set_sensors(&mut self, statement: &Statement) -> Result<(), ScenarioError> {
        let mut words = statement.head.words();
        words.expect("sensors")?;
        while let Some(key) = words.peek() {
            words.next("a word")?;
            let sensing = &mut self.scene.sensing;
            match key.text.as_str() {
                "noise" => sensing.noise_frac = fraction(words.next("a share, as 2%")?)?,
                "period" => sensing.period = duration(words.next("a time, as 100ms")?)?,
                "delay" => sensing.delay = duration(words.next("a time, as 10ms")?)?,
                _ => return Err(unknown(key, "word", ["noise", "period", "delay"])),
            }
        }
        Ok(())
    }

    /// The batch groups and services by name.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        let services = self.scene.services.iter().map(|s| s.spec.name.clone());
        services.chain(self.scene.batch.iter().map(|b| b.spec.name.clone())).collect()
    }
}

fn read_timing(statement: &Statement) -> Result<Timing, ScenarioError> {
    let mut words = statement.head.words();
    words.expect("run")?;
    let mut timing = Timing { warm: Duration::ZERO, ..Timing::default() };
    let word = words.next("how long, as 60s")?;
    timing.span = duration(word)?;
    while let Some(key) = words.peek() {
        words.next("a word")?;
        let mut time = || duration(words.next("a time, as 10s")?);
        match key.text.as_str() {
            "after" => timing.warm = time()?,
            "window" => timing.window = time()?,
            "exact" => timing.exact = true,
            _ => return Err(unknown(key, "word", ["after", "window", "exact"])),
        }
    }
    let whole = |span: Duration| span.subsec_nanos() == 0;
    if !whole(timing.span) || !whole(timing.warm) || !whole(timing.window) {
        return Err(
            word.wrong("times of a run are whole seconds", "as `run 60s after 10s window 1s`")
        );
    }
    if timing.window.is_zero() || timing.span < timing.window {
        return Err(word.wrong("the run is shorter than its window", "a longer run"));
    }
    if timing.span + timing.warm > Duration::from_secs(7 * 86_400) {
        return Err(word.wrong("the run is longer than a week", "a shorter run"));
    }
    Ok(timing)
}

/// The statements that hold at a point, with its values in place of `$axis`.
fn filled(scenario: &Scenario, point: &Point) -> Result<Vec<Statement>, ScenarioError> {
    let mut all = Vec::new();
    for statement in &scenario.statements {
        let Some(head) = fill(&statement.head, point, &scenario.axes)? else { continue };
        let mut body = Vec::new();
        let mut holds = true;
        for line in &statement.body {
            if line.key().text == "when" {
                let mut words = line.words();
                words.expect("when")?;
                let conditions = Condition::read_all(&mut words, &scenario.axes, &[])?;
                holds &= conditions.iter().all(|c| c.holds(point));
            } else {
                body.extend(fill(line, point, &scenario.axes)?);
            }
        }
        if holds {
            all.push(Statement { head, body });
        }
    }
    Ok(all)
}

/// A line with a point's values; none if its `when` does not hold.
fn fill(line: &Line, point: &Point, axes: &[Axis]) -> Result<Option<Line>, ScenarioError> {
    let mut filled = line.clone();
    if let Some(at) = line.words.iter().skip(1).position(|w| w.text == "when") {
        for word in &line.words[at + 2..] {
            if !Condition::read(word, axes)?.holds(point) {
                return Ok(None);
            }
        }
        filled.words.truncate(at + 1);
    }
    for word in &mut filled.words {
        if word.text.contains('$') {
            *word = fill_word(word, point)?;
        }
    }
    Ok(Some(filled))
}

fn fill_word(word: &Word, point: &Point) -> Result<Word, ScenarioError> {
    let mut text = word.text.clone();
    // Longer names first, so that `$load-b` is not taken for `$load`.
    let mut names: Vec<&String> = point.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(&format!("${name}"), &point[name]);
    }
    match text.split_once('$') {
        None => Ok(Word { text, ..word.clone() }),
        Some((_, left)) => {
            let named = Word { text: left.to_owned(), ..word.clone() };
            Err(unknown(&named, "axis", point.keys().map(String::as_str).collect::<Vec<_>>()))
        }
    }
}

/// A scene's error at the statement that it is about.
fn at_its_statement(
    error: &SceneError,
    machine: &Statement,
    statements: &[Statement],
) -> ScenarioError {
    let named = |tenant: &Tenant| {
        let of = |s: &&Statement| s.head.words.get(1).is_some_and(|w| w.text == tenant.as_str());
        statements.iter().find(of).unwrap_or(machine)
    };
    let statement = match error {
        SceneError::Program { tenant, .. }
        | SceneError::Twice(tenant)
        | SceneError::NoLink { tenant, .. }
        | SceneError::Tenant { tenant, .. } => named(tenant),
        _ => machine,
    };
    statement.head.key().wrong(&error.to_string(), "")
}
