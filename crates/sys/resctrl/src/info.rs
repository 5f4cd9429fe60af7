//! The `info/` folder: what the hardware and kernel offer.

use crate::file::{info_flag, info_hex, info_number, info_text};
use crate::mask::MaskRules;
use crate::mba::{MbaRules, MbaUnit};
use crate::mount::{CpuSupport, Mount};
use crate::schemata::Resource;
use quell_types::{Gap, Reading};
use std::collections::BTreeMap;
use std::path::Path;

/// A cache whose ways can be allotted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheInfo {
    /// What masks it takes.
    pub rules: MaskRules,
    /// Classes of service.
    pub classes: u32,
    /// The kernel's `bit_usage`, word for word (who uses which way now).
    pub bit_usage: Reading<String>,
    /// Whether I/O traffic has a class of its own (`io_alloc`); it is the highest one.
    pub io_alloc: Reading<bool>,
}

/// Memory bandwidth throttling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthInfo {
    /// What values it takes.
    pub rules: MbaRules,
    /// Classes of service.
    pub classes: u32,
    /// `max` or `per-thread`: what hyper-threads of different classes get (Intel only).
    pub thread_throttle_mode: Reading<String>,
}

/// How bandwidth counters are given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignMode {
    /// Each group has a counter.
    Default,
    /// Counters are few and must be assigned to groups.
    Event,
    /// A mode of a newer kernel.
    Other(String),
}

/// Monitoring of the last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoringInfo {
    /// Monitored groups in all (RMIDs).
    pub rmids: u32,
    /// Events: `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub features: Vec<String>,
    /// Up to this many bytes may still be another's when an RMID is given out again.
    pub max_threshold_occupancy_bytes: Reading<u64>,
    /// How counters are given out; absent on kernels that have one mode only (`Default`).
    pub assign_mode: Reading<AssignMode>,
}

impl MonitoringInfo {
    /// Whether an event is offered.
    #[must_use]
    pub fn has(&self, event: &str) -> bool {
        self.features.iter().any(|feature| feature == event)
    }
}

/// All of `info/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Caches by resource; only those that have a folder.
    pub caches: BTreeMap<Resource, Reading<CacheInfo>>,
    /// Memory bandwidth.
    pub bandwidth: Reading<BandwidthInfo>,
    /// Monitoring.
    pub monitoring: Reading<MonitoringInfo>,
}

impl Info {
    /// Reads `info/` of a mounted tree. Never fails: what is missing or damaged is a gap.
    #[must_use]
    pub fn read(mount: &Mount, cpu: &CpuSupport) -> Self {
        let info = mount.path.join("info");
        let caches = Resource::ALL.into_iter().filter(|r| r.is_mask());
        let caches = caches.filter_map(|resource| {
            let dir = info.join(resource.name());
            dir.is_dir().then(|| (resource, read_cache(&dir, cpu)))
        });
        Self {
            caches: caches.collect(),
            bandwidth: read_bandwidth(&info.join("MB"), mount, cpu),
            monitoring: read_monitoring(&info.join("L3_MON")),
        }
    }

    /// The resources whose masks make up the last-level cache: L3, or both halves with CDP.
    #[must_use]
    pub fn llc_resources(&self) -> Vec<Resource> {
        let parts = [Resource::L3, Resource::L3Code, Resource::L3Data];
        parts.into_iter().filter(|part| self.caches.contains_key(part)).collect()
    }

    /// Last-level cache allocation (with CDP that of the data half; both have equal shape).
    ///
    /// # Errors
    /// Absent if the CPU has no L3 CAT; failed if `info/` is damaged.
    pub fn llc(&self) -> Reading<&CacheInfo> {
        match self.llc_resources().last() {
            Some(resource) => self.caches[resource].as_ref().map_err(Gap::clone),
            None => Err(Gap::absent("resctrl offers no L3 cache allocation (CAT) here")),
        }
    }

