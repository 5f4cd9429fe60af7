//! Knobs: which there are, how they stand, what is on its way to them.

mod ranges;

use crate::machine::Machine;
use crate::scene::Actuation;
use quell_platform::Undo;
use quell_types::{
    BytesPerSecond, CpuSet, Gap, Kilohertz, Knob, KnobRange, Reading, Setting, Setup, Tenant,
};
use ranges::{cache_ranges, first, fits, group_ranges};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// HTB takes no rate below this.
const LEAST_RATE: f64 = 1_000.0;

/// All knobs.
#[derive(Debug)]
pub(crate) struct KnobTable {
    ranges: BTreeMap<Knob, KnobRange>,
    /// How they read: a knob with something on its way to it reads *pending*.
    shown: Arc<BTreeMap<Knob, Reading<Setting>>>,
    standing: BTreeMap<Knob, Setting>,
    pending: Vec<(u64, Knob, Setting)>,
    actuation: Actuation,
    /// Tenants with a class of service of their own.
    classes: BTreeSet<Tenant>,
}

impl KnobTable {
    pub(crate) fn new(
        setup: &Setup,
        machine: &Machine,
        actuation: Actuation,
        exclusive: bool,
    ) -> Self {
        let mut ranges = BTreeMap::new();
        for (name, links) in setup
            .services
            .iter()
            .map(|s| (&s.name, None))
            .chain(setup.batch.iter().map(|b| (&b.name, Some(&b.links))))
        {
            ranges.extend(group_ranges(setup, name, links.is_some(), exclusive));
            ranges.extend(cache_ranges(machine, name, links.is_some()));
            for link in links.into_iter().flatten() {
                let knob = Knob::EgressCeiling { tenant: name.clone(), link: link.clone() };
                ranges.insert(knob, KnobRange::Rate { min: BytesPerSecond(LEAST_RATE) });
            }
        }
        if machine.clock.controllable {
            let (min, max) = (Kilohertz(machine.clock.min_khz), Kilohertz(top_khz(machine)));
            let cpus = setup.managed_cpus.iter().map(|cpu| Knob::FrequencyMax { cpu });
            ranges.extend(cpus.map(|knob| (knob, KnobRange::Frequency { min, max })));
        }
        if let Some(parts) = machine.duty_parts {
            let cpus = setup.managed_cpus.iter().map(|cpu| Knob::DutyCycle { cpu });
            ranges.extend(cpus.map(|knob| (knob, KnobRange::Duty { parts })));
        }
        if !machine.idle.is_empty() {
            let cpus = setup.managed_cpus.iter().map(|cpu| Knob::StayAwake { cpu });
            ranges.extend(cpus.map(|knob| (knob, KnobRange::Flag)));
        }
        let mut standing: BTreeMap<Knob, Setting> =
            ranges.iter().map(|(knob, r)| (knob.clone(), first(knob, r))).collect();
        if exclusive {
            split_sets(setup, &mut standing);
        }
        let shown = Arc::new(standing.iter().map(|(k, s)| (k.clone(), Ok(s.clone()))).collect());
        let (pending, classes) = (Vec::new(), BTreeSet::new());
        Self { ranges, shown, standing, pending, actuation, classes }
    }

    pub(crate) fn ranges(&self) -> BTreeMap<Knob, KnobRange> {
        self.ranges.clone()
    }

    /// How a knob stands, whatever is on its way.
    pub(crate) fn standing(&self, knob: &Knob) -> Option<Setting> {
        self.standing.get(knob).cloned()
    }

    /// How all knobs stand.
    pub(crate) fn all(&self) -> &BTreeMap<Knob, Setting> {
        &self.standing
    }

    /// How all knobs read.
    pub(crate) fn read(&self) -> Arc<BTreeMap<Knob, Reading<Setting>>> {
        self.shown.clone()
    }

