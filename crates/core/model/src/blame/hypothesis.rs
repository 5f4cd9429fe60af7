//! One answer to "who did it", its weight, and what it believes of the harm that the guilty do.

use super::guilt::GuiltParams;
use super::normal::density;

/// Most suspects that are thought guilty at once.
pub(super) const MOST_GUILTY: usize = 2;

/// What was seen: ln of a slowdown, and the probability that nothing could show in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) ln: f64,
    pub(super) void_frac: f64,
}

/// What was seen, and how noisy that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noisy {
    seen: Seen,
    noise: f64,
    /// Variance of what goes wrong, and how often that is.
    wide: f64,
    outlier_frac: f64,
    /// ln of how likely it is by chance alone. So it is for all who were not held, which most are in most
    /// looks: reckoned once.
    by_chance_ln: f64,
}

/// How likely a measurement is: as usual, gone wrong, and void.
#[derive(Clone, Copy, Debug)]
struct Likely {
    usual: f64,
    wild: f64,
    shown: f64,
    void: f64,
}

impl Likely {
    fn ln(&self) -> f64 {
        libm::log((self.shown + self.void).max(f64::MIN_POSITIVE))
    }
}

impl Noisy {
    pub(super) fn new(seen: Seen, noise: f64, params: &GuiltParams) -> Self {
        let wide = noise * params.outlier_ratio * params.outlier_ratio;
        let outlier_frac = params.outlier_frac;
        let mut noisy = Self { seen, noise, wide, outlier_frac, by_chance_ln: 0.0 };
        noisy.by_chance_ln = noisy.likely(seen.ln, 0.0).ln();
        noisy
    }

    /// Where it is `off` by so much from what was foretold, with this variance.
    fn likely(&self, off: f64, known: f64) -> Likely {
        let usual = (1.0 - self.outlier_frac) * density(off, known + self.noise);
        let wild = self.outlier_frac * density(off, known + self.wide);
        let void_frac = self.seen.void_frac;
        let may_be_void = void_frac > 0.0;
        let void = if may_be_void { void_frac * density(self.seen.ln, self.noise) } else { 0.0 };
        Likely { usual, wild, shown: (1.0 - void_frac) * (usual + wild), void }
    }

    /// Probability that it is not void, and its variance as far as it is trusted not to have gone wrong.
    fn trusted(&self, likely: &Likely, known: f64) -> (f64, f64) {
        let in_time = likely.shown / (likely.shown + likely.void).max(f64::MIN_POSITIVE);
        let trust = likely.usual / (likely.usual + likely.wild).max(f64::MIN_POSITIVE);
        (in_time, known + self.noise / (trust + (1.0 - trust) * self.noise / self.wide))
    }
}

/// Nobody, one suspect or two.
///
/// Invariant: members rise; the covariance is symmetric; entries past the members are not used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hypothesis {
    members: [usize; MOST_GUILTY],
    count: usize,
    /// ln of its weight before any evidence, and now; both up to a common constant.
    pub(super) prior_ln: f64,
    pub(super) weight_ln: f64,
    mean: [f64; MOST_GUILTY],
    covariance: [[f64; MOST_GUILTY]; MOST_GUILTY],
}

impl Hypothesis {
    /// Before any evidence.
    pub(super) fn new(members: &[usize], prior_ln: f64, params: &GuiltParams) -> Self {
        let mut places = [usize::MAX; MOST_GUILTY];
        places[..members.len()].copy_from_slice(members);
        let variance = params.harm_sd * params.harm_sd;
        Self {
            members: places,
            count: members.len(),
            prior_ln,
            weight_ln: prior_ln,
            mean: [params.harm_mean; MOST_GUILTY],
            covariance: [[variance, 0.0], [0.0, variance]],
        }
    }

    /// The guilty, as places in the list of suspects.
    pub(super) fn members(&self) -> &[usize] {
        &self.members[..self.count]
    }

