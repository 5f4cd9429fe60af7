//! What everybody presses on, whether or not that hurts anybody.

use super::Gauge;
use super::kept::DrivesOut;
use super::memory::Loads;
use quell_types::Tenant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What somebody presses on, as the kernel's gauge tells: no accusation, since nobody need have use for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pressing {
    /// Who.
    pub workload: Tenant,
    /// What reads of memory take while it has another CPU, over what they take beside all others; none where
    /// too few samples tell.
    pub reads_ratio: Option<f64>,
    /// Standard deviation of ln of that.
    pub reads_sd: Option<f64>,
    /// Whether that is surely more than 1.05.
    pub loads_memory: bool,
    /// What a line takes, in ns, that was read in its turns and left for `left_ms`: more where it was driven
    /// out of the caches; none where too few samples tell.
    pub line_ns: Option<f64>,
    /// For how long it was left, in ms.
    pub left_ms: Option<f64>,
    /// Samples of such lines, old ones counting less.
    pub lines: Option<f64>,
    /// Of what lies in the caches, the share that it surely drives out in a millisecond, beyond what goes
    /// anyhow, 0..1.
    pub drives_out_frac: f64,
}

impl Pressing {
    fn new(workload: &Tenant, loads: Option<Loads>, lines: Option<DrivesOut>) -> Self {
        Self {
            workload: workload.clone(),
            reads_ratio: loads.map(|loads| libm::exp(loads.more_ln)),
            reads_sd: loads.map(|loads| loads.sd),
            loads_memory: loads.is_some_and(Loads::is_sure),
            line_ns: lines.map(|lines| lines.line_ns),
            left_ms: lines.map(|lines| lines.left_ms),
            lines: lines.map(|lines| lines.samples),
            drives_out_frac: lines.map_or(0.0, |lines| 1.0 - libm::exp(-lines.per_ms)),
        }
    }
}

impl Gauge {
    /// What each presses on of whom enough was seen to tell anything, by name.
    #[must_use]
    pub fn pressing(&self) -> Vec<Pressing> {
        let reads_ln = self.memory.usual_ln();
        let lines = reads_ln.map(|ln| self.kept.all_driving(ln)).unwrap_or_default();
        let known: BTreeSet<&Tenant> = self.memory.tenants().chain(lines.keys()).collect();
        let one = |tenant: &Tenant| {
            let (loads, lines) = (self.memory.loads(tenant), lines.get(tenant).copied());
            (loads.is_some() || lines.is_some()).then(|| Pressing::new(tenant, loads, lines))
        };
        known.into_iter().filter_map(one).collect()
    }
}
