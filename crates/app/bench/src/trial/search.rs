//! Finds the duty at which a culprit does little harm.
//!
//! # Problem
//! How much harm a duty does is the machine's and that of the groups beside it: with CPUs to spare
//! hardly any, where they are short much. One pair of turns tells it to 15 % or worse, and there is
//! time for about a dozen. To turn the duty by each pair alone is to follow the noise.
//!
//! # Idea
//! All pairs are weighed together, whatever duty each was played at. With t the CPUs that all
//! threads of the culprit take, harm is taken to be
//!
//! ```text
//! harm(t) = 1 + effect * (t / 0.1 CPU)^power
//! ```
//!
//! of which neither is known, nor how much pairs scatter. Each combination on a grid has a weight;
//! a pair multiplies it by its likelihood (Student's t with 4 degrees of freedom, so that a turn gone
//! wrong counts for little). The next pair is played at the duty that lies within the class with the
//! greatest probability.
//!
//! It begins with what is *usual*: what was believed in the end of each culprit of the kind, all put together, and of
//! two that are only assumed. So it knows how effects differ from trial to trial, and which power they have, and a
//! few pairs of one trial do not lead it far from there. In the end a trial's own pairs are learned as well, which
//! tell more than those of its search.
//!
//! Pairs of the search decide nothing but the duty: they were chosen by what they told, and what is
//! chosen so tells too much. The trial measures anew.
//!
//! One who takes the CPU is judged by the service's mean latency, one who takes memory, from CPUs that
//! are not the service's, by its CPU time per answer, which scatters less. But the harm of a trial is the greatest
//! of three factors, mostly latency, since a dearer request makes the next ones wait as well: in ln about 1.3 times
//! as much as the cost. How much more it is comes from the trials before ([`Growth`]), and the class that is wanted of
//! what is seen is so much less far from 1. Without that most of those discarded for another class did too much.
//!
//! Only harm that was measured with Quell off comes in here, nothing that Quell said.

mod growth;

use super::draw::{Duty, Taken};
use super::harm::{Measured, Pair};
pub(super) use growth::Growth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// ln of effects that are thought of: from 0.5 % at a tenth of a CPU to tenfold.
const EFFECTS_LN: (f64, f64) = (-5.3, 2.3);
const EFFECTS: u32 = 39;
/// From an effect that wears off to that of a queue near its end.
const POWERS: [f64; 4] = [0.7, 1.0, 1.4, 2.0];
/// Deviations of a pair, in ln.
const DEVIATIONS: [f64; 5] = [0.05, 0.1, 0.2, 0.4, 0.8];
/// By so much effects are assumed to scatter from trial to trial, in ln.
const ASSUMED_LN: f64 = 1.4;
/// So many trials are assumed, so that one gone wrong does not lead the next astray.
const ASSUMED: f64 = 2.0;
const UNIT_CPUS: f64 = 0.1;
/// Duties that are thought of, each larger than the one before by the same factor.
const DUTIES: u32 = 64;
/// Degrees of freedom of a pair.
const FREEDOM: f64 = 4.0;

/// One pair of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchPair {
    /// How hard each thread of the culprit worked, in percent of a CPU.
    pub duty_percent: f64,
    /// The service's mean latency beside it over that without.
    pub latency_ratio: f64,
    /// Its CPU time per answer, the same.
    pub cost_ratio: f64,
}

/// What culprits of a kind usually do: of each cell the weights that it had in the end, added up.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Usual(Vec<f64>);

impl Taken {
    /// What a search sees of harm that was measured, in ln.
    pub(super) fn seen_ln(self, harm: Measured) -> f64 {
        match self {
            Self::Cpu => harm.latency_ratio.ln(),
            Self::Memory => harm.cost_ratio.ln(),
        }
    }
}

impl Usual {
    /// Before anything was seen. Of the CPU: a queue at four fifths of what it can, 1 / (1 - rho) grows
    /// by a tenth and more. Of memory: who streams all the time slows others by a fifth.
    pub(super) fn of(taken: Taken) -> Self {
        let excess: f64 = match taken {
            Taken::Cpu => 0.15,
            Taken::Memory => 0.02,
        };
        let off = |cell: Cell| (cell.effect_ln - excess.ln()) / ASSUMED_LN;
        let mut cells: Vec<Cell> = Cell::all()
            .map(|cell| Cell { weight: (-0.5 * off(cell).powi(2)).exp(), ..cell })
            .collect();
        normalise(&mut cells);
        Self(cells.iter().map(|cell| ASSUMED * cell.weight).collect())
    }

