//! What a scenario expects: single figures, and tables of them.

use super::select::{Condition, Point};
use super::words::{Line, Statement, Words};
use super::{Axis, ScenarioError, metric_number, unknown};
use crate::metric;

/// How several points become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    /// There must be one point only.
    One,
    Mean,
    Least,
    Most,
    Sum,
    /// Standard deviation over mean (X-9: CoV).
    Spread,
    /// Steps in which it rises, in the order of the points.
    Ups,
    /// Steps in which it falls.
    Downs,
}

const REDUCES: [(&str, Reduce); 7] = [
    ("mean", Reduce::Mean),
    ("min", Reduce::Least),
    ("max", Reduce::Most),
    ("sum", Reduce::Sum),
    ("spread", Reduce::Spread),
    ("ups", Reduce::Ups),
    ("downs", Reduce::Downs),
];

/// What is measured, where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) reduce: Reduce,
    pub(crate) metric: String,
    pub(crate) of: Option<String>,
    pub(crate) conditions: Vec<Condition>,
    /// Each value is divided by that of the point with these values instead.
    pub(crate) over: Vec<Condition>,
}

/// How far from the wanted value is near enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tolerance {
    pub(crate) absolute: f64,
    /// A share of the wanted value, where that lies above a bound.
    pub(crate) beyond: Option<(f64, f64)>,
}

/// What the quantity shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
    Above(f64),
    Below(f64),
    Near(f64, Tolerance),
}

/// One figure with what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expect {
    pub(crate) name: String,
    pub(crate) quantity: Quantity,
    pub(crate) aim: Aim,
    /// The source's own figure, where it is not the bound.
    pub(crate) paper: Option<f64>,
}

impl Tolerance {
    /// In the unit of the wanted value.
    pub(crate) fn of(&self, wanted: f64) -> f64 {
        match self.beyond {
            Some((share, above)) if wanted.abs() > above => share * wanted.abs(),
            _ => self.absolute,
        }
    }
}

impl Aim {
    /// The value that is aimed at.
    pub(crate) fn value(self) -> f64 {
        match self {
            Aim::AtLeast(v) | Aim::AtMost(v) | Aim::Above(v) | Aim::Below(v) | Aim::Near(v, _) => v,
        }
    }

    pub(crate) fn tolerance(self) -> f64 {
        match self {
            Aim::Near(value, tolerance) => tolerance.of(value),
            _ => 0.0,
        }
    }

    pub(crate) fn holds(self, ours: f64) -> bool {
        match self {
            Aim::AtLeast(v) => ours >= v,
            Aim::AtMost(v) => ours <= v,
            Aim::Above(v) => ours > v,
            Aim::Below(v) => ours < v,
            Aim::Near(v, _) => (ours - v).abs() <= self.tolerance() + 1e-12,
        }
    }

    /// For people: `>= 0.7`.
    pub(crate) fn text(self) -> String {
        match self {
            Aim::AtLeast(v) => format!(">= {v}"),
            Aim::AtMost(v) => format!("<= {v}"),
            Aim::Above(v) => format!("> {v}"),
            Aim::Below(v) => format!("< {v}"),
            Aim::Near(v, _) => format!("{v} ± {:.3}", self.tolerance()),
        }
    }
}

impl Expect {
    /// The figures of one statement.
    pub(crate) fn read(statement: &Statement, axes: &[Axis]) -> Result<Vec<Self>, ScenarioError> {
        let mut words = statement.head.words();
        words.expect("expect")?;
        if words.take("table") {
            return read_table(statement, words, axes);
        }
        let name = words.next("the figure's name in quotes")?.text.clone();
        let quantity = Quantity::read(&mut words, axes, &SIGNS)?;
        let aim = read_aim(&mut words)?;
        let paper = words.take("paper").then(|| words.next("the source's figure")).transpose()?;
        let paper = paper.map(metric_number).transpose()?;
        words.done()?;
        if let Some(line) = statement.body.first() {
            return Err(line.key().unfit("no more lines; a table begins with `expect table`"));
        }
        Ok(vec![Self { name, quantity, aim, paper }])
    }

    /// Whether this figure needs the point.
    pub(crate) fn wants(&self, point: &Point) -> bool {
        let of = &self.quantity;
        if of.conditions.iter().all(|c| c.holds(point)) {
            return true;
        }
        let replaced = |c: &&Condition| !of.over.iter().any(|o| o.axis == c.axis);
        !of.over.is_empty()
            && of.over.iter().all(|c| c.holds(point))
            && of.conditions.iter().filter(replaced).all(|c| c.holds(point))
    }
}

const SIGNS: [&str; 5] = [">=", "<=", ">", "<", "="];

