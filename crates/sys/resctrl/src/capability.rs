//! Lines of `quell doctor`.

use crate::Resctrl;
use crate::info::{AssignMode, MonitoringInfo};
use crate::mba::MbaUnit;
use crate::mount::CpuSupport;
use crate::schemata::Resource;
use quell_types::{Capability, CapabilityKind, CapabilityReport, Gap, Reading};
use std::path::Path;

/// What resctrl offers on the machine below `root`: CAT, CDP, MBA and monitoring, one report
/// each. Never fails.
#[must_use]
pub fn capabilities(root: &Path) -> Vec<CapabilityReport> {
    let tree = Resctrl::open(root);
    let cpu = CpuSupport::read(root);
    let of = |judge: &dyn Fn(&Resctrl) -> Reading<String>| match &tree {
        Ok(tree) => judge(tree),
        Err(gap) => Err(gap.clone()),
    };
    vec![
        report(
            CapabilityKind::ResctrlCat,
            of(&cat),
            "no cache is set apart for services; batch is held back by CPU time alone",
        ),
        report(
            CapabilityKind::ResctrlCdp,
            of(&|tree| cdp(tree, &cpu)),
            "code and data share the ways of a group",
        ),
        report(
            CapabilityKind::ResctrlMba,
            of(&mba),
            "memory bandwidth is limited by taking CPU time or CPUs from batch",
        ),
        report(
            CapabilityKind::ResctrlMonitoring,
            of(&monitoring),
            "memory traffic is estimated from cache misses, or left out; laws go by CPU time per request",
        ),
    ]
}

fn report(kind: CapabilityKind, found: Reading<String>, without: &str) -> CapabilityReport {
    match found {
        Ok(detail) => CapabilityReport {
            kind,
            capability: Capability::Native(detail),
            without: String::new(),
        },
        Err(gap) => CapabilityReport {
            kind,
            capability: Capability::Absent(reason(gap)),
            without: without.to_owned(),
        },
    }
}

fn reason(gap: Gap) -> String {
    match gap {
        Gap::Absent(why) => why,
        other => other.to_string(),
    }
}

fn cat(tree: &Resctrl) -> Reading<String> {
    let cache = tree.info().llc()?;
    let resource = tree.info().llc_resources()[0];
    let domains = tree.domains(resource)?.len();
    let rules = cache.rules;
    Ok(format!(
        "L3 in {domains} domain(s): {} ways, {} classes of service, at least {} way(s) each, {}{}",
        rules.max_ways(),
        tree.info().classes()?,
        rules.min_bits,
        if rules.sparse { "holes allowed" } else { "adjacent only" },
        if rules.shareable == 0 {
            String::new()
        } else {
            format!(", ways {:#x} shared with I/O", rules.shareable)
        },
    ))
}

fn cdp(tree: &Resctrl, cpu: &CpuSupport) -> Reading<String> {
    if tree.info().caches.contains_key(&Resource::L3Code) {
        tree.info().llc()?;
        return Ok("code and data have masks of their own; Quell sets both alike".to_owned());
    }
    Err(Gap::absent(if cpu.has("cdp_l3") {
        "the CPU has it, but resctrl is mounted without -o cdp"
    } else {
        "the CPU has no code and data prioritisation of L3"
    }))
}

fn mba(tree: &Resctrl) -> Reading<String> {
    let info = tree.info().bandwidth.as_ref().map_err(Gap::clone)?;
    let rules = info.rules;
    let (min, step) = rules.percent_range()?;
    Ok(match rules.unit {
        MbaUnit::EighthGigabytes => format!(
            "up to 256 GB/s in steps of 1/8 GB/s a domain (percentages are shares of that), {} classes",
            info.classes
        ),
        _ => format!(
            "{min}..100 % in steps of {step} %, {}, {} classes",
            if rules.linear { "linear" } else { "not linear" },
            info.classes
        ),
    })
}

fn monitoring(tree: &Resctrl) -> Reading<String> {
    let monitoring: &MonitoringInfo = tree.info().monitoring.as_ref().map_err(Gap::clone)?;
    let mode = match &monitoring.assign_mode {
        Ok(AssignMode::Event) => ", counters must be assigned (mbm_event)",
        _ => "",
    };
    let (events, groups) = (monitoring.features.join(", "), monitoring.rmids);
    Ok(format!("{events}, {groups} groups{mode}{}", moved(tree, monitoring)))
}

/// What the default group moved since the mount, as a sign that the counters count.
fn moved(tree: &Resctrl, monitoring: &MonitoringInfo) -> String {
    if !monitoring.has("mbm_total_bytes") {
        return String::new();
    }
    let sum = tree.default_group().counters().and_then(|domains| {
        domains.into_values().try_fold(0u64, |sum, d| Ok(sum.saturating_add(d.total_bytes?)))
    });
    match sum {
        Ok(bytes) => format!(", {} MiB moved so far", bytes >> 20),
        Err(gap) => format!(", but the default group's traffic is {gap}"),
    }
}
