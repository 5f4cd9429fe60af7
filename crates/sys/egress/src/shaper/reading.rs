//! What is read of a shaped link.

use super::tree::{LINK, MAJOR, ROOT, SERVICES};
use super::{Shaper, class_of};
use crate::route::{ClassInfo, QueueStats};
use quell_types::{Gap, LinkReading, Reading, Setting, Tenant};
use std::collections::BTreeMap;

/// One reading of a shaper: a dump of its classes, 20 to 60 µs.
#[derive(Clone, Debug, PartialEq)]
pub struct ShaperReading {
    /// For the sample.
    pub link: LinkReading,
    /// Each tenant's ceiling as it really stands, as [`Setting::Rate`].
    pub ceilings: BTreeMap<Tenant, Reading<Setting>>,
    /// Bytes that the services and all unmarked packets sent.
    pub service_bytes: Reading<u64>,
    /// Bytes that wait in the services' class.
    pub service_backlog_bytes: Reading<u64>,
}

/// Keeps a counter growing over a class that vanished and was made anew.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    base: u64,
    last: u64,
}

impl Counter {
    fn read(&mut self, now: u64) -> u64 {
        if now < self.last {
            self.base += self.last;
        }
        self.last = now;
        self.base + now
    }
}

/// The counters of a class that holds packets.
#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    bytes: Counter,
    drops: Counter,
}

/// The counters of one link.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    link: Counter,
    services: Leaf,
    tenants: Vec<Leaf>,
}

impl Counters {
    pub(super) fn new(tenants: usize) -> Self {
        let (link, services) = (Counter::default(), Leaf::default());
        Self { link, services, tenants: vec![services; tenants] }
    }
}

impl Shaper {
    /// Reads all counters and ceilings. What cannot be read is a gap with its reason.
    pub fn read(&mut self) -> ShaperReading {
        let classes = match self.route.classes(self.ifindex) {
            Ok(classes) => classes,
            Err(error) => return self.nothing(&Gap::failed(error)),
        };
        let ours: Vec<ClassInfo> =
            classes.into_iter().filter(|class| class.handle().major() == MAJOR).collect();
        if ours.is_empty() {
            let link = &self.spec.link;
            return self.nothing(&Gap::Gone(format!("{link} carries none of Quell's classes")));
        }
        self.reading_of(&ours)
    }

    fn reading_of(&mut self, classes: &[ClassInfo]) -> ShaperReading {
        let counters = &mut self.counters;
        let services = stats(classes, SERVICES.0);
        let mut leaves = vec![(services.clone(), &mut counters.services)];
        let (mut by_tenant_bytes, mut ceilings) = (BTreeMap::new(), BTreeMap::new());
        for ((rank, tenant), counter) in
            self.spec.tenants.iter().enumerate().zip(&mut counters.tenants)
        {
            let stats = stats(classes, class_of(rank));
            let bytes = stats.clone().map(|s| counter.bytes.read(s.bytes));
            by_tenant_bytes.insert(tenant.clone(), bytes);
            let setting = ceiling(classes, class_of(rank)).map(|c| self.tree.setting(c));
            ceilings.insert(tenant.clone(), setting);
            leaves.push((stats, counter));
        }
        let (mut backlog, mut drops) = (0, 0);
        for (stats, counter) in leaves {
            let seen = stats.as_ref().map_or(0, |s| u64::from(s.drops));
            backlog += stats.as_ref().map_or(0, |s| u64::from(s.backlog_bytes));
            drops += counter.drops.read(seen);
        }
        let sent_bytes = stats(classes, LINK.0).map(|s| counters.link.read(s.bytes));
        ShaperReading {
            service_bytes: services.clone().map(|s| counters.services.bytes.read(s.bytes)),
            service_backlog_bytes: services.map(|s| u64::from(s.backlog_bytes)),
            link: LinkReading {
                sent_bytes,
                by_tenant_bytes,
                backlog_bytes: Ok(backlog),
                drops: Ok(drops),
            },
            ceilings,
        }
    }

    /// Everything is missing for one reason.
    fn nothing(&self, gap: &Gap) -> ShaperReading {
        let tenants = &self.spec.tenants;
        ShaperReading {
            link: LinkReading {
                sent_bytes: Err(gap.clone()),
                by_tenant_bytes: tenants.iter().map(|t| (t.clone(), Err(gap.clone()))).collect(),
                backlog_bytes: Err(gap.clone()),
                drops: Err(gap.clone()),
            },
            ceilings: tenants.iter().map(|t| (t.clone(), Err(gap.clone()))).collect(),
            service_bytes: Err(gap.clone()),
            service_backlog_bytes: Err(gap.clone()),
        }
    }
}

fn class(classes: &[ClassInfo], handle: u32) -> Reading<&ClassInfo> {
    let name = || crate::route::Handle(handle);
    classes
        .iter()
        .find(|class| class.handle == handle)
        .ok_or_else(|| Gap::Gone(format!("class {} of qdisc {ROOT} is gone", name())))
}

fn stats(classes: &[ClassInfo], handle: u32) -> Reading<QueueStats> {
    class(classes, handle)?.stats.ok_or_else(|| Gap::absent("the kernel sends no class counters"))
}

fn ceiling(classes: &[ClassInfo], handle: u32) -> Reading<u64> {
    class(classes, handle)?.ceil.ok_or_else(|| Gap::absent("the class has no ceiling: not HTB"))
}
