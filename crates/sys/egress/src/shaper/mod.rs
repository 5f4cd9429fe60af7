//! The shaper of one link: services first, batch up to ceilings that can be changed at any time
//! (T-19…T-21, H-2).

mod reading;
mod snapshot;
mod tree;

pub use reading::ShaperReading;
pub use snapshot::{LinkSnapshot, Restored, RootSnapshot, restore};
pub use tree::{class_of, service_class};

use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::route::{Handle, HtbClass, LinkInfo, Mode, QdiscInfo, QdiscKind, Route, SegmentLimits};
use crate::tuning::Tuning;
use quell_types::{BytesPerSecond, KnobRange, Link, Setting, Tenant};
use reading::Counters;
use std::path::PathBuf;
use tree::{LINK, MAJOR, MOST_TENANTS, ROOT, SERVICES, Tree};

/// What may be done to a root qdisc that somebody else made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// Nothing: the link is refused.
    #[default]
    Refuse,
    /// It may be replaced while Quell runs if it has no classes; it is put back by its options.
    Replace,
}

/// Which link, and for whom.
#[derive(Clone, Debug, PartialEq)]
pub struct ShaperSpec {
    /// The interface.
    pub link: Link,
    /// The network namespace that it is in; none for the caller's own.
    pub netns: Option<PathBuf>,
    /// What it carries.
    pub capacity: BytesPerSecond,
    /// The batch tenants; the place in this list gives the class id ([`class_of`]).
    pub tenants: Vec<Tenant>,
    /// Sizes.
    pub tuning: Tuning,
    /// What may be done to a foreign root qdisc.
    pub takeover: Takeover,
}

/// A link under Quell's shaping. Nothing is undone when it is dropped: see [`Shaper::restore`].
#[derive(Debug)]
pub struct Shaper {
    spec: ShaperSpec,
    namespace: Netns,
    route: Route,
    ifindex: u32,
    tree: Tree,
    snapshot: LinkSnapshot,
    /// What each tenant's ceiling was last set to, in the order of the tenants.
    ceilings: Vec<u64>,
    counters: Counters,
}

impl Shaper {
    /// Looks at a link and changes nothing yet. The snapshot is to be saved before
    /// [`Shaper::install`].
    ///
    /// # Errors
    /// [`EgressError::NoLink`]; [`EgressError::ForeignQdisc`] and [`EgressError::ClassfulQdisc`] if
    /// somebody else shapes it; [`EgressError::BadRate`]; [`EgressError::TooManyTenants`].
    pub fn open(spec: ShaperSpec) -> Result<Self> {
        let capacity = spec.tuning.usable_rate(spec.capacity)?;
        let count = spec.tenants.len();
        if count > MOST_TENANTS {
            return Err(EgressError::TooManyTenants { count, max: MOST_TENANTS });
        }
        let namespace = Netns::at(spec.netns.as_deref())?;
        let mut route = Route::open(&namespace)?;
        let info = find(&mut route, &spec.link, &namespace)?;
        let snapshot = snapshot::take(&mut route, &namespace, &info, &spec)?;
        let tree = Tree { capacity, mtu: info.mtu, tuning: spec.tuning };
        let ceilings = vec![capacity; count];
        let counters = Counters::new(count);
        Ok(Self { spec, namespace, route, ifindex: info.index, tree, snapshot, ceilings, counters })
    }

    /// What the link was like before Quell came.
    #[must_use]
    pub fn snapshot(&self) -> &LinkSnapshot {
        &self.snapshot
    }

    /// Builds the tree, or completes and corrects what is there of it; may be called at any time.
    /// Ceilings found on the link (of an agent that died) are kept, others begin unlimited.
    ///
    /// # Errors
    /// As [`Shaper::open`], and the kernel's refusals.
    pub fn install(&mut self) -> Result<()> {
        self.adopt_ceilings()?;
        self.build()
    }

    fn adopt_ceilings(&mut self) -> Result<()> {
        for class in self.route.classes(self.ifindex)? {
            let rank = (0..self.ceilings.len()).find(|&rank| class_of(rank) == class.handle);
            if let (Some(rank), Some(ceil)) = (rank, class.ceil) {
                self.ceilings[rank] = self.tree.round(ceil as f64);
            }
        }
        Ok(())
    }

    fn build(&mut self) -> Result<()> {
        let info = find(&mut self.route, &self.spec.link, &self.namespace)?;
        (self.ifindex, self.tree.mtu) = (info.index, info.mtu);
        self.build_root()?;
        self.upsert(LINK, ROOT, &self.tree.link())?;
        self.upsert(SERVICES, LINK, &self.tree.services())?;
        let (capacity, mtu) = (self.tree.capacity, self.tree.mtu);
        self.set_queue(SERVICES, self.tree.tuning.service_queue_bytes(capacity, mtu))?;
        for rank in 0..self.ceilings.len() {
            self.write_ceiling(rank, Mode::Replace)?;
        }
        self.remove_leftovers()?;
        self.lower_packets(&info)
    }

    fn build_root(&mut self) -> Result<()> {
        let name = &self.spec.link;
        match self.route.root_qdisc(self.ifindex)? {
            Some(root) if is_ours(&root) => {
                if root.htb_default() == Some(SERVICES.minor()) {
                    return Ok(());
                }
                self.route.delete_root(self.ifindex, root.handle())?;
            }
            Some(root) if !root.is_kernel_default() => {
                snapshot::may_replace(&mut self.route, name, &root, self.spec.takeover)?;
                self.route.delete_root(self.ifindex, root.handle())?;
            }
            _ => {}
        }
        let htb = QdiscKind::Htb { default: SERVICES.minor() };
        self.route.set_qdisc(self.ifindex, ROOT, Handle::ROOT, &htb, Mode::Create)
    }

