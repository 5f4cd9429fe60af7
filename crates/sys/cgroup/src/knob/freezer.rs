//! Freezing a group: `cgroup.freeze` (v2), `freezer.state` (v1).

use super::GroupKnob;
use crate::group::{Group, Place};
use crate::layout::Version;
use crate::raw::{self, RawFile};
use crate::{CgroupError, file, parse};
use quell_types::{Gap, KnobRange, Reading, Setting};
use std::time::{Duration, Instant};

/// How long a freeze may take unless told otherwise. A task in an uninterruptible wait holds it up.
const DEADLINE: Duration = Duration::from_millis(500);
/// A v1 freeze that is not complete is asked for again this often: tasks that forked or were moved
/// meanwhile are only then caught.
const RETRY: Duration = Duration::from_millis(10);

/// Whether the group is frozen.
#[derive(Clone, Debug)]
pub struct FreezerKnob {
    places: Vec<Place>,
    deadline: Duration,
}

/// How far a freeze has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Freezing,
    Frozen,
}

impl FreezerKnob {
    /// The freezer of this group: where it is in several hierarchies with a freezer, that one in
    /// which its processes are, v2 first.
    ///
    /// # Errors
    /// A gap if the group is in no hierarchy with a freezer.
    pub fn new(group: &Group) -> Reading<Self> {
        // Every v2 group but the root has a freezer since Linux 5.2.
        let v2 = group.v2().filter(|place| place.file("cgroup.freeze").exists());
        let places: Vec<Place> = v2.into_iter().chain(group.v1("freezer")).cloned().collect();
        if places.is_empty() {
            let why = format!("{} is in no hierarchy with a freezer", group.name());
            return Err(Gap::absent(why));
        }
        Ok(Self { places, deadline: DEADLINE })
    }

    /// The same with another limit on how long a write waits until all tasks are frozen.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    fn place(&self) -> &Place {
        let busy = || self.places.iter().find(|place| place.is_populated());
        if self.places.len() == 1 { &self.places[0] } else { busy().unwrap_or(&self.places[0]) }
    }

    fn ask(place: &Place, frozen: bool) -> Result<(), CgroupError> {
        let (name, text) = match (place.version, frozen) {
            (Version::V1, true) => ("freezer.state", "FROZEN"),
            (Version::V1, false) => ("freezer.state", "THAWED"),
            (Version::V2, true) => ("cgroup.freeze", "1"),
            (Version::V2, false) => ("cgroup.freeze", "0"),
        };
        file::write(&place.file(name), text)
    }

    /// Asks again and again until it is so.
    fn wait(&self, place: &Place, wanted: State) -> Result<(), CgroupError> {
        let start = Instant::now();
        let mut asked = start;
        let mut nap = Duration::from_micros(20);
        while state(place)? != wanted {
            if start.elapsed() > self.deadline {
                return Err(CgroupError::Timeout {
                    path: place.dir.clone(),
                    what: "freezing or thawing every task",
                    limit_ms: u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX),
                });
            }
            if asked.elapsed() > RETRY && place.version == Version::V1 {
                Self::ask(place, wanted == State::Frozen)?;
                asked = Instant::now();
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// The group's own state: one that is frozen because a group above it is counts as running.
fn state(place: &Place) -> Result<State, CgroupError> {
    match place.version {
        Version::V1 => v1_state(place),
        Version::V2 => v2_state(place),
    }
}

fn v1_state(place: &Place) -> Result<State, CgroupError> {
    let path = place.file("freezer.state");
    let text = file::read(&path)?;
    if !v1_self_freezing(place, &text) {
        return Ok(State::Running);
    }
    match text.trim() {
        "FROZEN" => Ok(State::Frozen),
        // THAWED: the freeze began between the two reads.
        "FREEZING" | "THAWED" => Ok(State::Freezing),
        _ => Err(raw::malformed(&path, &text)),
    }
}

/// Whether this very group, not one above it, was told to freeze.
pub(crate) fn v1_self_freezing(place: &Place, state: &str) -> bool {
    match file::read(&place.file("freezer.self_freezing")) {
        Ok(text) => parse::flag(&text) == Some(true),
        Err(_) => state.trim() != "THAWED",
    }
}

fn v2_state(place: &Place) -> Result<State, CgroupError> {
    let path = place.file("cgroup.freeze");
    let text = file::read(&path)?;
    if !parse::flag(&text).ok_or_else(|| raw::malformed(&path, &text))? {
        return Ok(State::Running);
    }
    let events = file::read(&place.file("cgroup.events"))?;
    let frozen = parse::field(&events, "frozen") == Some(1);
    Ok(if frozen { State::Frozen } else { State::Freezing })
}

impl GroupKnob for FreezerKnob {
    fn read(&self) -> Reading<Setting> {
        match state(self.place()).map_err(Gap::from)? {
            State::Running => Ok(Setting::Flag(false)),
            State::Freezing => Err(Gap::Pending),
            State::Frozen => Ok(Setting::Flag(true)),
        }
    }

    fn range(&self) -> Reading<KnobRange> {
        state(self.place()).map_err(Gap::from)?;
        Ok(KnobRange::Flag)
    }

    fn round(&self, wanted: &Setting) -> Setting {
        wanted.clone()
    }

    /// Freezes or thaws, and waits until every task has followed. After a
    /// [`CgroupError::Timeout`] the freeze goes on, and the knob reads as pending.
    fn write(&self, wanted: &Setting) -> Result<(), CgroupError> {
        let Setting::Flag(frozen) = *wanted else {
            return Err(CgroupError::WrongSetting { knob: "a freezer", setting: wanted.clone() });
        };
        let place = self.place();
        let wanted = if frozen { State::Frozen } else { State::Running };
        if state(place)? == wanted {
            return Ok(());
        }
        Self::ask(place, frozen)?;
        self.wait(place, wanted)
    }

    /// The freezers of all hierarchies, since processes may move between two writes.
    fn raw_files(&self) -> Result<Vec<RawFile>, CgroupError> {
        let one = |place: &Place| match place.version {
            Version::V2 => raw::save([place.file("cgroup.freeze")]),
            Version::V1 => {
                let text = file::read(&place.file("freezer.state"))?;
                // FREEZING cannot be written, and a state may be that of a group above.
                let own = if v1_self_freezing(place, &text) { "FROZEN\n" } else { "THAWED\n" };
                Ok(vec![(place.file("freezer.state"), own.to_owned())])
            }
        };
        Ok(self.places.iter().map(one).collect::<Result<Vec<_>, _>>()?.concat())
    }
}
