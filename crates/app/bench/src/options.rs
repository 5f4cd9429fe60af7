//! What can be asked for.

use crate::{Contender, Mix};
use quell_service::{SearchParams, ServiceSpec};
use std::path::PathBuf;

/// How long everything takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// All of it in so many seconds.
    Total {
        /// The budget, start and end included.
        seconds: f64,
        /// Interleaved rounds, among which what is measured is divided.
        rounds: u32,
    },
    /// So many windows of one second for each cell, spread over the rounds.
    Windows {
        /// Windows of a cell, all rounds together.
        windows: u32,
        /// Interleaved rounds.
        rounds: u32,
    },
}

/// A comparison of control laws.
#[derive(Clone, Debug)]
pub struct GuardOptions {
    /// The service.
    pub service: ServiceSpec,
    /// Its peak rate in requests per second, where it is known; else it is searched.
    pub peak_qps: Option<f64>,
    /// Loads as shares of the peak.
    pub loads: Vec<f64>,
    /// What is compared, in this order.
    pub laws: Vec<Contender>,
    /// Batch of each comparison.
    pub polluters: Vec<Mix>,
    /// The judged percentile: 95 or 99.
    pub percentile: f64,
    /// How long.
    pub size: Size,
    /// Whether the part on the network is run.
    pub network: bool,
    /// Whether the flash crowd is run.
    pub crowd: bool,
    /// Seed of arrivals.
    pub seed: u64,
    /// Parameters of laws, as in the configuration: TOML text with `[law.NAME]` tables.
    pub law_parameters: String,
    /// Where the JSON is written, anew after each cell.
    pub json: Option<PathBuf>,
    /// Where the report is written.
    pub report: Option<PathBuf>,
    /// Run by `sh -c` before each cell, as to wait until the machine is quiet.
    pub before_cell: Option<String>,
    /// The program that becomes server, agent and polluter: `quell` itself.
    pub program: PathBuf,
}

impl GuardOptions {
    /// The service `search` at these loads under these laws beside one mix of batch, judged by its
    /// 95th percentile; no network, no crowd, and nothing written.
    pub(crate) fn search(
        loads: &[f64],
        laws: &[Contender],
        batch: Mix,
        size: Size,
        program: PathBuf,
    ) -> GuardOptions {
        GuardOptions {
            service: ServiceSpec::Search(SearchParams::default()),
            peak_qps: None,
            loads: loads.to_vec(),
            laws: laws.to_vec(),
            polluters: vec![batch],
            percentile: 95.0,
            size,
            network: false,
            crowd: false,
            seed: 1,
            law_parameters: String::new(),
            json: None,
            report: None,
            before_cell: None,
            program,
        }
    }

    /// Refuses what cannot be run.
    pub fn check(&self) -> anyhow::Result<()> {
        let sound = |load: &f64| *load > 0.0 && *load <= 1.5;
        anyhow::ensure!(
            !self.loads.is_empty() && self.loads.iter().all(sound),
            "--loads: give shares of the peak above 0 and up to 1.5, as 0.3,0.6,0.9"
        );
        anyhow::ensure!(
            self.peak_qps.is_none_or(|qps| qps.is_finite() && qps > 0.0),
            "--peak: give requests per second, more than none"
        );
        anyhow::ensure!(
            [50.0, 95.0, 99.0].contains(&self.percentile),
            "--percentile: give 50, 95 or 99"
        );
        anyhow::ensure!(!self.laws.is_empty(), "--laws: give at least one");
        anyhow::ensure!(!self.polluters.is_empty(), "--polluters: give at least one");
        match self.size {
            Size::Total { seconds, rounds } => {
                anyhow::ensure!((10.0..=86_400.0).contains(&seconds), "--seconds: give 10 or more");
                anyhow::ensure!(rounds > 0, "give at least one round");
            }
            Size::Windows { windows, rounds } => anyhow::ensure!(
                rounds > 0 && windows >= rounds,
                "give at least one round, and at least one window for each"
            ),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_a_rate() {
        let of = |peak_qps| {
            let size = Size::Total { seconds: 60.0, rounds: 1 };
            let search =
                GuardOptions::search(&[0.5], &[Contender::None], Mix::Mix, size, PathBuf::new());
            GuardOptions { peak_qps, ..search }.check()
        };
        assert!(of(None).is_ok() && of(Some(5.0)).is_ok());
        for peak in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            let refused = of(Some(peak)).unwrap_err().to_string();
            assert!(refused.starts_with("--peak"), "{peak}: {refused}");
        }
    }
}