    pub(super) fn learn(&mut self, search: &Search) {
        for (usual, cell) in self.0.iter_mut().zip(&search.cells) {
            *usual += cell.weight;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    effect_ln: f64,
    power: f64,
    deviation: f64,
    /// All add up to 1.
    weight: f64,
}

impl Cell {
    /// The grid.
    fn all() -> impl Iterator<Item = Cell> {
        let step = (EFFECTS_LN.1 - EFFECTS_LN.0) / f64::from(EFFECTS - 1);
        (0..EFFECTS).map(move |at| EFFECTS_LN.0 + step * f64::from(at)).flat_map(|effect_ln| {
            POWERS.iter().flat_map(move |&power| {
                DEVIATIONS.map(|deviation| Cell { effect_ln, power, deviation, weight: 1.0 })
            })
        })
    }

    /// ln of harm - 1.
    fn excess_ln(&self, units_ln: f64) -> f64 {
        self.effect_ln + self.power * units_ln
    }

    /// But for a factor that is the same for all cells.
    fn likelihood(&self, units_ln: f64, seen_ln: f64) -> f64 {
        let harm_ln = self.excess_ln(units_ln).exp().ln_1p();
        let off = (seen_ln - harm_ln) / self.deviation;
        (1.0 + off * off / FREEDOM).powf(-0.5 * (FREEDOM + 1.0)) / self.deviation
    }
}

/// What is known of one culprit beside one crowd.
#[derive(Clone, Debug)]
pub(super) struct Search {
    taken: Taken,
    threads: f64,
    /// What is wanted of what is seen, as ln of it - 1.
    wanted_ln: Range<f64>,
    cells: Vec<Cell>,
    /// What was learned.
    pairs: Vec<SearchPair>,
}

impl Search {
    /// `class` is the harm that is wanted, in factors above 1.
    pub(super) fn new(
        (taken, threads): (Taken, u32),
        class: Range<f64>,
        usual: &Usual,
        growth: Growth,
    ) -> Self {
        let weighed = Cell::all().zip(&usual.0).map(|(cell, &weight)| Cell { weight, ..cell });
        let mut cells: Vec<Cell> = weighed.collect();
        normalise(&mut cells);
        let seen = |harm: f64| (harm.ln() / growth.factor()).exp_m1().ln();
        let wanted_ln = seen(class.start)..seen(class.end);
        let threads = f64::from(threads);
        Self { taken, threads, wanted_ln, cells, pairs: Vec::new() }
    }

    /// Learns what was seen at this duty in the search.
    pub(super) fn learn(&mut self, duty: Duty, pair: &Pair) {
        self.weigh(duty, pair);
        self.pairs.push(SearchPair {
            duty_percent: duty.percent(),
            latency_ratio: pair.latency_ln.exp(),
            cost_ratio: pair.cost_ln.exp(),
        });
    }

    /// What is believed of each cell after this pair, of a search or of the trial itself.
    pub(super) fn weigh(&mut self, duty: Duty, pair: &Pair) {
        let seen_ln = match self.taken {
            Taken::Cpu => pair.latency_ln,
            Taken::Memory => pair.cost_ln,
        };
        let units_ln = self.units_ln(duty);
        for cell in &mut self.cells {
            cell.weight *= cell.likelihood(units_ln, seen_ln);
        }
        normalise(&mut self.cells);
    }

    /// What was learned until now.
    pub(super) fn pairs(&self) -> &[SearchPair] {
        &self.pairs
    }

    /// Probability that the harm of this duty is of the class.
    pub(super) fn probability(&self, duty: Duty) -> f64 {
        let units_ln = self.units_ln(duty);
        let within = |cell: &&Cell| self.wanted_ln.contains(&cell.excess_ln(units_ln));
        self.cells.iter().filter(within).map(|cell| cell.weight).sum()
    }

    /// The duty that is of the class with the greatest probability.
    pub(super) fn best(&self) -> Duty {
        let (least, most) = Duty::bounds(self.taken);
        let factor = (most / least).powf(1.0 / f64::from(DUTIES - 1));
        let duty = |at: u32| Duty::new(self.taken, least * factor.powf(f64::from(at)));
        let judged = (0..DUTIES).map(duty).map(|duty| (self.probability(duty), duty));
        let better =
            |best: (f64, Duty), next: (f64, Duty)| if next.0 > best.0 { next } else { best };
        judged.fold((-1.0, Duty::new(self.taken, least)), better).1
    }

    /// ln of the CPUs that are taken, in tenths of one.
    fn units_ln(&self, duty: Duty) -> f64 {
        (self.threads * duty.percent() / 100.0 / UNIT_CPUS).ln()
    }
}

/// No likelihood is 0 and few pairs come, so the sum is never 0.
fn normalise(cells: &mut [Cell]) {
    let sum: f64 = cells.iter().map(|cell| cell.weight).sum();
    cells.iter_mut().for_each(|cell| cell.weight /= sum);
}

#[cfg(test)]
mod tests;
