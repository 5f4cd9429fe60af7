//! How much of the last-level cache a program can count on: of what strangers have of it nothing is told.

use quell_pressure::{CacheRoom, Options, Resource, Stop, allowed_cpus};
use quell_types::Topology;
use schemars::JsonSchema;
use serde::Serialize;

/// What a cache holds of a program that works on it alone.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Room {
    /// The CPU whose last-level cache it is.
    cpu: u32,
    #[serde(flatten)]
    room: CacheRoom,
}

impl Room {
    /// Fills the cache; none where that cannot be told here.
    pub(crate) fn look(topology: &Topology) -> Option<Self> {
        let cpu = allowed_cpus().ok()?.iter().next()?;
        let options = Options::new(Resource::LlcCapacity);
        let room = CacheRoom::of(&options, topology, cpu, &Stop::new().ok()?).ok().flatten()?;
        Some(Self { cpu, room })
    }

    /// One line for people.
    pub(crate) fn words(&self) -> String {
        let Self { cpu, room: CacheRoom { told_bytes, kept_bytes } } = *self;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let less = kept_bytes < told_bytes;
        let why = if less { ": the rest is others', or is told and not there" } else { "" };
        format!(
            "of the {:.0} MiB of CPU {cpu}'s last-level cache a program can count on {:.0} now{why}",
            mib(told_bytes),
            mib(kept_bytes)
        )
    }

    /// The same where it cannot be told.
    pub(crate) fn unknown() -> String {
        "how much of the last-level cache a program can count on cannot be told here: its size is not known, \
         or reads from it cannot be told from those from memory"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_others_have_too_is_told_from_one_that_is_whole() {
        let words = |kept_bytes| {
            Room { cpu: 3, room: CacheRoom { told_bytes: 32 << 20, kept_bytes } }.words()
        };
        assert_eq!(
            words(32 << 20),
            "of the 32 MiB of CPU 3's last-level cache a program can count on 32 now"
        );
        assert!(words(20 << 20).contains("can count on 20 now: the rest is others'"));
    }
}
