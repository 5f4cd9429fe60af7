//! `[agent]`.

use super::reader::Reader;
use crate::checked::{AgentConfig, Experiments, Probes};
use crate::error::Faults;
use crate::keys::sections as key;
use crate::law::Laws;
use crate::nearest::suggestion;
use crate::quantity::clip;
use crate::raw::Table;
use crate::spot::Spot;

pub(super) fn check(root: &Table, laws: &Laws, faults: &mut Faults) -> Option<AgentConfig> {
    let nothing = Table::empty(root.spot.clone());
    let (table, spot) = table(root, &nothing, faults)?;
    let mut reader = Reader::new(table, spot, "agent".to_owned(), &key::AGENT, faults);
    let experiments = experiments(&mut reader);
    let probes = probes(&mut reader);
    let law = law(&mut reader, laws);
    let beside = beside(&mut reader, laws);
    settings(&mut reader, experiments.zip(probes), law, beside)
}

/// The table, or an empty one.
fn table<'a>(
    root: &'a Table,
    nothing: &'a Table,
    faults: &mut Faults,
) -> Option<(&'a Table, &'a Spot)> {
    let Some(entry) = root.entry("agent") else { return Some((nothing, &root.spot)) };
    if let Some(table) = entry.node.table() {
        return Some((table, &entry.node.spot));
    }
    let problem = format!("{} where a table belongs", entry.node.kind());
    faults.push(&entry.spot, "agent", problem, "a header [agent]".to_owned());
    None
}

/// The state folder alone. What else is wrong matters only where none is written, since it may be
/// what was meant.
pub(super) fn state_dir(root: &Table, faults: &mut Faults) -> Option<String> {
    let nothing = Table::empty(root.spot.clone());
    let (table, spot) = table(root, &nothing, faults)?;
    let mut wrong = Faults::default();
    let mut reader = Reader::new(table, spot, "agent".to_owned(), &key::AGENT, &mut wrong);
    let is_written = reader.node("state_dir").is_some();
    let folder = reader.get(&key::STATE_DIR);
    faults.absorb(wrong);
    folder.filter(|_| is_written || faults.is_empty())
}

fn settings(
    reader: &mut Reader<'_>,
    bounds: Option<(Experiments, Probes)>,
    law: Option<String>,
    beside: Option<Vec<String>>,
) -> Option<AgentConfig> {
    let interval = reader.get(&key::INTERVAL);
    let fast_interval = reader.get(&key::FAST_INTERVAL);
    if let (Some(interval), Some(fast)) = (interval, fast_interval)
        && fast > interval
    {
        let problem = "the fast path is slower than the usual one".to_owned();
        let name =
            if reader.node("fast_interval_s").is_some() { "fast_interval_s" } else { "interval_s" };
        reader.fault(name, problem, "fast_interval_s at most interval_s".to_owned());
    }
    let state_dir = reader.get(&key::STATE_DIR);
    let metrics = reader.get(&key::METRICS);
    let on_foreign_change = reader.get(&key::ON_FOREIGN_CHANGE);
    let adopt = reader.get(&key::ADOPT);
    let manage = reader.optional(&key::MANAGE);
    let mount_resctrl = reader.get(&key::MOUNT_RESCTRL);
    let cpu_reserve_frac = reader.get(&key::CPU_RESERVE);
    let (experiments, probes) = bounds?;
    Some(AgentConfig {
        interval: interval?,
        fast_interval: fast_interval?,
        state_dir: state_dir?,
        metrics: metrics?,
        on_foreign_change: on_foreign_change?,
        law: law?,
        beside: beside?,
        adopt: adopt?,
        manage: manage?,
        mount_resctrl: mount_resctrl?,
        cpu_reserve_frac: cpu_reserve_frac?,
        experiments,
        probes,
        law_spot: reader.spot_of("law"),
        beside_spot: reader.spot_of("beside"),
        manage_spot: reader.spot_of("manage"),
    })
}

fn law(reader: &mut Reader<'_>, laws: &Laws) -> Option<String> {
    let law = reader.get(&key::LAW)?;
    if laws.0.contains_key(&law) {
        return Some(law);
    }
    let help = suggestion(&law, laws.0.keys().map(String::as_str));
    reader.fault("law", format!("there is no law `{}`", clip(&law)), help);
    None
}

fn beside(reader: &mut Reader<'_>, laws: &Laws) -> Option<Vec<String>> {
    let named = reader.optional(&key::BESIDE)?.unwrap_or_default();
    let stranger = named.iter().find(|law| !laws.0.contains_key(*law)).cloned();
    let Some(stranger) = stranger else { return Some(named) };
    let help = suggestion(&stranger, laws.0.keys().map(String::as_str));
    reader.fault("beside", format!("there is no law `{}`", clip(&stranger)), help);
    None
}

fn experiments(reader: &mut Reader<'_>) -> Option<Experiments> {
    reader.optional(&key::EXPERIMENTS)?;
    let spot = reader.spot_of("experiments");
    let nothing = Table::empty(spot.clone());
    let table = reader.node("experiments").and_then(|node| node.table()).unwrap_or(&nothing);
    let path = reader.path_of("experiments");
    let mut inner = Reader::new(table, &spot, path, &key::AGENT_EXPERIMENTS, reader.faults);
    let enabled = inner.get(&key::ENABLED);
    let max_share_frac = inner.get(&key::MAX_SHARE);
    let max_length = inner.get(&key::MAX_LENGTH);
    Some(Experiments {
        enabled: enabled?,
        max_share_frac: max_share_frac?,
        max_length: max_length?,
    })
}

fn probes(reader: &mut Reader<'_>) -> Option<Probes> {
    reader.optional(&key::PROBES)?;
    let spot = reader.spot_of("probes");
    let nothing = Table::empty(spot.clone());
    let table = reader.node("probes").and_then(|node| node.table()).unwrap_or(&nothing);
    let path = reader.path_of("probes");
    let mut inner = Reader::new(table, &spot, path, &key::AGENT_PROBES, reader.faults);
    let enabled = inner.get(&key::PROBING);
    let max_share_frac = inner.get(&key::PROBE_SHARE);
    Some(Probes { enabled: enabled?, max_share_frac: max_share_frac? })
}
