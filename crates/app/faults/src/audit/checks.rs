//! The checks of one step.

use super::{Audit, BREACH_PERIODS, View, is_exclusive};
use quell_control::{explain, round_to_range, same_setting};
use quell_policy::Law;
use quell_types::{Knob, Setting, Tenant};
use std::collections::BTreeMap;

/// So long after the last fault everything must stand as wanted: the longest that the engine waits
/// before it tries a refused write again, and a little.
const REPAIRED_AFTER_S: f64 = 34.0;
/// Faults since a breach with which batch must still be held in time.
const FAULTS_AT_ONCE: u32 = 2;
/// A group at its floor has no more CPU time than this.
const FLOOR_CPUS: f64 = 0.0501;
/// Every so many steps what `quell explain` reads is compared with what stands.
const EXPLAINED_EVERY: u64 = 16;

impl Audit {
    pub(super) fn floor(&self, view: &View<'_>) -> Option<String> {
        let none = |name: &&Tenant| view.server.effective_cpus(name).is_empty();
        let services = view.setup.services.iter().map(|s| &s.name);
        let bare = services.filter(|name| !view.server.is_gone(name)).find(none)?;
        Some(format!("floor: {bare} has no CPU"))
    }

    pub(super) fn valid(&self, view: &View<'_>) -> Option<String> {
        let wrong = |(knob, setting): &(&Knob, &Setting)| {
            let range = view.setup.knobs.get(*knob);
            !range
                .and_then(|range| round_to_range(setting, range))
                .is_some_and(|rounded| same_setting(&rounded, setting))
        };
        let (knob, setting) = view.server.standing().iter().find(wrong)?;
        Some(format!("valid: {knob} stands at {setting}"))
    }

    /// The journal alone tells what stands, and by which rule.
    pub(super) fn explained(&self, view: &View<'_>) -> Option<String> {
        if view.held || view.trouble || !self.steps.is_multiple_of(EXPLAINED_EVERY) {
            return None;
        }
        let written = self.journal.written();
        let services = view.setup.services.iter().map(|s| &s.name);
        let tenants = services.chain(view.setup.batch.iter().map(|b| &b.name));
        let told: BTreeMap<Knob, Setting> = tenants
            .flat_map(|tenant| explain(&written.entries, tenant))
            .map(|told| (told.knob, told.setting))
            .collect();
        let standing = view.engine.standing();
        for (knob, stands) in standing.iter().filter(|(knob, _)| knob.tenant().is_some()) {
            let rounded = told
                .get(knob)
                .and_then(|setting| round_to_range(setting, view.setup.knobs.get(knob)?));
            if !rounded.is_some_and(|rounded| same_setting(&rounded, &stands.setting)) {
                let (to, told) = (&stands.setting, told.get(knob));
                return Some(format!("explained: {knob} stands at {to}, told: {told:?}"));
            }
        }
        let knob = told.keys().find(|knob| !standing.contains_key(*knob))?;
        Some(format!("explained: {knob} is told to stand, and does not"))
    }

    /// Batch is held, within two steps of going there and of the last fault.
    pub(super) fn safe_side(&mut self, view: &View<'_>) -> Option<String> {
        if !view.held {
            self.held_since_s = None;
            return None;
        }
        let since = *self.held_since_s.get_or_insert(view.now_s);
        if view.now_s - since < 2.0 || view.calm_s < 3.0 {
            return None;
        }
        let free = |name: &&Tenant| {
            let knob = Knob::Frozen { tenant: (*name).clone() };
            view.server.standing().get(&knob) == Some(&Setting::Flag(false))
                && !view.server.is_gone(name)
        };
        let batch = view.setup.batch.iter().map(|b| &b.name);
        let name = batch.into_iter().find(free)?;
        Some(format!("safe side: {name} runs"))
    }

    /// Who came back is to be held in so many periods too, but nobody sees it while sensors hide it.
    pub(super) fn follow_unseen(&mut self, view: &View<'_>) {
        let soon = view.now_s + BREACH_PERIODS * self.period_s;
        for (tenant, until_s) in &mut self.unseen {
            if (view.hid)(tenant) {
                *until_s = soon;
            }
        }
        self.unseen.retain(|_, until_s| *until_s > view.now_s + 1e-6);
    }

    /// Law `quell`: off or at its floor within two fast periods.
    pub(super) fn breach_met(&mut self, view: &View<'_>) -> Option<String> {
        let breach = self.breach.as_mut()?;
        if view.held
            || breach.judged
            || view.now_s + 1e-6 < breach.at_s + BREACH_PERIODS * self.period_s
        {
            return None;
        }
        breach.judged = true;
        if breach.faults > FAULTS_AT_ONCE {
            return None;
        }
        let at_s = breach.at_s;
        let running = |name: &&Tenant| {
            let seen = !view.server.is_gone(name) && !self.unseen.contains_key(*name);
            seen && !self.is_held_back(view, name)
        };
        let batch = view.setup.batch.iter().map(|b| &b.name);
        let name = batch.into_iter().find(running)?;
        let now_s = view.now_s;
        Some(format!("law: breach reported at {at_s:.2} s, {name} runs at {now_s:.2} s"))
    }

    /// Frozen, at its floor, or left to others by both knobs.
    fn is_held_back(&self, view: &View<'_>, name: &Tenant) -> bool {
        let frozen = Knob::Frozen { tenant: name.clone() };
        let limit = Knob::CpuBandwidth { tenant: name.clone() };
        let stands = |knob: &Knob| view.server.standing().get(knob);
        let at_floor = match stands(&limit) {
            Some(Setting::Bandwidth(b)) => b.limit_cpus.is_some_and(|c| c.0 <= FLOOR_CPUS),
            _ => false,
        };
        let left = |knob: &Knob| self.is_given_up(knob);
        stands(&frozen) == Some(&Setting::Flag(true)) || at_floor || (left(&frozen) && left(&limit))
    }

    /// After a calm every knob stands as wanted.
    pub(super) fn repaired(&mut self, view: &View<'_>) -> Option<String> {
        if view.held || view.calm_s < 1.0 {
            self.wanted.clear();
            return None;
        }
        let standing = view.engine.standing();
        self.wanted.retain(|knob, (to, _)| {
            standing.get(knob).is_some_and(|s| same_setting(&s.setting, to))
        });
        for (knob, stands) in standing {
            let to = || (stands.setting.clone(), view.now_s);
            self.wanted.entry(knob.clone()).or_insert_with(to);
        }
        if view.calm_s < REPAIRED_AFTER_S {
            return None;
        }
        // A setting that was just written is still on its way.
        let settled = |since: f64| view.now_s - since > 1.5;
        let (knob, (to, _)) = self.wanted.iter().find(|(knob, (to, since))| {
            let looks = matches!(self.law, Law::Quell | Law::Culprit);
            let plays = looks && matches!(knob, Knob::Frozen { .. });
            let there = !knob.tenant().is_some_and(|tenant| view.server.is_gone(tenant));
            let real = view.server.standing().get(*knob);
            let differs = real.is_some_and(|real| !same_setting(real, to));
            // Sets that must not overlap cannot always change places.
            let exempt = plays || is_exclusive(view.setup, knob) || self.is_given_up(knob);
            settled(*since) && there && differs && !exempt
        })?;
        let real = view.server.standing().get(knob);
        Some(format!("repaired: {knob} shall stand at {to} and stands at {real:?}"))
    }
}
