//! `static` as a fair opponent: the best fixed setting of a printed sweep.

use crate::cell::{Charge, Stage};
use crate::service::Load;
use crate::{Candidate, Contender, Mix};
use quell_policy::StaticParams;
use quell_types::{CpuSet, Setup};

/// A candidate keeps the SLO if so many of its windows do.
const KEPT_FRAC: f64 = 0.97;

/// Candidates for a machine, at most `most` of them, evenly taken from the sweep.
pub(crate) fn candidates(cpus: &CpuSet, most: usize) -> Vec<StaticParams> {
    let setup = Setup { managed_cpus: cpus.clone(), ..Setup::default() };
    let all = StaticParams::default().sweep(&setup);
    let (count, last) = (most.clamp(1, all.len()), all.len() - 1);
    let rank = |i: usize| if count == 1 { 0 } else { (i * last + (count - 1) / 2) / (count - 1) };
    (0..count).map(|i| all[rank(i)].clone()).collect()
}

/// Parameters as the table `[law.static]`.
pub(crate) fn law_table(params: &StaticParams) -> anyhow::Result<String> {
    Ok(format!("[law.static]\n{}", toml::to_string(params)?))
}

/// Tries all candidates at one load; gives them with the chosen one marked, and its parameters.
pub(crate) fn sweep(
    stage: &Stage<'_>,
    candidates: &[StaticParams],
    mix: Mix,
    (load_frac, load): (f64, &Load),
    alone: &[f64],
) -> anyhow::Result<(Vec<Candidate>, StaticParams)> {
    let mut tried = Vec::new();
    for (rank, params) in candidates.iter().enumerate() {
        stage.ui.now(format!("static: candidate {} of {}: {params}", rank + 1, candidates.len()));
        let charge =
            Charge { parameters: law_table(params)?, ..Charge::new(Contender::Static, mix) };
        let seen = stage.cell(&charge, load, &mut |_| ())?;
        let round = seen.round(0, stage.objective, stage.percentile, alone, stage.cpus)?;
        tried.push(Candidate {
            settings: params.to_string(),
            load_frac,
            slo_met_frac: round.slo_met_frac,
            tail_ms: seen.run.percentile_ms(stage.percentile).unwrap_or(f64::NAN),
            batch_work_frac: round.batch_work_frac,
            chosen: false,
        });
    }
    let best = choose(&tried);
    if let Some(candidate) = tried.get_mut(best) {
        candidate.chosen = true;
    }
    Ok((tried, candidates.get(best).cloned().unwrap_or_default()))
}

/// The most work among those that keep the SLO; if none does, the one that keeps it most often.
fn choose(tried: &[Candidate]) -> usize {
    let rank = |c: &Candidate| {
        let kept = c.slo_met_frac >= KEPT_FRAC;
        (kept, if kept { c.batch_work_frac } else { c.slo_met_frac })
    };
    let ordered = |a: &Candidate, b: &Candidate| {
        let ((a_kept, a_value), (b_kept, b_value)) = (rank(a), rank(b));
        a_kept.cmp(&b_kept).then(a_value.total_cmp(&b_value))
    };
    let best = tried.iter().enumerate().max_by(|(_, a), (_, b)| ordered(a, b));
    best.map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(slo_met_frac: f64, batch_work_frac: f64) -> Candidate {
        Candidate {
            settings: String::new(),
            load_frac: 0.6,
            slo_met_frac,
            tail_ms: 1.0,
            batch_work_frac,
            chosen: false,
        }
    }

    #[test]
    fn the_most_work_within_the_slo_is_chosen() {
        let tried = [candidate(1.0, 0.2), candidate(0.98, 0.4), candidate(0.5, 0.9)];
        assert_eq!(choose(&tried), 1);
        assert_eq!(choose(&tried[2..]), 0);
        assert_eq!(choose(&[candidate(0.2, 0.9), candidate(0.6, 0.1)]), 1);
    }

    #[test]
    fn a_short_sweep_has_the_first_and_the_last_and_no_double() {
        let cpus = CpuSet::of(0).union(&CpuSet::of(1));
        let all = candidates(&cpus, 99);
        let few = candidates(&cpus, 8);
        assert!(all.len() >= 8 && few.len() == 8);
        assert_eq!((few.first(), few.last()), (all.first(), all.last()));
        assert!((1..few.len()).all(|i| few[i] != few[i - 1]));
    }

    #[test]
    fn the_table_is_read_back_as_it_was() {
        for params in candidates(&CpuSet::of(0), 99) {
            let table: toml::Table = law_table(&params).unwrap().parse().unwrap();
            let own = table["law"]["static"].clone();
            assert_eq!(own.try_into::<StaticParams>().unwrap(), params);
        }
    }
}
