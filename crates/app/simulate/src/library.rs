//! The published experiments, carried by the program. Their texts lie in `scenarios/`.

use crate::text::{Scenario, ScenarioErrors};

macro_rules! library {
    ($($id:literal),* $(,)?) => {
        /// All scenarios: id and text.
        pub const LIBRARY: &[(&str, &str)] = &[
            $(($id, include_str!(concat!("../../../../scenarios/", $id, ".scenario")))),*
        ];
    };
}

library![
    "T-E1",
    "T-E2",
    "T-E3",
    "T-E4",
    "T-E5",
    "H-E1",
    "A-E1",
    "A-E2",
    "A-E3",
    "A-E4",
    "A-calm",
    "A-pulse",
    "A-steal",
    "A-ratelimit",
    "V-E1",
    "V-E2",
    "V-E3",
    "V-E4",
    "U-E1",
    "U-E2",
    "U-E3",
    "U-E4",
    "B-E2",
    "B-E7",
    "B-E9",
    "R-4",
    "laws",
];

/// The scenario of this id; none if the library has no such.
///
/// # Errors
/// What is wrong with its text.
#[must_use]
pub fn find(id: &str) -> Option<Result<Scenario, ScenarioErrors>> {
    let found = LIBRARY.iter().find(|(known, _)| known.eq_ignore_ascii_case(id));
    found.map(|(id, text)| Scenario::parse(&format!("{id}.scenario"), text))
}
