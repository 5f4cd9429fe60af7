//! How long each part takes.

use crate::{Contender, GuardOptions, Mix, Size};
use quell_service::{PeakPlan, SloPlan, WindowRule};
use std::time::Duration;

/// Start and end of an agent, and the drain of a load.
const OVERHEAD_S: f64 = 1.0;
/// Looking at the caches before a cell.
const NEIGHBOUR_S: f64 = 0.4;
/// Building the service, and the end of everything.
const FRAME_S: f64 = 4.0;
/// Probes that a search for the peak takes, usually.
const PROBES: f64 = 9.0;
/// A demo's length for which the times below are meant; shorter ones are cut alike.
const WHOLE_DEMO_S: f64 = 180.0;

/// The times of one run.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) peak: PeakPlan,
    pub(crate) slo: SloPlan,
    /// Settling of calibration and of laws that do not adapt.
    pub(crate) settle_s: f64,
    /// Settling of laws that do.
    adapt_s: f64,
    pub(crate) alone_s: f64,
    pub(crate) candidates: usize,
    pub(crate) sweep_settle_s: f64,
    pub(crate) sweep_s: f64,
    pub(crate) crowd_s: f64,
    pub(crate) network_s: f64,
    pub(crate) rounds: u32,
    /// Measured seconds of a cell in one round; none: what the budget leaves.
    cell_s: Option<f64>,
    budget_s: f64,
    /// Everything after the cells.
    after_s: f64,
    adaptive_share: f64,
    cells_in_round: usize,
    /// Batch alone, once a round.
    alone_round_s: f64,
}

/// How many slices of a window's length are joined to one at a low rate: whatever the load, a cell
/// shall have the windows that were asked for.
fn joined(qps: f64, rule: WindowRule) -> f64 {
    // Arrivals are random: a slice that has just enough on average would be joined half of the time.
    const MARGIN: f64 = 1.15;
    if !qps.is_finite() {
        return 1.0;
    }
    let most = rule.min_requests as f64;
    (MARGIN * most / (qps * rule.length_s)).ceil().clamp(1.0, most)
}

/// All cells of one round, in order: the laws stand innermost, so that they are interleaved.
pub(crate) fn cells(options: &GuardOptions) -> Vec<(f64, Contender, Mix)> {
    let mut cells = Vec::new();
    for &load in &options.loads {
        for (rank, &mix) in options.polluters.iter().enumerate() {
            // Alone there is no batch, so it is the same beside each of them.
            let laws = options.laws.iter().filter(|l| rank == 0 || **l != Contender::Alone);
            let first = options.polluters[0];
            cells.extend(
                laws.map(|&law| (load, law, if law == Contender::Alone { first } else { mix })),
            );
        }
    }
    cells
}

impl Schedule {
    pub(crate) fn plan(options: &GuardOptions) -> Self {
        let mut schedule = match options.size {
            Size::Total { seconds, rounds } => Self::demo(options, seconds, rounds),
            Size::Windows { windows, rounds } => Self::bench(options, windows, rounds),
        };
        let cells = cells(options);
        let adaptive = cells.iter().filter(|(_, law, _)| law.adapts()).count();
        schedule.adaptive_share = adaptive as f64 / cells.len().max(1) as f64;
        schedule.cells_in_round = cells.len().max(1);
        schedule.alone_round_s =
            options.polluters.len() as f64 * (schedule.alone_s + 1.0 + OVERHEAD_S);
        let crowd = if options.crowd { schedule.adapt_s + schedule.crowd_s + 2.0 } else { 0.0 };
        let network = if options.network {
            3.0 * (schedule.network_s + schedule.settle_s + 3.0)
        } else {
            0.0
        };
        schedule.after_s = crowd + network + FRAME_S / 2.0;
        if let Some(cell_s) = schedule.cell_s {
            let cell = cell_s + schedule.around_s();
            let cells = cells.len() as f64 * f64::from(schedule.rounds) * cell;
            schedule.budget_s = schedule.before_s(options) + cells + schedule.after_s;
        }
        schedule
    }

    fn demo(options: &GuardOptions, seconds: f64, rounds: u32) -> Self {
        // More rounds are more of the same: nothing in them becomes longer.
        let most = if rounds > 1 { 1.0 } else { 1.5 };
        let f = (seconds / WHOLE_DEMO_S).clamp(0.05, most);
        Self {
            peak: PeakPlan {
                probe_s: (1.0 * f).max(0.4),
                confirm_s: (5.0 * f).max(1.0),
                resolution_frac: if f < 0.5 { 0.1 } else { 0.05 },
                ..PeakPlan::default()
            },
            slo: SloPlan {
                percentile: options.percentile,
                seconds: (2.0 * f).max(0.7),
                ..SloPlan::default()
            },
            settle_s: (1.0 * f).max(0.3),
            adapt_s: (4.0 * f).max(0.5),
            alone_s: (2.0 * f).max(0.5),
            candidates: 8,
            sweep_settle_s: (0.8 * f).max(0.3),
            sweep_s: (2.0 * f).max(0.5),
            crowd_s: (7.0 * f).max(2.0),
            network_s: (4.0 * f).max(1.0),
            rounds,
            cell_s: None,
            budget_s: seconds,
            after_s: 0.0,
            adaptive_share: 0.0,
            cells_in_round: 1,
            alone_round_s: 0.0,
        }
    }

