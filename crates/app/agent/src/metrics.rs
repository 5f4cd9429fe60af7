//! The agent's figures in Prometheus' text format. What is missing is left out, never 0.

use crate::status::{GuardState, Status};
use crate::who::WhoReport;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quell_model::blame::Standing;
use quell_types::Tenant;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

type Float = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfService {
    service: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfQuantile {
    service: String,
    quantile: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfResource {
    service: String,
    resource: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfBatch {
    batch: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfCulprit {
    service: String,
    batch: String,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfRule {
    rule: String,
}

/// All metrics; the registry holds them too.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    latency: Family<OfQuantile, Float>,
    objective: Family<OfService, Float>,
    slack: Family<OfService, Float>,
    qps: Family<OfService, Float>,
    load: Family<OfService, Float>,
    inflation: Family<OfService, Float>,
    culprits: Family<OfCulprit, Float>,
    tolerated: Family<OfResource, Float>,
    service_cpu: Family<OfService, Float>,
    batch_cpu: Family<OfBatch, Float>,
    budget: Family<OfBatch, Float>,
    frozen: Family<OfBatch, Float>,
    tasks: Family<OfBatch, Float>,
    actions: Family<OfRule, Counter>,
    cpu: Float,
    rss: Gauge,
    fail_safe: Gauge,
    who: Mutex<Option<WhoReport>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("quell"),
            latency: Family::default(),
            objective: Family::default(),
            slack: Family::default(),
            qps: Family::default(),
            load: Family::default(),
            inflation: Family::default(),
            culprits: Family::default(),
            tolerated: Family::default(),
            service_cpu: Family::default(),
            batch_cpu: Family::default(),
            budget: Family::default(),
            frozen: Family::default(),
            tasks: Family::default(),
            actions: Family::default(),
            cpu: Float::default(),
            rss: Gauge::default(),
            fail_safe: Gauge::default(),
            who: Mutex::default(),
        };
        metrics.register_services();
        metrics.register_batch();
        metrics
    }

    fn register_services(&mut self) {
        let r = &mut self.registry;
        r.register("service_latency_seconds", "Latency of the last window", self.latency.clone());
        r.register("service_objective_seconds", "The objective", self.objective.clone());
        let slack = "(objective - latency) / objective";
        r.register("service_slack_ratio", slack, self.slack.clone());
        r.register("service_requests_per_second", "Request rate", self.qps.clone());
        r.register("service_load_ratio", "Rate over peak rate", self.load.clone());
        let inflation = "CPU time per request beside batch over the same with batch held";
        r.register("service_inflation_ratio", inflation, self.inflation.clone());
        let culprit = "By what factor a batch group slows a service, as it is named or suspected";
        r.register("service_culprit_slowdown_ratio", culprit, self.culprits.clone());
        let tolerated = "Highest intensity of pressure that it tolerates, 0 to 1, by probes";
        r.register("service_tolerated_ratio", tolerated, self.tolerated.clone());
        r.register("service_cpu_cpus", "CPUs in use", self.service_cpu.clone());
    }

    fn register_batch(&mut self) {
        let r = &mut self.registry;
        r.register("batch_cpu_cpus", "CPUs in use", self.batch_cpu.clone());
        let budget = "CPUs it may use at most; left out without a limit";
        r.register("batch_budget_cpus", budget, self.budget.clone());
        r.register("batch_frozen", "1 while it is held", self.frozen.clone());
        r.register("batch_running_tasks", "Tasks of the queue that run", self.tasks.clone());
        r.register("actions", "Actions by the rule that wanted them", self.actions.clone());
        r.register("agent_cpu_ratio", "The agent's CPU use, of one CPU", self.cpu.clone());
        r.register("agent_resident_bytes", "The agent's memory", self.rss.clone());
        let fail_safe = "1 while nothing can be written down, so that batch is held";
        r.register("agent_fail_safe", fail_safe, self.fail_safe.clone());
    }

    /// Takes over what a status shows.
    pub(crate) fn update(&self, status: &Status) {
        self.update_services(status);
        self.update_batch(status);
        self.update_who(status);
        for (rule, total) in &status.actions_total {
            let counter = self.actions.get_or_create_owned(&OfRule { rule: rule.clone() });
            counter.inc_by(total.saturating_sub(counter.get()));
        }
        let cost = &status.agent;
        if let (Some(user), Some(system)) = (cost.user_cpu_frac, cost.system_cpu_frac) {
            self.cpu.set(user + system);
        }
        if let Some(rss) = cost.rss_bytes {
            self.rss.set(i64::try_from(rss).unwrap_or(i64::MAX));
        }
        self.fail_safe.set(i64::from(status.state == GuardState::FailSafe));
    }

    fn update_services(&self, status: &Status) {
        for (name, seen) in &status.services {
            let of = OfService { service: name.to_string() };
            for (quantile, shown) in [
                ("0.5", &seen.p50_ms),
                ("0.95", &seen.p95_ms),
                ("0.99", &seen.p99_ms),
                ("0.999", &seen.p999_ms),
            ] {
                let of = OfQuantile { service: name.to_string(), quantile };
                set(&self.latency, &of, shown.number().map(|ms| ms / 1e3));
            }
            set(&self.objective, &of, Some(seen.slo_ms / 1e3));
            set(&self.slack, &of, seen.slack_frac.number());
            set(&self.qps, &of, seen.qps.number());
            set(&self.load, &of, seen.load_frac.number());
            set(&self.inflation, &of, seen.inflation_ratio.number());
            set(&self.service_cpu, &of, seen.cpu_cpus.number());
            for (resource, found) in &seen.tolerates {
                let of = OfResource { service: name.to_string(), resource: resource.name() };
                set(&self.tolerated, &of, Some(found.kept_percent / 100.0));
            }
        }
    }

    fn update_batch(&self, status: &Status) {
        let of = |name: &Tenant| OfBatch { batch: name.to_string() };
        for (name, seen) in &status.batch {
            let budget = seen.budget_cpus.as_ref().and_then(|shown| shown.number());
            set(&self.batch_cpu, &of(name), seen.cpu_cpus.number());
            set(&self.budget, &of(name), budget);
            set(&self.frozen, &of(name), seen.frozen.map(|f| f64::from(u8::from(f))));
            set(&self.tasks, &of(name), Some(f64::from(seen.running_tasks)));
        }
    }

    fn update_who(&self, status: &Status) {
        self.culprits.clear();
        for victim in &status.who {
            for culprit in &victim.culprits {
                let status = match culprit.status {
                    Standing::Named => "named",
                    Standing::Suspected => "suspected",
                };
                let (service, batch) = (victim.workload.to_string(), culprit.workload.to_string());
                let of = OfCulprit { service, batch, status };
                set(&self.culprits, &of, Some(culprit.slowdown));
            }
        }
        let report = WhoReport::of(status.seconds, status.who.clone(), status.pressing.clone());
        *self.who.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// Who slows whom, as the agent knows it now; none before its first full sample.
    pub(crate) fn who(&self) -> Option<WhoReport> {
        self.who.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets all tenants (after a reload they may be others).
    pub(crate) fn clear(&self) {
        self.latency.clear();
        self.culprits.clear();
        *self.who.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.tolerated.clear();
        for family in [
            &self.objective,
            &self.slack,
            &self.qps,
            &self.load,
            &self.inflation,
            &self.service_cpu,
        ] {
            family.clear();
        }
        for family in [&self.batch_cpu, &self.budget, &self.frozen, &self.tasks] {
            family.clear();
        }
    }

    /// The text that a scrape gets.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Sets a figure, or takes it away where there is none.
fn set<L>(family: &Family<L, Float>, of: &L, value: Option<f64>)
where
    L: Clone + std::hash::Hash + Eq,
{
    match value {
        Some(value) => drop(family.get_or_create(of).set(value)),
        None => drop(family.remove(of)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::status;
    use crate::status::Shown;
    use quell_types::Gap;

    #[test]
    fn what_is_missing_is_left_out_and_never_zero() {
        let metrics = Metrics::new();
        let mut status = status();
        let web: Tenant = "web".into();
        status.services.get_mut(&web).unwrap().qps = Shown::Number(120.0);
        status.actions_total.insert("harm".into(), 3);
        metrics.update(&status);
        let text = metrics.text();
        assert!(text.contains("quell_service_requests_per_second{service=\"web\"} 120"), "{text}");
        assert!(text.contains("quell_actions_total{rule=\"harm\"} 3"), "{text}");
        assert!(text.contains("quell_batch_frozen{batch=\"jobs\"} 0"), "{text}");
        assert_eq!(metrics.who().map(|report| report.victims.len()), Some(1));
        assert!(!text.contains("quell_batch_budget_cpus{"), "no limit: {text}");
        status.services.get_mut(&web).unwrap().qps = Shown::Gap(Gap::not_yet("x"));
        metrics.update(&status);
        assert!(!metrics.text().contains("requests_per_second{"), "{}", metrics.text());
        metrics.clear();
        assert!(!metrics.text().contains("web"));
    }
}
