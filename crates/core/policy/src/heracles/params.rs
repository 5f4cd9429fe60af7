//! Parameters of `heracles`.

use crate::parts::{OnDisable, Partition, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What services move at a load, with so many cores and ways: one point of an offline profile (H-3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceBandwidth {
    /// Load as a share of the peak rate.
    pub load_frac: f64,
    /// Memory traffic of all services at that load, in bytes per second.
    pub bytes_per_s: f64,
    /// Their cores; left out: any.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Their cache ways; left out: any.
    #[serde(default)]
    pub ways: Option<u32>,
}

/// Parameters of `heracles`: the table `[law.heracles]`. The defaults are the paper's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeraclesParams {
    /// Period of the top controller, in seconds.
    pub top_period_s: f64,
    /// Period of the core and memory loop, in seconds.
    pub core_memory_period_s: f64,
    /// Period of the power loop, in seconds.
    pub power_period_s: f64,
    /// Period of the network loop, in seconds.
    pub network_period_s: f64,
    /// How long a new cache way is watched before it is judged, in seconds; the paper only says
    /// that CAT acts within milliseconds.
    pub settle_s: f64,
    /// Load above which batch is off.
    pub load_high_frac: f64,
    /// Load below which batch is on.
    pub load_low_frac: f64,
    /// Slack below which batch does not grow.
    pub slack_no_growth_frac: f64,
    /// Slack below which batch keeps only `batch_keep_cores`.
    pub slack_shrink_frac: f64,
    /// Cores that batch keeps then.
    pub batch_keep_cores: u32,
    /// Slack above which batch may get a core.
    pub slack_grow_frac: f64,
    /// Slack is judged by its mean over so many seconds; 0: by the newest alone. The longer, the
    /// less chance moves it, and the later it tells.
    pub slack_window_s: f64,
    /// Rest after negative slack, in seconds, on top of the period.
    pub cool_down_s: f64,
    /// Whether slack acts only where no load test fires, as printed: between the two load
    /// bounds. False: whenever batch is on, as the paper's prose says.
    pub literal_order: bool,
    /// Peak of streaming memory traffic, in bytes per second; without it no limit is known.
    pub peak_dram_bytes_per_s: Option<f64>,
    /// Share of it that may be used.
    pub dram_limit_frac: f64,
    /// Offline model of the services' traffic by load, cores and ways, in rising order of load for
    /// each number of cores and ways; between loads it is interpolated, of cores and ways the
    /// nearest count. Without it the measured traffic is used.
    pub service_bandwidth: Vec<ServiceBandwidth>,
    /// Cores that batch begins with.
    pub start_cores: u32,
    /// Share of the cache that batch begins with.
    pub start_ways_frac: f64,
    /// The least relative fall of batch traffic per CPU second that counts as a benefit of a way.
    pub benefit_frac: f64,
    /// The most cores of batch; none = all but one.
    pub batch_max_cores: Option<u32>,
    /// Thermal design power of a socket in watts; without it there is no power loop.
    pub tdp_w: Option<f64>,
    /// Share of it that may be drawn.
    pub power_limit_frac: f64,
    /// Frequency of the services' CPUs when alone at full load, in kHz; without it there is no
    /// power loop.
    pub guaranteed_khz: Option<u64>,
    /// Step of batch's top frequency, in kHz.
    pub frequency_step_khz: u64,
    /// Share of a link that always stays free.
    pub link_reserve_frac: f64,
    /// Share of the services' rate that stays free in addition, if that is more.
    pub service_reserve_frac: f64,
    /// What disabling batch means.
    pub on_disable: OnDisable,
    /// After so many seconds of negative slack with batch off, the objective is called
    /// unreachable.
    pub unreachable_after_s: f64,
}

impl Default for HeraclesParams {
    fn default() -> Self {
        Self {
            top_period_s: 15.0,
            core_memory_period_s: 2.0,
            power_period_s: 2.0,
            network_period_s: 1.0,
            settle_s: 1.0,
            load_high_frac: 0.85,
            load_low_frac: 0.80,
            slack_no_growth_frac: 0.10,
            slack_shrink_frac: 0.05,
            batch_keep_cores: 2,
            slack_grow_frac: 0.10,
            slack_window_s: 0.0,
            cool_down_s: 300.0,
            literal_order: false,
            peak_dram_bytes_per_s: None,
            dram_limit_frac: 0.90,
            service_bandwidth: Vec::new(),
            start_cores: 1,
            start_ways_frac: 0.10,
            benefit_frac: 0.01,
            batch_max_cores: None,
            tdp_w: None,
            power_limit_frac: 0.90,
            guaranteed_khz: None,
            frequency_step_khz: 100_000,
            link_reserve_frac: 0.05,
            service_reserve_frac: 0.10,
            on_disable: OnDisable::Freeze,
            unreachable_after_s: 60.0,
        }
    }
}

impl HeraclesParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range or bounds or points are in the wrong order.
    pub fn validate(&self) -> Result<(), String> {
        check(
            0.1..=3600.0,
            &[
                ("top_period_s", self.top_period_s),
                ("core_memory_period_s", self.core_memory_period_s),
                ("power_period_s", self.power_period_s),
                ("network_period_s", self.network_period_s),
                ("settle_s", self.settle_s),
            ],
        )?;
        check(0.0..=3600.0, &[("slack_window_s", self.slack_window_s)])?;
        check(0.0..=86_400.0, &[("cool_down_s", self.cool_down_s)])?;
        check(0.0..=86_400.0, &[("unreachable_after_s", self.unreachable_after_s)])?;
        check(0.0..=1.0, &self.fractions())?;
        check(self.load_low_frac..=2.0, &[("load_high_frac", self.load_high_frac)])?;
        check(1.0..=1e15, &[("peak_dram_bytes_per_s", self.peak_dram_bytes_per_s.unwrap_or(1.0))])?;
        check(1.0..=1e5, &[("tdp_w", self.tdp_w.unwrap_or(1.0))])?;
        check(1.0..=1e7, &[("frequency_step_khz", self.frequency_step_khz as f64)])?;
        check(1.0..=65_536.0, &[("start_cores", f64::from(self.start_cores))])?;
        check(1.0..=65_536.0, &[("batch_keep_cores", f64::from(self.batch_keep_cores))])?;
        if self.slack_shrink_frac > self.slack_no_growth_frac {
            return Err("slack_shrink_frac is above slack_no_growth_frac".into());
        }
        self.validate_model()
    }

    fn fractions(&self) -> [(&'static str, f64); 10] {
        [
            ("load_low_frac", self.load_low_frac),
            ("slack_no_growth_frac", self.slack_no_growth_frac),
            ("slack_shrink_frac", self.slack_shrink_frac),
            ("slack_grow_frac", self.slack_grow_frac),
            ("dram_limit_frac", self.dram_limit_frac),
            ("start_ways_frac", self.start_ways_frac),
            ("benefit_frac", self.benefit_frac),
            ("power_limit_frac", self.power_limit_frac),
            ("link_reserve_frac", self.link_reserve_frac),
            ("service_reserve_frac", self.service_reserve_frac),
        ]
    }

    fn validate_model(&self) -> Result<(), String> {
        for point in &self.service_bandwidth {
            check(0.0..=2.0, &[("service_bandwidth.load_frac", point.load_frac)])?;
            check(0.0..=1e15, &[("service_bandwidth.bytes_per_s", point.bytes_per_s)])?;
        }
        let rising = |table: &Vec<ServiceBandwidth>| {
            table.windows(2).all(|pair| pair[0].load_frac < pair[1].load_frac)
        };
        if !self.tables().values().all(rising) {
            return Err("service_bandwidth is not in rising order of load_frac".into());
        }
        Ok(())
    }

    /// Limit of memory traffic in bytes per second, if the peak is known.
    pub(super) fn dram_limit(&self) -> Option<f64> {
        self.peak_dram_bytes_per_s.map(|peak| peak * self.dram_limit_frac)
    }

    /// The model's points by cores and ways.
    fn tables(&self) -> BTreeMap<(Option<u32>, Option<u32>), Vec<ServiceBandwidth>> {
        let mut tables: BTreeMap<_, Vec<ServiceBandwidth>> = BTreeMap::new();
        for point in &self.service_bandwidth {
            tables.entry((point.cores, point.ways)).or_default().push(*point);
        }
        tables
    }

    /// What the model says of the services' traffic at a load, with so many cores and ways; none
    /// without a model. Of cores and ways that were not measured the nearest that were count.
    pub(super) fn modelled_bandwidth(&self, load: f64, cores: u32, ways: u32) -> Option<f64> {
        let off = |has: u32, of: Option<u32>| of.map_or(0, |of| of.abs_diff(has));
        let tables = self.tables();
        let nearest = |(c, w): &&(Option<u32>, Option<u32>)| (off(ways, *w), off(cores, *c));
        let points = &tables[tables.keys().min_by_key(nearest)?];
        let after = points.iter().position(|p| p.load_frac >= load);
        match after {
            Some(0) => Some(points[0].bytes_per_s),
            Some(i) => {
                let (a, b) = (points[i - 1], points[i]);
                let part = (load - a.load_frac) / (b.load_frac - a.load_frac);
                Some(a.bytes_per_s + part * (b.bytes_per_s - a.bytes_per_s))
            }
            None => points.last().map(|p| p.bytes_per_s),
        }
    }

    /// How cores and ways are divided: two partitions, nothing for the system (H-1).
    pub(super) fn partition(&self) -> Partition {
        Partition {
            system_cores: 0,
            system_ways: 0,
            batch_max_cores: self.batch_max_cores,
            step_cores: 1.0,
            period_us: 100_000,
        }
    }
}
