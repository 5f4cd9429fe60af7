//! Parameters of `thesis`.

use crate::parts::{OnDisable, Partition, check};
use quell_types::BytesPerSecond;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The two sets of figures that the thesis gives (T-18).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Of the reported test: memory ceiling 40,000 MB/s, whole links, network period 1 s, as many
    /// batch cores as services can spare.
    #[default]
    Reported,
    /// Of the author's configuration file: memory ceiling 80,000 MB/s, 7.5 Gbit/s of a link,
    /// network period 2 s, at most 3 batch cores.
    Author,
}

/// What gives way when memory traffic is over its ceiling (T-26).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DramLimiter {
    /// Batch loses cores.
    #[default]
    Cores,
    /// Batch is throttled by MBA; cores only once that is at its minimum.
    Mba,
}

/// Parameters of `thesis`: the table `[law.thesis]`. The defaults are the thesis' own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThesisParams {
    /// Which figures hold for keys that are left out and differ between the two (T-18).
    pub profile: Profile,
    /// Period of the top controller, in seconds (T-9).
    pub top_period_s: f64,
    /// Period of the core and memory controller, in seconds (T-11).
    pub core_memory_period_s: f64,
    /// Period of the network controller, in seconds (T-19, Q-7); the profile's if left out.
    pub network_period_s: Option<f64>,
    /// How long a new cache way is watched before it is judged, in seconds (T-13).
    pub settle_s: f64,
    /// Load above which batch is off.
    pub load_high_frac: f64,
    /// Load below which batch is on.
    pub load_low_frac: f64,
    /// Slack below which batch does not grow.
    pub slack_pause_frac: f64,
    /// Slack below which batch loses a core (T-10).
    pub slack_shrink_frac: f64,
    /// Slack above which batch may get a core.
    pub slack_grow_frac: f64,
    /// Loss of slack at which a new way is taken back.
    pub slack_drop_frac: f64,
    /// Bad rounds that are let pass before batch goes off.
    pub bad_rounds_tolerated: u32,
    /// Rest of the top controller after negative slack, in seconds, on top of its period (Q-4:
    /// 5, or 300 as Heracles).
    pub cool_down_s: f64,
    /// Whether a neutral round forgets bad ones (T-11); false is literal.
    pub reset_bad_when_neutral: bool,
    /// Whether slack counts below `load_low_frac` too; false is literal.
    pub honour_slack_at_low_load: bool,
    /// Whether a way is taken back when traffic *fell*, as printed (T-12, Q-1); false takes it
    /// back when traffic did not fall, as the author's code and Heracles do.
    pub literal_thesis_sign: bool,
    /// Whether the round goes on after cores were cut.
    pub continue_after_cut: bool,
    /// Margin of the question whether services can spare a core (T-14): 1.0 shows the thesis'
    /// humps, 1.15 removes them.
    pub grow_safe_margin_ratio: f64,
    /// Ceiling of memory traffic in bytes per second; the profile's if left out.
    pub dram_limit_bytes_per_s: Option<f64>,
    /// What gives way at that ceiling.
    pub dram_limiter: DramLimiter,
    /// Cores for the system; fewer where too few are left to divide.
    pub system_cores: u32,
    /// The most cores of batch; the profile's if left out.
    pub batch_max_cores: Option<u32>,
    /// Cache ways for the system (T-15).
    pub system_ways: u32,
    /// Share of a link that services and batch may use together (T-19).
    pub link_use_frac: f64,
    /// What a link carries at most, in bits per second; the profile's if left out.
    pub link_usable_bits_per_s: Option<f64>,
    /// What batch may send when nothing is left, in bits per second (T-19).
    pub batch_min_bits_per_s: f64,
    /// What disabling batch means (T-11).
    pub on_disable: OnDisable,
    /// Batch grows by this part of a core instead of a whole one, 0 = whole cores. For machines
    /// with few cores (T-E2 (a)).
    pub sub_core_step_cores: f64,
    /// Period of the CPU time limits that make such parts, in microseconds.
    pub sub_core_period_us: u64,
    /// After so many seconds of negative slack with batch off, the objective is called
    /// unreachable.
    pub unreachable_after_s: f64,
}

