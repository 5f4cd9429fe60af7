//! A scenario as it was written: names, axes, statements that a point stages, expectations.

use super::expect::Expect;
use super::select::{Condition, Point};
use super::words::{Statement, Word, statements};
use super::{ScenarioError, ScenarioErrors, duration, number, unknown, whole};
use crate::fleet::{AXES, Fleet};
use crate::metric;
use quell_policy::Law;

/// What a line may begin with.
const STATEMENTS: [&str; 17] = [
    "scenario", "source", "pending", "machine", "seed", "vary", "link", "program", "service",
    "batch", "policy", "run", "at", "expect", "print", "sensors", "fleet",
];
/// More points than this are a mistake.
const MOST_POINTS: usize = 2_000;

/// One dimension of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// How a result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrintKind {
    Table,
    Plot,
    Trace,
}

/// `print table p95_ms of xapian by beside load where policy=thesis`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Print {
    pub(crate) kind: PrintKind,
    pub(crate) metrics: Vec<(String, Option<String>)>,
    pub(crate) by: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
}

/// A scenario that can be played.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Where its text came from.
    pub name: String,
    /// The experiment's id, as T-E1.
    pub id: String,
    /// What it shows, in a line.
    pub title: String,
    /// The requirements that it comes from.
    pub source: Vec<String>,
    /// Why it cannot be played yet; none = it can.
    pub pending: Option<String>,
    /// The seed that it names.
    pub seed: u64,
    pub(crate) axes: Vec<Axis>,
    pub(crate) statements: Vec<Statement>,
    pub(crate) prints: Vec<Print>,
    pub(crate) expects: Vec<Expect>,
    /// Nodes that are drawn from the table of its points.
    pub(crate) fleet: Option<Fleet>,
}