    /// Mean and variance of the harm of a suspect; none if it is innocent here.
    pub(super) fn harm(&self, suspect: usize) -> Option<(f64, f64)> {
        let place = self.members().iter().position(|m| *m == suspect)?;
        Some((self.mean[place], self.covariance[place][place]))
    }

    /// What such doses would do, in ln.
    pub(super) fn foretell(&self, doses: &[f64]) -> f64 {
        self.members().iter().zip(self.mean).map(|(member, mean)| doses[*member] * mean).sum()
    }

    /// Takes over what another one, of the same or fewer members, has learned of them.
    pub(super) fn inherit(&mut self, from: &Self, place_of: impl Fn(usize) -> Option<usize>) {
        self.weight_ln = from.weight_ln + (self.prior_ln - from.prior_ln);
        for (row, member) in from.members().iter().enumerate() {
            let Some(to_row) = self.place(place_of(*member)) else { continue };
            self.mean[to_row] = from.mean[row];
            for (column, other) in from.members().iter().enumerate() {
                if let Some(to_column) = self.place(place_of(*other)) {
                    self.covariance[to_row][to_column] = from.covariance[row][column];
                }
            }
        }
    }

    /// Takes in another one that says the same of its members, and names somebody else besides whom nobody asks about
    /// any more: the weight is that of both, the harm what both believe together.
    pub(super) fn absorb(&mut self, other: &Self) {
        let prior_ln = sum_ln(self.prior_ln, other.prior_ln);
        let weight_ln = sum_ln(self.weight_ln, other.weight_ln);
        let share = libm::exp(other.weight_ln - weight_ln);
        let places: Vec<usize> =
            self.members().iter().filter_map(|m| other.place(Some(*m))).collect();
        let (mean, covariance) = (self.mean, self.covariance);
        let mix = |own: f64, others: f64| own + share * (others - own);
        for (row, from_row) in places.iter().enumerate() {
            self.mean[row] = mix(mean[row], other.mean[*from_row]);
            for (column, from_column) in places.iter().enumerate() {
                let apart = |at: usize, from: usize| other.mean[from] - mean[at];
                let between =
                    share * (1.0 - share) * apart(row, *from_row) * apart(column, *from_column);
                let within =
                    mix(covariance[row][column], other.covariance[*from_row][*from_column]);
                self.covariance[row][column] = within + between;
            }
        }
        (self.prior_ln, self.weight_ln) = (prior_ln, weight_ln);
    }

    /// Weight and beliefs sink back to what was assumed at first; `share` of what was learnt is left.
    pub(super) fn fade(&mut self, share: f64, params: &GuiltParams) {
        self.weight_ln = self.prior_ln + (self.weight_ln - self.prior_ln) * share;
        if self.count > 0 {
            self.put_upon_the_expected(self.learnt(params).faded(share), params);
        }
    }

    /// What was learnt of the members' harm, without what was expected at first.
    fn learnt(&self, params: &GuiltParams) -> Learnt {
        let expected = 1.0 / (params.harm_sd * params.harm_sd);
        let mut precision = inverse(self.covariance);
        let told = precision.map(|row| row[0] * self.mean[0] + row[1] * self.mean[1]);
        (0..MOST_GUILTY).for_each(|at| precision[at][at] -= expected);
        // What is unsurer than at first has learnt nothing.
        let least = -1e-9 * expected;
        if precision[0][0] < least
            || precision[1][1] < least
            || determinant(precision) < least * expected
        {
            return Learnt::default();
        }
        Learnt { precision, pull: told.map(|told| told - expected * params.harm_mean) }
    }

    /// Believes that, put upon what was expected at first.
    fn put_upon_the_expected(&mut self, learnt: Learnt, params: &GuiltParams) {
        let expected = 1.0 / (params.harm_sd * params.harm_sd);
        let mut precision = learnt.precision;
        (0..MOST_GUILTY).for_each(|at| precision[at][at] += expected);
        let pull = learnt.pull.map(|pull| pull + expected * params.harm_mean);
        self.covariance = inverse(precision);
        self.mean = self.covariance.map(|row| row[0] * pull[0] + row[1] * pull[1]);
    }

