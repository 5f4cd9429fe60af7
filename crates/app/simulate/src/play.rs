//! Plays one point: the loop, windows, and every metric by name.

use crate::accused::Accused;
use crate::alone::{Alone, Pace};
use crate::drive::{Counts, Drive};
use crate::over_time::OverTime;
use crate::stage::Stage;
use crate::windows::{Snapshot, Window, mean_ns};
use quell_types::{ServiceSpec, Tenant};
use std::collections::BTreeMap;

/// What came of a point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Played {
    host: BTreeMap<&'static str, f64>,
    tenants: BTreeMap<(Tenant, &'static str), f64>,
    pub(crate) windows: Vec<Window>,
    /// The same by metric.
    pub(crate) over_time: OverTime,
    pub(crate) services: Vec<ServiceSpec>,
    /// Digest of the decision journal.
    pub(crate) digest: String,
    /// The journal itself, if it was kept.
    pub(crate) journal: Option<String>,
    /// What the law did without.
    pub(crate) degraded: Vec<String>,
    /// Simulated seconds, warm-up included.
    pub(crate) simulated_s: f64,
}

impl Played {
    /// A metric of the machine, or of a tenant.
    ///
    /// # Errors
    /// Why there is no such number.
    pub(crate) fn value(&self, metric: &str, of: Option<&str>) -> Result<f64, String> {
        let found = match (of, crate::metric::is_of_tenant(metric)) {
            (None, false) => self.host.get(metric).copied(),
            (Some(tenant), true) => self.of(metric, tenant),
            (None, true) => match self.services.as_slice() {
                [only] => self.of(metric, only.name.as_str()),
                _ => return Err(format!("{metric} needs `of` and one of several services")),
            },
            (Some(_), false) => {
                return Err(format!("{metric} is of the whole machine, not `of` one"));
            }
        };
        found.ok_or_else(|| format!("{metric} is not known here"))
    }

    /// Adds a metric of the machine.
    pub(crate) fn put(&mut self, metric: &'static str, value: f64) {
        self.host.insert(metric, value);
    }

    fn of(&self, metric: &str, tenant: &str) -> Option<f64> {
        let found = self.tenants.iter().find(|((t, m), _)| t.as_str() == tenant && *m == metric);
        found.map(|(_, value)| *value)
    }
}

/// What a run gathered.
struct Gathered {
    first: Snapshot,
    last: Snapshot,
    windows: Vec<Window>,
    /// Counts over the measured part.
    counts: Counts,
    /// Who was accused before the measured part, and at its end.
    accused: [Accused; 2],
    /// Knobs that stand otherwise than at the start.
    turned: usize,
    blocked_frac: f64,
}

/// Plays a stage. Without what tenants do alone, metrics that compare with it are left out.
///
/// # Errors
/// It cannot be played.
pub(crate) fn play(stage: &Stage, alone: Option<&Alone>, keep: bool) -> anyhow::Result<Played> {
    let services: Vec<ServiceSpec> = stage.scene.services.iter().map(|s| s.spec.clone()).collect();
    let mut drive = Drive::new(stage.clone(), keep)?;
    let gathered = gather(&mut drive, stage, &services)?;
    let mut played = Played {
        digest: drive.journal.digest(),
        degraded: drive.degraded.clone(),
        simulated_s: (stage.timing.warm + stage.timing.span).as_secs_f64(),
        ..Played::default()
    };
    measure_host(&mut played, stage, &services, &gathered);
    measure_services(&mut played, &services, &gathered);
    measure_tenants(&mut played, stage, &gathered);
    if let Some(alone) = alone {
        compare(&mut played, stage, &gathered, alone);
    }
    let measured = (gathered.first.time_s, gathered.windows.as_slice());
    played.over_time = OverTime::of(stage, &services, measured, alone);
    played.windows = gathered.windows;
    played.services = services;
    played.journal = drive.journal.text();
    Ok(played)
}