impl Default for ThesisParams {
    fn default() -> Self {
        Self {
            profile: Profile::Reported,
            top_period_s: 10.0,
            core_memory_period_s: 5.0,
            network_period_s: None,
            settle_s: 1.5,
            load_high_frac: 0.85,
            load_low_frac: 0.70,
            slack_pause_frac: 0.40,
            slack_shrink_frac: 0.20,
            slack_grow_frac: 0.30,
            slack_drop_frac: 0.15,
            bad_rounds_tolerated: 1,
            cool_down_s: 5.0,
            reset_bad_when_neutral: true,
            honour_slack_at_low_load: false,
            literal_thesis_sign: false,
            continue_after_cut: false,
            grow_safe_margin_ratio: 1.0,
            dram_limit_bytes_per_s: None,
            dram_limiter: DramLimiter::Cores,
            system_cores: 1,
            batch_max_cores: None,
            system_ways: 1,
            link_use_frac: 0.90,
            link_usable_bits_per_s: None,
            batch_min_bits_per_s: 100.0,
            on_disable: OnDisable::Freeze,
            sub_core_step_cores: 0.0,
            sub_core_period_us: 10_000,
            unreachable_after_s: 60.0,
        }
    }
}

impl ThesisParams {
    /// The figures of a profile.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range or bounds are in the wrong order.
    pub fn validate(&self) -> Result<(), String> {
        check(
            0.1..=3600.0,
            &[
                ("top_period_s", self.top_period_s),
                ("core_memory_period_s", self.core_memory_period_s),
                ("network_period_s", self.network_period()),
                ("settle_s", self.settle_s),
            ],
        )?;
        check(0.0..=86_400.0, &[("cool_down_s", self.cool_down_s)])?;
        check(0.0..=86_400.0, &[("unreachable_after_s", self.unreachable_after_s)])?;
        check(
            0.0..=1.0,
            &[
                ("load_low_frac", self.load_low_frac),
                ("slack_pause_frac", self.slack_pause_frac),
                ("slack_shrink_frac", self.slack_shrink_frac),
                ("slack_grow_frac", self.slack_grow_frac),
                ("slack_drop_frac", self.slack_drop_frac),
                ("link_use_frac", self.link_use_frac),
                ("sub_core_step_cores", self.sub_core_step_cores),
            ],
        )?;
        check(self.load_low_frac..=2.0, &[("load_high_frac", self.load_high_frac)])?;
        check(0.1..=10.0, &[("grow_safe_margin_ratio", self.grow_safe_margin_ratio)])?;
        check(1.0..=1e15, &[("dram_limit_bytes_per_s", self.dram_limit())])?;
        check(1.0..=1e15, &[("link_usable_bits_per_s", self.link_usable().bits())])?;
        check(0.0..=1e15, &[("batch_min_bits_per_s", self.batch_min_bits_per_s)])?;
        check(1000.0..=1e6, &[("sub_core_period_us", self.sub_core_period_us as f64)])?;
        if self.slack_shrink_frac > self.slack_pause_frac {
            return Err("slack_shrink_frac is above slack_pause_frac".into());
        }
        if self.sub_core_step_cores > 0.0 && self.sub_core_step_cores < 0.01 {
            return Err("sub_core_step_cores is neither 0 nor at least 0.01".into());
        }
        Ok(())
    }

    /// Ceiling of memory traffic in bytes per second.
    pub(super) fn dram_limit(&self) -> f64 {
        self.dram_limit_bytes_per_s.unwrap_or(match self.profile {
            Profile::Reported => 40e9,
            Profile::Author => 80e9,
        })
    }

    /// Period of the network controller in seconds.
    pub(super) fn network_period(&self) -> f64 {
        self.network_period_s.unwrap_or(match self.profile {
            Profile::Reported => 1.0,
            Profile::Author => 2.0,
        })
    }

    /// What a link carries at most.
    pub(super) fn link_usable(&self) -> BytesPerSecond {
        BytesPerSecond::from_bits(self.link_usable_bits_per_s.unwrap_or(match self.profile {
            Profile::Reported => 1e15,
            Profile::Author => 7.5e9,
        }))
    }

    /// How cores and ways are divided.
    pub(super) fn partition(&self) -> Partition {
        let profile_max = match self.profile {
            Profile::Reported => None,
            Profile::Author => Some(3),
        };
        let sub = self.sub_core_step_cores;
        Partition {
            system_cores: self.system_cores,
            system_ways: self.system_ways.max(1),
            batch_max_cores: self.batch_max_cores.or(profile_max),
            step_cores: if sub > 0.0 { sub } else { 1.0 },
            period_us: self.sub_core_period_us,
        }
    }
}