impl Scenario {
    /// Reads a scenario. Every point of its sweep is staged once, so that nothing is found wrong
    /// only when it is played.
    ///
    /// # Errors
    /// All that is wrong, each with line, column and what was expected.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioErrors> {
        let (statements, mut errors) = statements(text);
        let mut scenario = Self::empty(name);
        for statement in &statements {
            errors.extend(scenario.take_plain(statement).err());
        }
        let has_id = !scenario.id.is_empty();
        if !has_id && errors.is_empty() {
            errors.push(ScenarioError::new(
                1,
                1,
                "the scenario has no name",
                "`scenario ID \"what it shows\"`",
            ));
        }
        for statement in &statements {
            errors.extend(scenario.take_asked(statement));
            errors.extend(names_nobody(statement, &statements));
        }
        let played =
            ["machine", "link", "program", "service", "batch", "policy", "run", "at", "sensors"];
        scenario.statements =
            statements.into_iter().filter(|s| played.contains(&s.kind())).collect();
        if errors.is_empty() {
            errors.extend(crate::stage::check(&scenario));
        }
        match errors.is_empty() {
            true => Ok(scenario),
            false => Err(ScenarioErrors::new(name, errors)),
        }
    }

    fn empty(name: &str) -> Self {
        Self {
            name: name.into(),
            id: String::new(),
            title: String::new(),
            source: Vec::new(),
            pending: None,
            seed: 1,
            axes: Vec::new(),
            statements: Vec::new(),
            prints: Vec::new(),
            expects: Vec::new(),
            fleet: None,
        }
    }

    /// Statements that do not depend on others.
    fn take_plain(&mut self, statement: &Statement) -> Result<(), ScenarioError> {
        let mut words = statement.head.words();
        let kind = words.next("a statement")?;
        if !STATEMENTS.contains(&kind.text.as_str()) {
            return Err(unknown(kind, "statement", STATEMENTS));
        }
        match kind.text.as_str() {
            "scenario" => {
                self.id = words.next("an id such as T-E1")?.text.clone();
                self.title = words.next("what it shows, in quotes")?.text.clone();
            }
            "source" => self.source = words.rest().iter().map(|w| w.text.clone()).collect(),
            "pending" => {
                self.pending = Some(words.next("the reason, in quotes")?.text.clone());
            }
            "seed" => {
                let word = words.next("a whole number")?;
                self.seed = word.text.parse().map_err(|_| word.unfit("a whole number"))?;
            }
            "vary" => self.take_axis(words.next("the name of an axis")?, words.rest())?,
            _ => return Ok(()),
        }
        words.done()?;
        match statement.body.first() {
            Some(line) => Err(line.key().unfit("no more lines of this statement")),
            None => Ok(()),
        }
    }

    fn take_axis(&mut self, name: &Word, values: &[Word]) -> Result<(), ScenarioError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !name.text.chars().all(plain) {
            return Err(name.unfit("a name of letters, digits, - and _"));
        }
        if self.axes.iter().any(|axis| axis.name == name.text) {
            return Err(name.wrong("this axis is there twice", "another name"));
        }
        if values.is_empty() {
            return Err(name.wrong("the axis has no value", "values after its name"));
        }
        let points = self.axes.iter().map(|a| a.values.len()).product::<usize>() * values.len();
        if points > MOST_POINTS {
            return Err(name.wrong("the sweep has more than 2000 points", "fewer values"));
        }
        let values: Vec<String> = values.iter().map(|w| w.text.clone()).collect();
        self.axes.push(Axis { name: name.text.clone(), values });
        Ok(())
    }

    /// What is expected and shown, which names axes.
    fn take_asked(&mut self, statement: &Statement) -> Vec<ScenarioError> {
        let result = match statement.kind() {
            "expect" => Expect::read(statement, &self.axes).map(|all| self.expects.extend(all)),
            "print" => self.read_print(statement).map(|print| self.prints.push(print)),
            "fleet" => self.read_fleet(statement).map(|fleet| self.fleet = Some(fleet)),
            _ => Ok(()),
        };
        result.err().into_iter().collect()
    }

    fn read_print(&self, statement: &Statement) -> Result<Print, ScenarioError> {
        let mut words = statement.head.words();
        words.expect("print")?;
        let word = words.next("table, plot or trace")?;
        let kind = match word.text.as_str() {
            "table" => PrintKind::Table,
            "plot" => PrintKind::Plot,
            "trace" => PrintKind::Trace,
            _ => return Err(unknown(word, "way to print", ["table", "plot", "trace"])),
        };
        let mut metrics = Vec::new();
        while words.peek().is_some_and(|w| w.text != "by" && w.text != "where") {
            let word = words.next("a metric")?;
            if kind == PrintKind::Trace {
                metrics.push((metric::read_over_time(word)?, None));
                continue;
            }
            let name = metric::read(word)?;
            let of = words.take("of").then(|| words.next("a service or batch group"));
            metrics.push((name, of.transpose()?.map(|w| w.text.clone())));
        }
        if metrics.is_empty() {
            return Err(word.wrong("nothing is to be printed", "one metric or more"));
        }
        let mut by = Vec::new();
        if words.take("by") {
            while words.peek().is_some_and(|w| w.text != "where") {
                by.push(self.axis(words.next("an axis")?)?);
            }
        }
        let conditions = match words.take("where") {
            true => Condition::read_all(&mut words, &self.axes, &[])?,
            false => Vec::new(),
        };
        words.done()?;
        Ok(Print { kind, metrics, by, conditions })
    }

    /// `fleet 30000` with what its nodes are like.
    fn read_fleet(&self, statement: &Statement) -> Result<Fleet, ScenarioError> {
        let mut words = statement.head.words();
        words.expect("fleet")?;
        let nodes = words.next("how many nodes")?;
        let missing = AXES.iter().find(|axis| !self.axes.iter().any(|a| a.name == **axis));
        if let Some(axis) = missing {
            let expected = "the axes kind, load and policy, each with the value it begins from";
            return Err(nodes.wrong(&format!("a fleet needs the axis {axis}"), expected));
        }
        let mut fleet = Fleet {
            nodes: whole(nodes)?,
            hours: 24.0,
            episodes_per_day: 0.05,
            episode_s: 1200.0,
            checked: 0,
        };
        words.done()?;
        for line in &statement.body {
            let mut words = line.words();
            let key = words.next("a word")?;
            let value = words.next("its value")?;
            match key.text.as_str() {
                "hours" => fleet.hours = number(value)?,
                "episodes_per_day" => fleet.episodes_per_day = number(value)?,
                "episode" => fleet.episode_s = duration(value)?.as_secs_f64(),
                "checked" => fleet.checked = whole(value)?,
                _ => {
                    let known = ["hours", "episodes_per_day", "episode", "checked"];
                    return Err(unknown(key, "word", known));
                }
            }
            words.done()?;
        }
        Ok(fleet)
    }

    fn axis(&self, word: &Word) -> Result<String, ScenarioError> {
        let names = || self.axes.iter().map(|a| a.name.as_str());
        match names().any(|name| name == word.text) {
            true => Ok(word.text.clone()),
            false => Err(unknown(word, "axis", names().collect::<Vec<_>>())),
        }
    }

    /// How many runs it asks for.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.wanted().len()
    }

    /// The same under this law alone: an axis `policy` has then but this value.
    pub(crate) fn with_law(&self, law: Option<Law>) -> Self {
        let mut own = self.clone();
        if let Some(law) = law {
            for axis in own.axes.iter_mut().filter(|axis| axis.name == "policy") {
                axis.values = vec![law.name().to_owned()];
            }
        }
        own
    }

    /// All combinations of the axes' values, the last axis fastest.
    pub(crate) fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::new()];
        for axis in &self.axes {
            let with = |point: &Point, value: &String| {
                let mut point = point.clone();
                point.insert(axis.name.clone(), value.clone());
                point
            };
            points = points
                .iter()
                .flat_map(|point| axis.values.iter().map(move |value| with(point, value)))
                .collect();
        }
        points
    }

    /// The points that some expectation or print asks for; all, if nothing is asked.
    pub(crate) fn wanted(&self) -> Vec<Point> {
        let asked = |point: &Point| {
            let nothing = self.expects.is_empty() && self.prints.is_empty();
            let print = |p: &Print| p.conditions.iter().all(|c| c.holds(point));
            nothing
                || self.prints.iter().any(print)
                || self.expects.iter().any(|expect| expect.wants(point))
        };
        self.points().into_iter().filter(asked).collect()
    }
}

/// A metric that is `of` what is neither service nor batch.
fn names_nobody(statement: &Statement, all: &[Statement]) -> Option<ScenarioError> {
    if !matches!(statement.kind(), "expect" | "print") {
        return None;
    }
    let tenants = all.iter().filter(|s| matches!(s.kind(), "service" | "batch"));
    let names: Vec<&str> =
        tenants.filter_map(|s| s.head.words.get(1)).map(|w| w.text.as_str()).collect();
    // A name that holds an axis stands for several.
    let open = names.iter().any(|name| name.contains('$'));
    let of = statement.head.words.windows(3).filter(|w| {
        w[1].text == "of"
            && metric::is_of_tenant(&w[0].text)
            && !names.contains(&w[2].text.as_str())
    });
    let stranger = of.map(|w| &w[2]).next().filter(|_| !open)?;
    Some(unknown(stranger, "service or batch group", names))
}

/// At most 60 characters, none of them a control character: fit to be quoted in a message.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}