    fn bench(options: &GuardOptions, windows: u32, rounds: u32) -> Self {
        Self {
            peak: PeakPlan::default(),
            slo: SloPlan { percentile: options.percentile, ..SloPlan::default() },
            settle_s: 2.0,
            adapt_s: 15.0,
            alone_s: 8.0,
            candidates: usize::MAX,
            sweep_settle_s: 2.0,
            sweep_s: 8.0,
            crowd_s: 15.0,
            network_s: 15.0,
            rounds,
            cell_s: Some(f64::from(windows.div_ceil(rounds))),
            budget_s: 0.0,
            after_s: 0.0,
            adaptive_share: 0.0,
            cells_in_round: 1,
            alone_round_s: 0.0,
        }
    }

    fn before_s(&self, options: &GuardOptions) -> f64 {
        let peak = PROBES * (self.peak.probe_s + 0.5) + self.peak.confirm_s + 2.0;
        let slo = 2.0 * f64::from(self.slo.rounds) * (self.slo.seconds + self.settle_s);
        let alone = f64::from(self.rounds) * self.alone_round_s;
        let sweep = if options.laws.contains(&Contender::Static) {
            self.candidates.min(16) as f64 * (self.sweep_s + self.sweep_settle_s + OVERHEAD_S)
        } else {
            0.0
        };
        FRAME_S / 2.0 + peak + slo + alone + sweep
    }

    fn mean_settle_s(&self) -> f64 {
        self.settle_s + (self.adapt_s - self.settle_s) * self.adaptive_share
    }

    /// What a cell takes besides its measured time.
    fn around_s(&self) -> f64 {
        self.mean_settle_s() + NEIGHBOUR_S + OVERHEAD_S
    }

    /// How long a law gets before it is measured.
    pub(crate) fn settle(&self, law: Contender) -> f64 {
        if law.adapts() { self.adapt_s } else { self.settle_s }
    }

    /// The planned length of the whole.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_secs_f64(self.budget_s)
    }

    /// The measured time of a cell with this rate of requests: as long as its windows last, or its
    /// part of what the budget leaves to those left.
    pub(crate) fn measured_s(
        &self,
        elapsed: Duration,
        (law, qps): (Contender, f64),
        cells_left: usize,
    ) -> f64 {
        if let Some(cell_s) = self.cell_s {
            return cell_s * joined(qps, WindowRule::default());
        }
        let rounds_to_come = cells_left.saturating_sub(1) / self.cells_in_round;
        let between_s = rounds_to_come as f64 * self.alone_round_s;
        let left_s = self.budget_s - elapsed.as_secs_f64() - self.after_s - between_s;
        let share = left_s / cells_left.max(1) as f64 - self.around_s();
        // Whole windows, as far as they go, and never none.
        let least = if law.adapts() { 1.5 } else { 1.0 };
        if share >= 3.0 { share.floor() } else { share.max(least) }
    }

    /// The expected length of the whole, seen from a cell.
    pub(crate) fn expected(&self, elapsed: Duration, cells_left: usize) -> Duration {
        let cell = match self.cell_s {
            Some(cell_s) => cell_s + self.around_s(),
            None => return self.total(),
        };
        elapsed + Duration::from_secs_f64(cells_left as f64 * cell + self.after_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(size: Size) -> GuardOptions {
        let laws = [Contender::Alone, Contender::None, Contender::OsOnly, Contender::Quell];
        GuardOptions::search(&[0.3, 0.6], &laws, Mix::Mix, size, "quell".into())
    }

    #[test]
    fn rounds_share_a_budget_and_keep_within_it() {
        let (seconds, rounds) = (205.0, 3);
        let options = options(Size::Total { seconds, rounds });
        let schedule = Schedule::plan(&options);
        let cells = cells(&options);
        let mut elapsed_s =
            schedule.before_s(&options) - f64::from(rounds - 1) * schedule.alone_round_s;
        let total = rounds as usize * cells.len();
        for number in 0..total {
            if number > 0 && number % cells.len() == 0 {
                elapsed_s += schedule.alone_round_s;
            }
            let law = cells[number % cells.len()].1;
            let elapsed = Duration::from_secs_f64(elapsed_s);
            let measured_s = schedule.measured_s(elapsed, (law, 800.0), total - number);
            assert!((2.0..8.0).contains(&measured_s), "{measured_s} s in cell {number}");
            elapsed_s += measured_s + schedule.settle(law) + NEIGHBOUR_S + OVERHEAD_S;
        }
        let left_s = seconds - elapsed_s - schedule.after_s;
        assert!((-4.0..8.0).contains(&left_s), "{left_s} s are left");
    }

    #[test]
    fn a_cell_at_a_low_rate_lasts_longer_but_has_as_many_windows() {
        let slices = |qps| joined(qps, WindowRule::default());
        assert!([2500.0, 400.0, 350.0].iter().all(|&qps| slices(qps) <= 1.0));
        assert!((slices(250.0) - 2.0).abs() < 1e-9 && (slices(100.0) - 4.0).abs() < 1e-9);
        assert!([0.0, f64::NAN].iter().all(|&qps| slices(qps).is_finite()));
    }
}