    /// Takes in a measurement with this noise: weight by its likelihood, harm by a Kalman step.
    /// Some measurements go wrong (a burst of the host): they are thought to come from a wider
    /// distribution, and so neither decide nor teach much. One that may have come too late is thought to
    /// come from what shows nothing: that it does says little, and that something shows says as much as ever.
    pub(super) fn measure(&mut self, doses: &[f64], noisy: &Noisy) {
        let mut own = [0.0; MOST_GUILTY];
        for (dose, member) in own.iter_mut().zip(self.members()) {
            *dose = doses[*member];
        }
        if own == [0.0; MOST_GUILTY] {
            self.weight_ln += noisy.by_chance_ln;
            return;
        }
        let shared = self.covariance.map(|row| row[0] * own[0] + row[1] * own[1]);
        let known = own[0] * shared[0] + own[1] * shared[1];
        let off = noisy.seen.ln - self.foretell(doses);
        let likely = noisy.likely(off, known);
        self.weight_ln += likely.ln();
        let (in_time, total) = noisy.trusted(&likely, known);
        for (row, gain) in shared.iter().map(|s| in_time * s / total).enumerate() {
            self.mean[row] += gain * off;
            for (column, other) in shared.iter().enumerate() {
                self.covariance[row][column] -= gain * other;
            }
        }
    }

    /// The unit in which a member's harm is reckoned has so many times as many CPUs from now on: what was learnt is
    /// kept, and put upon what is expected of the new unit.
    pub(super) fn resize(&mut self, suspect: usize, times: f64, params: &GuiltParams) {
        let Some(at) = self.place(Some(suspect)) else { return };
        let mut of = [1.0; MOST_GUILTY];
        of[at] = 1.0 / times;
        self.put_upon_the_expected(self.learnt(params).in_units(of), params);
    }

    fn place(&self, suspect: Option<usize>) -> Option<usize> {
        self.members().iter().position(|m| Some(*m) == suspect)
    }
}

/// What was learnt, in information form, where learning adds up: precisions, and these times means.
#[derive(Clone, Copy, Default)]
struct Learnt {
    precision: [[f64; MOST_GUILTY]; MOST_GUILTY],
    pull: [f64; MOST_GUILTY],
}

impl Learnt {
    /// So much of it.
    fn faded(self, share: f64) -> Self {
        let precision = self.precision.map(|row| row.map(|cell| share * cell));
        Self { precision, pull: self.pull.map(|pull| share * pull) }
    }

    /// The same of harms that are so many times as large as new ones.
    fn in_units(mut self, of: [f64; MOST_GUILTY]) -> Self {
        for row in 0..MOST_GUILTY {
            self.pull[row] *= of[row];
            self.precision[row]
                .iter_mut()
                .zip(of)
                .for_each(|(cell, column)| *cell *= of[row] * column);
        }
        self
    }
}

/// Of two numbers that hang together more closely than so the inverse would tell of rounding alone.
const LEAST_APART: f64 = 1e-9;

/// The inverse of a symmetric, positive matrix.
fn inverse(
    [[a, b], [_, d]]: [[f64; MOST_GUILTY]; MOST_GUILTY],
) -> [[f64; MOST_GUILTY]; MOST_GUILTY] {
    let scale = 1.0 / determinant([[a, b], [b, d]]).max(LEAST_APART * a * d);
    [[d * scale, -b * scale], [-b * scale, a * scale]]
}

fn determinant([[a, b], [_, d]]: [[f64; MOST_GUILTY]; MOST_GUILTY]) -> f64 {
    a * d - b * b
}

/// ln of the sum of two numbers of which these are the ln.
fn sum_ln(a: f64, b: f64) -> f64 {
    let (less, more) = (a.min(b), a.max(b));
    more + libm::log1p(libm::exp(less - more))
}