    /// Shows a knob as it stands, or as pending.
    fn show(&mut self, knob: &Knob) {
        let pending = self.pending.iter().any(|(_, k, _)| k == knob);
        let Some(standing) = self.standing.get(knob) else { return };
        let reading = if pending { Err(Gap::Pending) } else { Ok(standing.clone()) };
        if self.shown.get(knob) != Some(&reading) {
            Arc::make_mut(&mut self.shown).insert(knob.clone(), reading);
        }
    }

    /// Whether the machine takes this setting, in the manner of the kernel.
    pub(crate) fn check(&self, knob: &Knob, to: &Setting) -> Result<(), String> {
        let range = self.ranges.get(knob).ok_or_else(|| format!("{knob} is not here"))?;
        if !fits(range, to) {
            return Err(format!("{knob} does not take {to}: Invalid argument"));
        }
        if matches!(range, KnobRange::Cpus { exclusive: true, .. }) && self.overlaps(knob, to) {
            return Err(format!("{knob} does not take {to}: Invalid argument"));
        }
        let Some(tenant) = knob.tenant().filter(|_| is_of_class(knob)) else { return Ok(()) };
        let full = |range: &KnobRange| match range {
            KnobRange::Ways { classes, .. } => self.classes.len() + 1 >= *classes as usize,
            _ => false,
        };
        if !self.classes.contains(tenant) && full(range) {
            return Err(format!(
                "no class of service is left for {tenant}: No space left on device"
            ));
        }
        Ok(())
    }

    /// Whether a CPU set shares a CPU with another group's, as it stands or soon will.
    fn overlaps(&self, knob: &Knob, to: &Setting) -> bool {
        let coming = self.pending.iter().map(|(_, k, s)| (k, s));
        // What is on its way counts in place of what stands.
        let later = |k: &Knob| self.pending.iter().any(|(_, pending, _)| pending == k);
        let standing = self.standing.iter().filter(|(k, _)| !later(k));
        coming.chain(standing).any(|other| shares(knob, to, other))
    }

    /// Whether a setting that passed [`Self::check`] may take effect at once: a CPU set that is to
    /// shrink soon still stands.
    pub(crate) fn check_at_once(&self, knob: &Knob, to: &Setting) -> Result<(), String> {
        let exclusive =
            matches!(self.ranges.get(knob), Some(KnobRange::Cpus { exclusive: true, .. }));
        if exclusive && self.standing.iter().any(|(other, set)| shares(knob, to, (other, set))) {
            return Err(format!("{knob} does not take {to}: Invalid argument"));
        }
        Ok(())
    }

    /// Settings of a group's own knobs as the kernel makes a group.
    pub(crate) fn first_of_group(&self, tenant: &Tenant) -> Vec<(Knob, Setting)> {
        let own = |knob: &&Knob| {
            let of_group = !matches!(
                knob,
                Knob::EgressCeiling { .. } | Knob::LlcWays { .. } | Knob::MemoryBandwidth { .. }
            );
            of_group && knob.tenant() == Some(tenant)
        };
        let mine = self.ranges.keys().filter(own);
        mine.map(|knob| (knob.clone(), first(knob, &self.ranges[knob]))).collect()
    }

