//! Finds, with Quell off, how hard a culprit of the CPU works that is to do little harm.

use super::Ground;
use super::crowd::Crowd;
use super::draw::{Composition, Harm, Taken};
use super::harm::Latencies;
use super::off::{Arrivals, OffTurns};
use super::search::{Search, Usual};
use std::time::{Duration, Instant};

/// The search takes so long at most.
const LONGEST: Duration = Duration::from_secs(15);
/// The crowd runs for so long before it begins.
const SETTLED: Duration = Duration::from_millis(300);
/// It ends where the duty is of the class with this probability, but not before so many pairs.
const SURE: f64 = 0.9;
const FEWEST: u32 = 5;
/// A culprit begins anew, which takes a tenth of a second, only for so much more of it.
const WORTH: f64 = 0.03;

impl Ground<'_> {
    /// What the search knows before it begins; none where the culprit works as it is drawn.
    pub(super) fn search(&self, drawn: &Composition, usual: Usual) -> Option<Search> {
        let kind = (self.options.harm, self.options.taken);
        let (threads, class) = (drawn.culprit_threads()?, self.options.harm.bounds()?);
        (kind == (Harm::Little, Taken::Cpu)).then(|| Search::new(threads, class, usual))
    }

    /// Turns the culprit's duty until its harm beside the very groups of this trial is probably of
    /// the class, or the time is over. How much it does in the end is measured anew in the trial.
    pub(super) fn steer(
        &self,
        crowd: &mut Crowd,
        drawn: &mut Composition,
        search: &mut Search,
        arrivals: Arrivals,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + LONGEST;
        let (mut off, latencies) = (OffTurns::default(), Latencies::default());
        let (mut duty, mut pairs) = (search.best(), 0);
        self.interrupt.sleep(SETTLED)?;
        while off.fits(until) && (pairs < FEWEST || search.probability(duty) < SURE) {
            if let Some(pair) = self.pair(crowd, arrivals, &mut off, &latencies)? {
                search.learn(duty, pair.latency_ln);
            }
            pairs += 1;
            let best = search.best();
            if search.probability(best) > search.probability(duty) + WORTH {
                duty = best;
                drawn.turn_to(duty);
                let folder = self.folder.path();
                crowd.restart_culprit(&self.options.program, self.groups, drawn, folder)?;
                if !crowd.works(self.interrupt)? {
                    break;
                }
            }
        }
        Ok(())
    }
}
