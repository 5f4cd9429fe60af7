//! EMU under guard: the service `search` beside a mix of batch that computes, streams and scatters,
//! each law carried out by an agent as in `quell bench guard`; how much of the machine is put to
//! use within the SLO.

use super::guarded::{Figures, Guarded};
use super::report::{BesideRow, GuardLoad, GuardTold, Part, Rows};
use super::{Ground, search};
use crate::machine::quartiles;
use crate::{Contender, DemoReport, GuardOptions, Mix, Run, Size, run};
use anyhow::Context as _;
use quell_calibrate::Twin;
use std::collections::BTreeMap;

/// Shares of the peak.
const LOADS: [f64; 2] = [0.3, 0.6];
/// Those that are compared; the service alone, of which the preset is told, is run too.
const LAWS: [Contender; 3] = [Contender::None, Contender::OsOnly, Contender::Quell];
const BATCH: Mix = Mix::Mix;
/// Peak and SLO are found, in seconds.
const BEFORE_S: f64 = 40.0;
/// A round of all loads and laws, in seconds.
const ROUND_S: f64 = 55.0;

pub(super) fn run(ground: &Ground<'_>) -> anyhow::Result<(GuardTold, Vec<BesideRow>)> {
    let variation = search::alone(ground)?.variation;
    let options = options(ground);
    let found = run::guard(&options, ground.interrupt)?;
    ground.interrupt.check()?;
    Ok((told(&found, run::settling(&options), variation)?, rows(&found)))
}

fn options(ground: &Ground<'_>) -> GuardOptions {
    let rounds = ground.options.rounds;
    let seconds = BEFORE_S + ROUND_S * f64::from(rounds);
    let laws = [&[Contender::Alone][..], &LAWS].concat();
    let size = Size::Total { seconds, rounds };
    GuardOptions::search(&LOADS, &laws, BATCH, size, ground.options.program.clone())
}

/// What the preset is told: how the service is alone, what was asked of it, and for how long. Of
/// what happened under any law it is told nothing.
fn told(
    found: &DemoReport,
    (settle_s, adapt_s): (f64, f64),
    variation: f64,
) -> anyhow::Result<GuardTold> {
    let alone = found.runs.iter().filter(|run| run.law == Contender::Alone);
    let loads = alone.map(|run| load(run, found.machine.cpus as f64));
    let measured = found.runs.iter().flat_map(|run| &run.rounds).map(|round| round.measured_s);
    Ok(GuardTold {
        peak_qps: found.peak_qps,
        slo_ms: found.slo_ms,
        slo_percentile: found.slo_percentile,
        workers: u32::try_from(found.machine.cpus)?,
        variation,
        settle_s,
        adapt_s,
        measured_s: middle(measured).context("nothing was measured")?,
        loads: loads.collect::<Option<_>>().context("the service alone was not measured")?,
    })
}

/// The service alone at one load.
fn load(run: &Run, cpus: f64) -> Option<GuardLoad> {
    let rounds = run.rounds.iter();
    let work_s = rounds.clone().map(|round| round.service_cpu_frac * cpus / round.qps);
    Some(GuardLoad {
        load_frac: run.load_frac,
        work_s: middle(work_s)?,
        generator_cpus: middle(rounds.map(|round| round.generator_cpu_frac * cpus))?,
    })
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    quartiles(values.collect()).map(|[_, median, _]| median)
}

/// Each round of each law beside batch.
fn rows(found: &DemoReport) -> Vec<BesideRow> {
    let mut rows = Rows::default();
    for run in found.runs.iter().filter(|run| run.law != Contender::Alone) {
        for round in &run.rounds {
            let figures = Figures {
                emu_frac: round.good_qps / found.peak_qps + round.batch_work_frac,
                batch_work_frac: round.batch_work_frac,
                slo_met_frac: round.slo_met_frac,
            };
            for (what, unit, value) in figures.each() {
                rows.see(&words(what, run.load_frac, run.law), unit, false, value);
            }
        }
    }
    rows.of(Part::Guard)
}

fn words(what: &str, load_frac: f64, law: Contender) -> String {
    format!("search at {:.0} % load beside {BATCH}, law {law}: {what}", 100.0 * load_frac)
}

