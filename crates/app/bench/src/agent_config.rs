//! What an agent of a comparison is told: the same text on a machine and in its simulated twin.

use crate::cell::Objective;
use crate::{Contender, Polluter};
use std::path::Path;

/// The service's name in it.
pub(crate) const SERVICE: &str = "service";

/// The content of a configuration file.
#[derive(Clone, Debug)]
pub(crate) struct AgentConfig<'a> {
    pub(crate) state: &'a Path,
    pub(crate) law: Contender,
    /// The service's group.
    pub(crate) service: &'a str,
    pub(crate) port: u16,
    pub(crate) percentile: f64,
    pub(crate) objective: Objective,
    /// Polluters and their groups.
    pub(crate) batch: &'a [(Polluter, String)],
    /// TOML tables `[law.NAME]`.
    pub(crate) parameters: &'a str,
}

impl AgentConfig<'_> {
    /// As TOML.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "[agent]\nstate_dir = \"{}\"\nmetrics = \"off\"\nlaw = \"{}\"\n\n\
             [[service]]\nname = \"{SERVICE}\"\ncgroup = \"{}\"\npercentile = {}\n\
             target = \"{}us\"\npeak_qps = {}\nlatency = \"ebpf\"\nports = [{}]\n",
            self.state.display(),
            self.law,
            self.service,
            toml_float(self.percentile),
            (self.objective.slo_ms * 1e3).round().max(1.0),
            toml_float(self.objective.peak_qps),
            self.port,
        );
        for (polluter, group) in self.batch {
            let name = polluter.name();
            text += &format!(
                "\n[[batch]]\nname = \"{name}\"\ncgroup = \"{group}\"\ntasks = true\nmax_tasks = 1\n"
            );
        }
        text + "\n" + self.parameters
    }
}

/// TOML tells 95 from 95.0.
fn toml_float(value: f64) -> String {
    toml::Value::Float(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_agent::known_laws;
    use quell_config::Raw;
    use std::time::Duration;

    #[test]
    fn what_is_written_is_read_as_it_was_meant() {
        let text = AgentConfig {
            state: Path::new("/run/x/state"),
            law: Contender::Quell,
            service: "/x/service",
            port: 4000,
            percentile: 95.0,
            objective: Objective { slo_ms: 5.43, peak_qps: 2741.0 },
            batch: &[(Polluter::Llc, "/x/llc".into()), (Polluter::Cpu, "/x/cpu".into())],
            parameters: "[law.quell]\nexperiments = false\n",
        }
        .text();
        let config = Raw::from_toml("guard.toml", &text).check(&known_laws()).unwrap();
        assert_eq!((config.agent.law.as_str(), config.services.len()), ("quell", 1));
        assert_eq!(config.batch.len(), 2);
        assert_eq!(config.agent.interval, Duration::from_secs(1));
        assert_eq!(config.law_parameters("quell")["experiments"].as_bool(), Some(false));
    }
}
