//! Who was put there against what was said and done: the confusion matrix.

use super::outcome::Trial;
use quell_view::{Cell, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of groups of one kind, in all trials that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// All of them.
    pub groups: u32,
    /// Those that were named.
    pub named: u32,
    /// Those that were suspected, and not named.
    pub suspected: u32,
    /// Those of whom nothing was said.
    pub neither: u32,
    /// Those that were limited at some time, as the kernel's files told.
    pub throttled: u32,
}

/// Culprits and innocents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confusion {
    /// Those who hurt.
    pub culprits: Judged,
    /// Those who do not.
    pub innocents: Judged,
}

impl Judged {
    fn count(&mut self, trial: &Trial, group: &str) {
        let among = |list: &[String]| list.iter().any(|name| name == group);
        self.groups += 1;
        match (among(&trial.named), among(&trial.suspected)) {
            (true, _) => self.named += 1,
            (false, true) => self.suspected += 1,
            (false, false) => self.neither += 1,
        }
        self.throttled += u32::from(among(&trial.throttled));
    }

    fn row(&self, name: &str) -> [Cell; 6] {
        let counts = [self.named, self.suspected, self.neither, self.throttled, self.groups];
        let [a, b, c, d, e] = counts.map(|count| Cell::number(f64::from(count), 0));
        [Cell::from(name), a, b, c, d, e]
    }
}

impl Confusion {
    /// Adds the groups of a trial that counts.
    pub(super) fn count(&mut self, trial: &Trial) {
        for group in trial.group_names() {
            let culprit = trial.culprit.as_deref() == Some(group);
            let row = if culprit { &mut self.culprits } else { &mut self.innocents };
            row.count(trial, group);
        }
    }

    /// As a table: what they were against what was said of them, and done to them.
    #[must_use]
    pub fn table(&self) -> Table {
        let columns = ["what it was", "named>", "suspected>", "neither>", "throttled>", "all>"];
        let mut table = Table::new("Who was blamed", &columns);
        table.push(self.culprits.row("culprit"));
        table.push(self.innocents.row("innocent"));
        table.notes.push("throttled: limited at some time, whatever was said".to_owned());
        table
    }
}