    /// Classes of service that can exist at once, the default one included: the fewest that any
    /// resource offers, as all share one id space.
    ///
    /// # Errors
    /// Absent if nothing can be allotted; the resource's gap if its folder is damaged.
    pub fn classes(&self) -> Reading<u32> {
        let mut fewest: Option<u32> = None;
        let caches = self.caches.values().map(|cache| cache.as_ref().map(|c| c.classes));
        let bandwidth = match &self.bandwidth {
            Err(Gap::Absent(_)) => None,
            other => Some(other.as_ref().map(|b| b.classes)),
        };
        for classes in caches.chain(bandwidth) {
            let classes = classes.map_err(Gap::clone)?;
            fewest = Some(fewest.map_or(classes, |least| least.min(classes)));
        }
        fewest.ok_or_else(|| Gap::absent("resctrl only monitors here: there are no classes"))
    }
}

fn read_cache(dir: &Path, cpu: &CpuSupport) -> Reading<CacheInfo> {
    let full = info_hex(&dir.join("cbm_mask"))?;
    if full == 0 {
        return Err(Gap::failed(format!("{}: no ways", dir.join("cbm_mask").display())));
    }
    let rules = MaskRules {
        full,
        min_bits: small(&dir.join("min_cbm_bits"))?,
        // Kernels before 6.7 do not tell: then AMD takes holes and Intel does not.
        sparse: optional(info_flag(&dir.join("sparse_masks")))?.unwrap_or(cpu.is_amd()),
        // Unknown before 4.14: then no way is known to be shared.
        shareable: optional(info_hex(&dir.join("shareable_bits")))?.unwrap_or(0),
    };
    Ok(CacheInfo {
        rules,
        classes: small(&dir.join("num_closids"))?,
        bit_usage: info_text(&dir.join("bit_usage")),
        io_alloc: info_text(&dir.join("io_alloc")).map(|text| text == "enabled"),
    })
}

fn read_bandwidth(dir: &Path, mount: &Mount, cpu: &CpuSupport) -> Reading<BandwidthInfo> {
    if !dir.is_dir() {
        return Err(Gap::absent("resctrl offers no memory bandwidth allocation (MBA) here"));
    }
    let unit = match (mount.mba_mbps, cpu.is_amd()) {
        (true, _) => MbaUnit::MegabytesPerSecond,
        (false, true) => MbaUnit::EighthGigabytes,
        (false, false) => MbaUnit::Percent,
    };
    let rules = MbaRules {
        unit,
        min: info_number(&dir.join("min_bandwidth"))?,
        step: info_number(&dir.join("bandwidth_gran"))?.max(1),
        linear: info_flag(&dir.join("delay_linear"))?,
    };
    Ok(BandwidthInfo {
        rules,
        classes: small(&dir.join("num_closids"))?,
        thread_throttle_mode: info_text(&dir.join("thread_throttle_mode")),
    })
}

fn read_monitoring(dir: &Path) -> Reading<MonitoringInfo> {
    if !dir.is_dir() {
        return Err(Gap::absent("resctrl offers no L3 monitoring here"));
    }
    let features = info_text(&dir.join("mon_features"))?;
    Ok(MonitoringInfo {
        rmids: small(&dir.join("num_rmids"))?,
        features: features.split_ascii_whitespace().map(str::to_owned).collect(),
        max_threshold_occupancy_bytes: info_number(&dir.join("max_threshold_occupancy")),
        assign_mode: info_text(&dir.join("mbm_assign_mode")).and_then(|t| parse_assign_mode(&t)),
    })
}

/// Reads `[mbm_event]\ndefault`: the mode in brackets is in force.
///
/// # Errors
/// If none is in brackets.
pub fn parse_assign_mode(text: &str) -> Reading<AssignMode> {
    let in_force = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    match text.split_ascii_whitespace().find_map(in_force).as_deref() {
        Some("default") => Ok(AssignMode::Default),
        Some("mbm_event") => Ok(AssignMode::Event),
        Some(other) => Ok(AssignMode::Other(other.to_owned())),
        None => Err(Gap::failed("mbm_assign_mode marks no mode as being in force")),
    }
}

fn small(path: &Path) -> Reading<u32> {
    let number = info_number(path)?;
    u32::try_from(number)
        .map_err(|_| Gap::failed(format!("{}: {number} is absurd", path.display())))
}

/// A file that older kernels lack: none if it is absent, its gap if it is damaged.
fn optional<T>(reading: Reading<T>) -> Reading<Option<T>> {
    match reading {
        Ok(value) => Ok(Some(value)),
        Err(Gap::Absent(_)) => Ok(None),
        Err(gap) => Err(gap),
    }
}