    fn upsert(&mut self, class: Handle, parent: Handle, parameters: &HtbClass) -> Result<()> {
        self.route.set_htb_class(self.ifindex, class, parent, parameters, Mode::Replace)
    }

    fn set_queue(&mut self, class: Handle, bytes: u32) -> Result<()> {
        let queue = QdiscKind::Bfifo { bytes };
        self.route.set_qdisc(self.ifindex, Handle::NONE, class, &queue, Mode::Replace)
    }

    fn write_ceiling(&mut self, rank: usize, mode: Mode) -> Result<()> {
        let (class, ceiling) = (Handle(class_of(rank)), self.ceilings[rank]);
        let parameters = self.tree.batch(ceiling);
        self.route.set_htb_class(self.ifindex, class, LINK, &parameters, mode)?;
        let bytes = self.tree.tuning.batch_queue_bytes(ceiling, self.tree.mtu);
        self.set_queue(class, bytes)
    }

    /// Removes classes of tenants that are no longer configured.
    fn remove_leftovers(&mut self) -> Result<()> {
        for class in self.route.classes(self.ifindex)? {
            let known = (0..self.ceilings.len()).any(|rank| class_of(rank) == class.handle);
            if tree::is_batch(class.handle()) && !known {
                self.route.delete_class(self.ifindex, class.handle())?;
            }
        }
        Ok(())
    }

    /// Makes TCP hand over smaller packets if one would hold the link for too long.
    fn lower_packets(&mut self, info: &LinkInfo) -> Result<()> {
        let (Some(before), Some(now)) = (self.snapshot.segments, info.segment_limits()) else {
            return Ok(());
        };
        let most = self.tree.tuning.packet_bytes(self.tree.capacity, self.tree.mtu);
        let wanted = SegmentLimits {
            gso_bytes: before.gso_bytes.min(most),
            gso_ipv4_bytes: before.gso_ipv4_bytes.map(|bytes| bytes.min(most)),
        };
        if wanted == now {
            return Ok(());
        }
        self.route.set_segment_limits(self.ifindex, wanted)?;
        flush_routes(&self.namespace)
    }

    /// Sets a tenant's ceiling; none lifts it, as does anything above the usable capacity. It holds from the next packet on. What has vanished
    /// of the tree is built anew.
    ///
    /// # Errors
    /// [`EgressError::NoTenant`]; the kernel's refusals; as [`Shaper::open`] if the link changed.
    pub fn set_ceiling(&mut self, tenant: &Tenant, rate: Option<BytesPerSecond>) -> Result<()> {
        let rank = self.rank(tenant)?;
        self.ceilings[rank] = rate.map_or(self.tree.capacity, |rate| self.tree.round(rate.0));
        match self.write_ceiling(rank, Mode::Change) {
            Err(error) if is_gone(&error) => self.build(),
            done => done,
        }
    }

    /// The class id by which a tenant's packets find their ceiling.
    ///
    /// # Errors
    /// [`EgressError::NoTenant`].
    pub fn class(&self, tenant: &Tenant) -> Result<u32> {
        self.rank(tenant).map(class_of)
    }

    /// What a setting becomes on this link: a wanted setting is to be compared rounded.
    #[must_use]
    pub fn round(&self, rate: Option<BytesPerSecond>) -> Setting {
        self.tree.setting(rate.map_or(self.tree.capacity, |rate| self.tree.round(rate.0)))
    }

    /// What ceilings accept.
    #[must_use]
    pub fn range(&self) -> KnobRange {
        let least = tree::LEAST_RATE.min(self.tree.capacity);
        KnobRange::Rate { min: BytesPerSecond(least as f64) }
    }

    /// Puts the link back as it was.
    ///
    /// # Errors
    /// As [`restore`].
    pub fn restore(self) -> Result<Restored> {
        restore(&self.snapshot)
    }

    fn rank(&self, tenant: &Tenant) -> Result<usize> {
        self.spec.tenants.iter().position(|t| t == tenant).ok_or_else(|| EgressError::NoTenant {
            tenant: tenant.to_string(),
            link: self.spec.link.to_string(),
        })
    }
}

/// Makes open IPv4 connections of a namespace look up their routes anew, so that they learn of a
/// changed packet size; costs each one a route lookup with its next packet. IPv6 connections that
/// are open may keep their packet size until their route changes.
///
/// # Errors
/// If the kernel does not allow it.
pub fn flush_routes(namespace: &Netns) -> Result<()> {
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/route/flush");
        let flushed = namespace.run(|| std::fs::write(&path, "-1"))?;
        match flushed {
            // A kernel without IPv6 has no such file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(EgressError::system(format!("flush routes by {path}")))?,
        }
    }
    Ok(())
}

fn find(route: &mut Route, link: &Link, namespace: &Netns) -> Result<LinkInfo> {
    let missing =
        || EgressError::NoLink { link: link.to_string(), namespace: namespace.to_string() };
    route.link(link.as_str())?.ok_or_else(missing)
}

fn is_ours(root: &QdiscInfo) -> bool {
    root.kind == "htb" && root.handle().major() == MAJOR
}

/// Whether the kernel said that class, qdisc or link is not there (any more).
fn is_gone(error: &EgressError) -> bool {
    [libc::ENOENT, libc::EINVAL, libc::ENODEV].into_iter().any(|e| error.errno() == Some(e))
}