impl Quantity {
    fn read(words: &mut Words<'_>, axes: &[Axis], ends: &[&str]) -> Result<Self, ScenarioError> {
        let first = words.peek().map(|w| w.text.as_str());
        let reduce = REDUCES.iter().find(|(name, _)| Some(*name) == first);
        if reduce.is_some() {
            words.next("a word")?;
        }
        let metric = metric::read(words.next("a metric such as p95_ms")?)?;
        let of = words.take("of").then(|| words.next("a service or batch group")).transpose()?;
        let stop: Vec<&str> = [&["where", "over"][..], ends].concat();
        let (mut conditions, mut over) = (Vec::new(), Vec::new());
        while let Some(at) = words.peek().filter(|w| w.text == "where" || w.text == "over") {
            words.next("a word")?;
            let read = Condition::read_all(words, axes, &stop)?;
            if at.text == "where" {
                conditions.extend(read);
            } else if !read.is_empty() && read.iter().all(Condition::is_single) {
                over.extend(read);
            } else {
                let expected = "conditions with one value each, as beside=alone";
                return Err(at.wrong("`over` names no single point", expected));
            }
        }
        Ok(Self {
            reduce: reduce.map_or(Reduce::One, |(_, reduce)| *reduce),
            metric,
            of: of.map(|w| w.text.clone()),
            conditions,
            over,
        })
    }
}

fn read_aim(words: &mut Words<'_>) -> Result<Aim, ScenarioError> {
    let sign = words.next("one of >=, <=, >, <, =")?;
    if !SIGNS.contains(&sign.text.as_str()) {
        return Err(unknown(sign, "comparison", SIGNS));
    }
    let value = metric_number(words.next("a number")?)?;
    Ok(match sign.text.as_str() {
        ">=" => Aim::AtLeast(value),
        "<=" => Aim::AtMost(value),
        ">" => Aim::Above(value),
        "<" => Aim::Below(value),
        _ => Aim::Near(value, read_tolerance(words)?),
    })
}

/// `within 0.1`, `within 0.1 or 15% above 2`, `within 15% above 0`.
fn read_tolerance(words: &mut Words<'_>) -> Result<Tolerance, ScenarioError> {
    words.expect("within")?;
    let absolute = metric_number(words.next("how far off is near enough")?)?;
    if !words.take("or") {
        return Ok(Tolerance { absolute, beyond: None });
    }
    let share = metric_number(words.next("a share of the value")?)?;
    words.expect("above")?;
    let above = metric_number(words.next("from which value on that holds")?)?;
    Ok(Tolerance { absolute, beyond: Some((share, above)) })
}

/// ```text
/// expect table "T-5" p95_ms of xapian over beside=alone within 0.10 or 15% above 2
///   beside load  20%  40%
///   llc-small    1.01 1.04
/// ```
fn read_table(
    statement: &Statement,
    mut words: Words<'_>,
    axes: &[Axis],
) -> Result<Vec<Expect>, ScenarioError> {
    let name = words.next("the table's name in quotes")?.text.clone();
    let quantity = Quantity::read(&mut words, axes, &["within"])?;
    let tolerance = read_tolerance(&mut words)?;
    words.done()?;
    let mut lines = statement.body.iter();
    let head = lines.next().ok_or_else(|| {
        statement
            .head
            .key()
            .wrong("the table has no line", "a line with the two axes and the columns")
    })?;
    let columns = Columns::read(head, axes)?;
    let mut all = Vec::new();
    for line in lines {
        columns.read_row(line, axes, (&name, &quantity, tolerance), &mut all)?;
    }
    Ok(all)
}

/// The head of a table of expectations.
struct Columns {
    row_axis: String,
    column_axis: String,
    values: Vec<String>,
}

impl Columns {
    fn read(line: &Line, axes: &[Axis]) -> Result<Self, ScenarioError> {
        let mut words = line.words();
        let row = words.next("the axis of the rows")?;
        let column = words.next("the axis of the columns")?;
        let values = words.rest();
        for (axis, word) in values.iter().map(|w| (&column.text, w)) {
            let text = format!("{axis}={}", word.text);
            Condition::read(&super::Word { text, ..word.clone() }, axes)?;
        }
        let names = || axes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>();
        if !names().contains(&row.text.as_str()) {
            return Err(unknown(row, "axis", names()));
        }
        Ok(Self {
            row_axis: row.text.clone(),
            column_axis: column.text.clone(),
            values: values.iter().map(|w| w.text.clone()).collect(),
        })
    }

    fn read_row(
        &self,
        line: &Line,
        axes: &[Axis],
        (name, quantity, tolerance): (&str, &Quantity, Tolerance),
        all: &mut Vec<Expect>,
    ) -> Result<(), ScenarioError> {
        let mut words = line.words();
        let row = words.next("a value of the rows' axis")?;
        let text = format!("{}={}", self.row_axis, row.text);
        let of_row = Condition::read(&super::Word { text, ..row.clone() }, axes)?;
        for column in &self.values {
            let word = words.next("a number for each column, or -")?;
            if word.text == "-" {
                continue;
            }
            let value = metric_number(word)?;
            let mut quantity = quantity.clone();
            quantity.conditions.push(of_row.clone());
            quantity.conditions.push(Condition::equal(&self.column_axis, column));
            all.push(Expect {
                name: format!("{name}: {} at {} {column}", row.text, self.column_axis),
                quantity,
                aim: Aim::Near(value, tolerance),
                paper: None,
            });
        }
        words.done()
    }
}
