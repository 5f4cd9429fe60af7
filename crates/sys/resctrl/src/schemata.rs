//! The schemata file: one line a resource, `L3:0=fffff;1=fffff`.
//!
//! Kernels differ in how they print it (`    MB:0= 30`, `L3:0=003` up to 6.x; `MB:0=30`, `L3:0=3`
//! later) and all of them accept what is written here.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use thiserror::Error;

/// What a line of a schemata allots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Ways of the level 3 cache.
    L3,
    /// Level 3 ways for code (CDP).
    L3Code,
    /// Level 3 ways for data (CDP).
    L3Data,
    /// Ways of the level 2 cache.
    L2,
    /// Level 2 ways for code (CDP).
    L2Code,
    /// Level 2 ways for data (CDP).
    L2Data,
    /// Memory bandwidth.
    Mb,
    /// Bandwidth to slow memory (AMD).
    Smba,
}

impl Resource {
    /// All that are known.
    pub const ALL: [Resource; 8] = [
        Resource::L3,
        Resource::L3Code,
        Resource::L3Data,
        Resource::L2,
        Resource::L2Code,
        Resource::L2Data,
        Resource::Mb,
        Resource::Smba,
    ];

    /// The kernel's name, also that of its folder in `info/`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::L3 => "L3",
            Resource::L3Code => "L3CODE",
            Resource::L3Data => "L3DATA",
            Resource::L2 => "L2",
            Resource::L2Code => "L2CODE",
            Resource::L2Data => "L2DATA",
            Resource::Mb => "MB",
            Resource::Smba => "SMBA",
        }
    }

    /// Whether its values are bit masks (hexadecimal), not amounts (decimal).
    #[must_use]
    pub fn is_mask(self) -> bool {
        !matches!(self, Resource::Mb | Resource::Smba)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    fn parse_value(self, text: &str) -> Option<u64> {
        let radix = if self.is_mask() { 16 } else { 10 };
        let plain = !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
        plain.then(|| u64::from_str_radix(text, radix).ok()).flatten()
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A known resource: values by domain, in the file's order.
    Known(Resource, Vec<(u32, u64)>),
    /// A resource of a newer kernel, kept word for word so that it is written back unchanged.
    Other(String),
}

/// A whole schemata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemata {
    lines: Vec<Line>,
}

/// A text that is no schemata.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a schemata: {0}")]
pub struct ParseSchemataError(String);

impl Schemata {
    /// From lines; a resource that is named twice, or a domain within one, is refused.
    ///
    /// # Errors
    /// If it would not be a legal schemata.
    pub fn new(lines: Vec<Line>) -> Result<Self, ParseSchemataError> {
        let twice = |what: String| Err(ParseSchemataError(format!("{what} is named twice")));
        for (at, line) in lines.iter().enumerate() {
            let Line::Known(resource, values) = line else { continue };
            let same = |l: &Line| matches!(l, Line::Known(r, _) if r == resource);
            if lines[..at].iter().any(same) {
                return twice(resource.to_string());
            }
            for (nth, (domain, _)) in values.iter().enumerate() {
                if values[..nth].iter().any(|(other, _)| other == domain) {
                    return twice(format!("domain {domain} of {resource}"));
                }
            }
        }
        Ok(Self { lines })
    }

    /// Its lines.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Values of a resource by domain; none if it has no such line.
    #[must_use]
    pub fn values(&self, resource: Resource) -> Option<&[(u32, u64)]> {
        self.lines.iter().find_map(|line| match line {
            Line::Known(r, values) if *r == resource => Some(values.as_slice()),
            _ => None,
        })
    }

    /// The value of one domain.
    #[must_use]
    pub fn get(&self, resource: Resource, domain: u32) -> Option<u64> {
        self.values(resource)?.iter().find(|(d, _)| *d == domain).map(|(_, value)| *value)
    }

    /// Changes one domain of one resource and nothing else; false if there is no such domain.
    #[must_use]
    pub fn set(&mut self, resource: Resource, domain: u32, value: u64) -> bool {
        for line in &mut self.lines {
            let Line::Known(r, values) = line else { continue };
            if *r != resource {
                continue;
            }
            let Some(entry) = values.iter_mut().find(|(d, _)| *d == domain) else { return false };
            entry.1 = value;
            return true;
        }
        false
    }
}

impl FromStr for Schemata {
    type Err = ParseSchemataError;

    /// Reads what any kernel prints: names, ids and values may be padded.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Self::new(lines.map(parse_line).collect::<Result<_, _>>()?)
    }
}

fn parse_line(line: &str) -> Result<Line, ParseSchemataError> {
    let bad = |why: &str| {
        let shown: String = line.chars().take(80).collect();
        ParseSchemataError(format!("{why}: {shown:?}"))
    };
    let (name, values) = line.split_once(':').ok_or_else(|| bad("a line without ':'"))?;
    let Some(resource) = Resource::from_name(name.trim()) else {
        return Ok(Line::Other(line.to_owned()));
    };
    if values.trim() == "uninitialized" {
        return Err(bad("the group is being set up for pseudo-locking"));
    }
    let entry = |part: &str| {
        let (domain, value) = part.split_once('=')?;
        let domain = domain.trim();
        let digits = domain.chars().all(|c| c.is_ascii_digit());
        Some((domain.parse().ok().filter(|_| digits)?, resource.parse_value(value.trim())?))
    };
    let values: Option<Vec<_>> = values.split(';').map(entry).collect();
    Ok(Line::Known(resource, values.ok_or_else(|| bad("a domain that is not id=value"))?))
}

impl fmt::Display for Schemata {
    /// As the kernel accepts it, each line ended by a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            match line {
                Line::Known(resource, values) => {
                    writeln!(f, "{resource}:{}", format_values(*resource, values))?;
                }
                Line::Other(text) => writeln!(f, "{text}")?,
            }
        }
        Ok(())
    }
}

fn format_values(resource: Resource, values: &[(u32, u64)]) -> String {
    let mut text = String::new();
    for (domain, value) in values {
        let separator = if text.is_empty() { "" } else { ";" };
        // Writing to a String cannot fail.
        let _ = if resource.is_mask() {
            write!(text, "{separator}{domain}={value:x}")
        } else {
            write!(text, "{separator}{domain}={value}")
        };
    }
    text
}
