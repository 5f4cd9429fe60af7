//! A report: sections of words, tables and plots.

use crate::{Heat, Plot, Table};
use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One thing in a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
    /// A heat map.
    Heat(Heat),
}

/// A part of a report under its own heading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What it holds, in order.
    pub items: Vec<Item>,
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// Its parts.
    pub sections: Vec<Section>,
}

impl Section {
    /// An empty section.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), items: Vec::new() }
    }

    /// With one more thing.
    #[must_use]
    pub fn with(mut self, item: impl Into<Item>) -> Section {
        self.items.push(item.into());
        self
    }
}

impl From<&str> for Item {
    fn from(text: &str) -> Item {
        Item::Text(text.to_owned())
    }
}

impl From<String> for Item {
    fn from(text: String) -> Item {
        Item::Text(text)
    }
}

impl From<Table> for Item {
    fn from(table: Table) -> Item {
        Item::Table(table)
    }
}

impl From<Plot> for Item {
    fn from(plot: Plot) -> Item {
        Item::Plot(plot)
    }
}

impl From<Heat> for Item {
    fn from(heat: Heat) -> Item {
        Item::Heat(heat)
    }
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), sections: Vec::new() }
    }

    /// With one more section.
    #[must_use]
    pub fn with(mut self, section: Section) -> Report {
        self.sections.push(section);
        self
    }

    /// For a terminal, `width` columns wide.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        crate::text::report(self, width)
    }

    /// A page that needs no other file.
    #[must_use]
    pub fn to_html(&self) -> String {
        crate::html::page(self)
    }

    /// All plots with the names of their files, as `02-latency.svg`.
    #[must_use]
    pub fn to_svgs(&self) -> Vec<(String, String)> {
        let items = self.sections.iter().flat_map(|section| &section.items);
        let pictures = items.filter_map(|item| match item {
            Item::Plot(plot) => Some((&plot.title, plot.to_svg())),
            Item::Heat(heat) => Some((&heat.title, heat.to_svg())),
            Item::Text(_) | Item::Table(_) => None,
        });
        let name = |rank: usize, title: &str| format!("{:02}-{}.svg", rank + 1, slug(title));
        pictures.enumerate().map(|(rank, (title, svg))| (name(rank, title), svg)).collect()
    }

    /// Writes `report.html`, `report.txt` and each plot as SVG to a folder, which is made if need
    /// be. Gives the files.
    pub fn write(&self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let pages = [
            ("report.html".to_owned(), self.to_html()),
            ("report.txt".to_owned(), self.to_text(100)),
        ];
        let mut written = Vec::new();
        for (name, content) in pages.into_iter().chain(self.to_svgs()) {
            let path = folder.join(name);
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
            written.push(path);
        }
        Ok(written)
    }
}

/// A title as part of a file name: small letters, digits and single dashes, 60 at most.
fn slug(title: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let dashed: String = title.chars().map(plain).collect();
    let words: Vec<&str> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").chars().take(60).collect();
    if name.is_empty() { "plot".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_plain() {
        for (title, name) in [
            ("p95 of search, ms", "p95-of-search-ms"),
            ("../../etc/passwd", "etc-passwd"),
            ("µ∞", "plot"),
            ("", "plot"),
        ] {
            assert_eq!(slug(title), name);
        }
    }
}