    pub(crate) fn forget_pending_of(&mut self, tenant: &Tenant) {
        let (gone, kept) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, knob, _)| knob.tenant() == Some(tenant));
        self.pending = kept;
        gone.iter().for_each(|(_, knob, _)| self.show(knob));
    }

    /// Sends a checked setting on its way; true if it takes effect at once.
    ///
    /// `takes_ns` is the time that this change takes beside what such a knob always takes.
    pub(crate) fn send(&mut self, now: u64, knob: &Knob, to: &Setting, takes_ns: u64) -> bool {
        if let Some(tenant) = knob.tenant().filter(|_| is_of_class(knob)) {
            self.classes.insert(tenant.clone());
        }
        let delay = self.delay_ns(knob) + takes_ns;
        if delay == 0 && self.standing.get(knob) != Some(to) {
            self.settle(knob, to);
            return true;
        }
        if delay > 0 {
            self.pending.push((now + delay, knob.clone(), to.clone()));
            self.show(knob);
        }
        false
    }

    fn delay_ns(&self, knob: &Knob) -> u64 {
        let of = &self.actuation;
        let delay = match knob {
            Knob::Cpus { .. } => of.cpus,
            Knob::LlcWays { .. } | Knob::MemoryBandwidth { .. } => of.cache,
            Knob::FrequencyMax { .. } | Knob::DutyCycle { .. } => of.frequency,
            Knob::EgressCeiling { .. } => of.egress,
            _ => of.group,
        };
        delay.as_nanos() as u64
    }

    pub(crate) fn next_due(&self) -> u64 {
        self.pending.iter().map(|(due, ..)| *due).min().unwrap_or(u64::MAX)
    }

    /// Takes out what is due, in the order in which it was sent.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(Knob, Setting)> {
        let index = self.pending.iter().position(|(due, ..)| *due <= now)?;
        let (_, knob, to) = self.pending.remove(index);
        self.settle(&knob, &to);
        Some((knob, to))
    }

    pub(crate) fn settle(&mut self, knob: &Knob, to: &Setting) {
        self.standing.insert(knob.clone(), to.clone());
        self.show(knob);
    }

    pub(crate) fn forget_pending(&mut self, knob: &Knob) {
        self.pending.retain(|(_, k, _)| k != knob);
        self.show(knob);
    }

    pub(crate) fn forget_all_pending(&mut self) {
        self.classes.clear();
        for (_, knob, _) in std::mem::take(&mut self.pending) {
            self.show(&knob);
        }
    }
}

/// Whether a CPU set shares a CPU with another knob's.
fn shares(knob: &Knob, to: &Setting, (other, stands): (&Knob, &Setting)) -> bool {
    match (to, stands) {
        (Setting::Cpus(to), Setting::Cpus(set)) if other != knob => !set.is_disjoint(to),
        _ => false,
    }
}

/// The highest frequency that the clock may reach.
pub(crate) fn top_khz(machine: &Machine) -> u64 {
    machine.clock.turbo.first().map_or(machine.clock.base_khz, |(_, khz)| *khz)
}

fn is_of_class(knob: &Knob) -> bool {
    matches!(knob, Knob::LlcWays { .. })
}

/// Sets that must not overlap: each tenant begins with an equal part, batch with the lowest CPUs.
fn split_sets(setup: &Setup, standing: &mut BTreeMap<Knob, Setting>) {
    let tenants = setup.batch.iter().map(|b| &b.name).chain(setup.services.iter().map(|s| &s.name));
    let tenants: Vec<&Tenant> = tenants.collect();
    let part = (setup.managed_cpus.len() / tenants.len().max(1)).max(1);
    for (number, tenant) in tenants.into_iter().enumerate() {
        let mine: CpuSet = setup.managed_cpus.iter().skip(number * part).take(part).collect();
        standing.insert(Knob::Cpus { tenant: tenant.clone() }, Setting::Cpus(mine));
    }
}

/// How a write to a knob is taken back, in the journal's words: the knob for a path, its old
/// setting for a text.
pub(crate) fn undo(knob: &Knob, old: &Setting) -> Undo {
    // Plain data: cannot fail.
    let text = |value: serde_json::Result<String>| value.unwrap_or_default();
    let path = PathBuf::from(text(serde_json::to_string(knob)));
    Undo::File { path, text: text(serde_json::to_string(old)), of: None }
}

/// The knob and the setting of such a record.
pub(crate) fn from_undo(undo: &Undo) -> Result<(Knob, Setting), String> {
    let Undo::File { path, text, .. } = undo else {
        return Err("a simulated server has only knobs to put back".into());
    };
    let knob = serde_json::from_str(&path.to_string_lossy()).map_err(|e| e.to_string())?;
    Ok((knob, serde_json::from_str(text).map_err(|e| e.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_journal_is_read_back() {
        let knob = Knob::LlcWays { tenant: "jobs".into(), domain: 3 };
        let back = from_undo(&undo(&knob, &Setting::Ways(0xf))).unwrap();
        assert_eq!(back, (knob, Setting::Ways(0xf)));
    }
}
