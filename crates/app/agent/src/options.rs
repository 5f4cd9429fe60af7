//! Configuration -> options of the Linux platform, and parameters of the engine.

use crate::laws;
use quell_config::{Checked, ForeignChange, LatencySource, Selector};
use quell_control::EngineParams;
use quell_linux::{BatchBinding, Latency, LinkBinding, LinuxOptions, ServiceBinding};
use quell_types::{BatchSpec, LinkSpec, ServiceSpec};
use std::path::PathBuf;

/// What the platform is told.
#[must_use]
pub fn linux_options(config: &Checked) -> LinuxOptions {
    let needs = laws::needs(config);
    LinuxOptions {
        services: services(config),
        batch: batch(config),
        // The baseline touches nothing: not even a shaper without ceilings, whose classes alone
        // would put services first.
        links: if config.agent.law == "none" { Vec::new() } else { links(config) },
        managed_cpus: config.agent.manage.clone(),
        mount_resctrl: config.agent.mount_resctrl,
        probe_program: if config.agent.probes.enabled { presser() } else { Vec::new() },
        reporter_program: if needs.reporters { reporter() } else { Vec::new() },
        count_bus_locks: needs.bus_locks,
        read_temperatures: needs.temperatures,
        ..LinuxOptions::new(&config.agent.state_dir)
    }
}

/// This very program, as what presses beside a service.
fn presser() -> Vec<String> {
    let program = format!("/proc/{}/exe", std::process::id());
    vec![program, "pressure".to_owned()]
}

/// This very program, as what reports from idle CPUs.
pub(crate) fn reporter() -> Vec<String> {
    [presser(), vec!["report".to_owned()]].concat()
}

/// What the engine is told.
pub(crate) fn engine_params(config: &Checked) -> EngineParams {
    let on_foreign_change = match config.agent.on_foreign_change {
        ForeignChange::Reassert => quell_control::ForeignChange::Reassert,
        ForeignChange::GiveUp => quell_control::ForeignChange::GiveUp,
    };
    EngineParams { on_foreign_change, ..EngineParams::default() }
}

fn services(config: &Checked) -> Vec<ServiceBinding> {
    let one = |service: &quell_config::ServiceConfig| ServiceBinding {
        spec: ServiceSpec {
            name: service.name.clone(),
            slo: service.slo,
            peak_qps: service.peak_qps,
            links: service.links.clone(),
        },
        selector: selector(&service.selector),
        latency: latency(&service.latency),
        adopt: service.adopt,
    };
    config.services.iter().map(one).collect()
}

fn batch(config: &Checked) -> Vec<BatchBinding> {
    let one = |batch: &quell_config::BatchConfig| BatchBinding {
        spec: BatchSpec {
            name: batch.name.clone(),
            links: batch.links.clone(),
            takes_tasks: batch.takes_tasks,
            max_tasks: batch.max_tasks,
        },
        selector: selector(&batch.selector),
        adopt: batch.adopt,
    };
    config.batch.iter().map(one).collect()
}

fn links(config: &Checked) -> Vec<LinkBinding> {
    let one = |link: &quell_config::LinkConfig| LinkBinding {
        spec: LinkSpec { name: link.name.clone(), capacity: link.capacity },
        netns: link.netns.clone(),
    };
    config.links.iter().map(one).collect()
}

fn latency(source: &LatencySource) -> Latency {
    match source {
        LatencySource::Ebpf { ports } => Latency::Ebpf { ports: ports.clone() },
        LatencySource::Prometheus { url, metric, labels } => {
            Latency::Prometheus { url: url.clone(), metric: metric.clone(), labels: labels.clone() }
        }
        LatencySource::Socket(path) => Latency::Pushed { path: PathBuf::from(path) },
    }
}

pub(crate) fn selector(selector: &Selector) -> quell_linux::Selector {
    match selector {
        Selector::Cgroup(path) => quell_linux::Selector::Cgroup(path.clone()),
        Selector::Unit(unit) => quell_linux::Selector::Unit(unit.clone()),
        Selector::Pid(pid) => quell_linux::Selector::Pid(*pid),
        Selector::Vm(name) => quell_linux::Selector::Vm(name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_laws;
    use quell_config::Raw;

    #[test]
    fn the_complete_example_reaches_the_platform_whole() {
        let text = quell_config::example();
        let config = Raw::from_toml("example.toml", text).check(&known_laws()).unwrap();
        let options = linux_options(&config);
        let [search, shop] = &options.services[..] else { panic!("{:?}", options.services) };
        assert_eq!(search.selector, quell_linux::Selector::Unit("search.service".into()));
        assert_eq!(search.latency, Latency::Ebpf { ports: vec![8080] });
        assert_eq!(search.spec.peak_qps, Some(12_000.0));
        assert!(matches!(&shop.latency, Latency::Prometheus { labels, .. } if labels.len() == 1));
        let jobs = &options.batch[0].spec;
        assert_eq!((jobs.takes_tasks, jobs.max_tasks, jobs.links.len()), (true, 2, 1));
        assert_eq!(options.links[0].spec.capacity.bits(), 1e9);
        assert_eq!(options.state_dir, PathBuf::from("/var/lib/quell"));
    }

    #[test]
    fn a_reporter_is_there_for_the_law_that_wants_one() {
        let of = |agent: &str| {
            let text = format!("{agent}\n[[service]]\ncgroup = \"/a\"\np99 = \"3ms\"\n");
            let config = Raw::from_toml("quell.toml", &text).check(&known_laws()).unwrap();
            linux_options(&config).reporter_program.len()
        };
        assert_eq!(of("[agent]\nlaw = \"quell\""), 0);
        assert_eq!(of("[agent]\nlaw = \"culprit\""), 3);
        assert_eq!(of("[agent]\nlaw = \"culprit\"\n[law.culprit]\nreporters = false"), 0);
    }

    #[test]
    fn what_costs_much_to_read_is_read_where_a_law_looks_at_it() {
        let of = |agent: &str| {
            let text = format!("[agent]\n{agent}\n[[service]]\ncgroup = \"/a\"\np99 = \"3ms\"\n");
            let config = Raw::from_toml("quell.toml", &text).check(&known_laws()).unwrap();
            let options = linux_options(&config);
            (options.count_bus_locks, options.read_temperatures)
        };
        assert_eq!(of("law = \"quell\""), (false, false));
        assert_eq!(of("law = \"bus-lock\""), (true, false));
        assert_eq!(of("law = \"alita\""), (true, true));
        assert_eq!(of("law = \"none\"\nbeside = [\"power\"]"), (false, true));
    }
}
