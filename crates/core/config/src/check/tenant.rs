//! `[[service]]` and `[[batch]]`.

use super::known_links;
use super::reader::Reader;
use crate::checked::{BatchConfig, LatencySource, Selector, ServiceConfig};
use crate::keys::places::{LatencyShape, is_name};
use crate::keys::{RIVALS, sections as key};
use crate::quantity::clip;
use quell_types::{Link, Slo, Tenant};

pub(super) fn service(
    reader: &mut Reader<'_>,
    adopt: bool,
    links: &[Link],
) -> Option<ServiceConfig> {
    let selector = selector(reader);
    let name = name(reader);
    let slo = slo(reader);
    let peak_qps = reader.optional(&key::PEAK_QPS);
    let profile = reader.optional(&key::PROFILE);
    let latency = latency(reader);
    let given = reader.optional(&key::LINKS).map(Option::unwrap_or_default);
    let links = given.map(|given| known_links(reader, given, links));
    let own = reader.optional(&key::ADOPT_ONE);
    Some(ServiceConfig {
        name: name?,
        selector: selector?,
        slo: slo?,
        peak_qps: peak_qps?,
        profile: profile?,
        latency: latency?,
        links: links?,
        adopt: own?.unwrap_or(adopt),
        spot: selector_spot(reader),
        path: reader.path().to_owned(),
    })
}

pub(super) fn batch(reader: &mut Reader<'_>, adopt: bool, links: &[Link]) -> Option<BatchConfig> {
    let selector = selector(reader);
    let name = name(reader);
    let takes_tasks = reader.get(&key::TASKS);
    let max_tasks = reader.get(&key::MAX_TASKS).and_then(|n| u32::try_from(n).ok());
    if takes_tasks == Some(false) && reader.node("max_tasks").is_some() {
        let problem = "max_tasks where no tasks are started".to_owned();
        reader.fault("max_tasks", problem, "tasks = true, or no max_tasks".to_owned());
    }
    let given = reader.optional(&key::LINKS).map(Option::unwrap_or_default);
    let links = given.map(|given| known_links(reader, given, links));
    let own = reader.optional(&key::ADOPT_ONE);
    let takes_tasks = takes_tasks?;
    Some(BatchConfig {
        name: name?,
        selector: selector?,
        takes_tasks,
        max_tasks: if takes_tasks { max_tasks? } else { 0 },
        links: links?,
        adopt: own?.unwrap_or(adopt),
        spot: selector_spot(reader),
        path: reader.path().to_owned(),
    })
}

fn selector(reader: &mut Reader<'_>) -> Option<Selector> {
    // All that are given are read, so that a second one with an error of its own is told too.
    let cgroup = reader.optional(&key::CGROUP).flatten();
    let unit = reader.optional(&key::UNIT).flatten();
    let pid = reader.optional(&key::PID).flatten().and_then(|pid| u32::try_from(pid).ok());
    let vm = reader.optional(&key::VM).flatten();
    match reader.one_of(RIVALS[0], "selector")? {
        "cgroup" => cgroup.map(Selector::Cgroup),
        "unit" => unit.map(Selector::Unit),
        "vm" => vm.map(Selector::Vm),
        _ => pid.map(Selector::Pid),
    }
}

/// Where the selector stands, for what the machine says about it later.
fn selector_spot(reader: &Reader<'_>) -> crate::spot::Spot {
    let keys = ["cgroup", "unit", "pid", "vm"];
    let given = keys.into_iter().find(|key| reader.node(key).is_some());
    reader.spot_of(given.unwrap_or_default())
}

fn name(reader: &mut Reader<'_>) -> Option<Tenant> {
    if reader.node("name").is_some() {
        return reader.get(&key::NAME).map(|name| Tenant::from(name.as_str()));
    }
    let implied = reader.implied_name()?;
    if is_name(&implied) {
        return Some(Tenant::from(implied.as_str()));
    }
    let problem = format!("`{}`, which follows from the selector, is no name", clip(&implied));
    reader.missing("name", problem, "a `name` of letters, digits and _ . @ -".to_owned());
    None
}

fn slo(reader: &mut Reader<'_>) -> Option<Slo> {
    let targets = [
        (50.0, reader.optional(&key::P50)),
        (95.0, reader.optional(&key::P95)),
        (99.0, reader.optional(&key::P99)),
        (99.9, reader.optional(&key::P999)),
    ];
    let percentile = reader.optional(&key::PERCENTILE).flatten();
    let target = reader.optional(&key::TARGET_TIME).flatten();
    let named = targets.into_iter().find_map(|(p, t)| t.flatten().map(|t| (p, t)));
    reader.one_of(RIVALS[1], "objective")?;
    let (percent, target) = named.or_else(|| percentile.zip(target))?;
    // 99.9 / 100 is not 0.999: rounded to a millionth, which no percentile here needs.
    let percentile_frac = (percent * 1e4).round() / 1e6;
    Some(Slo { percentile_frac, target_s: target.as_secs_f64() })
}

fn latency(reader: &mut Reader<'_>) -> Option<LatencySource> {
    let shape = reader.get(&key::LATENCY);
    let ports = reader.optional(&key::PORTS);
    match shape? {
        LatencyShape::Ebpf => {
            let ports = ports?.unwrap_or_default();
            Some(LatencySource::Ebpf { ports: ports.into_iter().map(|p| p as u16).collect() })
        }
        LatencyShape::Table => {
            if reader.node("ports").is_some() {
                let problem = "ports where latency does not come from Quell's own meter".to_owned();
                reader.fault("ports", problem, "latency = \"ebpf\", or no ports".to_owned());
            }
            latency_table(&mut reader.inner("latency", &key::SERVICE_LATENCY)?)
        }
    }
}

fn latency_table(reader: &mut Reader<'_>) -> Option<LatencySource> {
    let url = reader.optional(&key::PROMETHEUS).flatten();
    let metric = reader.optional(&key::METRIC).flatten();
    let labels = reader.optional(&key::LABELS);
    let socket = reader.optional(&key::SOCKET).flatten();
    if reader.one_of(&[&["prometheus", "metric"], &["socket"]], "source of latency")? == "socket" {
        if reader.node("labels").is_some() {
            let problem = "labels where samples come by a socket".to_owned();
            reader.fault("labels", problem, "prometheus and metric, or no labels".to_owned());
        }
        return socket.map(LatencySource::Socket);
    }
    Some(LatencySource::Prometheus {
        url: url?,
        metric: metric?,
        labels: labels?.unwrap_or_default(),
    })
}
