//! `quell predict`: how much slower two workloads are together, from their profiles, and
//! whether that is true.

mod check;
mod compare;
mod measure;
mod mixture;
mod model;
mod report;
#[cfg(test)]
mod tests;

pub use check::{CheckOptions, Program, check, programs, rounds_in_a_pass};
pub use mixture::{Part, mixed, parts};
pub use model::{Bound, Form, Losses, Model, losses, score, scores};
pub use report::{FormError, PREDICT_SCHEMA, Pair, PredictReport, Prediction, Undisturbed};

use crate::Profile;

/// How much of its speed A loses beside B, and B beside A, in percent.
#[must_use]
pub fn together(a: &Profile, b: &Profile, model: &Model) -> (Prediction, Prediction) {
    (predict(a, b, model), predict(b, a, model))
}

/// What foretells this pair without having seen others: the mean of a mixture and the worst resource where the
/// profiles have witnesses, else the worst resource.
#[must_use]
pub fn form(a: &Profile, b: &Profile) -> Form {
    if mixed(a, b, Bound::Middle).is_some() { Form::Mean } else { Form::Max }
}

/// How much of its speed A loses beside B, in percent. The interval is what the intervals of both
/// profiles leave open. Where the profiles do not tell enough for a mixture, the worst resource counts.
#[must_use]
pub fn predict(a: &Profile, b: &Profile, model: &Model) -> Prediction {
    let at = |bound| {
        let mixture = model.form.mixes().then(|| mixed(a, b, bound)).flatten();
        100.0 * model.loss_of(&losses(a, b, bound), mixture)
    };
    let value = at(model::Bound::Middle);
    let low = at(model::Bound::Low).min(value);
    let high = at(model::Bound::High).max(value);
    Prediction { value, low, high }
}
