//! Which kinds of fault came about at which sites.

use crate::{FaultKind, Site};
use std::collections::BTreeMap;
use std::fmt;

/// A kind of fault at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// What.
    pub kind: FaultKind,
    /// Where.
    pub site: Site,
}

impl Cell {
    /// All cells, in a fixed order.
    #[must_use]
    pub fn all() -> Vec<Cell> {
        let sites = Site::all();
        let of = |site: &Site| {
            let site = *site;
            FaultKind::ALL.into_iter().map(move |kind| Cell { kind, site })
        };
        sites.iter().flat_map(of).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.kind, self.site)
    }
}

/// How often each cell came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<Cell, u64>);

impl Coverage {
    /// A fault came about.
    pub(crate) fn note(&mut self, cell: Cell) {
        *self.0.entry(cell).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Coverage) {
        for (cell, times) in &other.0 {
            *self.0.entry(*cell).or_default() += times;
        }
    }

    /// How often a cell came about.
    #[must_use]
    pub fn of(&self, cell: Cell) -> u64 {
        self.0.get(&cell).copied().unwrap_or(0)
    }

    /// Cells that came about.
    #[must_use]
    pub fn covered(&self) -> usize {
        self.0.len()
    }

    /// Cells that did not.
    #[must_use]
    pub fn missing(&self) -> Vec<Cell> {
        Cell::all().into_iter().filter(|cell| !self.0.contains_key(cell)).collect()
    }
}

/// One line a site, one column a kind, numbered as below the table.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<26}", "write site \\ fault kind")?;
        for number in 1..=FaultKind::ALL.len() {
            write!(f, "{number:>7}")?;
        }
        writeln!(f)?;
        for site in Site::all() {
            write!(f, "{site:<26}")?;
            for kind in FaultKind::ALL {
                write!(f, "{:>7}", self.of(Cell { kind, site }))?;
            }
            writeln!(f)?;
        }
        for (number, kind) in (1..).zip(FaultKind::ALL) {
            writeln!(f, "{number:>3} {kind}")?;
        }
        Ok(())
    }
}
