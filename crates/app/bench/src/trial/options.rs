//! What is tried, and on how many CPUs.

use super::draw::{Cast, Harm, MOST_GROUPS, Program, Taken};
use super::scores::TrialReport;
use super::served::TrialService;
use super::timeline::{self, Course};
use crate::machine::cpus;
use std::path::PathBuf;
use std::time::Duration;

/// Load of the service before it is slowed, as a share of the CPUs that it may use.
pub(super) const LOAD_FRAC: f64 = 0.3;
/// The service and all innocents want at most this share of all CPUs: who is innocent leaves room.
const WANTED_FRAC: f64 = 0.85;
/// The same where little harm is wanted: what innocents do to latency, and how much that varies, is not
/// to hide it.
const WANTED_LITTLE_FRAC: f64 = 0.6;

/// What is tried.
#[derive(Clone, Debug)]
pub struct TrialOptions {
    /// How many trials count.
    pub trials: u32,
    /// How much the culprit hurts.
    pub harm: Harm,
    /// What it takes.
    pub taken: Taken,
    /// The service has CPUs for itself, and batch the others: who hurts it, hurts by memory alone.
    pub apart: bool,
    /// What is drawn.
    pub seed: u64,
    /// Nothing is tried: the culprit is never stopped, so that all harm that is measured is chance.
    pub control: bool,
    /// The service.
    pub service: TrialService,
    /// Batch groups; one of them is the culprit's, unless there is none.
    pub groups: usize,
    /// What the culprit may run; empty: kernels of `quell pressure` that take what is wanted.
    pub polluters: Vec<Program>,
    /// What all others may run; empty: kernels that stay within a core, each with its share of it.
    pub innocents: Vec<Program>,
    /// Trials count though others use a tenth of the machine or more.
    pub with_others: bool,
    /// So long is waited before a trial of who takes memory, at most, until the CPUs share a cache.
    pub patience: Duration,
    /// Where the JSON is written, anew after each trial.
    pub json: Option<PathBuf>,
    /// Where a report with the course of each trial is written, anew after each.
    pub report: Option<PathBuf>,
    /// The program that becomes server, polluter and judge: `quell` itself.
    pub program: PathBuf,
}

impl TrialOptions {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.trials > 0, "--trials: give at least one");
        anyhow::ensure!(
            !self.control || self.harm != Harm::None,
            "--control: give a class of harm with a culprit"
        );
        anyhow::ensure!(
            !self.apart || self.taken == Taken::Memory,
            "--apart: who takes CPUs takes none of the service's there; give --taken memory"
        );
        anyhow::ensure!(!self.apart || cpus()? > 1, "--apart: two CPUs at least");
        anyhow::ensure!(
            (2..=MOST_GROUPS).contains(&self.groups),
            "--groups {}: give 2 to {MOST_GROUPS}",
            self.groups
        );
        anyhow::ensure!(
            self.polluters.is_empty() || (self.harm != Harm::None && self.taken == Taken::Memory),
            "--polluter: what it takes is its own, so --taken goes without; and --harm none has no culprit"
        );
        anyhow::ensure!(
            rustix::process::geteuid().is_root(),
            "this makes control groups and loads eBPF programs: run it as root"
        );
        Ok(())
    }

    pub(super) fn cast(&self) -> anyhow::Result<Cast> {
        Ok(Cast {
            groups: self.groups,
            polluters: self.polluters.clone(),
            innocents: self.innocents.clone(),
            cpus: cpus()?,
            ..Cast::of_kernels(self.harm, self.taken)
        })
    }

    /// Writes what is wanted of the trials until now.
    pub(super) fn write(&self, report: &TrialReport, courses: &[Course]) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            report.write(path)?;
        }
        if let Some(folder) = &self.report {
            timeline::report(report, courses).write(folder)?;
        }
        Ok(())
    }

    /// What innocents may want together, so that beside them alone the service has room; where batch has
    /// CPUs of its own, so that half of these are the culprit's.
    pub(super) fn room_cpus(&self) -> anyhow::Result<f64> {
        if self.apart {
            return Ok(f64::from(cpus()? - self.service_cpus()?) / 2.0);
        }
        let wanted = if self.harm == Harm::Little { WANTED_LITTLE_FRAC } else { WANTED_FRAC };
        Ok((wanted - LOAD_FRAC) * f64::from(cpus()?))
    }

    /// The CPUs that the service may use: all, or the first half.
    pub(super) fn service_cpus(&self) -> anyhow::Result<u32> {
        Ok(if self.apart { cpus()? / 2 } else { cpus()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_service::{SearchParams, ServiceSpec};

    fn options() -> TrialOptions {
        TrialOptions {
            trials: 1,
            harm: Harm::Much,
            taken: Taken::Memory,
            apart: true,
            seed: 1,
            control: false,
            service: TrialService::Own(ServiceSpec::Search(SearchParams::default())),
            groups: 5,
            polluters: Vec::new(),
            innocents: Vec::new(),
            with_others: false,
            patience: Duration::ZERO,
            json: None,
            report: None,
            program: "/bin/false".into(),
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |change: fn(&mut TrialOptions)| {
            let mut options = options();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(refused(|o| o.trials = 0).contains("--trials"));
        assert!(refused(|o| o.taken = Taken::Cpu).contains("--apart"));
        assert!(refused(|o| (o.control, o.harm) = (true, Harm::None)).contains("--control"));
        assert!(refused(|o| o.groups = 1).contains("--groups 1: give 2 to 26"));
        let polluted = refused(|o| {
            (o.harm, o.polluters) = (Harm::None, vec!["stress-ng --stream 1".parse().unwrap()]);
        });
        assert!(polluted.contains("--polluter"), "{polluted}");
    }

    #[test]
    fn apart_the_culprit_has_half_of_what_batch_has() {
        let all = cpus().unwrap();
        let apart = options();
        assert_eq!(apart.service_cpus().unwrap(), all / 2);
        assert!((apart.room_cpus().unwrap() - f64::from(all - all / 2) / 2.0).abs() < 1e-9);
        let beside = TrialOptions { apart: false, ..options() };
        assert_eq!(beside.service_cpus().unwrap(), all);
        let wanted = (WANTED_FRAC - LOAD_FRAC) * f64::from(all);
        assert!((beside.room_cpus().unwrap() - wanted).abs() < 1e-9);
    }
}