/// What the preset says of all figures of this part, by their words; those that it cannot play are
/// left out.
pub(super) fn simulated(twin: &Twin, told: &GuardTold) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let Ok(guarded) = Guarded::new(twin, told, BATCH) else { return all };
    for load in &told.loads {
        for law in LAWS {
            let Ok(figures) = guarded.median(load, law) else { continue };
            let named = figures.each().map(|(what, _, v)| (words(what, load.load_frac, law), v));
            all.extend(named);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BESIDE_SCHEMA, BesideReport, DEMO_SCHEMA, Machine, Round, beside_again};
    use serde_json::json;

    fn round(qps: f64, measured_s: f64) -> Round {
        serde_json::from_value(json!({
            "round": 0, "measured_s": measured_s, "windows": 3, "mean_ms": 1.0, "p50_ms": 1.0,
            "p95_ms": 2.0, "p99_ms": 3.0, "qps": qps, "slo_met_frac": 1.0, "good_qps": qps,
            "batch_work_frac": 0.5, "work_fracs": [0.5], "service_cpu_frac": 0.3,
            "batch_cpu_frac": 0.4, "generator_cpu_frac": 0.05
        }))
        .unwrap()
    }

    fn found() -> DemoReport {
        let mut found: DemoReport = serde_json::from_value(json!({
            "schema": DEMO_SCHEMA, "machine": Machine { cpus: 2, ..Machine::default() },
            "service": "search", "slo_ms": 40.0, "slo_percentile": 95.0, "peak_qps": 1000.0,
            "runs": [], "batch_alone": [], "sweep": [], "network": [], "flash_crowd_s": null,
            "flash_crowd_trace": [], "agent": null, "knobs_restored": true, "knobs_changed": [],
            "complete": true, "seconds": 1.0
        }))
        .unwrap();
        for load in LOADS {
            for law in [&[Contender::Alone][..], &LAWS].concat() {
                for measured_s in [3.0, 3.0, 4.0] {
                    let round = round(1000.0 * load, measured_s);
                    found.cell(load, law, BATCH).add(round, Vec::new(), 1000.0);
                }
            }
        }
        found
    }

    #[test]
    fn the_preset_is_told_how_the_service_is_alone() {
        let told = told(&found(), (1.0, 4.0), 0.5).unwrap();
        assert_eq!((told.workers, told.measured_s, told.loads.len()), (2, 3.0, 2));
        let first = told.loads[0];
        // 0.3 of 2 CPUs for 300 requests a second.
        assert!((first.work_s - 0.002).abs() < 1e-12, "{}", first.work_s);
        assert!((first.generator_cpus - 0.1).abs() < 1e-12);
        let mut without = found();
        without.runs.clear();
        assert!(super::told(&without, (1.0, 4.0), 0.5).is_err());
    }

    #[test]
    fn every_row_of_the_machine_is_played_anew_from_its_json() {
        let told = told(&found(), (1.0, 4.0), 0.5).unwrap();
        let report = BesideReport {
            schema: BESIDE_SCHEMA.into(),
            processor: "cpu".into(),
            preset: "vm2-xeon".into(),
            l2_bytes: 2 << 20,
            llc_bytes: 480 << 20,
            rounds: 3,
            search_alone: None,
            guard_told: Some(told),
            rows: rows(&found()),
            held: 0,
            judged: 0,
        };
        let kept = serde_json::to_string(&report).unwrap();
        let again = beside_again(serde_json::from_str(&kept).unwrap());
        assert_eq!((again.rows.len(), again.judged), (LOADS.len() * LAWS.len() * 3, 18));
        let unknown = again.rows.iter().find(|row| row.simulated.is_none());
        assert_eq!(unknown, None);
    }

    #[test]
    fn emu_of_a_round_is_what_was_served_well_and_what_batch_did() {
        let rows = rows(&found());
        let emu = rows.iter().find(|row| row.what.contains("60 %") && row.what.contains("EMU"));
        let emu = emu.unwrap();
        assert!((emu.real - 1.1).abs() < 1e-12, "{}", emu.real);
        assert_eq!(emu.rounds, 3);
    }
}
