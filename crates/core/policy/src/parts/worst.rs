//! The service that is worst off: batch follows it.

use quell_types::{Gap, Input, Observation, ServiceObservation};

/// A service below this load has no requests worth a tail.
const IDLE_LOAD_FRAC: f64 = 0.001;

/// Slack and load over all services that are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worst {
    /// The smallest slack that is known; none if no service tells.
    pub(crate) slack: Option<f64>,
    /// The largest load that is known; none if no service tells.
    pub(crate) load: Option<f64>,
    /// Whether every service that is there tells its slack.
    pub(crate) all_known: bool,
}

impl Worst {
    /// Looks over an observation. A service that is gone, or has no requests, suffers nothing:
    /// slack 1.
    pub(crate) fn of(observation: &Observation) -> Self {
        let there = || observation.services.values().filter(|s| s.present.is_ok());
        let least = |a: f64, b: f64| if b < a { b } else { a };
        let slacks: Vec<f64> = there().filter_map(slack_of).collect();
        let loads: Vec<f64> = there().filter_map(|s| s.load.as_ref().ok().map(|l| l.0)).collect();
        let nobody = there().next().is_none();
        Worst {
            slack: slacks.iter().copied().reduce(least).or(nobody.then_some(1.0)),
            load: loads.iter().copied().reduce(f64::max).or(nobody.then_some(0.0)),
            all_known: slacks.len() == there().count(),
        }
    }

    /// Whether some service is known to have less slack than `bound`.
    pub(crate) fn slack_below(&self, bound: f64) -> bool {
        self.slack.is_some_and(|slack| slack < bound)
    }

    /// Whether every service is known to have more slack than `bound`.
    pub(crate) fn slack_above(&self, bound: f64) -> bool {
        self.all_known && self.slack.is_some_and(|slack| slack > bound)
    }

    /// Whether some service is known to have more load than `bound`.
    pub(crate) fn load_above(&self, bound: f64) -> bool {
        self.load.is_some_and(|load| load > bound)
    }

    /// Whether the known loads all lie under `bound`, and one is known.
    pub(crate) fn load_below(&self, bound: f64) -> bool {
        self.load.is_some_and(|load| load < bound)
    }

    /// What is known, for a proposal.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let slack = self.slack.map(|slack| Input::new("slack_frac", slack));
        let load = self.load.map(|load| Input::new("load_frac", load));
        slack.into_iter().chain(load).collect()
    }
}

/// The slack of one service; 1 for one that is idle, none where it is not known.
pub(crate) fn slack_of(service: &ServiceObservation) -> Option<f64> {
    match &service.slack {
        Ok(slack) => Some(*slack).filter(|s| !s.is_nan()),
        Err(Gap::NotYet(_)) => {
            let idle = service.load.as_ref().is_ok_and(|load| load.0 < IDLE_LOAD_FRAC);
            idle.then_some(1.0)
        }
        Err(_) => None,
    }
}

/// Whether any batch group has something to run: a task of the queue, or CPU use. Unknown CPU use
/// counts as work, since batch that is not seen must still be held.
pub(crate) fn has_work(observation: &Observation) -> bool {
    observation.batch.values().filter(|b| b.present.is_ok()).any(|b| {
        b.running_tasks + b.ready_tasks > 0 || b.cpu.as_ref().map_or(true, |cpu| cpu.0 > 0.005)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{observe, setup};

    fn two() -> crate::testing::Seen {
        let setup = setup(4).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x").build();
        observe(&setup, 0.0)
    }

    #[test]
    fn least_slack_and_most_load_count() {
        let seen = two().slack("a", 0.5).load("a", 0.2).slack("b", -0.1).load("b", 0.1).done();
        let worst = Worst::of(&seen);
        assert_eq!(worst, Worst { slack: Some(-0.1), load: Some(0.2), all_known: true });
    }

    #[test]
    fn an_unknown_slack_never_counts_as_plenty() {
        let worst = Worst::of(&two().slack("a", 0.9).load("a", 0.2).done());
        assert!(!worst.slack_above(0.3) && !worst.slack_below(0.3));
    }

    #[test]
    fn a_service_that_is_gone_or_idle_has_all_slack() {
        let worst = Worst::of(&two().gone("a").load("b", 0.0).done());
        assert_eq!(worst, Worst { slack: Some(1.0), load: Some(0.0), all_known: true });
        let worst = Worst::of(&two().gone("a").gone("b").done());
        assert_eq!(worst, Worst { slack: Some(1.0), load: Some(0.0), all_known: true });
    }

    #[test]
    fn work_is_a_task_or_cpu_use_or_not_known() {
        assert!(has_work(&two().tasks("x", 1, 0).cpu("x", 0.0).done()));
        assert!(has_work(&two().tasks("x", 0, 0).cpu("x", 0.5).done()));
        assert!(has_work(&two().tasks("x", 0, 0).done()));
        assert!(!has_work(&two().tasks("x", 0, 0).cpu("x", 0.0).done()));
        assert!(!has_work(&two().gone("x").done()));
    }
}
