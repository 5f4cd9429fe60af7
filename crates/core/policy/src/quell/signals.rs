//! What the law looks at, over all services.

use super::harm::Harm;
use quell_types::{Input, Observation, Setup, Time};

/// The state of all services in one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Signals {
    pub(super) time: Time,
    /// Least slack over full windows; none without any latency reading.
    pub(super) slack: Option<f64>,
    /// Least slack over fast windows.
    pub(super) fast_slack: Option<f64>,
    /// CPU use of all services, in CPUs.
    pub(super) service_cpus: f64,
    /// The same over the managed CPUs.
    pub(super) rho: f64,
    /// ln of the inflation that batch causes now, by the harm model.
    pub(super) inflation_ln: f64,
    /// Requests per second, all services.
    pub(super) qps: f64,
    /// CPU time per request in seconds, all services together.
    pub(super) cost_s: Option<f64>,
    /// Highest offered load, where a peak rate is known.
    pub(super) load: Option<f64>,
}

impl Signals {
    pub(super) fn of(setup: &Setup, observation: &Observation, harm: &Harm) -> Self {
        let seen = || observation.services.values().filter(|s| s.present.is_ok());
        let least = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min);
        let service_cpus: f64 = seen().filter_map(|s| s.cpu.clone().ok()).map(|c| c.0).sum();
        let qps: f64 = seen().filter_map(|s| s.qps.clone().ok()).sum();
        Self {
            time: observation.time,
            slack: least(&mut seen().filter_map(|s| s.slack.clone().ok())),
            fast_slack: least(&mut seen().filter_map(|s| s.fast_slack.clone().ok())),
            service_cpus,
            rho: service_cpus / setup.managed_cpus.len().max(1) as f64,
            inflation_ln: harm.present_ln(observation),
            qps,
            cost_s: (qps > 0.0 && service_cpus > 0.0).then(|| service_cpus / qps),
            load: seen().filter_map(|s| s.load.clone().ok()).map(|l| l.0).reduce(f64::max),
        }
    }

    /// CPU use of the services if batch did no harm, over the managed CPUs.
    pub(super) fn rho_without_harm(&self) -> f64 {
        self.rho / libm::exp(self.inflation_ln)
    }

    pub(super) fn inputs(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        if let Some(slack) = self.slack {
            inputs.push(Input::new("slack_frac", slack));
        }
        if let Some(slack) = self.fast_slack {
            inputs.push(Input::new("fast_slack_frac", slack));
        }
        inputs.push(Input::new("service_cpus", self.service_cpus));
        inputs.push(Input::new("qps", self.qps));
        inputs.push(Input::new("inflation_ratio", libm::exp(self.inflation_ln)));
        inputs
    }
}
