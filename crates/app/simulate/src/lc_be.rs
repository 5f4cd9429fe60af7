//! One service beside one kind of batch over all loads: T-24's set-up as figures for machines.

use crate::run::Progress;
use crate::{Options, Scenario, run};
use anyhow::Context;
use quell_policy::Law;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Schema of [`LcBe`].
pub const LC_BE_SCHEMA: &str = "quell.lc-be/1";

/// What runs beside the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Nothing.
    None,
    /// A sweep over an array as large as the last-level cache.
    StreamLlc,
    /// A sweep over 1 GiB.
    StreamDram,
    /// Sends as fast as it can.
    Iperf,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct LcBeOptions {
    /// A known service.
    pub service: String,
    /// A known machine.
    pub machine: String,
    /// Cores that are used; none = all.
    pub cores: Option<u32>,
    /// What runs beside it.
    pub batch: Batch,
    /// Shares of the peak.
    pub loads: Vec<f64>,
    /// The control law.
    pub law: Law,
    /// How scenarios are played.
    pub options: Options,
}

/// Steady figures at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LcBeRow {
    /// Offered rate over the peak rate.
    pub load_frac: f64,
    /// 95th percentile of the service's sojourn, in milliseconds.
    pub p95_ms: Option<f64>,
    /// Busy time of the used cores over their time.
    pub cpu_utilisation_frac: f64,
    /// Memory traffic in megabytes (10^6) per second.
    pub memory_mb_per_s: f64,
    /// What leaves on the link, in megabits (10^6) per second.
    pub egress_mbit_per_s: f64,
}

/// All rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LcBe {
    /// `quell.lc-be/1`.
    pub schema: String,
    /// By rising load.
    pub rows: Vec<LcBeRow>,
}

impl LcBeOptions {
    /// The same as a scenario, so that it can be read and changed.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut text = format!(
            "scenario lc-be \"{} beside batch on {}\"\nmachine {}\n  threads 1\n",
            self.service, self.machine, self.machine
        );
        // Writing to a text cannot fail.
        let mut line = |words: String| {
            let _ = writeln!(text, "{words}");
        };
        if let Some(cores) = self.cores {
            line(format!("  cores {cores}"));
        }
        line("link eth0 1Gbit".into());
        let loads: Vec<String> = self.loads.iter().map(f64::to_string).collect();
        line(format!("vary load {}", loads.join(" ")));
        line(format!("service {}\n  load $load\n  link eth0", self.service));
        let threads = self.cores.map_or(String::new(), |cores| format!(" x {cores}"));
        match self.batch {
            Batch::None => {}
            Batch::StreamLlc => {
                line(format!("batch stream\n  run stream-llc{threads}\n  link eth0"))
            }
            Batch::StreamDram => {
                line(format!("batch stream\n  run stream-dram{threads}\n  link eth0"))
            }
            Batch::Iperf => line("batch iperf\n  run iperf\n  link eth0".into()),
        }
        line(format!("policy {}", self.law));
        if self.law == Law::Thesis {
            // The service may use all cores, as in the source.
            line("  system_cores 0".into());
        }
        // As the simulator was fitted (T-5, T-6).
        line("run 60s after 120s exact".into());
        text
    }
}

/// Plays it.
///
/// # Errors
/// A name is not known, the machine cannot be, or it cannot be played.
pub fn lc_be(asked: &LcBeOptions, progress: Progress<'_>) -> anyhow::Result<LcBe> {
    let text = asked.scenario();
    let scenario = Scenario::parse("lc-be", &text).context("this is not possible")?;
    let results = run::run(&scenario, &asked.options, progress)?;
    let row = |(load, (_, played)): (&f64, &(_, crate::play::Played))| {
        let of = |metric: &str| played.value(metric, None).unwrap_or(0.0);
        LcBeRow {
            load_frac: *load,
            p95_ms: played.value("p95_ms", None).ok(),
            cpu_utilisation_frac: of("utilisation_frac"),
            memory_mb_per_s: of("memory_mb_per_s"),
            egress_mbit_per_s: of("egress_mbit_per_s"),
        }
    };
    let rows = asked.loads.iter().zip(&results.points).map(row).collect();
    Ok(LcBe { schema: LC_BE_SCHEMA.into(), rows })
}
