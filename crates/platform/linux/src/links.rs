//! Shaped links.

use quell_egress::{LinkSnapshot, Netns, Shaper, ShaperSpec, Takeover, Tuning, restore};
use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_types::{BytesPerSecond, Knob, KnobRange, Link, LinkReading, Reading, Setting, Tenant};
use std::collections::BTreeMap;

use crate::options::{BatchBinding, LinkBinding};

/// Takes a link's shaping back, from what the journal kept.
pub(crate) fn undo(snapshot: &serde_json::Value) -> Result<(), String> {
    let snapshot: LinkSnapshot =
        serde_json::from_value(snapshot.clone()).map_err(|error| error.to_string())?;
    restore(&snapshot).map(drop).map_err(|error| error.to_string())
}

/// All links of one agent.
#[derive(Default)]
pub(crate) struct Links {
    shapers: BTreeMap<Link, Shaper>,
    senders: BTreeMap<Link, Vec<Tenant>>,
}

impl Links {
    /// Looks at a link; nothing is changed yet.
    pub(crate) fn open(
        &mut self,
        link: &LinkBinding,
        batch: &[BatchBinding],
    ) -> Result<(), String> {
        let tenants: Vec<Tenant> = batch
            .iter()
            .filter(|b| b.spec.links.contains(&link.spec.name))
            .map(|b| b.spec.name.clone())
            .collect();
        let netns = match link.netns.as_deref() {
            None => None,
            Some(path) if path.contains('/') => Some(path.into()),
            Some(name) => {
                let named = Netns::named(name).map_err(|error| error.to_string())?;
                named.path().map(std::path::Path::to_path_buf)
            }
        };
        let spec = ShaperSpec {
            link: link.spec.name.clone(),
            netns,
            capacity: link.spec.capacity,
            tenants: tenants.clone(),
            tuning: Tuning::default(),
            takeover: Takeover::default(),
        };
        let shaper = Shaper::open(spec).map_err(|error| error.to_string())?;
        self.shapers.insert(link.spec.name.clone(), shaper);
        self.senders.insert(link.spec.name.clone(), tenants);
        Ok(())
    }

    /// Builds the trees; what was there is in the journal before.
    pub(crate) fn install<S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
    ) -> Result<Result<(), String>, StoreError> {
        for (name, shaper) in &mut self.shapers {
            let snapshot = match serde_json::to_value(shaper.snapshot()) {
                Ok(snapshot) => snapshot,
                Err(error) => return Ok(Err(error.to_string())),
            };
            journal.before_write(&format!("link {name}"), || vec![Undo::Link { snapshot }])?;
            if let Err(error) = shaper.install() {
                return Ok(Err(format!("{name}: {error}")));
            }
        }
        Ok(Ok(()))
    }

    /// The class of each batch tenant that sends on a link: the same on every link it is on.
    pub(crate) fn classes(&self) -> BTreeMap<Tenant, u32> {
        let mut classes = BTreeMap::new();
        for (knob, _) in self.ranges() {
            let Knob::EgressCeiling { tenant, link } = knob else { continue };
            if let Some(Ok(class)) = self.shapers.get(&link).map(|s| s.class(&tenant)) {
                classes.insert(tenant, class);
            }
        }
        classes
    }

    pub(crate) fn ranges(&self) -> Vec<(Knob, KnobRange)> {
        let of = |(link, shaper): (&Link, &Shaper)| {
            let range = shaper.range();
            let knob = |tenant: &Tenant| {
                let knob = Knob::EgressCeiling { tenant: tenant.clone(), link: link.clone() };
                (knob, range.clone())
            };
            self.senders.get(link).into_iter().flatten().map(knob).collect::<Vec<_>>()
        };
        self.shapers.iter().flat_map(of).collect()
    }

    pub(crate) fn set(
        &mut self,
        link: &Link,
        tenant: &Tenant,
        rate: Option<BytesPerSecond>,
    ) -> Result<(), String> {
        let shaper = self.shapers.get_mut(link).ok_or_else(|| format!("{link} is not shaped"))?;
        shaper.set_ceiling(tenant, rate).map_err(|error| error.to_string())
    }

    /// Counters of all links, and ceilings as they stand.
    pub(crate) fn read(
        &mut self,
    ) -> (BTreeMap<Link, LinkReading>, BTreeMap<Knob, Reading<Setting>>) {
        let (mut readings, mut knobs) = (BTreeMap::new(), BTreeMap::new());
        for (name, shaper) in &mut self.shapers {
            let reading = shaper.read();
            for (tenant, setting) in reading.ceilings {
                let knob = Knob::EgressCeiling { tenant, link: name.clone() };
                knobs.insert(knob, setting);
            }
            readings.insert(name.clone(), reading.link);
        }
        (readings, knobs)
    }
}