fn gather(drive: &mut Drive, stage: &Stage, services: &[ServiceSpec]) -> anyhow::Result<Gathered> {
    let timing = stage.timing;
    let (begin, end) = (timing.warm.as_secs(), (timing.warm + timing.span).as_secs());
    let (mut first, mut then) = (None, None::<Snapshot>);
    let (mut windows, mut before) = (Vec::new(), (Counts::default(), Accused::default()));
    let start = drive.truth().knobs;
    loop {
        let step = drive.step()?;
        let at = step.sample.time.0 / 1_000_000_000;
        let edge = at >= begin && (at - begin) % timing.window.as_secs() == 0;
        if !step.full || !edge {
            continue;
        }
        let now = Snapshot::take(&step, services, drive.truth());
        match &then {
            Some(then) => windows.push(Window::between(then, &now, services)),
            None => {
                before = (drive.counts, drive.accused.clone());
                first = Some(now.clone());
            }
        }
        if at + timing.window.as_secs() > end {
            let first = first.unwrap_or_else(|| now.clone());
            let truth = drive.truth();
            let turned = truth.knobs.iter().filter(|(k, to)| start.get(k) != Some(to)).count();
            let blocked_frac = truth.blocked.iter().copied().fold(0.0, f64::max);
            let counts = drive.counts.since(before.0);
            let accused = [before.1, drive.accused.clone()];
            return Ok(Gathered {
                first,
                last: now,
                windows,
                counts,
                accused,
                turned,
                blocked_frac,
            });
        }
        then = Some(now);
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(s, n), v| (s + v, n + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

fn measure_host(played: &mut Played, stage: &Stage, services: &[ServiceSpec], of: &Gathered) {
    let windows = &of.windows;
    let all = windows.len().max(1) as f64;
    let missed = windows.iter().filter(|w| !w.kept(services)).count() as f64;
    let (service, batch) =
        (mean(windows.iter().map(|w| w.service_cpus)), mean(windows.iter().map(|w| w.batch_cpus)));
    let most = windows.iter().map(|w| w.memory_bytes_per_s).fold(0.0, f64::max);
    let egress = mean(windows.iter().map(|w| w.egress_bytes_per_s));
    let capacity: f64 = stage.scene.links.iter().map(|l| l.capacity.0).sum();
    let off = windows.iter().filter(|w| w.batch_cpus < 0.001).count() as f64;
    let load = |w: &Window| {
        let share = |(s, qps): (&ServiceSpec, &f64)| qps / s.peak_qps.unwrap_or(f64::INFINITY);
        services.iter().zip(&w.qps).map(share).sum::<f64>()
    };
    played.host.extend([
        ("slo_kept_frac", 1.0 - missed / all),
        ("slo_violations", missed),
        ("utilisation_frac", (service + batch) / stage.scene.machine.cpus() as f64),
        ("service_cpus", service),
        ("batch_cpus", batch),
        ("batch_off_frac", off / all),
        ("load_frac", mean(windows.iter().map(load))),
        ("memory_mb_per_s", mean(windows.iter().map(|w| w.memory_bytes_per_s)) / 1e6),
        ("memory_peak_mb_per_s", most / 1e6),
        ("egress_mbit_per_s", egress * 8e-6),
        ("power_w", mean(windows.iter().map(|w| w.watts))),
        ("moves", of.counts.moves as f64),
        ("knob_writes", of.counts.writes as f64),
        ("refused_writes", of.counts.refused as f64),
        ("experiments", of.counts.experiments as f64),
        ("knobs_turned", of.turned as f64),
        ("blocked_frac", of.blocked_frac),
    ]);
    if capacity > 0.0 {
        played.host.insert("link_use_frac", egress / capacity);
    }
}

fn measure_services(played: &mut Played, services: &[ServiceSpec], of: &Gathered) {
    let qps = of.last.qps(&of.first);
    for (number, spec) in services.iter().enumerate() {
        let latency = of.last.latency_since(&of.first, number);
        let missed = of.windows.iter().filter(|w| w.missed(services).any(|n| n == number)).count();
        let worst = of.windows.iter().filter_map(|w| w.latency_s[number]).fold(0.0, f64::max);
        let tail_ms = |p: f64| latency.quantile(p).map(|ns| ns / 1e6);
        let mut put = |metric, value| {
            played.tenants.insert((spec.name.clone(), metric), value);
        };
        let judged = tail_ms(spec.slo.percentile_frac);
        for (metric, value) in [
            ("p50_ms", tail_ms(0.50)),
            ("p95_ms", tail_ms(0.95)),
            ("p99_ms", tail_ms(0.99)),
            ("mean_ms", mean_ns(&latency).map(|ns| ns / 1e6)),
            ("slo_ms", judged),
            ("slack_frac", judged.map(|ms| spec.slo.slack(ms / 1e3))),
        ] {
            if let Some(value) = value {
                put(metric, value);
            }
        }
        put("worst_slo_ms", worst * 1e3);
        put("kept_frac", 1.0 - missed as f64 / of.windows.len().max(1) as f64);
        put("violations", missed as f64);
        put("qps", qps[number]);
    }
}

fn measure_tenants(played: &mut Played, stage: &Stage, of: &Gathered) {
    let (first, last) = (&of.first, &of.last);
    let instructions = last.rate(first, |s| &s.instructions);
    let cpus = last.rate(first, |s| &s.cpu_s);
    let traffic = last.rate(first, |s| &s.traffic_bytes);
    let sent = last.rate(first, |s| &s.egress_bytes);
    let base_hz = stage.scene.machine.clock.base_khz as f64 * 1e3;
    for (name, cpus) in cpus {
        let get = |map: &BTreeMap<Tenant, f64>| map.get(&name).copied().unwrap_or(0.0);
        let done = get(&instructions);
        let held = last.llc_bytes.get(&name).copied().unwrap_or(0.0);
        let mut put = |metric, value| {
            played.tenants.insert((name.clone(), metric), value);
        };
        put("cpus", cpus);
        put("instructions_per_s", done);
        put("traffic_mb_per_s", get(&traffic) / 1e6);
        put("sent_mbit_per_s", get(&sent) * 8e-6);
        put("llc_mb", held / 1e6);
        let [before, after] = &of.accused;
        let [named, accused, stolen_from] = after.shares(before, &name);
        put("named_frac", named);
        put("accused_frac", accused);
        put("hypervisor_frac", stolen_from);
        if done > 0.0 {
            put("cpi", cpus * base_hz / done);
        }
    }
}

/// What needs to be laid beside the tenants alone.
fn compare(played: &mut Played, stage: &Stage, of: &Gathered, alone: &Alone) {
    let instructions = of.last.rate(&of.first, |s| &s.instructions);
    let cpus = of.last.rate(&of.first, |s| &s.cpu_s);
    let (mut lean, mut work) = (0.0, 0.0);
    let all: f64 = stage
        .scene
        .batch
        .iter()
        .filter_map(|b| alone.0.get(&b.spec.name))
        .map(|pace| pace.instructions_per_s)
        .sum();
    for (name, done) in &instructions {
        let Pace { instructions_per_s, instructions_per_cpu_s } =
            alone.0.get(name).copied().unwrap_or_default();
        let used = cpus.get(name).copied().unwrap_or(0.0);
        if instructions_per_cpu_s > 0.0 {
            let speed = if used > 0.0 { done / used / instructions_per_cpu_s } else { 0.0 };
            played.tenants.insert((name.clone(), "speed_frac"), speed);
            played.tenants.insert((name.clone(), "work_frac"), done / instructions_per_s);
            lean += (done / instructions_per_cpu_s).min(used);
        } else {
            lean += used;
        }
        if stage.scene.batch.iter().any(|b| &b.spec.name == name) && all > 0.0 {
            work += done / all;
        }
    }
    let busy: f64 = cpus.values().sum();
    let machine = stage.scene.machine.cpus() as f64;
    let load = played.host.get("load_frac").copied().unwrap_or(0.0);
    played.host.extend([
        ("batch_work_frac", work),
        ("emu_frac", load + work),
        ("utilisation_lean_frac", lean / machine),
        ("inflation_frac", (busy - lean).max(0.0) / machine),
    ]);
}

impl Counts {
    /// What was counted since.
    pub(crate) fn since(self, then: Counts) -> Counts {
        Counts {
            moves: self.moves - then.moves,
            writes: self.writes - then.writes,
            refused: self.refused - then.refused,
            experiments: self.experiments - then.experiments,
        }
    }
}
