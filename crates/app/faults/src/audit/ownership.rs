//! Which knobs are the agent's, and how they were found.

use crate::arena::Server;
use quell_control::same_setting;
use quell_types::{Knob, Setting, Tenant};
use std::collections::{BTreeMap, BTreeSet};

/// Knobs by whose they are.
#[derive(Debug)]
pub(super) struct Ownership {
    /// On record: the settings that count as found (another one if its group was made anew).
    owned: BTreeMap<Knob, Vec<Setting>>,
    /// Not on record: how they stand.
    others: BTreeMap<Knob, Setting>,
    /// Not on record: how they stood when a write was last tried. If the agent dies just after the
    /// record and before the write, nobody can tell what others did since.
    tried: BTreeMap<Knob, Setting>,
    /// What others set at some time.
    theirs: BTreeSet<Knob>,
}

impl Ownership {
    pub(super) fn new(server: &Server) -> Self {
        let others = server.standing().clone();
        let (owned, tried, theirs) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { owned, others, tried, theirs }
    }

    pub(super) fn owned(&self) -> Vec<Knob> {
        self.owned.keys().cloned().collect()
    }

    /// A write is about to be tried.
    pub(super) fn tries(&mut self, knob: &Knob) {
        if let Some(stands) = self.others.get(knob) {
            self.tried.insert(knob.clone(), stands.clone());
        }
    }

    /// Another program set a knob.
    pub(super) fn foreign(&mut self, knob: &Knob, to: &Setting) {
        self.theirs.insert(knob.clone());
        self.follow(knob, to);
    }

    fn follow(&mut self, knob: &Knob, to: &Setting) {
        if !self.owned.contains_key(knob) {
            self.others.insert(knob.clone(), to.clone());
        }
    }

    pub(super) fn shaken(&mut self, server: &Server) {
        for (knob, now) in server.standing() {
            self.follow(knob, now);
        }
    }

    pub(super) fn reborn(&mut self, server: &Server, tenant: &Tenant) {
        for (knob, now) in server.standing().iter().filter(|(k, _)| k.tenant() == Some(tenant)) {
            match self.owned.get_mut(knob) {
                Some(found) => found.push(now.clone()),
                None => drop(self.others.insert(knob.clone(), now.clone())),
            }
        }
    }

    /// Whether all that is still on record are CPU sets that must not overlap and cannot go back,
    /// since other programs gave one of their CPUs to another group.
    pub(super) fn is_barred(&self, server: &Server, exclusive: &dyn Fn(&Knob) -> bool) -> bool {
        let mut left = self.owned.iter().filter(|(knob, _)| server.is_recorded(knob)).peekable();
        let barred = |(knob, found): (&Knob, &Vec<Setting>)| {
            exclusive(knob) && found.iter().any(|to| self.is_held_by_others(server, knob, to))
        };
        left.peek().is_some() && left.all(barred)
    }

    fn is_held_by_others(&self, server: &Server, knob: &Knob, to: &Setting) -> bool {
        let Setting::Cpus(to) = to else { return false };
        let holds = |other: &Knob| match server.standing().get(other) {
            Some(Setting::Cpus(set)) => !set.is_disjoint(to),
            _ => false,
        };
        self.theirs.iter().filter(|other| *other != knob).any(holds)
    }

    /// Follows the knob journal. Answers a knob that changed without being on record.
    pub(super) fn sync(
        &mut self,
        server: &Server,
        before: &BTreeMap<Knob, Setting>,
    ) -> Option<String> {
        let mut touched = None;
        for (knob, now) in server.standing() {
            match (self.owned.contains_key(knob), server.is_recorded(knob)) {
                (false, true) => {
                    let found = before.get(knob).unwrap_or(now).clone();
                    self.others.remove(knob);
                    let tried = self.tried.remove(knob);
                    self.owned.insert(knob.clone(), [found].into_iter().chain(tried).collect());
                }
                (true, false) => {
                    self.owned.remove(knob);
                    self.others.insert(knob.clone(), now.clone());
                }
                (true, true) => {}
                (false, false) => {
                    let stood = self.others.insert(knob.clone(), now.clone());
                    if let Some(stood) = stood.filter(|stood| stood != now) {
                        touched = Some(format!("ours: {knob} went from {stood} to {now}"));
                    }
                }
            }
        }
        touched
    }

    /// What is no longer on record must stand as found.
    pub(super) fn restored(
        &mut self,
        server: &Server,
        before: &BTreeMap<Knob, Setting>,
        fully: bool,
    ) -> Option<String> {
        let mut broken = None;
        for (knob, now) in server.standing() {
            let gone = knob.tenant().is_some_and(|tenant| server.is_gone(tenant));
            let on_record = server.is_recorded(knob);
            if let Some(found) = self.owned.get(knob).filter(|_| !on_record && !gone)
                && !found.iter().any(|setting| same_setting(setting, now))
            {
                let found = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
                broken = Some(format!("as found: {knob} stands at {now}, was found at {found}"));
            }
            if fully && on_record {
                broken = Some(format!("as found: {knob} is still on record"));
            }
        }
        broken.or(self.sync(server, before))
    }
}
