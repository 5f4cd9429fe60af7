//! What a running workload causes, without stopping it.
//!
//! **Problem.** What a workload causes is the reporter's rate beside it over the rate beside nothing.
//! A service in use must not be stopped for that.
//!
//! **Idea.** Hardly any workload is busy all the time. In windows of a few milliseconds it is idle in
//! some, and those are the *beside nothing*, with the same host, memory and minute around them.
//!
//! ```text
//! window: share of a CPU that the workload used, work of the reporter by its own CPU time
//! idle:   used <= IDLE
//! block:  BLOCK windows in a row, as the workload comes, busy and idle mixed
//! ratio of a block = mean rate in it / median rate of the idle windows in it and in its neighbours
//! ```
//!
//! **Units.** Shares, 0..1; rates in any unit. **Degradation.** A block with too few idle windows around it
//! has no ratio; without LEAST ratios there is no answer, and the reason is told. What lies in the
//! shared cache stays there while the workload is idle, so of cache capacity less is seen than by
//! stopping it for longer. **Sources.** B-6 (caused), R-1 (reporter).

use crate::stats::median;

/// A window in which the workload used so little of a CPU counts as idle.
const IDLE: f64 = 0.05;
/// Windows of a block.
const BLOCK: usize = 16;
/// Idle windows that a block needs in it and beside it.
const IDLE_NEEDED: usize = 4;
/// Ratios that an answer needs.
const LEAST: usize = 3;

/// One window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// CPUs that the workload used.
    pub(crate) used: f64,
    /// The reporter's rate.
    pub(crate) rate: f64,
}

/// The ratios of all blocks.
///
/// # Errors
/// Why there is no answer, for people.
pub(crate) fn ratios(windows: &[Window]) -> Result<Vec<f64>, String> {
    let blocks: Vec<&[Window]> = windows.chunks_exact(BLOCK).collect();
    let found: Vec<f64> = (0..blocks.len()).filter_map(|i| ratio(&blocks, i)).collect();
    if found.len() >= LEAST {
        return Ok(found);
    }
    let idle = windows.iter().filter(|w| w.used <= IDLE).count();
    Err(format!(
        "what it causes is not known: it is not stopped for that, and was idle in only {idle} of \
         {} windows",
        windows.len()
    ))
}

fn ratio(blocks: &[&[Window]], i: usize) -> Option<f64> {
    let around = &blocks[i.saturating_sub(1)..(i + 2).min(blocks.len())];
    let idle = around.iter().flat_map(|block| block.iter()).filter(|w| w.used <= IDLE);
    let idle: Vec<f64> = idle.map(|w| w.rate).collect();
    let alone = median(&idle).filter(|rate| idle.len() >= IDLE_NEEDED && *rate > 0.0)?;
    let here = blocks[i].iter().map(|w| w.rate).sum::<f64>() / BLOCK as f64;
    Some(here / alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Busy in `busy` of every ten windows, each of which costs the reporter `loss`; the host's own
    /// speed drifts by a tenth meanwhile.
    fn windows(busy: usize, loss: f64) -> Vec<Window> {
        let one = |i: usize| {
            let at_work = i * 7 % 10 < busy;
            let drift = 1.0 + 0.1 * i as f64 / 320.0;
            let kept = if at_work { 1.0 - loss } else { 1.0 };
            Window { used: if at_work { 0.9 } else { 0.01 }, rate: 500.0 * drift * kept }
        };
        (0..320).map(one).collect()
    }

    #[test]
    fn the_loss_is_that_of_the_usual_mix() {
        for (busy, loss) in [(5, 0.2), (8, 0.3), (0, 0.3), (3, 0.0)] {
            let found = median(&ratios(&windows(busy, loss)).unwrap()).unwrap();
            let truth = 1.0 - loss * busy as f64 / 10.0;
            assert!((found - truth).abs() < 0.02, "{busy} {loss}: {found} for {truth}");
        }
    }

    #[test]
    fn who_is_never_idle_gets_a_reason() {
        let why = ratios(&windows(10, 0.2)).unwrap_err();
        assert!(why.contains("idle in only 0 of 320"), "{why}");
        assert!(ratios(&[]).is_err());
    }
}
