//! Expectations against results.

use crate::play::Played;
use crate::text::{Condition, Expect, Point, Quantity, Reduce};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One figure beside its source's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// The source's figure, or the bound that follows from it.
    pub paper: f64,
    /// Ours; null if it was not, or could not be, measured.
    pub ours: Option<f64>,
    /// How far from the source's figure is near enough; 0 for bounds.
    pub tolerance: f64,
    /// Whether it is as expected.
    pub held: bool,
    /// The expectation in words, as `>= 0.7`.
    pub expected: String,
    /// Why it could not be measured; null if it could.
    pub note: Option<String>,
}

/// What came of all points that were played.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) points: Vec<(Point, Played)>,
}

impl Results {
    /// The point with exactly these values.
    pub(crate) fn at(&self, point: &Point) -> Option<&Played> {
        self.points.iter().find(|(p, _)| p == point).map(|(_, played)| played)
    }

    /// Points that meet all conditions, in order.
    pub(crate) fn of<'a>(
        &'a self,
        conditions: &'a [Condition],
    ) -> impl Iterator<Item = &'a (Point, Played)> + 'a {
        self.points.iter().filter(move |(point, _)| conditions.iter().all(|c| c.holds(point)))
    }

    fn one(&self, quantity: &Quantity, point: &Point, played: &Played) -> Result<f64, String> {
        let of = quantity.of.as_deref();
        let value = played.value(&quantity.metric, of)?;
        if quantity.over.is_empty() {
            return Ok(value);
        }
        let mut other = point.clone();
        for condition in &quantity.over {
            other.insert(condition.axis.clone(), condition.values[0].clone());
        }
        let beside = self.at(&other).ok_or("what it is divided by was not played")?;
        match beside.value(&quantity.metric, of)? {
            0.0 => Err("what it is divided by is 0".into()),
            divisor => Ok(value / divisor),
        }
    }

    fn reduced(&self, quantity: &Quantity) -> Result<f64, String> {
        let each = self.of(&quantity.conditions);
        let values = each.map(|(point, played)| self.one(quantity, point, played));
        let values = values.collect::<Result<Vec<f64>, String>>()?;
        reduce(quantity.reduce, &values)
    }

    /// A figure; none if no point of it was to be played.
    pub(crate) fn figure(&self, expect: &Expect) -> Option<Figure> {
        self.of(&expect.quantity.conditions).next()?;
        let ours = self.reduced(&expect.quantity);
        Some(Figure {
            held: ours.as_ref().is_ok_and(|value| expect.aim.holds(*value)),
            ours: ours.as_ref().ok().copied(),
            note: ours.err(),
            ..unmeasured(expect)
        })
    }
}

/// A figure that nobody has measured.
pub(crate) fn unmeasured(expect: &Expect) -> Figure {
    Figure {
        name: expect.name.clone(),
        paper: expect.paper.unwrap_or(expect.aim.value()),
        ours: None,
        tolerance: expect.aim.tolerance(),
        held: false,
        expected: expect.aim.text(),
        note: None,
    }
}

fn reduce(how: Reduce, values: &[f64]) -> Result<f64, String> {
    let count = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let steps = |up: bool| {
        values.windows(2).filter(|w| if up { w[1] > w[0] } else { w[1] < w[0] }).count() as f64
    };
    match (how, values) {
        (_, []) => Err("no point is meant".into()),
        (Reduce::One, [one]) => Ok(*one),
        (Reduce::One, _) => Err(format!("{} points are meant; say mean, min or max", values.len())),
        (Reduce::Mean, _) => Ok(sum / count),
        (Reduce::Least, _) => Ok(values.iter().copied().fold(f64::INFINITY, f64::min)),
        (Reduce::Most, _) => Ok(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        (Reduce::Sum, _) => Ok(sum),
        (Reduce::Spread, _) => {
            let mean = sum / count;
            let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            Ok((squares / count).sqrt() / mean)
        }
        (Reduce::Ups, _) => Ok(steps(true)),
        (Reduce::Downs, _) => Ok(steps(false)),
    }
}
